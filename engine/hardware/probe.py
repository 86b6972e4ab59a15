"""What this machine is and has free now, read from the system. Unknown is None, never zero."""

from __future__ import annotations

import os
import platform

import psutil

from engine.types import Hardware

_CPUINFO = "/proc/cpuinfo"
_KNOWN_SETS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "asimddp")


def probe() -> Hardware:
    """Names, cores and memory. Takes some milliseconds; call it off the GUI thread."""
    name, flags = _cpu_facts()
    total, free = ram_bytes()
    return Hardware(
        cpu_name=name,
        physical_cores=physical_cores(),
        ram_total_bytes=total,
        ram_free_bytes=free,
        instruction_sets=tuple(flag for flag in _KNOWN_SETS if flag in flags),
    )


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
