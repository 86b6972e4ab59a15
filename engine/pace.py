"""How fast work goes and when it will be done, from counts and a clock. Knows not what is counted.

Standard library only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

_STEP_S = 0.05  # samples that lie closer together tell nothing more


class Pace:
    """The rate over the last ``window_s`` seconds. ``clock`` gives seconds and never goes back.

    Before ``least_s`` there is none: the first counts come in a burst or after a pause, and what they promise
    would be taken back at once.
    """

    def __init__(self, clock: Callable[[], float], window_s: float = 4.0, least_s: float = 0.5) -> None:
        self._clock = clock
        self._window_s = window_s
        self._least_s = least_s
        self._samples: deque[tuple[float, float]] = deque()

    def restart(self) -> None:
        """Forget what was counted: other work begins."""
        self._samples.clear()

    def add(self, done: float) -> None:
        """So much is done now, in all."""
        now, samples = self._clock(), self._samples
        if len(samples) > 1 and now - samples[-2][0] < _STEP_S:
            samples.pop()
        samples.append((now, done))
        while len(samples) > 2 and now - samples[0][0] > self._window_s:
            samples.popleft()

    @property
    def rate(self) -> float | None:
        """A second; None while it is not known."""
        if not self._samples:
            return None
        (first_s, first), (last_s, last) = self._samples[0], self._samples[-1]
        took_s = last_s - first_s
        return (last - first) / took_s if took_s >= self._least_s and last >= first else None

    def remaining_s(self, rest: float) -> float | None:
        """How long ``rest`` takes at this rate; None while nobody knows, and in a standstill."""
        rate = self.rate
        return max(0.0, rest) / rate if rate else None
