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
from dataclasses import dataclass

from PySide6.QtCore import QObject, Signal

from app.outbox import INTERVAL_S, Outbox
from engine.errors import EngineError, MemoryLimitError
from engine.protocol import EngineProtocol
from engine.types import (
    AnswerStats,
    Event,
    Failed,
    Finished,
    GenerateRequest,
    Loaded,
    LoadPlan,
    LoadProgress,
    Unloaded,
)

MEMORY_INTERVAL_S = 0.5
IDLE_MEMORY_INTERVAL_S = 2.0
_log = logging.getLogger(__name__)

NO_STATS = AnswerStats(0, 0, 0, None, None, None, None)


@dataclass(frozen=True, slots=True)
class Load:
    """Replace the loaded model by the planned one."""

    plan: LoadPlan


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

    return Engine()


class EngineThread(QObject):
    """Owns the thread. ``events`` carries a tuple of frozen events, at most 15 times a second."""

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
        except Exception:  # the last fence: without it the window would wait for ever
            _log.exception("the engine thread ended")
            self.events.emit((_bug(None, traceback.format_exc()),))


class _Worker:
    """What runs on the thread: one engine, one load at most, the outbox."""

    def __init__(self, commands: queue.Queue[Command], emit: Callable[[tuple[Event, ...]], None]) -> None:
        self._commands = commands
        self._emit = emit
        self._outbox = Outbox()
        self._load: Generator[LoadProgress | Loaded, None, None] | None = None
        self._engine: EngineProtocol
        self._next_memory = 0.0
        self._is_quitting = False

    def run(self, factory: Callable[[], EngineProtocol]) -> None:
        self._engine = factory()
        while not self._is_quitting:
            self._drain_commands()
            if self._load is not None:
                self._guarded(self._continue_load, self._after_failed_load)
            elif self._engine.is_busy:
                self._guarded(lambda: self._outbox.add(self._engine.step()), self._engine.abort)
            self._report_memory()
            self._send()
        self._load = None

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
            try:
                command = self._commands.get_nowait()
            except queue.Empty:
                return

    def _execute(self, command: Command) -> None:
        match command:
            case Load(plan):
                self._load = self._engine.load(plan)
            case CancelLoad():
                if self._load is not None:
                    self._drop_load()
                    self._outbox.add([Unloaded()])
            case Submit(request):
                self._submit(request)
            case Cancel(request_id):
                self._engine.cancel(request_id)
            case Unload():
                self._drop_load()
                self._engine.unload()
                self._outbox.add([Unloaded()])
            case Quit():
                self._is_quitting = True

    def _continue_load(self) -> None:
        assert self._load is not None
        event = next(self._load, None)
        if event is None or isinstance(event, Loaded):
            self._load = None
            self._next_memory = 0.0
        if event is not None:
            self._outbox.add([event])

    def _drop_load(self) -> None:
        load, self._load = self._load, None
        if load is not None:
            load.close()

    def _submit(self, request: GenerateRequest) -> None:
        def refuse() -> None:
            self._outbox.add([Finished(request.request_id, "error", "", NO_STATS)])

        self._guarded(lambda: self._engine.submit(request), refuse, request.request_id)

    def _after_failed_load(self) -> None:
        self._load = None
        self._engine.unload()

    def _guarded(
        self, work: Callable[[], object], clean_up: Callable[[], None], request_id: str | None = None
    ) -> None:
        """Run ``work``; what it raises becomes an event, then ``clean_up`` runs, and the thread goes on."""
        try:
            work()
        except Exception as error:
            self._outbox.add([_failure(error, request_id)])
        else:
            return
        clean_up()  # here the exception is gone, and with it the frames that held tensors

    def _report_memory(self) -> None:
        now = time.perf_counter()
        if now >= self._next_memory:
            self._outbox.add([self._engine.memory()])
            self._next_memory = now + (IDLE_MEMORY_INTERVAL_S if self._is_idle else MEMORY_INTERVAL_S)

    def _send(self) -> None:
        now = time.perf_counter()
        if self._outbox.is_due(now) or (self._is_idle and self._outbox.is_due(now + INTERVAL_S)):
            self._emit(self._outbox.take(now))


def _failure(error: Exception, request_id: str | None) -> Failed:
    """What the window is told of an exception that is being handled."""
    if _is_out_of_memory(error):
        error = MemoryLimitError("Out of memory.", "Choose a smaller format or a shorter context.")
    if isinstance(error, EngineError):
        return Failed(request_id, error.kind, error.message, error.hint)
    _log.exception("an engine call failed")
    return _bug(request_id, traceback.format_exc())


def _bug(request_id: str | None, details: str) -> Failed:
    message = "Something went wrong inside the engine."
    return Failed(request_id, "bug", message, "The answer so far is kept.", details)


def _is_out_of_memory(error: Exception) -> bool:
    """torch raises a plain RuntimeError where the system gives no memory."""
    return isinstance(error, MemoryError) or "allocate memory" in str(error) or "out of memory" in str(error)
