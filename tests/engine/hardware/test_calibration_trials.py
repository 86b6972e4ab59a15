"""Trials in rounds: what is noted of them, and when they end."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

from engine.hardware.calibration_trials import PairedReads, PlainReads, QuickestRun, sampling
from engine.quant.thread_choice import Clocks


class Machine:
    """Clocks that work moves on: by ``took`` seconds each time, of which ``busy`` cores work."""

    def __init__(self) -> None:
        self.now = 0.0
        self.worked = 0.0

    def work(self, took: float | Iterator[float], busy: float = 1.0) -> Callable[[], None]:
        def run() -> None:
            seconds = took if isinstance(took, float) else next(took)
            self.now += seconds
            self.worked += busy * seconds

        return run

    @property
    def clocks(self) -> Clocks:
        return Clocks(lambda: self.now, lambda: self.worked)


def test_the_quickest_run_counts_after_one_that_does_not() -> None:
    machine = Machine()
    trial = QuickestRun(machine.work(iter([0.1, 5.0, 0.1, 2.0, 0.1, 9.0])))
    assert not trial.is_known
    for _ in range(3):  # each has a warm run and, being long, one that counts
        trial.sample(1, machine.clocks)
    assert trial.least_s == 2.0


def test_short_work_is_done_several_times_a_sample() -> None:
    machine = Machine()
    durations = iter([1e-4, 5e-4, 4e-4, 3e-4, 9e-4] + [1e-3] * 20)
    trial = QuickestRun(machine.work(durations))
    trial.sample(1, machine.clocks)
    assert trial.least_s == pytest.approx(3e-4)


def test_reads_of_weights_are_compared_with_those_beside_them() -> None:
    """The bus becomes twice as slow in the middle; the ratio stays."""
    machine = Machine()
    plain = PlainReads(machine.work(iter([1.0, 1.0, 1.0, 2.0, 2.0, 2.0])), 1000)
    paired = PairedReads(machine.work(iter([1.2, 1.2, 2.4, 2.4])), 1000, plain)
    for _ in range(2):
        paired.sample(1, machine.clocks)
    assert paired.ratio == pytest.approx(1.2)


def test_a_ratio_is_by_byte() -> None:
    machine = Machine()
    plain = PlainReads(machine.work(1.0), 1000)
    paired = PairedReads(machine.work(1.0), 500, plain)
    paired.sample(1, machine.clocks)
    assert paired.ratio == pytest.approx(2.0)


def test_reads_that_lost_their_cores_do_not_count() -> None:
    machine = Machine()
    quiet, taken = machine.work(1.0, busy=2.0), machine.work(4.0, busy=1.0)
    works = iter([taken, quiet, taken, quiet])
    plain = PlainReads(lambda: next(works)(), 2_000_000_000)
    for _ in range(4):
        plain.run(2, machine.clocks)
    assert plain.gbps == pytest.approx(2.0) and not plain.is_disturbed


def test_a_machine_that_others_use_is_disturbed() -> None:
    machine = Machine()
    plain = PlainReads(machine.work(1.0, busy=1.0), 1000)
    for _ in range(2):
        plain.sample(2, machine.clocks)
    assert plain.is_disturbed and plain.gbps > 0


def test_all_trials_take_turns() -> None:
    machine, order = Machine(), []
    trials = [QuickestRun(_noting(order, name, machine.work(1.0))) for name in "abc"]
    for _ in sampling(trials, 1, machine.clocks, until=1e9, rounds=2):
        pass
    assert "".join(order) == "aabbcc" * 2  # each a warm run and one that counts


def test_the_end_of_the_time_ends_the_first_round_too_but_not_its_first_trial() -> None:
    machine = Machine()
    trials = [QuickestRun(machine.work(1.0)) for _ in range(5)]
    pieces = list(sampling(trials, 1, machine.clocks, until=5.0, rounds=4))
    assert [trial.is_known for trial in trials] == [True, True, True, False, False]
    assert len(pieces) == 3
    late = [QuickestRun(machine.work(1.0)) for _ in range(2)]
    assert len(list(sampling(late, 1, machine.clocks, until=0.0, rounds=4))) == 1
    assert [trial.is_known for trial in late] == [True, False]


def test_the_number_of_threads_is_that_of_before_in_between() -> None:
    before, seen = torch.get_num_threads(), []
    trial = QuickestRun(lambda: seen.append(torch.get_num_threads()))
    for _ in sampling([trial], 1, Clocks(), until=float("inf"), rounds=1):
        assert torch.get_num_threads() == before
    assert set(seen) == {1}


def _noting(order: list[str], name: str, work: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        order.append(name)
        work()

    return run
