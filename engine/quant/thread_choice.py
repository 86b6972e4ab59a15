"""On how many threads this machine reads weights quickest: tried for a moment, kept, never more than allowed.

One for each core is the usual number. Where cores differ, or share what they read with, half of them can be
better, and where a kernel computes more than it waits, so can one for each hyper-thread.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine.fit.held import HeldMatrix
from engine.fit.kernels import kernel_name, timed_matrix
from engine.fit.plan import replanned
from engine.hardware.cores import thread_counts
from engine.hardware.kernel_times import KernelTimesFile
from engine.hardware.probe import cache_bytes
from engine.quant.candidates import Bench, Candidate, Memory, Product, makers, running
from engine.types import LoadPlan

MARGIN = 1.1  # so many times as quick another number must be to take the usual one's place
ROUNDS, LEAST_ROUNDS = 7, 3
SAMPLE_S = 1e-3
MOST_S = 0.1  # of all samples: behind it there are only the least rounds
UNDISTURBED = 0.9  # of the processor time that the usual number of threads could have had
_SPREAD_CACHES = 2
_LEAST_SPREAD_BYTES, _MOST_SPREAD_BYTES = 32 << 20, 128 << 20
_MOST_SAMPLE = 256  # products

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Clocks:
    """Seconds that passed, and seconds of processor time that this process had on all cores together."""

    wall: Clock = time.perf_counter
    cpu: Clock = time.process_time


Timing = Callable[[HeldMatrix, str, Sequence[int]], Generator[None, None, dict[int, float] | None]]


class ThreadChoice:
    """Settles the number of threads of a plan whose wish names none: a known one first, then the one at
    ``path``, then a trial. Without a path a trial lasts as long as the engine.
    """

    def __init__(
        self,
        path: Path | None = None,
        counts: Callable[[], tuple[int, ...]] = thread_counts,
        time_counts: Timing | None = None,
    ) -> None:
        self._path = path
        self._counts = counts
        self._time = time_counts or time_threads
        self._known: dict[tuple[int, ...], int] = {}

    def settling(self, made: LoadPlan) -> Generator[None, None, LoadPlan]:
        """The plan itself, or one re-made for the quickest number of threads; only the first takes time, in
        pieces of some milliseconds.
        """
        counts = self._counts()
        matrix = timed_matrix(made.model, made.format, made.is_native)
        is_asked = made.wish.threads is None and made.hardware.best_threads is None
        if not is_asked or len(counts) < 2 or matrix is None or not made.devices[0].layers:
            return made
        best = self._known.get(counts) or (yield from self._find(matrix, made, counts))
        if best is None or best == made.threads:
            return made
        remade = replanned(made, replace(made.hardware, best_threads=best))
        return made if remade.verdict == "no" else remade

    def _find(
        self, matrix: HeldMatrix, made: LoadPlan, counts: tuple[int, ...]
    ) -> Generator[None, None, int | None]:
        """The quickest of ``counts``; None where other programs took the cores: the next load tries again."""
        file = KernelTimesFile(self._path, made.hardware) if self._path else None
        best = file.best_threads(counts) if file else None
        if best is None:
            times = yield from self._time(matrix, kernel_name(matrix.held, made.kernels), counts)
            if times is None:
                return None
            best = quickest(times, counts[0])
            if file is not None:
                file.add_best_threads(counts, best)
        self._known[counts] = best
        return best


def quickest(times: dict[int, float], usual: int) -> int:
    """The number of threads with the least seconds; the usual one unless another is clearly better."""
    best = min(times, key=lambda count: times[count])
    return best if times[usual] > MARGIN * times[best] else usual


def time_threads(
    matrix: HeldMatrix, kernel: str, counts: Sequence[int], clocks: Clocks | None = None
) -> Generator[None, None, dict[int, float] | None]:
    """Seconds of one product on each number of threads, the least of some rounds in which they take turns:
    some tens of milliseconds in pieces of a few. None where the kernel is not here, or where others took
    processor time that the first number of threads could have had.
    """
    make, clocks = makers().get(kernel), clocks or Clocks()
    if make is None:
        return None
    memory = Memory(max(matrix.nbytes, _spread_bytes()))
    yield from memory.fill()
    trials: list[_Trial] = []
    for count in counts:
        try:
            with running(count):
                made = make(Bench((matrix.rows, matrix.cols), memory, count))
                trials.append(_Trial(count, made, made.prepare(1), clocks))
        except Exception:  # a kernel says in any way that it cannot do this
            return None
        yield
    for done in range(ROUNDS):
        if done >= LEAST_ROUNDS and sum(trial.wall_s for trial in trials) > MOST_S:
            break
        for trial in trials:
            trial.sample()
            yield
    usual = trials[0]
    if usual.cpu_s < UNDISTURBED * usual.count * usual.wall_s:
        return None
    return {trial.count: trial.least_s for trial in trials}


class _Trial:
    """One kernel on one number of threads."""

    def __init__(self, count: int, kernel: Candidate, multiply: Product, clocks: Clocks) -> None:
        self.count = count
        self.least_s = math.inf  # of a product
        self.wall_s = self.cpu_s = 0.0  # of all samples
        self._kernel = kernel
        self._multiply = multiply
        self._clocks = clocks
        with running(count):
            started = clocks.wall()
            self._product()
            once_s = max(clocks.wall() - started, 1e-7)
        self._products = max(1, min(_MOST_SAMPLE, round(SAMPLE_S / once_s)))

    def sample(self) -> None:
        """Some products one after the other, behind one that lets the team of threads gather."""
        wall, cpu = self._clocks.wall, self._clocks.cpu
        with running(self.count):
            self._product()
            started, cpu_started = wall(), cpu()
            for _ in range(self._products):
                self._product()
            took = wall() - started
        self.cpu_s += cpu() - cpu_started
        self.wall_s += took
        self.least_s = min(self.least_s, took / self._products)

    def _product(self) -> None:
        self._multiply(self._kernel.cursor.next(self._kernel.num_copies))


def _spread_bytes() -> int:
    """Enough for what was read to have left the last cache when its turn comes again."""
    return min(max(_SPREAD_CACHES * (cache_bytes() or 0), _LEAST_SPREAD_BYTES), _MOST_SPREAD_BYTES)
