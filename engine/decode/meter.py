"""The clock of one answer: first token, prefill and decode rate. Knows token counts, not tokens."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

RECENT_S = 1.0  # span of the live rate


class Meter:
    """Times one request from its submission. ``clock`` gives seconds and never goes back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._submitted = clock()
        self._prefill_start: float | None = None
        self._prefill_end: float | None = None
        self._first: float | None = None
        self._last: float | None = None
        self._prefilled = 0
        self._count = 0
        self._recent: deque[float] = deque()
        self._step_ms: list[float] = []

    def prefill_started(self) -> None:
        self._prefill_start = self._clock()

    def prefilled(self, tokens: int) -> None:
        """Count ``tokens`` of the prompt as read by the model, now (reused ones are not counted)."""
        self._prefilled += tokens
        self._prefill_end = self._clock()

    def token(self) -> None:
        """Count one generated token, now."""
        now = self._clock()
        if self._first is None:
            self._first = now
        elif self._last is not None:
            self._step_ms.append(1000 * (now - self._last))
        self._last = now
        self._count += 1
        self._recent.append(now)
        while self._recent[0] < now - RECENT_S and len(self._recent) > 2:
            self._recent.popleft()

    @property
    def generated_tokens(self) -> int:
        return self._count

    @property
    def ttft_s(self) -> float | None:
        """Seconds from the request to its first token."""
        return None if self._first is None else self._first - self._submitted

    @property
    def prefill_tps(self) -> float | None:
        """Prompt tokens read per second, from admission to the last piece."""
        if self._prefill_start is None or self._prefill_end is None:
            return None
        return _rate(self._prefilled, self._prefill_end - self._prefill_start)

    @property
    def decode_tps(self) -> float | None:
        """Tokens after the first, over the time from the first to the last."""
        if self._first is None or self._last is None or self._count < 2:
            return None
        return _rate(self._count - 1, self._last - self._first)

    @property
    def recent_tps(self) -> float | None:
        """The same over about the last second."""
        if len(self._recent) < 2:
            return None
        return _rate(len(self._recent) - 1, self._recent[-1] - self._recent[0])

    def take_step_ms(self) -> tuple[float, ...]:
        """What each token since the last call took. Called after every step: its tokens, several where drafts
        were accepted, came at once and share its time.
        """
        taken, self._step_ms = self._step_ms, []
        return (sum(taken) / len(taken),) * len(taken) if taken else ()


def _rate(count: int, seconds: float) -> float | None:
    return count / seconds if seconds > 0 else None
