"""How far a load is, on a terminal's error stream: one line that goes when the answer begins.

Knows words and a stream; not what is loaded.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

from engine.events import LoadProgress

_QUIET_S = 0.3  # a shorter load needs no line
_SHORT_S = 5.0  # a shorter wait needs no figure
_EVERY_S = 0.1
_LOG_PERCENT = 10  # where there is no terminal, a line for so much


def load_words(progress: LoadProgress) -> str:
    """ "Loading 43%", and " · 6 s left" where that is more than five."""
    left = progress.remaining_s
    words = f"Loading {progress.percent}%"
    return words if left is None or left <= _SHORT_S else f"{words} · {round(left)} s left"


class LoadLine:
    """Shows the progress it is called with. Where ``stream`` is no terminal only long loads are told of."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._clock = clock
        self._is_terminal = self._stream is not None and self._stream.isatty()
        self._next_s = clock() + _QUIET_S
        self._said_percent = 0
        self._is_shown = False

    def __call__(self, progress: LoadProgress) -> None:
        if self._stream is None:
            return
        if self._is_terminal:
            self._show(progress)
        elif self._is_worth_a_line(progress):
            self._said_percent = progress.percent
            self._stream.write(f"decodeck: {load_words(progress)}\n")

    def clear(self) -> None:
        """Take the line away."""
        if self._is_shown:
            self._is_shown = False
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def _show(self, progress: LoadProgress) -> None:
        now = self._clock()
        if now < self._next_s:
            return
        self._next_s, self._is_shown = now + _EVERY_S, True
        self._stream.write(f"\r\x1b[K{load_words(progress)}")
        self._stream.flush()

    def _is_worth_a_line(self, progress: LoadProgress) -> bool:
        is_long = progress.remaining_s is not None and progress.remaining_s > _SHORT_S
        return is_long and progress.percent >= self._said_percent + _LOG_PERCENT
