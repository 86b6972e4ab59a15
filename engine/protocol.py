"""What a program asks of an engine, without torch types: the local one, a fake or a remote one fits."""

from __future__ import annotations

from collections.abc import Generator
from typing import Protocol

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
from engine.types import GenerateRequest, LoadPlan, MeasureWish


class EngineProtocol(Protocol):
    """Requests go in, events come out; one thread calls it. See engine.engine.Engine for each method."""

    @property
    def is_busy(self) -> bool: ...

    def load(self, plan: LoadPlan) -> Generator[LoadProgress | Loaded, None, None]: ...

    def unload(self) -> None: ...

    def submit(self, request: GenerateRequest) -> None: ...

    def cancel(self, request_id: str) -> None: ...

    def abort(self) -> None: ...

    def step(self) -> list[Event]: ...

    def memory(self) -> MemoryReport: ...

    def calibrate(self) -> Generator[Calibrating | Calibrated, None, None]: ...

    def measure(self, wish: MeasureWish) -> Generator[Measuring | Measured, None, None]: ...
