"""What is left when a fault of native code ends the program: a report on disk that the next start offers.

The report names functions and lines of the program and of its libraries; no text of a chat is in it, and it
goes nowhere.
"""

from __future__ import annotations

import contextlib
import faulthandler
import platform
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO

from app import paths
from app.file_lock import FileLock

LAST = "crash.txt"  # the newest report that was found
_MARK = "Fatal Python error"  # a report without it is of a program that was killed: no fault of its own
_PACKAGES = ("decodeck", "PySide6-Essentials", "torch", "transformers", "llguidance")
_MOST_CHARS = 100_000


class CrashReport:
    """This run's report. ``begin`` at the start, ``end`` where the program ends as it should.

    Every run has a file of its own, held by a lock as long as it lives: two windows do not share one.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or paths.log_dir()
        self._path = self._folder / f"running-{time.time_ns()}.txt"
        self._lock = FileLock(self._path)
        self._file: IO[str] | None = None

    def begin(self) -> str:
        """Let faults be written down from here on. Returns the newest report of an earlier run, or "".

        A folder that cannot be written leaves no report, and stops nothing.
        """
        with contextlib.suppress(OSError):
            found = self._collected()
            self._lock.acquire()
            self._file = self._path.open("w", encoding="utf-8")
            self._file.write(_heading())
            self._file.flush()
            faulthandler.enable(self._file, all_threads=True)
            return found
        return ""

    def end(self) -> None:
        """Nothing went wrong: nothing is left behind."""
        if self._file is None:
            return
        faulthandler.disable()
        self._file.close()
        self._file = None
        with contextlib.suppress(OSError):
            self._path.unlink()
            self._lock.release()

    def _collected(self) -> str:
        """Take what ended runs left; only a report of a fault is kept, as LAST."""
        newest = ""
        for path in sorted(self._folder.glob("running-*.txt")):
            lock = FileLock(path)
            if not lock.acquire():
                continue  # that program is running
            with lock, path.open(encoding="utf-8", errors="replace") as file:
                text = file.read(_MOST_CHARS)
                file.close()
                if _MARK in text:
                    newest = text
                    path.replace(self._folder / LAST)
                else:
                    path.unlink()
        return newest


def _heading() -> str:
    """What was running on what."""
    lines = [f"{time.strftime('%Y-%m-%d %H:%M')} {platform.platform()}, Python {platform.python_version()}"]
    for name in _PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            lines.append(f"{name} {version(name)}")
    if getattr(sys, "frozen", False):
        lines.append("built folder")
    return "\n".join(lines) + "\n\n"
