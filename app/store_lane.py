"""The chats' database on its I/O lane: opened by the lane's first job, used by every later one.

Temporary chats have a database in memory on the same lane; what takes long to read has a lane of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from PySide6.QtCore import QObject, Signal

from app.chat_reader import ChatReader
from app.io_thread import IoThread
from app.store import Store
from engine.events import Failed

T = TypeVar("T")
READ_LANE = "read-chats"
Reads = Store | ChatReader


class StoreLane(QObject):
    """Jobs run in the order they come. ``failed`` carries the Failed of a job without its own handler,
    ``unsaved`` the id of a chat that could not be written, ``opened`` why what is new does not stay beyond
    the program's end, or None where it does.
    """

    opened = Signal(object)
    failed = Signal(object)
    unsaved = Signal(str)

    def __init__(self, io: IoThread, open_store: Callable[[], Store]) -> None:
        super().__init__()
        self._io = io
        self._open_store = open_store
        self._store: Store  # set by the first job
        self._memory: Store | None = None  # of temporary chats
        self._temporary: set[str] = set()
        self._place: str | None = None  # where the read lane finds the chats
        self._reader: ChatReader | None = None  # of the read lane
        self._newest_search = 0
        self.num_jobs = 0  # that were put on the database's lane and may change chats or folders

    def open(self, on_open: Callable[[Store], T], on_done: Callable[[T], None]) -> None:
        """Open the database and run ``on_open`` on it, before everything that comes later."""

        def work() -> T:
            self._store = self._open_store()
            return on_open(self._store)

        def done(result: T) -> None:
            self._on_opened()
            on_done(result)

        self._io.submit(work, on_done=done, on_error=self.failed.emit)

    def run(
        self,
        work: Callable[[Store], T],
        on_done: Callable[[T], None] | None = None,
        on_error: Callable[[Failed], None] | None = None,
    ) -> None:
        """Run ``work`` on the lane; the callbacks come on the GUI thread."""
        self.num_jobs += 1
        self.visit(work, on_done, on_error)

    def visit(
        self,
        work: Callable[[Store], T],
        on_done: Callable[[T], None] | None = None,
        on_error: Callable[[Failed], None] | None = None,
    ) -> None:
        """As ``run``, for what changes nothing that a person sees."""
        self._io.submit(lambda: work(self._store), on_done=on_done, on_error=on_error or self.failed.emit)

    def make_temporary(self, chat_id: str) -> None:
        """From now on nothing of this chat goes to the disk."""
        self._temporary.add(chat_id)

    def is_temporary(self, chat_id: str) -> bool:
        return chat_id in self._temporary

    def write(
        self,
        chat_id: str,
        work: Callable[[Store], T],
        on_done: Callable[[T], None] | None = None,
        on_error: Callable[[Failed], None] | None = None,
    ) -> None:
        """Run ``work``, which writes something of a chat; a temporary one is kept in memory alone."""

        def failed(failure: Failed) -> None:
            self.unsaved.emit(chat_id)
            (on_error or self.failed.emit)(failure)

        self.num_jobs += 1
        choose = self._in_memory if self.is_temporary(chat_id) else lambda: self._store
        self._io.submit(lambda: work(choose()), on_done=on_done, on_error=failed)

    def read(
        self, work: Callable[[Reads], T], on_done: Callable[[T], None], on_error: Callable[[Failed], None]
    ) -> None:
        """Run ``work``, which only reads and may take long, beside the lane; before the database is open,
        and where a second connection could not see the chats, on the lane.
        """
        place = self._place
        if place is None:
            self._io.submit(lambda: work(self._store), on_done=on_done, on_error=on_error)
            return

        def reading() -> T:
            if self._reader is None:
                self._reader = self._store.reader_at(place)
            return work(self._reader)

        self._io.submit(reading, on_done=on_done, on_error=on_error, lane=READ_LANE)

    def search(
        self,
        find: Callable[[Reads, Callable[[], bool]], T],
        on_done: Callable[[T], None],
        on_error: Callable[[Failed], None],
    ) -> None:
        """Run ``find`` with a question that it asks while it works: whether a newer search has come.

        Nothing comes back of a search that is not the newest.
        """
        self._newest_search += 1
        number = self._newest_search

        def is_stale() -> bool:
            return number != self._newest_search

        def done(result: T) -> None:
            if not is_stale():
                on_done(result)

        def failed(failure: Failed) -> None:
            if not is_stale():
                on_error(failure)

        self.read(lambda reader: find(reader, is_stale), done, failed)

    def while_closed(
        self, work: Callable[[], T], on_done: Callable[[T], None], on_error: Callable[[Failed], None]
    ) -> None:
        """Run ``work`` on the lane with the database closed; then it is opened where it is by now."""

        def close_reader() -> None:
            reader, self._reader = self._reader, None
            if reader is not None:
                reader.close()

        def away() -> T:
            self._store.close()
            try:
                return work()
            finally:
                self._store = self._open_store()

        def done(result: T) -> None:
            self._on_opened()
            on_done(result)

        def failed(failure: Failed) -> None:
            self._on_opened()
            on_error(failure)

        def closed(_: None) -> None:
            self._io.submit(away, on_done=done, on_error=failed)

        self._io.submit(close_reader, on_done=closed, on_error=on_error, lane=READ_LANE)

    def close(self) -> None:
        """The lane's last job."""

        def work(store: Store) -> None:
            if self._memory is not None:
                self._memory.close()
            store.close()

        self._newest_search += 1
        self.run(work)

    def _on_opened(self) -> None:
        self._place = self._store.place
        self.opened.emit(self._store.unsaved_reason)

    def _in_memory(self) -> Store:
        """Called on the lane."""
        if self._memory is None:
            self._memory = Store(None)
        return self._memory
