"""Measurements in turn: the machine's speed drifts, so contenders alternate and a pulse stands beside each.

Pure order and statistics; does not know what is measured.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """A median and how far the rounds lie apart."""

    median: float
    min: float
    max: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """Of at least one value."""
        listed = list(values)
        return cls(statistics.median(listed), min(listed), max(listed))

    def as_json(self) -> dict[str, float]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Sample:
    """One measured value and the bandwidth of the machine beside it: the mean of the pulses on both sides."""

    value: float
    gbps: float


Samples = dict[str, list[Sample]]


def interleave(
    contenders: Mapping[str, Callable[[], float]], repeat: int, pulse: Callable[[], float]
) -> Samples:
    """``repeat`` rounds of all contenders in their order: pulse A pulse B pulse A pulse B pulse."""
    samples: Samples = {name: [] for name in contenders}
    before = pulse()
    for _ in range(repeat):
        for name, measure in contenders.items():
            value = measure()
            after = pulse()
            samples[name].append(Sample(value, (before + after) / 2))
            before = after
    return samples


def warmed(contenders: Mapping[str, Callable[[], float]], repeat: int, pulse: Callable[[], float]) -> Samples:
    """`interleave` after one round that does not count."""
    for warm_up in contenders.values():
        warm_up()
    return interleave(contenders, repeat, pulse)


def ratios(samples: Samples, over: str, under: str) -> Spread:
    """Value of one over that of the other, round by round."""
    pairs = zip(values(samples, over), values(samples, under), strict=True)
    return Spread.of(above / below for above, below in pairs)


def values(samples: Samples, name: str) -> list[float]:
    """What one contender showed, round by round."""
    return [sample.value for sample in samples[name]]
