"""Times of kernels, and the best number of threads, as they are kept between runs of the program, in a small
file. Knows no kernels.

What is kept holds for one machine and one version of the program; a file that cannot be read holds nothing.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from engine.machine import Hardware, KernelPair, KernelTimes

MOST_ENTRIES = 256
_TIMES, _THREADS = "kernel_times", "threads"  # the lists of the file
_MOST_BYTES = 1 << 20
_Entry = dict[str, Any]


class KernelTimesFile:
    """The entries of ``hardware`` in the file at ``path``; others' entries are kept as they are."""

    def __init__(self, path: Path, hardware: Hardware) -> None:
        self._path = path
        self._place = machine_place(hardware)

    def read(self) -> tuple[KernelTimes, ...]:
        """All that is known of this machine and version."""
        found = (_times(entry) for entry in self._entries(_TIMES) if self._is_ours(entry))
        return tuple(times for times in found if times is not None)

    def best_threads(self, counts: Sequence[int]) -> int | None:
        """Which number of threads read weights quickest when ``counts`` were tried; None: they never were."""
        for entry in self._entries(_THREADS):
            if self._is_ours(entry) and entry.get("tried") == list(counts) and entry.get("best") in counts:
                return int(entry["best"])
        return None

    def add(self, times: KernelTimes) -> None:
        """Keep ``times``, in place of older ones of the same pair. A file that cannot be written stays away:
        the next run measures again.
        """
        others = [entry for entry in self._entries(_TIMES) if not self._is_replaced(entry, times.pair)]
        entry = self._place | asdict(times.pair) | {"native_us": times.native_us, "stock_us": times.stock_us}
        self._write({_TIMES: [*others, entry], _THREADS: self._entries(_THREADS)})

    def add_best_threads(self, counts: Sequence[int], best: int) -> None:
        """Keep that ``best`` of ``counts`` was the quickest number of threads, in place of an older one."""
        others = [entry for entry in self._entries(_THREADS) if not self._is_ours(entry)]
        entry = self._place | {"tried": list(counts), "best": best}
        self._write({_TIMES: self._entries(_TIMES), _THREADS: [*others, entry]})

    def _write(self, held: dict[str, list[_Entry]]) -> None:
        newest = {name: entries[-MOST_ENTRIES:] for name, entries in held.items()}
        with contextlib.suppress(OSError):
            replace_file(self._path, json.dumps(newest, indent=1).encode())

    def _is_replaced(self, entry: _Entry, pair: KernelPair) -> bool:
        """Whether an entry is no use any more once there are new times of ``pair``."""
        times = _times(entry)
        return times is None or (self._is_ours(entry) and times.pair == pair)

    def _is_ours(self, entry: _Entry) -> bool:
        return all(entry.get(name) == value for name, value in self._place.items())

    def _entries(self, name: str) -> list[_Entry]:
        """Whatever objects the file lists under ``name``; none where it is missing or something else."""
        try:
            with self._path.open("rb") as file:
                held = json.loads(file.read(_MOST_BYTES))
        except (OSError, ValueError, RecursionError):
            return []
        listed = held.get(name) if isinstance(held, dict) else None
        return [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []


def _times(entry: _Entry) -> KernelTimes | None:
    """The times of an entry, None for one that no measurement has written."""
    words = [entry.get(name) for name in ("native_format", "stock_format")]
    counts = [entry.get(name) for name in ("rows", "cols", "threads")]
    times = [entry.get(name) for name in ("native_us", "stock_us")]
    if not all(isinstance(word, str) for word in words) or not all(type(count) is int for count in counts):
        return None
    if not all(isinstance(us, float) and 0 < us < math.inf for us in times):
        return None
    return KernelTimes(KernelPair(*words, *counts), *times)  # type: ignore[arg-type]


def machine_place(hardware: Hardware) -> dict[str, str]:
    """What measurements hold for: one machine and one version of the program."""
    sets = " ".join(hardware.instruction_sets)
    return {
        "machine": f"{hardware.cpu_name} [{sets}] native {hardware.native}",
        "version": _program_version(),
    }


@lru_cache(maxsize=1)  # read from the package's files
def _program_version() -> str:
    try:
        return version("decodeck")
    except PackageNotFoundError:  # run from its sources alone
        return "unknown"


def replace_file(path: Path, data: bytes) -> None:
    """The old or the new file is there, whole, whatever happens; no need to outlive a power cut."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=path.name + ".", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
