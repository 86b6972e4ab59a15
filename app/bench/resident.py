"""Resident memory of this process, now and at its peak. Knows the system's counters alone."""

from __future__ import annotations

import contextlib
import re
import sys
from pathlib import Path

import psutil

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def rss_bytes() -> int:
    """Bytes that are in memory now."""
    return int(psutil.Process().memory_info().rss)


def peak_bytes() -> int:
    """Most bytes that were in memory at once, since `reset_peak` where the system can do that."""
    with contextlib.suppress(OSError):
        found = re.search(r"VmHWM:\s*(\d+) kB", _STATUS.read_text())
        if found:
            return int(found[1]) * 1024
    info = psutil.Process().memory_info()
    if hasattr(info, "peak_wset"):  # Windows
        return int(info.peak_wset)
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def reset_peak() -> None:
    """Let the peak begin anew; where the system can't, importing may hide a small load."""
    with contextlib.suppress(OSError):
        _CLEAR.write_text("5")
