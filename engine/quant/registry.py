"""The kernels of this machine timed against each other, and the quicker home of a model kept.

Knows clocks and medians; candidates.py knows the kernels, fit/kernels.py what their times mean.
"""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from engine.fit.kernels import TIMED_ROWS, kernel_name, kernel_pair
from engine.fit.plan import replanned
from engine.hardware.kernel_times import KernelTimesFile
from engine.hardware.probe import cache_bytes
from engine.machine import KernelPair, KernelTimes
from engine.native import library as native
from engine.quant.candidates import Bench, Candidate, Maker, Memory, Product, Shape, makers, running
from engine.types import LoadPlan
from engine.waiting import drained

REPEATS = 7
SAMPLE_S = 1e-3  # a sample is as many products as take about so long
LEAST_SAMPLES, MOST_SAMPLES_S = 3, 0.3  # of one candidate with one number of rows
MOST_PRODUCT_S = 0.3  # many rows that would take longer are left out
MOST_SAMPLE = 256  # products
FEW_ROWS = 16  # so many are always timed
LEAST_SPREAD_BYTES, MOST_SPREAD_BYTES = 64 << 20, 256 << 20
SPREAD_CACHES = 8  # times the last cache: after twice as much, a fifth still came out of it
MOST_MATRIX_BYTES = 1 << 30
_STEADY = (
    1.5  # times the least of our kernel's times, the median is no more on a machine that does nothing else
)
_PAIR_REPEATS, _PAIR_SAMPLE_S, _PAIR_SPREAD_CACHES = 5, 5e-4, 2  # both homes alike: their ratio counts

Clock = Callable[[], float]
Timing = Callable[[KernelPair], Generator[None, None, KernelTimes | None]]
LeaveOut = Callable[[str, str], None]  # told a candidate's name and why it is not measured


@dataclass(frozen=True, slots=True)
class Measured:
    """One kernel on one matrix, timed with the matrix out of the caches."""

    name: str
    format: str
    bits: float  # per weight, with scales
    shape: Shape  # [out, in]
    rows: int  # of the input
    us: float  # of one product, median
    read_bytes: int  # of weights and scales by one product
    least_us: float  # of the quickest sample: what other programs did is not in it

    @property
    def gbps(self) -> float:
        """10⁹ bytes of weights and scales a second."""
        return self.read_bytes / self.us / 1e3


def measure(
    shapes: Sequence[Shape],
    rows: Sequence[int],
    threads: int,
    formats: Sequence[str] | None = None,
    leave_out: LeaveOut = lambda name, reason: None,
    clock: Clock = time.perf_counter,
    repeats: int = REPEATS,
    sample_s: float = SAMPLE_S,
    spread_caches: int = SPREAD_CACHES,
    contenders: dict[str, Maker] | None = None,
) -> list[Measured]:
    """Time ``contenders`` (the kernels of this machine for ``formats``, or for all) in turn on every shape,
    with inputs of ``rows`` rows. What is not here or fails is left out, and said to ``leave_out``.

    Memory: LEAST_SPREAD_BYTES to MOST_SPREAD_BYTES for all candidates together and as much for one that packs
    its weights itself, or one matrix where that is larger; given back at the end.
    """
    chosen = makers(formats) if contenders is None else contenders
    pace = _Pace(clock, repeats, sample_s)
    return drained(_measuring(shapes, rows, threads, chosen, leave_out, spread_caches, pace))


def _measuring(
    shapes: Sequence[Shape],
    rows: Sequence[int],
    threads: int,
    contenders: dict[str, Maker],
    leave_out: LeaveOut,
    spread_caches: int,
    pace: _Pace,
) -> Generator[None, None, list[Measured]]:
    """`measure` in short pieces: it yields between two samples. Whoever goes on in between may use torch on
    any number of threads.
    """
    measured: list[Measured] = []
    for shape in shapes:
        spread_bytes = _spread_bytes(shape, spread_caches)
        candidates = yield from _candidates(shape, threads, spread_bytes, contenders, leave_out)
        race = _Race(shape, candidates, leave_out, pace, threads)
        for num in rows:
            measured += yield from race.run(num)
    return measured


def time_pair(
    pair: KernelPair, clock: Clock = time.perf_counter
) -> Generator[None, None, KernelTimes | None]:
    """Time both homes of a matrix, in some tens of milliseconds and in pieces of a few; None where one of
    them does not work, or where our kernel's times lie far apart: what is kept for good must not rest on a
    moment when the machine was busy. (The processor's clock says nothing of so short a time.)
    """
    library = native.load()
    if library is None:
        return None
    ours = kernel_name(pair.native_format, f"native {library.instruction_set}")
    stock = kernel_name(pair.stock_format, "torch")
    contenders = {name: maker for name, maker in makers().items() if name in (ours, stock)}
    measured = yield from _measuring(
        [(pair.rows, pair.cols)],
        TIMED_ROWS,
        pair.threads,
        contenders,
        lambda name, reason: None,
        _PAIR_SPREAD_CACHES,
        _Pace(clock, _PAIR_REPEATS, _PAIR_SAMPLE_S),
    )
    took = {(each.name, each.rows): each.least_us for each in measured}
    is_disturbed = any(each.name == ours and each.us > _STEADY * each.least_us for each in measured)
    if len(took) < 2 * len(TIMED_ROWS) or is_disturbed:
        return None
    native_us, stock_us = (sum(took[name, num] for num in TIMED_ROWS) for name in (ours, stock))
    return KernelTimes(pair, native_us, stock_us)


@functools.cache
def _timed_before() -> dict[KernelPair, KernelTimes | None]:
    """The measurements of this process: the same model and format always get the same kernels."""
    return {}


def _timed_once(pair: KernelPair) -> Generator[None, None, KernelTimes | None]:
    known = _timed_before()
    if pair not in known:
        known[pair] = yield from time_pair(pair)
    return known[pair]


class KernelChoice:
    """Settles which kernels a plan is loaded for: known times first, then those at ``path``, then measured.

    Without a path measured times last as long as the process.
    """

    def __init__(
        self,
        path: Path | None = None,
        time_pair: Timing = _timed_once,
    ) -> None:
        self._path = path
        self._time_pair = time_pair
        self._known: dict[KernelPair, KernelTimes | None] = {}

    def settle(self, made: LoadPlan) -> LoadPlan:
        """As `settling`, at once."""
        return drained(self.settling(made))

    def settling(self, made: LoadPlan) -> Generator[None, None, LoadPlan]:
        """The plan itself, or one re-made with what was measured; at most the first of a kind takes time, in
        pieces of some milliseconds.

        A plan for torch's kernels is taken as it is, and so is a set of instructions that the user has named.
        """
        if not made.is_native or native.is_forced():
            return made
        pair = kernel_pair(made.model, made.format, made.threads)
        if pair is None:
            return made
        if pair not in self._known:
            self._known[pair] = yield from self._find(pair, made)
        times = self._known[pair]
        if times is None or times in made.hardware.kernel_times:
            return made
        others = (other for other in made.hardware.kernel_times if other.pair != pair)
        hardware = replace(made.hardware, kernel_times=(*others, times))
        remade = replanned(made, hardware)
        return made if remade.verdict == "no" else remade

    def _find(self, pair: KernelPair, made: LoadPlan) -> Generator[None, None, KernelTimes | None]:
        file = KernelTimesFile(self._path, made.hardware) if self._path else None
        known = (*made.hardware.kernel_times, *(file.read() if file else ()))
        found = next((times for times in known if times.pair == pair), None)
        if found is None:
            found = yield from self._time_pair(pair)
            if found is not None and file is not None:
                file.add(found)
        return found


@dataclass(frozen=True, slots=True)
class _Pace:
    """How long is measured, and by which clock."""

    clock: Clock
    repeats: int
    sample_s: float


@dataclass(slots=True)
class _Run:
    """A candidate at one number of rows, and the seconds of a product that its samples showed."""

    candidate: Candidate
    multiply: Product
    count: int = 1  # products of a sample
    taken: list[float] = field(default_factory=list)


class _Race:
    """Candidates on one shape, one after the other, again and again; who fails once is out."""

    def __init__(
        self,
        shape: Shape,
        candidates: list[Candidate],
        leave_out: LeaveOut,
        pace: _Pace,
        threads: int,
    ) -> None:
        self._shape = shape
        self._candidates = candidates
        self._leave_out = leave_out
        self._pace = pace
        self._threads = threads
        self._row_s: dict[str, float] = {}  # of a product, for each row of its input

    def run(self, num: int) -> Generator[None, None, list[Measured]]:
        """Time all with ``num`` rows."""
        wanted = [candidate for candidate in self._candidates if not self._is_too_slow(candidate, num)]
        runs: list[_Run] = []
        for candidate in wanted:
            begun = self._begin(candidate, num)
            runs += [] if begun is None else [begun]
            yield
        for _ in range(self._pace.repeats):
            for run in list(runs):
                if not self._go_on(run):
                    runs.remove(run)
                yield
        return [self._measured(run, num) for run in runs]

    def _is_too_slow(self, candidate: Candidate, num: int) -> bool:
        return num > FEW_ROWS and num * self._row_s.get(candidate.name, 0.0) > MOST_PRODUCT_S

    def _begin(self, candidate: Candidate, num: int) -> _Run | None:
        """Set up what the kernel needs, and see how many products make a sample."""
        try:
            with running(self._threads):
                run = _Run(candidate, candidate.prepare(num))
            self._sample(run)
            once_s = max(self._sample(run), 1e-7)
        except Exception as error:
            self._drop(candidate, error)
            return None
        run.count = max(1, min(MOST_SAMPLE, round(self._pace.sample_s / once_s)))
        return run

    def _go_on(self, run: _Run) -> bool:
        """Take one more sample, unless the run has had its time; False where the kernel fails."""
        if len(run.taken) >= LEAST_SAMPLES and sum(run.taken) * run.count > MOST_SAMPLES_S:
            return True
        try:
            run.taken.append(self._sample(run))
        except Exception as error:
            self._drop(run.candidate, error)
            return False
        return True

    def _drop(self, candidate: Candidate, error: Exception) -> None:
        self._candidates.remove(candidate)
        self._leave_out(candidate.name, _reason(error))

    def _sample(self, run: _Run) -> float:
        cursor, copies, clock = run.candidate.cursor, run.candidate.num_copies, self._pace.clock
        with running(self._threads):
            started = clock()
            for _ in range(run.count):
                run.multiply(cursor.next(copies))
            return (clock() - started) / run.count

    def _measured(self, run: _Run, num: int) -> Measured:
        seconds, made = max(statistics.median(run.taken), 1e-9), run.candidate
        self._row_s[made.name] = seconds / num
        us, least_us = 1e6 * seconds, 1e6 * max(min(run.taken), 1e-9)
        return Measured(made.name, made.format, made.bits, self._shape, num, us, made.nbytes, least_us)


def _candidates(
    shape: Shape, threads: int, spread_bytes: int, contenders: dict[str, Maker], leave_out: LeaveOut
) -> Generator[None, None, list[Candidate]]:
    """Those that can be made here."""
    made: list[Candidate] = []
    try:
        bench = Bench(shape, Memory(spread_bytes), threads)
        yield from bench.memory.fill()
    except (MemoryError, RuntimeError) as error:
        leave_out("every kernel", _reason(error))
        return made
    for name, make in contenders.items():
        try:
            with running(threads):
                made.append(make(bench))
        except Exception as error:
            leave_out(name, _reason(error))
        yield
    return made


def _reason(error: Exception) -> str:
    """The first line of what went wrong."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _spread_bytes(shape: Shape, caches: int) -> int:
    """Enough for copies to have left the last cache when they are read again, and for one in float32."""
    spread = min(max(caches * (cache_bytes() or 0), LEAST_SPREAD_BYTES), MOST_SPREAD_BYTES)
    return max(spread, min(4 * shape[0] * shape[1], MOST_MATRIX_BYTES))
