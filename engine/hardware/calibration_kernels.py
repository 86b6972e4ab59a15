"""Trials of the kernels that weights are read with: matrices with as many columns as the starter model's, in
the cache and in memory, with one row to a whole piece of a prompt.

Knows how kernels are called; not what their times are used for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from statistics import median

import torch

from engine.calibration import KernelSpeed, rising
from engine.fit.step_parts import alone
from engine.hardware.calibration_trials import PairedReads, PlainReads, QuickestRun, Trial
from engine.native import library as native
from engine.quant.candidates import Bench, Candidate, Memory, makers
from engine.quant.linear import DENSE_TYPES, product_of_rows

COLS, ROWS = 1536, 576  # of SmolLM2-135M's `down`; it is stacked to a size that pays for a call
FEW, MANY = (1, 2, 4, 8, 16), (64, 256)  # rows of the input
MOST_READ = 96 << 20  # of one run from memory: a short one is mostly its beginning and end
_DENSE_FEW = 8  # as many go through a kernel for few rows, see engine.quant.linear
ODD = 1.25  # times as quick or slow as the usual kernel of ours, none really is
NATIVE_HOMES = ("int4", "int8", "int4k", "int6h", "bf16", "int4z", "f32", "int5k", "int5", "int4h", "int5z")
STOCK_KERNELS = ("torch bf16", "torch f32", "torch int4pack", "torch int8pack")


@dataclass(slots=True)
class KernelTrials:
    """One kernel on matrices of its own in the common memory."""

    name: str
    nbytes: int  # of the matrix that few rows are multiplied with
    many_bytes: int  # and many
    from_memory: PairedReads
    few: dict[int, QuickestRun] = field(default_factory=dict)
    many: dict[int, QuickestRun] = field(default_factory=dict)

    @property
    def trials(self) -> list[Trial]:
        return [self.from_memory, *self.few.values(), *self.many.values()]

    @property
    def is_native(self) -> bool:
        return self.name.startswith("decodeck ")

    def speed(self, read_gbps: float, usual: float | None) -> KernelSpeed | None:
        """What was measured; None where it was not sampled. ``usual`` is the ratio of the middle one of our
        kernels, which keeps what disturbed one of them within reason.
        """
        few, many = (
            {rows: 1e9 * trial.least_s / nbytes for rows, trial in trials.items() if trial.is_known}
            for trials, nbytes in ((self.few, self.nbytes), (self.many, self.many_bytes))
        )
        if 1 not in few or not self.from_memory.is_known:
            return None
        ratio = self.from_memory.ratio
        if usual is not None and self.is_native:
            ratio = min(usual * ODD, max(usual / ODD, ratio))
        reading = alone(ratio / read_gbps, few[1])
        return KernelSpeed(self.name, reading or ratio / read_gbps, rising(few | many))


def usual_ratio(trials: Iterable[KernelTrials]) -> float | None:
    """That of the middle one of our kernels; None where none was sampled."""
    ratios = [each.from_memory.ratio for each in trials if each.is_native and each.from_memory.is_known]
    return median(ratios) if ratios else None


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
    make = makers()[name]
    small = make(Bench((ROWS, COLS), memory, threads))
    stacked = max(1, min(cached_bytes // small.nbytes, memory.nbytes // (4 * small.nbytes)))
    large = make(Bench((stacked * ROWS, COLS), memory, threads)) if stacked > 1 else small
    whole = make(Bench((max(1, run_bytes(memory) // small.nbytes) * ROWS, COLS), memory, threads))
    reading = PairedReads(_from_memory(whole), whole.nbytes, plain)
    is_dense = large.format in DENSE_TYPES
    many_bytes = large.nbytes if is_dense else small.nbytes
    made = KernelTrials(name, large.nbytes, many_bytes, reading)
    for rows in FEW:
        if rows <= _DENSE_FEW or not is_dense:
            made.few[rows] = _again(large, rows)
    for rows in MANY:
        made.many[rows] = _dense_piece(large, memory, rows) if is_dense else _again(small, rows)
    return made


def _from_memory(kernel: Candidate) -> Callable[[], object]:
    multiply = kernel.prepare(1)
    return lambda: multiply(kernel.cursor.next(kernel.num_copies))


def _again(kernel: Candidate, rows: int) -> QuickestRun:
    multiply = kernel.prepare(rows)
    return QuickestRun(lambda: multiply(0))


def _dense_piece(kernel: Candidate, memory: Memory, rows: int) -> QuickestRun:
    """Many rows of a dense matrix are torch's, whoever holds it."""
    weight = memory.copies(kernel.nbytes)[0].view(DENSE_TYPES[kernel.format]).view(-1, COLS)
    x = torch.randn(rows, COLS)
    return QuickestRun(lambda: product_of_rows(x, weight))
