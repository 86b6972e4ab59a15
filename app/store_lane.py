"""The chats' database on its I/O lane: opened by the lane's first job, used by every later one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from PySide6.QtCore import QObject, Signal

from app.io_thread import IoThread
from app.store import Store
from engine.types import Failed

T = TypeVar("T")


class StoreLane(QObject):
    """Jobs run in the order they come. ``failed`` carries the Failed of a job without its own handler."""

    failed = Signal(object)

    def __init__(self, io: IoThread, open_store: Callable[[], Store]) -> None:
        super().__init__()
        self._io = io
        self._open_store = open_store
        self._store: Store  # set by the first job

    def open(self, on_open: Callable[[Store], T], on_done: Callable[[T], None]) -> None:
        """Open the database and run ``on_open`` on it, before everything that comes later."""

        def work() -> T:
            self._store = self._open_store()
            return on_open(self._store)

        self._io.submit(work, on_done=on_done, on_error=self.failed.emit)

    def run(
        self,
        work: Callable[[Store], T],
        on_done: Callable[[T], None] | None = None,
        on_error: Callable[[Failed], None] | None = None,
    ) -> None:
        """Run ``work`` on the lane; the callbacks come on the GUI thread."""
        self._io.submit(lambda: work(self._store), on_done=on_done, on_error=on_error or self.failed.emit)
