"""The engine thread: drain commands, step the engine, send what happened to the window.

torch is imported here, on this thread, once. No other thread touches engine, weights or caches.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
import traceback
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace

from PySide6.QtCore import QObject, Signal

from app import paths
from app.outbox import INTERVAL_S, Outbox
from engine.errors import EngineBusyError, EngineError
from engine.protocol import EngineProtocol
from engine.types import (
    AnswerStats,
    Event,
    Failed,
    Finished,
    GenerateRequest,
    Loaded,
    LoadFailed,
    LoadPlan,
    LoadProgress,
    MemoryReport,
    Unloaded,
)

MEMORY_INTERVAL_S = 0.5
IDLE_MEMORY_INTERVAL_S = 2.0
_log = logging.getLogger(__name__)

NO_STATS = AnswerStats(0, 0, 0, None, None, None, None)


@dataclass(frozen=True, slots=True)
class Load:
    """Replace the loaded model by the planned one; ``load_id`` comes back in the events of this load."""

    plan: LoadPlan
    load_id: int = 0


@dataclass(frozen=True, slots=True)
class CancelLoad:
    """Stop the load that runs, if one does; no model is loaded then."""


@dataclass(frozen=True, slots=True)
class Submit:
    request: GenerateRequest


@dataclass(frozen=True, slots=True)
class Cancel:
    request_id: str


@dataclass(frozen=True, slots=True)
class Unload:
    pass


@dataclass(frozen=True, slots=True)
class Quit:
    pass


Command = Load | CancelLoad | Submit | Cancel | Unload | Quit


def make_engine() -> EngineProtocol:
    """The real engine; importing it imports torch, which only the engine thread may do."""
    from engine.engine import Engine

    return Engine(kernel_times=paths.kernel_times_file())


class EngineThread(QObject):
    """Owns the thread. ``events`` carries a tuple of frozen events, about 15 times a second."""

    events = Signal(object)

    def __init__(
        self, factory: Callable[[], EngineProtocol] = make_engine, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._factory = factory
        self._commands: queue.Queue[Command] = queue.Queue()
        # A daemon: a step that hangs must not keep the process alive after the window has closed.
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def post(self, command: Command) -> None:
        """Queue a command; returns at once."""
        self._commands.put(command)

    def stop(self, timeout_s: float) -> bool:
        """Ask the thread to end and wait; False where it did not in time."""
        self.post(Quit())
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        worker = _Worker(self._commands, self.events.emit)
        try:
            worker.run(self._factory)
        except BaseException:  # the last fence: what gets here would otherwise be seen by nobody
            _log.exception("the engine thread ended")
            self.events.emit((_bug(traceback.format_exc()),))


class _NoEngine:
    """Stands in where the engine could not be made: every wish is answered with the reason."""

    is_busy = False

    def __init__(self, reason: str) -> None:
        self._error = EngineBusyError(f"The engine could not start: {reason}.", "Install the program again.")

    def load(self, plan: LoadPlan) -> Generator[LoadProgress | Loaded, None, None]:
        yield LoadProgress(0.0, "engine")
        raise self._error

    def submit(self, request: GenerateRequest) -> None:
        raise self._error

    def unload(self) -> None:
        """There is nothing to give back."""

    def cancel(self, request_id: str) -> None:
        """There is nothing to cancel."""

    def abort(self) -> None:
        """There is nothing to end."""

    def step(self) -> list[Event]:
        return []

    def memory(self) -> MemoryReport:
        return MemoryReport(0, 0, 0, 0, 0, 0, None, None, 0)


class _Worker:
    """What runs on the thread: one engine, one load at most, the outbox."""

    def __init__(self, commands: queue.Queue[Command], emit: Callable[[tuple[Event, ...]], None]) -> None:
        self._commands = commands
        self._emit = emit
        self._outbox = Outbox()
        self._load: Generator[LoadProgress | Loaded, None, None] | None = None
        self._load_id = 0
        self._engine: EngineProtocol
        self._next_memory = 0.0
        self._is_quitting = False

    def run(self, factory: Callable[[], EngineProtocol]) -> None:
        try:
            self._engine = factory()
        except Exception as error:
            _log.exception("the engine could not be made")
            self._engine = _NoEngine(str(error) or type(error).__name__)
        while not self._is_quitting:
            self._drain_commands()
            if self._load is not None:
                self._guarded(self._continue_load, self._after_failed_load, self._load_failed)
            elif self._engine.is_busy:
                self._guarded(lambda: self._outbox.add(self._engine.step()), self._engine.abort)
            self._report_memory()
            self._send()
        self._end()

    @property
    def _is_idle(self) -> bool:
        return self._load is None and not self._engine.is_busy

    def _drain_commands(self) -> None:
        """Run all waiting commands; wait for one when there is nothing else to do."""
        try:
            command = self._commands.get(timeout=IDLE_MEMORY_INTERVAL_S) if self._is_idle else None
        except queue.Empty:
            return
        while not self._is_quitting:
            if command is not None:
                self._execute(command)
            if self._commands.empty():  # only this thread takes commands out
                return
            command = self._commands.get()

    def _execute(self, command: Command) -> None:
        match command:
            case Load(plan, load_id):
                self._drop_load()
                self._load, self._load_id = self._engine.load(plan), load_id
            case CancelLoad():
                if self._load is not None:
                    self._unload()
            case Submit(request):
                self._submit(request)
            case Cancel(request_id):
                self._guarded(lambda: self._engine.cancel(request_id), self._engine.abort)
            case Unload():
                self._unload()
            case Quit():
                self._is_quitting = True

    def _continue_load(self) -> None:
        assert self._load is not None
        event = next(self._load, None)
        if event is None or isinstance(event, Loaded):
            self._load = None
            self._next_memory = 0.0
        if event is not None:
            self._outbox.add([replace(event, load_id=self._load_id)])

    def _drop_load(self) -> None:
        load, self._load = self._load, None
        if load is not None:
            load.close()

    def _unload(self) -> None:
        """Also after a load that was dropped before its first piece: the old model is still there then."""
        self._drop_load()
        self._guarded(self._engine.unload, self._engine.abort)
        self._outbox.add([Unloaded(self._load_id)])
        self._next_memory = 0.0

    def _submit(self, request: GenerateRequest) -> None:
        def refuse() -> None:
            self._outbox.add([Finished(request.request_id, "error", "", NO_STATS)])

        def failed(failure: Failed) -> Failed:
            return replace(failure, request_id=request.request_id)

        self._guarded(lambda: self._engine.submit(request), refuse, failed)

    def _load_failed(self, failure: Failed) -> LoadFailed:
        hint = "" if failure.kind == "bug" else failure.hint  # no answer is concerned
        return LoadFailed(self._load_id, failure.kind, failure.message, hint, failure.details)

    def _after_failed_load(self) -> None:
        self._load, self._next_memory = None, 0.0
        self._engine.unload()

    def _guarded(
        self,
        work: Callable[[], object],
        clean_up: Callable[[], None],
        as_event: Callable[[Failed], Event] = lambda failure: failure,
    ) -> None:
        """Run ``work``; what it raises becomes an event, then ``clean_up`` runs, and the thread goes on."""
        try:
            work()
        except BaseException as error:  # a panic of a Rust library is no Exception
            self._outbox.add([as_event(_failure(error))])
        else:
            return
        try:
            clean_up()  # here the first exception is gone, and with it the frames that held tensors
        except BaseException:
            _log.exception("cleaning up after a failure failed")

    def _report_memory(self) -> None:
        now = time.perf_counter()
        if now >= self._next_memory:
            self._next_memory = now + (IDLE_MEMORY_INTERVAL_S if self._is_idle else MEMORY_INTERVAL_S)
            self._guarded(lambda: self._outbox.add([self._engine.memory()]), lambda: None)

    def _send(self) -> None:
        now = time.perf_counter()
        if self._outbox.is_due(now) or (self._is_idle and self._outbox.is_due(now + INTERVAL_S)):
            self._emit(self._outbox.take(now))

    def _end(self) -> None:
        """End all answers with their texts and send what is left: nothing that was written gets lost."""
        self._drop_load()
        self._guarded(self._engine.unload, self._engine.abort)
        self._guarded(lambda: self._outbox.add(self._engine.step()), lambda: None)
        self._emit(self._outbox.take(time.perf_counter()))


def _failure(error: BaseException) -> Failed:
    """What the window is told of an exception that is being handled."""
    if isinstance(error, EngineError):
        return Failed(None, error.kind, error.message, error.hint)
    _log.exception("an engine call failed")
    return _bug(traceback.format_exc())


def _bug(details: str) -> Failed:
    message = "Something went wrong inside the engine."
    return Failed(None, "bug", message, "The answer so far is kept.", details)
