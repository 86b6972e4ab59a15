"""Threads for everything that waits, so that the window never does. Knows no database and no download."""

from __future__ import annotations

import logging
import queue
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from PySide6.QtCore import QObject, Qt, Signal, Slot

from engine.errors import EngineError
from engine.events import Failed
from engine.words import tr

DATABASE = "database"
DOWNLOAD = "download"

T = TypeVar("T")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Job:
    work: Callable[[], Any]
    on_done: Callable[[Any], None] | None
    on_error: Callable[[Failed], None] | None


@dataclass(frozen=True, slots=True)
class _Call:
    """To be run on the GUI thread."""

    function: Callable[[Any], None]
    value: object


class _Lane:
    """One thread that does its jobs one after another."""

    def __init__(self, name: str, post: Callable[[Callable[[Any], None], Any], None]) -> None:
        self._post = post
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"io-{name}", daemon=True)
        self._thread.start()

    def put(self, job: _Job) -> None:
        self._jobs.put(job)

    def finish(self) -> None:
        """End after the jobs that are queued."""
        self._jobs.put(None)

    def drop(self) -> None:
        """End after the job that is running."""
        while True:
            try:
                self._jobs.get_nowait()
            except queue.Empty:
                break
        self._jobs.put(None)

    def join(self, timeout_s: float) -> bool:
        self._thread.join(max(0.0, timeout_s))
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._do(job)
            del job  # nothing of it lives while the lane waits for the next one

    def _do(self, job: _Job) -> None:
        try:
            result = job.work()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a library's panic is no Exception, and must not end the lane
            failed = _failed(error)
            if job.on_error is not None:
                self._post(job.on_error, failed)
            return
        if job.on_done is not None:
            self._post(job.on_done, result)


def _failed(error: BaseException) -> Failed:
    """A value for the window: no live exception leaves the thread, its frames would hold everything."""
    if isinstance(error, EngineError):
        _log.info("%s: %s", error.kind, type(error).__name__)
        return Failed(None, error.kind, error.message, error.hint)
    _log.error("a job failed", exc_info=error)
    details = "".join(traceback.format_exception(error))
    return Failed(
        None, "bug", tr("Something went wrong: {kind}.").format(kind=type(error).__name__), "", details
    )


class IoThread(QObject):
    """Runs functions in lanes beside the window, and their callbacks on the thread that made this object.

    Jobs of one lane run in the order they came; a long download does not hold up the database.
    """

    _called = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._lanes: dict[str, _Lane] = {}
        self._is_stopped = False
        self._called.connect(self._on_called, Qt.ConnectionType.QueuedConnection)

    def submit(
        self,
        function: Callable[..., T],
        *args: object,
        on_done: Callable[[T], None] | None = None,
        on_error: Callable[[Failed], None] | None = None,
        lane: str = DATABASE,
    ) -> None:
        """Run ``function(*args)`` in ``lane``; then ``on_done(result)`` or ``on_error(failed)`` here.

        Call it on the thread that made this object. After ``stop`` it does nothing.
        """
        if self._is_stopped:
            _log.warning("a job came after the end")
            return
        if lane not in self._lanes:
            self._lanes[lane] = _Lane(lane, self.post)
        self._lanes[lane].put(_Job(lambda: function(*args), on_done, on_error))

    def post(self, function: Callable[[T], None], value: T) -> None:
        """Run ``function(value)`` on the thread that made this object. May be called on any thread."""
        try:
            self._called.emit(_Call(function, value))
        except RuntimeError:  # the object is gone with its window; nobody waits for the value
            _log.debug("a value came after the end")

    def stop(self, timeout_s: float = 2.0) -> bool:
        """Finish the jobs of the database lane and drop those of the others; True if the database is done.

        Downloads have their own cancel events: set them first. No callback runs after this.
        """
        self._is_stopped = True
        deadline = time.monotonic() + timeout_s
        for name, lane in self._lanes.items():
            if name == DATABASE:
                lane.finish()
            else:
                lane.drop()
        database = self._lanes.get(DATABASE)
        is_flushed = database is None or database.join(timeout_s)
        for lane in self._lanes.values():
            lane.join(deadline - time.monotonic())
        return is_flushed

    @Slot(object)  # known to Qt before any thread emits; PySide adds others while they are connected
    def _on_called(self, call: _Call) -> None:
        if not self._is_stopped:
            call.function(call.value)
