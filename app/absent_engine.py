"""What stands in where there is no engine: while one is being made, and where it could not be made."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from concurrent.futures import Future

from engine.errors import EngineBusyError
from engine.events import (
    Calibrated,
    Calibrating,
    Event,
    Loaded,
    LoadProgress,
    Measured,
    Measuring,
    MemoryReport,
)
from engine.protocol import EngineProtocol
from engine.types import GenerateRequest, LoadPlan, MeasureWish
from engine.waiting import until_done
from engine.words import tr

_log = logging.getLogger(__name__)


def made_or_not(factory: Callable[[], EngineProtocol]) -> EngineProtocol:
    """The engine that ``factory`` makes, or one that says why there is none."""
    try:
        return factory()
    except Exception as error:
        _log.exception("the engine could not be made")
        return NoEngine(str(error) or type(error).__name__)


class _Absent:
    """Holds nothing and has nothing to do."""

    is_busy = False

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

    def calibrate(self) -> Generator[Calibrating | Calibrated, None, None]:
        """There is nobody to measure."""
        yield from ()

    def measure(self, wish: MeasureWish) -> Generator[Measuring | Measured, None, None]:
        yield from ()
        raise _no_model()


class NoEngine(_Absent):
    """The engine could not be made: every wish is answered with the reason."""

    def __init__(self, reason: str) -> None:
        words = tr("The engine could not start: {reason}.").format(reason=reason)
        self._error = EngineBusyError(words, tr("Install the program again."))

    def load(self, plan: LoadPlan) -> Generator[LoadProgress | Loaded, None, None]:
        yield LoadProgress(0.0, "engine")
        raise self._error

    def submit(self, request: GenerateRequest) -> None:
        raise self._error


class ComingEngine(_Absent):
    """The engine is being made: a load waits for it, everything else is as without a model."""

    def __init__(self, making: Future[EngineProtocol]) -> None:
        self._making = making

    @property
    def made(self) -> EngineProtocol | None:
        """The engine, once it is there."""
        return self._making.result() if self._making.done() else None

    def load(self, plan: LoadPlan) -> Generator[LoadProgress | Loaded, None, None]:
        [engine] = yield from until_done([self._making], LoadProgress(0.0, "engine"))
        yield from engine.load(plan)

    def submit(self, request: GenerateRequest) -> None:
        raise _no_model()


def _no_model() -> EngineBusyError:
    return EngineBusyError(tr("No model is loaded."), tr("Choose a model first."))
