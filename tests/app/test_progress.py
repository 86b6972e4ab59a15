"""The progress of a download: few values, an honest rate, and the last one always."""

from __future__ import annotations

import pytest

from app.progress import ProgressMeter
from tests.app.downloads import Reports


class Run:
    """A meter with a clock that the test moves."""

    def __init__(self, total: int = 1000) -> None:
        self.now_s = 0.0
        self.reports = Reports()
        self.meter = ProgressMeter(self.reports, lambda: self.now_s, total)
        self.meter.phase("running", 0)

    def update(self, now_s: float, done: int) -> None:
        self.now_s = now_s
        self.meter.update(done)


def test_a_phase_is_reported_at_once_and_without_a_rate() -> None:
    run = Run()
    (first,) = run.reports
    assert (first.phase, first.done_bytes, first.total_bytes) == ("running", 0, 1000)
    assert (first.rate_bps, first.seconds_left) == (None, None)


def test_at_most_ten_values_come_a_second() -> None:
    run = Run()
    for step in range(1, 100):
        run.update(step / 100, step)
    assert 8 <= len(run.reports) <= 11
    assert [each.done_bytes for each in run.reports] == sorted(each.done_bytes for each in run.reports)


def test_the_last_byte_is_reported_however_soon_it_comes() -> None:
    run = Run()
    run.update(0.01, 500)
    run.update(0.02, 1000)
    assert [each.done_bytes for each in run.reports] == [0, 1000]


def test_rate_and_rest_are_those_of_the_measured_time() -> None:
    run = Run()
    for now_s, done in ((0.05, 10), (1.0, 100), (2.0, 300)):
        run.update(now_s, done)
    last = run.reports[-1]
    assert last.rate_bps == pytest.approx(150.0)
    assert last.seconds_left == pytest.approx(700 / 150)


def test_the_rate_is_that_of_the_last_four_seconds() -> None:
    run = Run(total=100_000)
    for second in range(1, 11):
        run.update(second, 10 * second)  # slow
    for second in range(11, 16):
        run.update(second, 100 + 1000 * (second - 10))
    assert run.reports[-1].rate_bps == pytest.approx(1000.0)


def test_a_new_phase_forgets_the_speed_of_the_old_one() -> None:
    run = Run()
    run.update(1.0, 500)
    run.now_s = 2.0
    run.meter.phase("checking", 0)
    assert run.reports[-1].phase == "checking"
    assert run.reports[-1].rate_bps is None
    run.update(3.0, 100)
    assert run.reports[-1].rate_bps == pytest.approx(100.0)


def test_without_a_total_there_is_a_rate_and_no_rest() -> None:
    run = Run(total=0)
    run.update(1.0, 100)
    assert run.reports[-1].rate_bps == pytest.approx(100.0)
    assert run.reports[-1].seconds_left is None


def test_a_standstill_has_no_rest() -> None:
    run = Run()
    run.update(1.0, 0)
    assert run.reports[-1].rate_bps == 0
    assert run.reports[-1].seconds_left is None
