"""What this machine is and has free now, read from the system. Unknown is None, never zero."""

from __future__ import annotations

import importlib.util
import platform
import re
from dataclasses import replace
from pathlib import Path

import psutil

from engine.hardware.calibration_file import CalibrationFile
from engine.hardware.cgroup import memory_limits
from engine.hardware.cores import physical_cores, thread_counts
from engine.hardware.kernel_times import KernelTimesFile
from engine.machine import Hardware
from engine.native import library

_CPUINFO = "/proc/cpuinfo"
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_KNOWN_SETS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "asimddp")


def probe(kernel_times: Path | None = None) -> Hardware:
    """Names, cores and memory, and what an earlier run measured and kept at ``kernel_times``. Takes some
    milliseconds; call it off the GUI thread. For GPUs somebody else has to look: that takes torch.
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
        has_bitsandbytes=has_bitsandbytes(),
        gpus=None,
        cache_bytes=cache_bytes(),
    )
    if kernel_times is not None:
        found = replace(found, calibration=CalibrationFile(kernel_times, found).read())
    if kernel_times is None or native is None or library.is_forced():
        return found
    kept = KernelTimesFile(kernel_times, found)
    return replace(found, kernel_times=kept.read(), best_threads=kept.best_threads(thread_counts()))


def has_bitsandbytes() -> bool:
    """Whether the library is installed, without importing it: that takes a second or two."""
    return importlib.util.find_spec("bitsandbytes") is not None


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


def ram_bytes() -> tuple[int | None, int | None]:
    """(total, free without swapping) for this process: of the machine, or of the container it runs in."""
    try:
        memory = psutil.virtual_memory()
    except (OSError, RuntimeError):
        return None, None
    limits = memory_limits(below=memory.total)
    free = [memory.available, *(limit.free_bytes for limit in limits)]
    known = [each for each in free if each is not None]
    total = min([memory.total, *(limit.total_bytes for limit in limits)])
    return total, min(known) if len(known) == len(free) else None


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
