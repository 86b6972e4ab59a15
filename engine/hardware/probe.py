"""What this machine is and has free now, read from the system. Unknown is None, never zero."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import replace
from pathlib import Path

import psutil

from engine.hardware.kernel_times import KernelTimesFile
from engine.native import library
from engine.types import Hardware

_CPUINFO = "/proc/cpuinfo"
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_KNOWN_SETS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "asimddp")


def probe(kernel_times: Path | None = None) -> Hardware:
    """Names, cores and memory, and what an earlier run measured and kept at ``kernel_times``. Takes some
    milliseconds; call it off the GUI thread.
    """
    name, flags = _cpu_facts()
    total, free = ram_bytes()
    native = library.load()
    found = Hardware(
        cpu_name=name,
        physical_cores=physical_cores(),
        ram_total_bytes=total,
        ram_free_bytes=free,
        instruction_sets=tuple(flag for flag in _KNOWN_SETS if flag in flags),
        native=native.instruction_set if native else None,
        native_missing=library.why_missing(),
    )
    if kernel_times is None or native is None or library.is_forced():
        return found
    return replace(found, kernel_times=KernelTimesFile(kernel_times, found).read())


def cache_bytes() -> int | None:
    """Bytes of the largest cache that one core sees; None where the system does not tell."""
    sizes = [_size(path) for path in _CACHES.glob("index*/size")]
    return max(sizes, default=0) or None


def _size(path: Path) -> int:
    """Bytes from a file that says "32768K"; 0 where it says something else."""
    try:
        found = re.fullmatch(r"(\d+)([KMG]?)\s*", path.read_text())
    except OSError:
        return 0
    return int(found[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[found[2]] if found else 0


def physical_cores() -> int:
    """Cores that this process may use, counted without hyper-threads; at least 1."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    return max(1, min(allowed, psutil.cpu_count(logical=False) or allowed))


def ram_bytes() -> tuple[int | None, int | None]:
    """(total, free without swapping) of the machine."""
    try:
        memory = psutil.virtual_memory()
    except (OSError, RuntimeError):
        return None, None
    return memory.total, memory.available


def rss_bytes() -> int:
    """Resident memory of this process."""
    return int(psutil.Process().memory_info().rss)


def _cpu_facts() -> tuple[str, frozenset[str]]:
    name, flags = platform.processor() or platform.machine() or "Unknown processor", frozenset[str]()
    try:
        with open(_CPUINFO, encoding="utf-8", errors="replace") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key.strip() == "model name":
                    name = " ".join(value.split())
                elif key.strip() in ("flags", "Features"):
                    return name, frozenset(value.split())
    except OSError:
        pass  # not Linux: the platform's own word for the processor has to do
    return name, flags
