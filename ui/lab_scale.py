"""Logarithmic axes of the Lab's chart, as plain arithmetic. Knows no widget."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

_STEPS = (1.0, 2.0, 5.0)  # of a decade, the ticks
_LEAST_SPAN = 4.0  # a flat line is not stretched to the whole height
_ROOM = 1.25  # above the highest and below the lowest value


@dataclass(frozen=True, slots=True)
class LogScale:
    """Maps low … high to 0 … 1 by their logarithms."""

    low: float
    high: float

    @classmethod
    def around(cls, values: Iterable[float]) -> LogScale:
        """The scale that all positive ``values`` have room on."""
        known = [value for value in values if value > 0 and math.isfinite(value)]
        if not known:
            return cls(1.0, 100.0)
        low, high = min(known) / _ROOM, max(known) * _ROOM
        widen = math.sqrt(max(1.0, _LEAST_SPAN / (high / low)))
        return cls(low / widen, high * widen)

    def share(self, value: float) -> float:
        """Where ``value`` lies between the ends; beyond them, their ends."""
        if self.high <= self.low:
            return 0.5
        place = math.log(max(value, 1e-12) / self.low) / math.log(self.high / self.low)
        return min(max(place, 0.0), 1.0)

    def ticks(self) -> tuple[float, ...]:
        """Round values in the scale: 1, 2 and 5 of every decade; where these are many, fewer of each."""
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        found = [step * 10.0**power for power in range(first, last + 1) for step in _STEPS]
        inside = [value for value in found if self.low <= value <= self.high]
        if len(inside) <= 8:
            return tuple(inside)
        return tuple(value for value in inside if math.isclose(math.log10(value) % 1, 0, abs_tol=1e-9))
