"""One writer per file, between processes too. Knows the operating system's locks, not what is written."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from types import TracebackType
from typing import IO

if sys.platform == "win32":
    import msvcrt

    def _try_lock(file: IO[bytes]) -> bool:
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try_lock(file: IO[bytes]) -> bool:
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return True  # a network folder without locks: better one unguarded writer than none
        return True


class FileLock:
    """A lock named after ``target``, held by the open file: it ends with the process, however that ends.

    ``acquire`` returns False where somebody else holds it. The lock file ``<target>.lock`` may stay behind
    after a crash; that blocks nobody.
    """

    def __init__(self, target: Path) -> None:
        self.path = target.with_name(target.name + ".lock")
        self._file: IO[bytes] | None = None

    def acquire(self) -> bool:
        """Take the lock without waiting. Raises OSError where the folder cannot be written."""
        while True:
            file = self.path.open("ab")
            if not _try_lock(file):
                file.close()
                return False
            if self._is_current(file):
                self._file = file
                return True
            file.close()  # the last holder removed this very file; lock the one that is there now

    def _is_current(self, file: IO[bytes]) -> bool:
        try:
            return os.path.samestat(os.fstat(file.fileno()), os.stat(self.path))
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Give the lock back; harmless when it is not held."""
        if self._file is None:
            return
        with contextlib.suppress(OSError):  # Windows keeps an open file
            self.path.unlink()
        self._file.close()
        self._file = None

    def __enter__(self) -> FileLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
