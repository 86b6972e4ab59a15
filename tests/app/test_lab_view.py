"""What the Lab says of its figures: lines, table and findings agree with what was measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app import lab_view
from app.lab_points import sweep_wish
from app.lab_record import SWEEP, KeptPoint, LabRun
from app.lab_view import Spot
from engine.calibration import Calibration
from engine.types import CopiesPoint
from tests.fakes import make_plan

PLAN = make_plan(context=4096)
WISH = sweep_wish(PLAN)
TOTALS = {1: 32.7, 2: 61.4, 4: 115.0, 8: 153.0, 16: 167.0}


def spot(copies: int, total: float | None, predicted: float = 1.0, limit: float | None = None) -> Spot:
    """A measured spot; ``predicted`` is a factor on the measured speed."""
    each = None if total is None else total / copies
    step_s = None if each is None else 1 / each
    predicted_s = 1 / ((each or 20.0) * predicted)
    failed = "" if total is not None else "There is no room."
    kept = KeptPoint(copies, 512, predicted_s, step_s, 0.2 * copies if step_s else None, 1_000, failed)
    return Spot(kept.point, predicted_s, limit, kept)


SPOTS = tuple(spot(copies, total) for copies, total in TOTALS.items())


def test_all_together_is_each_times_the_copies() -> None:
    chart = lab_view.copies_chart("Speed", SPOTS, 0.06)
    together, each = chart.lines
    for place, (copies, total) in enumerate(TOTALS.items()):
        assert together.measured[place].y == pytest.approx(total)
        assert each.measured[place].y == pytest.approx(total / copies)
        assert f"{copies} cop" in each.measured[place].words
    assert together.end == "167 tok/s at 16"


def test_a_point_that_failed_has_no_value_and_says_why() -> None:
    spots = (*SPOTS[:2], spot(4, None), *SPOTS[3:])
    chart, table = lab_view.copies_chart("Speed", spots, 0.06), lab_view.copies_table(PLAN, spots)
    assert [dot.y is None for dot in chart.lines[0].measured] == [False, False, True, False, False]
    assert "failed. There is no room." in chart.lines[0].measured[2].words
    assert table.rows[2].failed == "There is no room."
    assert table.rows[2].cells[1] == "–"
    assert len(table.rows) == len(chart.lines[0].predicted) == 5


def test_without_a_run_all_is_predicted() -> None:
    spots = lab_view.spots_of(PLAN, WISH, None)
    base = [each for each in spots if each.point.tokens == 512]
    chart = lab_view.copies_chart("Speed", base, 0.5)
    assert all(not line.measured and len(line.predicted) == 5 for line in chart.lines)
    assert chart.lines[0].end.startswith("≈")
    assert chart.best is None
    assert lab_view.copies_table(PLAN, base).rows == ()
    assert lab_view.findings(base) == ((), "")


def test_measured_points_keep_the_prediction_of_their_time() -> None:
    run = LabRun(SWEEP, (KeptPoint(1, 512, 123.0, 100.0),))
    [first] = [each for each in lab_view.spots_of(PLAN, WISH, run) if each.point == CopiesPoint(1, 512)]
    assert first.predicted_s == 123.0
    assert first.kept is not None and first.kept.error == pytest.approx(0.23)


@pytest.mark.parametrize(
    ("factor", "is_large"), [(1.0, False), (1.05, False), (0.95, False), (1.2, True), (0.8, True)]
)
def test_errors_above_eight_percent_stand_out(factor: float, is_large: bool) -> None:
    [row] = lab_view.copies_table(PLAN, [spot(1, 50.0, factor)]).rows
    assert row.error == pytest.approx(1 / factor - 1)
    assert row.is_large_error is is_large


def test_the_median_error_is_of_all_that_were_measured() -> None:
    spots = [spot(1, 50.0, 1.1), spot(2, 80.0, 1.0), spot(4, 90.0, 0.5), spot(8, None)]
    assert "median error 9.1%" in lab_view.copies_table(PLAN, spots).detail


@pytest.mark.parametrize(
    ("totals", "best"),
    [
        ((32.7, 61.4, 115.0, 153.0, 167.0), 8),
        ((30.0, 60.0, 120.0, 240.0, 480.0), 16),
        ((30.0, 31.0, 32.0, 60.0, 90.0), None),
        ((30.0, 60.0), None),
    ],
)
def test_the_best_trade_is_the_last_doubling_that_pays(totals: tuple[float, ...], best: int | None) -> None:
    spots = [spot(1 << place, total) for place, total in enumerate(totals)]
    found = lab_view.best_trade(spots)
    assert (found.point.copies if found else None) == best


def test_findings_name_the_one_the_trade_and_the_most() -> None:
    found, _ = lab_view.findings(SPOTS)
    assert [(each.figure, each.title) for each in found] == [
        ("1", "Best for one person"),
        ("8", "Best trade"),
        ("16", "Most output"),
    ]
    assert "2.0 times that of batch 8" in found[2].text
    assert lab_view.copies_chart("Speed", SPOTS, 0.06).best_words == (
        "best trade: 4.7× the work, 1.7× slower each"
    )


@pytest.mark.parametrize(
    ("last", "words"), [(61.0, "2.0× the work, as fast each"), (50.0, "1.6× the work, 1.2× slower each")]
)
def test_a_trade_without_a_price_says_so(last: float, words: str) -> None:
    spots = (spot(1, 31.0), spot(2, last), spot(4, last))
    assert lab_view.copies_chart("Speed", spots, 0.06).best_words == f"best trade: {words}"


def test_where_arithmetic_becomes_the_limit() -> None:
    limits = {1: 33.0, 2: 33.0, 4: 33.0, 8: 33.0 * 1.5, 16: 33.0 * 2}
    spots = [spot(copies, total, limit=limits[copies]) for copies, total in TOTALS.items()]
    boundary = lab_view.copies_chart("Speed", spots, 0.06).boundary
    assert boundary is not None and 4 < boundary < 8
    assert [lab_view.limited_by(each) for each in spots] == ["memory bus"] * 3 + ["compute"] * 2
    assert lab_view.findings(spots)[1].startswith("Compute-bound from batch")
    unknown = lab_view.copies_chart("Speed", SPOTS, 0.06)
    assert unknown.boundary is None
    assert lab_view.limited_by(SPOTS[0]) == "–"


def test_limits_come_from_what_was_measured_of_the_machine() -> None:
    assert all(each.limit_tps is None for each in lab_view.spots_of(PLAN, WISH, None))
    measured = replace(PLAN, hardware=replace(PLAN.hardware, calibration=Calibration(20.0)))
    spots = lab_view.spots_of(measured, WISH, None)
    assert all(each.limit_tps and each.memory_share for each in spots)


def test_the_context_is_drawn_for_one_alone_and_several_at_once() -> None:
    chart = lab_view.context_chart(lab_view.spots_of(PLAN, WISH, None), 0.06)
    assert [line.name for line in chart.lines] == ["4 together", "One alone", "Each of 4"]
    assert [label for _, label in chart.ticks] == ["64", "512", "2k", "3,998"]
    together, _, each = chart.lines
    for (x, total), (other, alone) in zip(together.predicted, each.predicted, strict=True):
        assert x == other
        assert total == pytest.approx(4 * alone)


def test_facts_say_how_many_run_at_once_in_a_chat() -> None:
    spots = lab_view.spots_of(PLAN, WISH, None)
    facts = dict(lab_view.facts(PLAN, WISH, None, spots))
    assert facts["In a chat"] == "4 at once, more wait"
    assert "Finished" not in facts
    assert facts["Prompt · answer"] == "64 to 3,998 · 32 tokens"
    run = LabRun(SWEEP, (), when_s=0.0, took_s=48.3, steps=64, repeats=1)
    facts = dict(lab_view.facts(PLAN, WISH, run, spots[:1]))
    assert facts["Finished"].endswith("took 48\u00a0s")
    assert facts["Repeats"] == "1"


@pytest.mark.parametrize(("ended", "label"), [("running", ""), ("stopped", "Stopped"), ("failed", "Failed")])
def test_only_a_run_that_is_done_has_finished(ended: str, label: str) -> None:
    spots = lab_view.spots_of(PLAN, WISH, None)
    run = LabRun(SWEEP, (), when_s=0.0, took_s=48.3, steps=64, repeats=1, ended=ended)
    facts = dict(lab_view.facts(PLAN, WISH, run, spots))
    assert "Finished" not in facts
    assert ("took" in "".join(facts.values())) is False
    if label:
        assert facts[label].endswith("after 48\u00a0s")
