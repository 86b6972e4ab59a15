"""How far a download is and how fast it goes. Knows byte counts and a clock; not where bytes come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.pace import Pace

_REPORT_EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class DownloadProgress:
    """``phase``: starting, running, waiting (the connection broke; it is tried again) or checking.

    ``total_bytes`` is 0 while unknown; the numbers of ``checking`` count checked bytes. ``note`` says why it
    waits.
    """

    done_bytes: int
    total_bytes: int
    rate_bps: float | None  # bytes per second
    seconds_left: float | None
    phase: str
    note: str = ""


Report = Callable[[DownloadProgress], None]


class ProgressMeter:
    """Turns byte counts into at most ten values a second, each with the rate of the last four seconds.

    ``clock`` gives seconds and never goes back. ``total`` (0: unknown) may be set later.
    """

    def __init__(self, report: Report, clock: Callable[[], float], total: int = 0) -> None:
        self._report, self._clock = report, clock
        self._pace = Pace(clock)
        self._last_s = float("-inf")
        self._phase = self._note = ""
        self.total = total

    def phase(self, phase: str, done: int, note: str = "") -> None:
        """A new phase begins; it is reported at once, without a rate."""
        self._phase, self._note = phase, note
        self._pace.restart()
        self._last_s = float("-inf")
        self.update(done)

    def update(self, done: int) -> None:
        """``done`` bytes of this phase are there; the last one is always reported."""
        now = self._clock()
        if now - self._last_s < _REPORT_EVERY_S and done != self.total:
            return
        self._last_s = now
        self._pace.add(done)
        left = self._pace.remaining_s(self.total - done) if self.total else None
        self._report(DownloadProgress(done, self.total, self._pace.rate, left, self._phase, self._note))
