"""Short trials that are sampled in rounds: whatever disturbs one round, another one is quiet.

Arithmetic goes by its quickest run. Memory that other programs use too has no quickest run that means
anything: what reads it is compared with a plain read just before and behind. Knows clocks; not what is tried.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable
from statistics import median
from typing import NamedTuple, Protocol

from engine.quant.candidates import running
from engine.quant.thread_choice import UNDISTURBED, Clocks

ROUNDS = 5
LEAST_QUIET = 0.25  # of all plain reads: with fewer a measurement says nothing
_PAIRS = 2  # of a sample
_SAMPLE_S, _MOST_RUNS = 2e-3, 12  # short work is done several times a sample


class Trial(Protocol):
    """Something to sample."""

    def sample(self, threads: int, clocks: Clocks) -> None:
        """Work for some milliseconds, and note how long it took."""
        ...


class QuickestRun:
    """Work that is timed again and again on what it has just read."""

    def __init__(self, work: Callable[[], object]) -> None:
        self.least_s = math.inf
        self._work = work

    @property
    def is_known(self) -> bool:
        """Whether it was sampled."""
        return self.least_s < math.inf

    def sample(self, threads: int, clocks: Clocks) -> None:
        with running(threads):
            self._work()
            begun = now = clocks.wall()
            for _ in range(_MOST_RUNS):
                started = now
                self._work()
                now = clocks.wall()
                self.least_s = min(self.least_s, now - started)
                if now - begun >= _SAMPLE_S:
                    return


class PlainReads:
    """Seconds of all plain reads of a piece of memory, and which of them had all their threads."""

    def __init__(self, work: Callable[[], object], nbytes: int) -> None:
        self.nbytes = nbytes
        self._work = work
        self._taken = _Taken()

    def sample(self, threads: int, clocks: Clocks) -> None:
        with running(threads):
            self.run(threads, clocks)

    def run(self, threads: int, clocks: Clocks) -> _Run:
        """One more, on the threads that torch has now."""
        run = _timed(self._work, threads, clocks)
        self._taken.add(run.seconds, run.is_quiet)
        return run

    @property
    def is_disturbed(self) -> bool:
        """Whether others had the processor most of the time."""
        return len(self._taken.quiet) < LEAST_QUIET * len(self._taken.all)

    @property
    def gbps(self) -> float:
        """GB/s of the median of those that were not disturbed."""
        return self.nbytes / self._taken.median / 1e9


class PairedReads:
    """Work that reads ``nbytes`` of weights from memory between two plain reads."""

    def __init__(self, work: Callable[[], object], nbytes: int, plain: PlainReads) -> None:
        self._work = work
        self._times = plain.nbytes / nbytes
        self._plain = plain
        self._ratios = _Taken()

    @property
    def is_known(self) -> bool:
        """Whether it was sampled."""
        return bool(self._ratios.all)

    @property
    def ratio(self) -> float:
        """Its time of a byte over that of a plain read: the median of what was not disturbed."""
        return self._ratios.median

    def sample(self, threads: int, clocks: Clocks) -> None:
        with running(threads):
            before = self._plain.run(threads, clocks)
            for _ in range(_PAIRS):
                run = _timed(self._work, threads, clocks)
                after = self._plain.run(threads, clocks)
                ratio = 2 * run.seconds * self._times / (before.seconds + after.seconds)
                self._ratios.add(ratio, before.is_quiet and run.is_quiet and after.is_quiet)
                before = after


class _Run(NamedTuple):
    """One run of some work: its seconds, and whether it had all its threads all the time."""

    seconds: float
    is_quiet: bool


class _Taken:
    """Values, and those of them that nothing disturbed."""

    def __init__(self) -> None:
        self.all: list[float] = []
        self.quiet: list[float] = []

    def add(self, value: float, is_quiet: bool) -> None:
        self.all.append(value)
        if is_quiet:
            self.quiet.append(value)

    @property
    def median(self) -> float:
        """Of the undisturbed ones, of all where there are none."""
        return median(self.quiet or self.all)


def _timed(work: Callable[[], object], threads: int, clocks: Clocks) -> _Run:
    started, worked = clocks.wall(), clocks.cpu()
    work()
    took, worked = max(clocks.wall() - started, 1e-9), clocks.cpu() - worked
    return _Run(took, worked >= UNDISTURBED * threads * took)


def sampling(
    trials: Iterable[Trial], threads: int, clocks: Clocks, until: float, rounds: int
) -> Generator[None, None, None]:
    """Sample all trials in turn, each as soon as it has been made, round after round; yields behind each.
    When the clock shows ``until`` it ends, the first round too: the most important come first.
    """
    made: list[Trial] = []
    for trial in trials:
        made.append(trial)
        trial.sample(threads, clocks)
        yield
        if clocks.wall() >= until:
            return
    for trial in made * (rounds - 1):
        trial.sample(threads, clocks)
        yield
        if clocks.wall() >= until:
            return
