"""Ctrl+C as a wish that is looked at between steps: what was made so far is not lost. Knows signals alone."""

from __future__ import annotations

import signal
from types import TracebackType


class Interrupt:
    """While it is entered, on the main thread, the first Ctrl+C is noted; a second one interrupts."""

    def __init__(self) -> None:
        self._is_wished = False

    def __call__(self) -> bool:
        """Whether Ctrl+C was pressed."""
        return self._is_wished

    def __enter__(self) -> Interrupt:
        self._before = signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _on_signal(self, *_: object) -> None:
        self._is_wished = True
        signal.signal(signal.SIGINT, self._before)
