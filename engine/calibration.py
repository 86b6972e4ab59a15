"""What was measured of a machine's speed, as predictions take it and as it is kept.

Words of `engine.machine`, frozen values, standard library only. Units are in the names.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import accumulate

Curve = tuple[tuple[int, float], ...]
"""Values at some whole numbers, the least first."""
OVERLAP = 2.0  # see `together`


@dataclass(frozen=True, slots=True)
class KernelSpeed:
    """Nanoseconds that one kernel takes for a byte of weights, scales included: to compute with what is in
    the last cache, by rows of its input, and to have it from memory.
    """

    kernel: str  # as engine.fit.kernels.kernel_name says
    memory_ns: float
    cache_ns: Curve


@dataclass(frozen=True, slots=True)
class AttentionSpeed:
    """Nanoseconds that attention takes for a byte of keys and values: to compute with what is in the last
    cache, and to have it from memory.
    """

    runner: str  # native | torch
    key_bits: int
    value_bits: int
    cache_ns: Curve  # of a decode step, by the queries that share a key head
    piece_ns: float = 0.0  # of a piece of a prompt, to have them at 16 bits where they have fewer
    memory_ns: float = 0.0  # 0: as any byte


@dataclass(frozen=True, slots=True)
class PassSpeed:
    """What a forward pass takes beside its products and what it reads of its cache."""

    runner: str  # native | torch | generic
    step_s: float
    layer_s: float  # each layer of a decode step whose weights are in the cache,
    memory_layer_s: float  # and of one that has to wait for them in every phase
    piece_layer_s: float  # each layer of a piece of a prompt, however short it is,
    number_ns: float  # and each number that its rows are changed in
    score_ns: float  # of a piece: a row and a position before it, each number of the queries' heads


@dataclass(frozen=True, slots=True)
class Correction:
    """What real answers on one device, kernels and format showed: factors on the parts of a predicted step,
    and what is needed to go on learning them. See engine.fit.correction.
    """

    place: str  # device, kernels and format
    factors: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    spread: float  # of relative errors, root mean square of the last ones
    answers: int
    doubts: tuple[float, ...] = ()  # relative errors of the last answers that were too strange to be believed


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was measured of this machine's speed. What is not in it is estimated from what is."""

    read_gbps: float  # 10⁹ bytes a second that all threads together read from memory
    when: float = 0.0  # seconds since 1970
    threads: int = 0  # that it was measured with; 0: unknown
    reads: Curve = ()  # GB/s, by the bytes that are read again and again
    kernels: tuple[KernelSpeed, ...] = ()
    attention: tuple[AttentionSpeed, ...] = ()
    passes: tuple[PassSpeed, ...] = ()
    draw_ns: float = 0.0  # of choosing a token: each one of the vocabulary; 0: unknown
    overlap: float = OVERLAP  # of arithmetic with what is read meanwhile, see `together`
    disk_gbps: float | None = None  # of a model's files, to have a layer from the disk; None: unknown
    corrections: tuple[Correction, ...] = ()

    @property
    def basis(self) -> str:
        """measured | corrected: by real answers"""
        return "corrected" if any(each.answers for each in self.corrections) else "measured"

    def at_bandwidth(self, gbps: float) -> Calibration:
        """The same machine while its memory reads at another rate, as one does that others use too."""
        times = gbps / self.read_gbps
        kernels = tuple(replace(each, memory_ns=each.memory_ns / times) for each in self.kernels)
        attention = tuple(replace(each, memory_ns=each.memory_ns / times) for each in self.attention)
        reads = self.reads
        if reads:
            cached, gone = 1 / reads[0][1], 1 / gbps - 1 / reads[0][1]
            reads = tuple((size, 1 / (cached + self.memory_share(size) * gone)) for size, _ in reads)
        return replace(self, read_gbps=gbps, reads=reads, kernels=kernels, attention=attention)

    def memory_share(self, nbytes: int) -> float:
        """How much of so many bytes that are read again and again comes from memory, the rest out of the last
        cache.
        """
        if not self.reads or self.reads[0][1] <= self.reads[-1][1]:
            return 1.0
        least, most = 1 / self.reads[0][1], 1 / self.reads[-1][1]
        return min(1.0, max(0.0, (1 / self.gbps_of(nbytes) - least) / (most - least)))

    def limit_gbps(self, nbytes: int) -> float:
        """GB/s that no kernel goes beyond with so many bytes: some read memory quicker than a plain sum."""
        far_ns = (together(at(each.cache_ns, 1), each.memory_ns, self.overlap) for each in self.kernels)
        quickest = max([self.read_gbps, *(1 / each for each in far_ns)])
        share = self.memory_share(nbytes)
        return 1 / (share / quickest + (1 - share) / self.reads[0][1]) if self.reads else quickest

    def gbps_of(self, nbytes: int) -> float:
        """GB/s at which so many bytes can be read again and again."""
        if not self.reads:
            return self.read_gbps
        seconds = tuple((size, 1 / rate) for size, rate in self.reads)
        return 1 / at(seconds, nbytes)


def together(arithmetic: float, reading: float, overlap: float) -> float:
    """Time of computing with what is read meanwhile: (aᵖ + rᵖ)^(1/p). With p = 1 one comes after the other;
    the larger it is, the more of the shorter one is hidden. Processors differ: 1.5 and 3 fit two of them,
    where kernels take one to sixteen rows.
    """
    return float((arithmetic**overlap + reading**overlap) ** (1 / overlap))


def alone(both: float, arithmetic: float, overlap: float) -> float:
    """The time of reading alone, where it takes ``both`` `together` with the arithmetic; 0 at least."""
    return float(max(0.0, both**overlap - arithmetic**overlap) ** (1 / overlap))


def rising(values: Mapping[int, float]) -> Curve:
    """A curve of what cannot fall: a smaller value behind a larger one is that too."""
    keys = sorted(values)
    return tuple(zip(keys, accumulate((values[key] for key in keys), max), strict=True))


def at(curve: Curve, x: float) -> float:
    """A curve between its points, and before the first and behind the last as it is there."""
    place = bisect_left(curve, x, key=lambda point: point[0])
    if place in (0, len(curve)):
        return curve[min(place, len(curve) - 1)][1]
    (low, one), (high, other) = curve[place - 1], curve[place]
    return one + (other - one) * (x - low) / (high - low)
