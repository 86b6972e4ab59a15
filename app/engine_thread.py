"""The engine thread: drain commands, step the engine, send what happened to the window.

No other thread touches engine, weights or caches. Making the engine alone, which imports torch and takes a
second or more, has a thread of its own: a load can be cancelled meanwhile.
"""

from __future__ import annotations

import functools
import logging
import queue
import threading
import time
import traceback
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace

from PySide6.QtCore import QObject, Signal

from app import paths
from app.absent_engine import ComingEngine, made_or_not
from app.outbox import INTERVAL_S, Outbox
from engine.errors import EngineError
from engine.events import (
    AnswerStats,
    Calibrated,
    Calibrating,
    CalibrationEnded,
    Event,
    Failed,
    Finished,
    Loaded,
    LoadFailed,
    LoadProgress,
    Measured,
    MeasureEnded,
    Measuring,
    Unloaded,
)
from engine.protocol import EngineProtocol
from engine.types import GenerateRequest, LoadPlan, MeasureWish
from engine.waiting import POLL_S, in_background
from engine.words import tr

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
class Measure:
    """Measure speeds of the loaded model; ``run_id`` comes back in the events of this run. An answer, a load
    or another run ends it.
    """

    wish: MeasureWish
    run_id: int


@dataclass(frozen=True, slots=True)
class StopMeasuring:
    """End the run of measurements, if there is one; what was measured has been told."""


@dataclass(frozen=True, slots=True)
class Calibrate:
    """Measure this machine's speed as soon as there is nothing else to do; what comes meanwhile goes first,
    and it begins anew behind that.
    """


@dataclass(frozen=True, slots=True)
class Unload:
    pass


@dataclass(frozen=True, slots=True)
class Quit:
    pass


Command = Load | CancelLoad | Submit | Cancel | Measure | StopMeasuring | Calibrate | Unload | Quit


def make_engine() -> EngineProtocol:
    """The real engine; importing it imports torch."""
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


class _Worker:
    """What runs on the thread: one engine, one load at most, the outbox."""

    def __init__(self, commands: queue.Queue[Command], emit: Callable[[tuple[Event, ...]], None]) -> None:
        self._commands = commands
        self._emit = emit
        self._outbox = Outbox()
        self._load: Generator[LoadProgress | Loaded, None, None] | None = None
        self._load_id = 0
        self._run: Generator[Measuring | Measured, None, None] | None = None
        self._run_id = 0
        self._calibration: Generator[Calibrating | Calibrated, None, None] | None = None
        self._is_calibration_due = False
        self._is_calibrated = False  # by this thread: a plan may be older
        self._engine: EngineProtocol
        self._coming: ComingEngine | None = None
        self._next_memory = 0.0
        self._is_quitting = False

    def run(self, factory: Callable[[], EngineProtocol]) -> None:
        making = in_background(functools.partial(made_or_not, factory), "engine-import")
        self._engine = self._coming = ComingEngine(making)
        while not self._is_quitting:
            self._drain_commands()
            self._welcome()
            if self._load is not None:
                self._guarded(self._continue_load, self._after_failed_load, self._load_failed)
            elif self._run is not None:
                self._guarded(self._continue_run, self._drop_run, self._run_failed)
            elif self._engine.is_busy:
                self._guarded(lambda: self._outbox.add(self._engine.step()), self._engine.abort)
            elif self._is_calibrating:
                self._guarded(self._continue_calibration, self._drop_calibration, _calibration_failed)
            self._send()  # first: measuring takes a moment, and somebody may wait for the end of a load
            self._report_memory()
            self._send()
        self._end()

    @property
    def _is_idle(self) -> bool:
        is_free = self._load is None and self._run is None and not self._engine.is_busy
        return is_free and not self._is_calibrating

    @property
    def _is_calibrating(self) -> bool:
        """Or will be, as soon as there is nothing else to do."""
        return self._is_calibration_due and self._coming is None

    def _drain_commands(self) -> None:
        """Run all waiting commands; wait for one when there is nothing else to do."""
        try:
            wait_s = POLL_S if self._coming else IDLE_MEMORY_INTERVAL_S
            command = self._commands.get(timeout=wait_s) if self._is_idle else None
        except queue.Empty:
            return
        while not self._is_quitting:
            if command is not None:
                self._execute(command)
            if self._commands.empty():  # only this thread takes commands out
                return
            command = self._commands.get()

    def _welcome(self) -> None:
        """Take the engine when it has been made."""
        if self._coming is not None and (made := self._coming.made) is not None:
            self._engine, self._coming = made, None

    def _execute(self, command: Command) -> None:
        if isinstance(command, Load | Submit | Measure | StopMeasuring | Unload):
            self._stop_run()
            self._postpone_calibration()
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
            case Measure(wish, run_id):
                self._run, self._run_id = self._engine.measure(wish), run_id
            case Calibrate():
                self._is_calibration_due = True
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
        if isinstance(event, Loaded) and event.plan.hardware.calibration is None:
            self._is_calibration_due = not self._is_calibrated
        if event is not None:
            self._outbox.add([replace(event, load_id=self._load_id)])

    def _drop_load(self) -> None:
        load, self._load = self._load, None
        if load is not None:
            load.close()

    def _continue_run(self) -> None:
        assert self._run is not None
        event = next(self._run, None)
        if event is None:
            self._run = None
            self._outbox.add([MeasureEnded(self._run_id, "done")])
        else:
            self._outbox.add([replace(event, run_id=self._run_id)])

    def _stop_run(self) -> None:
        if self._run is not None:
            self._drop_run()
            self._outbox.add([MeasureEnded(self._run_id, "stopped")])

    def _drop_run(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            run.close()

    def _run_failed(self, failure: Failed) -> MeasureEnded:
        hint = "" if failure.kind == "bug" else failure.hint  # no answer is concerned
        return MeasureEnded(self._run_id, "failed", failure.message, hint)

    def _continue_calibration(self) -> None:
        """One more piece, or the first."""
        if self._calibration is None:
            self._calibration = self._engine.calibrate()
        event = next(self._calibration, None)
        if event is None:
            self._drop_calibration()
        else:
            self._is_calibrated |= isinstance(event, Calibrated)
            self._outbox.add([event])

    def _postpone_calibration(self) -> None:
        """Give its memory back; it begins anew when there is nothing else to do."""
        if self._calibration is not None:
            self._drop_calibration()
            self._is_calibration_due = True
            self._outbox.add([CalibrationEnded()])

    def _drop_calibration(self) -> None:
        running, self._calibration = self._calibration, None
        self._is_calibration_due = False
        if running is not None:
            running.close()

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
        if self._coming is None and now >= self._next_memory:
            self._next_memory = now + (IDLE_MEMORY_INTERVAL_S if self._is_idle else MEMORY_INTERVAL_S)
            self._guarded(lambda: self._outbox.add([self._engine.memory()]), lambda: None)

    def _send(self) -> None:
        now = time.perf_counter()
        if self._outbox.is_due(now) or (self._is_idle and self._outbox.is_due(now + INTERVAL_S)):
            self._emit(self._outbox.take(now))

    def _end(self) -> None:
        """End all answers with their texts and send what is left: nothing that was written gets lost."""
        self._drop_load()
        self._drop_run()
        self._drop_calibration()
        self._guarded(self._engine.unload, self._engine.abort)
        self._guarded(lambda: self._outbox.add(self._engine.step()), lambda: None)
        self._emit(self._outbox.take(time.perf_counter()))


def _calibration_failed(failure: Failed) -> CalibrationEnded:
    return CalibrationEnded(failure.message, failure.hint)


def _failure(error: BaseException) -> Failed:
    """What the window is told of an exception that is being handled."""
    if isinstance(error, EngineError):
        return Failed(None, error.kind, error.message, error.hint)
    _log.exception("an engine call failed")
    return _bug(traceback.format_exc())


def _bug(details: str) -> Failed:
    message = tr("Something went wrong inside the engine.")
    return Failed(None, "bug", message, tr("The answer so far is kept."), details)
