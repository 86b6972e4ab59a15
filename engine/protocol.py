"""What a program asks of an engine, without torch types: the local one, a fake or a remote one fits."""

from __future__ import annotations

from collections.abc import Generator
from typing import Protocol

from engine.types import Event, GenerateRequest, Loaded, LoadPlan, LoadProgress, MemoryReport


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
