"""What is predicted for a moment: more context and more chats make it slower, drafts what they bring."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.live_prediction import (
    Moment,
    Pace,
    PaceMeter,
    bandwidth_limit_tps,
    drafts_gain,
    measured_gbps,
    parts,
    peak_gbps,
    predicted_tps,
    step_seconds,
)
from engine.calibration import Calibration
from engine.events import StepStats
from engine.fit.speed import step_bytes, step_s
from engine.types import LoadPlan
from tests.fakes import make_plan


def calibrated(gbps: float = 20.0) -> LoadPlan:
    made = make_plan()
    return replace(made, hardware=replace(made.hardware, calibration=Calibration(gbps)))


def stats(generated: int, drafted: int = 0, accepted: int = 0) -> StepStats:
    return StepStats("r", generated, None, None, None, drafted_tokens=drafted, accepted_tokens=accepted)


def test_a_longer_chat_is_slower() -> None:
    made = calibrated()
    speeds = [predicted_tps(made, Moment((tokens,))) for tokens in (1, 1000, 4000)]
    assert speeds == sorted(speeds, reverse=True)
    assert len(set(speeds)) == 3


def test_several_chats_are_slower_each_and_go_by_what_they_hold() -> None:
    made = calibrated()
    alone, two = Moment((1000,)), Moment((500, 1500))
    assert two.mean_tokens == 1000
    assert predicted_tps(made, alone) / 2 < predicted_tps(made, two) < predicted_tps(made, alone)


def test_a_mean_of_rows_lies_between_whole_ones() -> None:
    made = calibrated()
    between = step_seconds(made, Moment((1000,), Pace(1.5, 2.25)))
    assert between == pytest.approx(0.75 * step_s(made, 1000, 2) + 0.25 * step_s(made, 1000, 3))


def test_drafts_gain_what_they_bring_over_what_they_cost() -> None:
    made = calibrated()
    assert drafts_gain(made, Moment((1000,))) is None
    good = drafts_gain(made, Moment((1000,), Pace(2.5, 3.0)))
    none = drafts_gain(made, Moment((1000,), Pace(1.0, 3.0)))
    assert good == pytest.approx(2.5 * step_s(made, 1000) / step_s(made, 1000, 3))
    assert none == pytest.approx(step_s(made, 1000) / step_s(made, 1000, 3))


def test_the_limit_and_the_peak_are_unknown_before_the_machine_was_measured() -> None:
    assert bandwidth_limit_tps(make_plan(), Moment((1000,))) is None
    assert peak_gbps(make_plan()) is None
    made = calibrated(20.0)
    assert peak_gbps(made) == 20.0
    limit = bandwidth_limit_tps(made, Moment((1000,), Pace(2.0, 3.0)))
    assert limit == pytest.approx(2.0 * 20e9 / step_bytes(made, 1000).total)


def test_what_is_read_is_the_bytes_of_a_step_times_the_steps() -> None:
    made = calibrated()
    read = measured_gbps(made, Moment((1000, 1000), Pace(2.0, 3.0)), 60.0)
    assert read == pytest.approx(30.0 * step_bytes(made, 1000, 2).total / 1e9)


@pytest.mark.parametrize(
    "now", [Moment((1,)), Moment((3000,)), Moment((1000,) * 4), Moment((1000,), Pace(2.0, 4.5))]
)
def test_the_parts_of_a_step_are_its_whole_time(now: Moment) -> None:
    made = calibrated()
    found = parts(made, now)
    assert min(found.weights_s, found.kv_s, found.compute_s, found.fixed_s) >= 0
    assert found.total_s == pytest.approx(step_seconds(made, now), rel=0.02)
    read = step_bytes(made, now.mean_tokens, now.num_chats)
    assert (found.weights_bytes, found.kv_bytes) == (read.weights, read.kv)


def test_an_answer_without_drafts_has_a_token_a_step() -> None:
    meter = PaceMeter()
    for count in range(1, 30):
        meter.take(stats(count))
    assert meter.pace == Pace(1.0, 1.0)


def test_before_there_are_tokens_the_pace_is_that_of_the_answer_before() -> None:
    before = Pace(1.5, 2.0)
    meter = PaceMeter(before)
    assert meter.pace == before
    meter.take(stats(1))
    meter.take(stats(4, 2, 2))
    assert meter.pace == before


def test_the_pace_is_that_of_the_last_tokens() -> None:
    meter = PaceMeter()
    for step in range(40):  # three tokens a step, two of them guessed, all right
        meter.take(stats(1 + 3 * step, 2 * step, 2 * step))
    assert meter.pace == Pace(3.0, 3.0)
    for more in range(1, 80):  # then none
        meter.take(stats(118 + more, 78, 78))
    assert meter.pace == Pace(1.0, 1.0)
