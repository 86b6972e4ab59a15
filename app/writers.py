"""Which windows are open on a file of chats: an answer that is being written belongs to one of them.

Each holds a lock that ends with its process, however that ends. Knows no chats.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from app.conversation import new_id
from app.file_lock import FileLock


class Writers:
    """``id`` names this window. Where no lock can be made, every other window counts as closed."""

    def __init__(self, path: Path) -> None:
        self.id = new_id()
        self._path = path
        self._lock = FileLock(self._target(self.id))
        with contextlib.suppress(OSError):
            self._lock.acquire()
        self._sweep()

    def is_open(self, writer: str | None) -> bool:
        """Whether another window with this id is there now."""
        if not writer or writer == self.id or not writer.isalnum():
            return False
        lock = FileLock(self._target(writer))
        with contextlib.suppress(OSError):
            if lock.path.exists():
                is_free = lock.acquire()
                lock.release()
                return not is_free
        return False

    def close(self) -> None:
        """This window is no more."""
        self._lock.release()

    def _target(self, writer: str) -> Path:
        return self._path.with_name(f"{self._path.name}.{writer}")

    def _sweep(self) -> None:
        """Remove what windows that were killed left behind."""
        with contextlib.suppress(OSError):
            for place in self._path.parent.glob(f"{self._path.name}.*.lock"):
                self.is_open(place.name.removeprefix(f"{self._path.name}.").removesuffix(".lock"))
