"""Trials of the kernels that weights are read with: matrices with as many columns as the starter model's, in
the cache and in memory, with one row to a whole piece of a prompt.

Knows how kernels are called; not what their times are used for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from statistics import median

import torch

from engine.calibration import OVERLAP, KernelSpeed, alone, rising, together
from engine.fit.scratch import MAX_ROWS
from engine.hardware.calibration_trials import PairedReads, PlainReads, QuickestRun, Trial
from engine.native import library as native
from engine.quant.candidates import Bench, Candidate, Memory, makers
from engine.quant.linear import DENSE_TYPES, product_of_rows

COLS, ROWS = 1536, 576  # of SmolLM2-135M's `down`; it is stacked to a size that pays for a call
ROW_COUNTS = (1, 2, 4, 8, 16, 32, 64, 256)  # of the input
MOST_READ = 96 << 20  # of one run from memory: a short one is mostly its beginning and end
_LARGE_ROWS = 64  # more are multiplied with a small matrix: that takes long enough for a call not to count
_STOCK_FEW = 8  # rows of torch's product of a dense matrix with vectors, see engine.quant.linear
ODD = 1.5  # times as quick or slow at reading as the usual kernel of ours, none really is
NATIVE_HOMES = ("int4", "int8", "int4k", "int6h", "bf16", "int4z", "f32", "int5k", "int5", "int4h", "int5z")
_PAIRED = tuple(f"decodeck {held} " for held in NATIVE_HOMES[:5])
PAIRED_ROWS = 8  # whose arithmetic takes about as long as reading does
OVERLAPS = tuple(number / 10 for number in range(10, 41))  # see engine.calibration.together
STOCK_KERNELS = ("torch bf16", "torch f32", "torch f16", "torch int4pack", "torch int8pack")


@dataclass(slots=True)
class KernelTrials:
    """One kernel on matrices of its own in the common memory."""

    name: str
    nbytes: int  # of the matrix that few rows are multiplied with
    many_bytes: int  # and many
    from_memory: PairedReads  # with one row,
    with_rows: PairedReads | None  # and with `PAIRED_ROWS`
    few: dict[int, QuickestRun] = field(default_factory=dict)
    many: dict[int, QuickestRun] = field(default_factory=dict)

    @property
    def trials(self) -> list[Trial]:
        paired = [self.from_memory, self.with_rows] if self.with_rows else [self.from_memory]
        return [*paired, *self.few.values(), *self.many.values()]

    @property
    def is_native(self) -> bool:
        return self.name.startswith("decodeck ")

    def reading_ns(self, read_gbps: float, overlap: float) -> float | None:
        """Nanoseconds to have a byte from memory, without the arithmetic; None where it was not sampled, or
        where arithmetic alone takes as long.
        """
        one = self.few.get(1)
        if one is None or not one.is_known or not self.from_memory.is_known:
            return None
        return alone(self.from_memory.ratio / read_gbps, 1e9 * one.least_s / self.nbytes, overlap) or None

    def speed(self, read_gbps: float, usual_ns: float | None, overlap: float) -> KernelSpeed | None:
        """What was measured; None where it was not sampled. ``usual_ns`` is what the middle one of our
        kernels takes to have a byte from memory: they hardly differ in that, and each was sampled for a
        moment, so half of a difference is believed, up to a limit.
        """
        few, many = (
            {rows: 1e9 * trial.least_s / nbytes for rows, trial in trials.items() if trial.is_known}
            for trials, nbytes in ((self.few, self.nbytes), (self.many, self.many_bytes))
        )
        if 1 not in few or not self.from_memory.is_known:
            return None
        reading = self.reading_ns(read_gbps, overlap) or self.from_memory.ratio / read_gbps
        if usual_ns is not None and self.is_native:
            reading = (usual_ns * min(usual_ns * ODD, max(usual_ns / ODD, reading))) ** 0.5
        return KernelSpeed(self.name, reading, rising(few | many))


def overlap_of(trials: Iterable[KernelTrials], read_gbps: float) -> float:
    """How far our kernels overlap arithmetic with reading: by it one row from memory tells what some take."""
    measured = [each for each in map(_by_rows, trials) if each is not None]

    def misses(overlap: float) -> float:
        told = (
            together(some, alone(one_far / read_gbps, one, overlap), overlap) / (some_far / read_gbps)
            for one, some, one_far, some_far in measured
        )
        return median(abs(each - 1) for each in told)

    return min(OVERLAPS, key=misses) if measured else OVERLAP


def _by_rows(trials: KernelTrials) -> tuple[float, float, float, float] | None:
    """Nanoseconds of a byte in the cache with one row and with some, and the ratios of both from memory."""
    one, some, far = trials.few.get(1), trials.few.get(PAIRED_ROWS), trials.with_rows
    if not (one and some and far and one.is_known and some.is_known and far.is_known):
        return None
    to_ns = 1e9 / trials.nbytes
    return to_ns * one.least_s, to_ns * some.least_s, trials.from_memory.ratio, far.ratio


def usual_ns(trials: Iterable[KernelTrials], read_gbps: float, overlap: float) -> float | None:
    """Nanoseconds that the middle one of our kernels takes to have a byte from memory; None where none was
    sampled.
    """
    found = [each.reading_ns(read_gbps, overlap) for each in trials if each.is_native]
    known = [each for each in found if each is not None]
    return median(known) if known else None


def plain_reads(memory: Memory) -> PlainReads:
    """Sums of integers, piece after piece of all the memory: see `engine.hardware.reading`."""
    nbytes = run_bytes(memory)
    pieces = [piece.view(torch.int64) for piece in memory.copies(nbytes)]
    return PlainReads(lambda: pieces[memory.cursor.next(len(pieces))].sum(), nbytes)


def run_bytes(memory: Memory) -> int:
    """Bytes that are read from memory at once."""
    return min(MOST_READ, memory.nbytes // 4)


def kernel_trials(
    memory: Memory, plain: PlainReads, cached_bytes: int, threads: int
) -> Iterator[KernelTrials]:
    """Those of all kernels that are here, the most common ones first."""
    library = native.load()
    known = makers()
    names = [f"decodeck {held} {library.instruction_set}" for held in NATIVE_HOMES] if library else []
    for name in (*names, *STOCK_KERNELS):
        if name in known:
            try:
                yield _trials(name, memory, plain, cached_bytes, threads)
            except Exception:  # a kernel says in any way that it cannot do this
                continue


def _trials(name: str, memory: Memory, plain: PlainReads, cached_bytes: int, threads: int) -> KernelTrials:
    make, is_paired = makers()[name], name.startswith(_PAIRED)
    small = make(Bench((ROWS, COLS), memory, threads))
    stacked = max(1, min(cached_bytes // small.nbytes, memory.nbytes // (4 * small.nbytes)))
    large = make(Bench((stacked * ROWS, COLS), memory, threads)) if stacked > 1 else small
    whole = make(Bench((max(1, run_bytes(memory) // small.nbytes) * ROWS, COLS), memory, threads))
    reading = PairedReads(_from_memory(whole, 1), whole.nbytes, plain)
    with_rows = PairedReads(_from_memory(whole, PAIRED_ROWS), whole.nbytes, plain) if is_paired else None
    is_dense = large.format in DENSE_TYPES
    many_bytes = large.nbytes if is_dense else small.nbytes
    made = KernelTrials(name, large.nbytes, many_bytes, reading, with_rows)
    most = _LARGE_ROWS if not is_dense else MAX_ROWS if made.is_native else _STOCK_FEW
    for rows in ROW_COUNTS:
        if rows <= most:
            made.few[rows] = _again(large, rows)
        else:
            made.many[rows] = _dense_piece(large, memory, rows) if is_dense else _again(small, rows)
    return made


def _from_memory(kernel: Candidate, rows: int) -> Callable[[], object]:
    multiply = kernel.prepare(rows)
    return lambda: multiply(kernel.cursor.next(kernel.num_copies))


def _again(kernel: Candidate, rows: int) -> QuickestRun:
    multiply = kernel.prepare(rows)
    return QuickestRun(lambda: multiply(0))


def _dense_piece(kernel: Candidate, memory: Memory, rows: int) -> QuickestRun:
    """Many rows of a dense matrix are torch's, whoever holds it."""
    weight = memory.copies(kernel.nbytes)[0].view(DENSE_TYPES[kernel.format]).view(-1, COLS)
    x = torch.randn(rows, COLS)
    return QuickestRun(lambda: product_of_rows(x, weight))
