"""The pace of work: no promise at the start, the last seconds count, a standstill has no end."""

from __future__ import annotations

import pytest

from engine.pace import Pace


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_the_first_half_second_promises_nothing(clock: Clock) -> None:
    pace = Pace(clock)
    assert pace.rate is None
    for step in range(50):  # a burst out of a cache: a hundredth of it would be done in no time
        clock.now_s = 100 + step / 100
        pace.add(step * 1e6)
        assert (pace.rate, pace.remaining_s(1e9)) == (None, None)
    clock.now_s = 100.5
    pace.add(50 * 1e6)
    assert pace.rate == pytest.approx(1e8)
    assert pace.remaining_s(1e9) == pytest.approx(10.0)


def test_a_pause_before_the_first_bytes_is_no_rate_of_its_own(clock: Clock) -> None:
    pace = Pace(clock)
    pace.add(0)
    clock.now_s += 2
    pace.restart()
    pace.add(0)
    clock.now_s += 1
    pace.add(10)
    assert pace.rate == pytest.approx(10.0)


def test_the_last_four_seconds_count_however_often_it_is_told(clock: Clock) -> None:
    pace, done = Pace(clock), 0.0
    for step in range(2000):  # ten times a millisecond, slow for ten seconds, then fast
        clock.now_s += 0.01
        done += 1 if step < 1000 else 10
        pace.add(done)
        assert len(pace._samples) < 200
    assert pace.rate == pytest.approx(1000.0, rel=0.01)


def test_a_standstill_has_no_end_and_goes_on_later(clock: Clock) -> None:
    pace = Pace(clock)
    for second in range(10):
        clock.now_s += 1
        pace.add(min(second, 3) * 10)
    assert (pace.rate, pace.remaining_s(5)) == (0.0, None)
    clock.now_s += 1
    pace.add(50)
    assert pace.remaining_s(5) is not None


def test_what_is_left_is_never_below_nothing(clock: Clock) -> None:
    pace = Pace(clock)
    pace.add(0)
    clock.now_s += 1
    pace.add(10)
    assert pace.remaining_s(-1) == 0.0
