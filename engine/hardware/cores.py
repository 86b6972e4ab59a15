"""How many threads this process can run at once: cores, hyper-threads, affinity, and a container's quota.

Reads what the system says of itself. Unknown limits are none.
"""

from __future__ import annotations

import os
from pathlib import Path

import psutil

from engine.hardware.cgroup import cpu_quota

_CPUS = Path("/sys/devices/system/cpu")


def physical_cores() -> int:
    """Cores that this process may use, counted without hyper-threads and within its quota; at least 1."""
    cpus = _affinity()
    known = _cores_of(cpus) or psutil.cpu_count(logical=False) or len(cpus)
    return max(1, min(known, logical_cores()))


def logical_cores() -> int:
    """Threads that run at once: hyper-threads count, not what affinity and quota withhold; at least 1."""
    allowed, quota = len(_affinity()), cpu_quota()
    return max(1, allowed if quota is None else min(allowed, int(quota)))


def thread_counts() -> tuple[int, ...]:
    """Numbers of threads worth a trial, the usual one first: one for each core, for every second core, and
    for each hyper-thread.
    """
    physical = physical_cores()
    return tuple(dict.fromkeys((physical, max(1, physical // 2), logical_cores())))


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except (OSError, UnicodeError):
        return []


def _affinity() -> frozenset[int]:
    """Numbers of the processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0)) or frozenset({0})
    return frozenset(range(os.cpu_count() or 1))


def _cores_of(cpus: frozenset[int]) -> int | None:
    """How many cores some processors belong to; None where the system does not tell of all."""
    folders = [_CPUS / f"cpu{number}" / "topology" for number in cpus]
    places = {(*_words(folder / "physical_package_id"), *_words(folder / "core_id")) for folder in folders}
    return len(places) if all(len(place) == 2 for place in places) else None
