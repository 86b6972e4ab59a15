"""A run under way in words: how far, how fast, how it ended."""

from __future__ import annotations

import pytest

from app.lab_points import point_step_s
from app.lab_record import SWEEP
from app.lab_run import RunUnderWay, about
from engine.events import Measured, MeasureEnded, Measuring
from engine.types import CopiesPoint, MeasureWish
from tests.fakes import make_plan

NBSP = "\u00a0"
PLAN = make_plan(context=4096)
WISH = MeasureWish((CopiesPoint(1, 512), CopiesPoint(8, 512)), steps=32, repeats=3)


@pytest.fixture
def run() -> RunUnderWay:
    return RunUnderWay(1, SWEEP, "", PLAN, WISH, began_s=100.0)


def test_it_begins_at_nothing_and_ends_at_all(run: RunUnderWay) -> None:
    assert run.view(100.0).fraction == 0
    fractions = []
    for index, point in enumerate(WISH.points):
        for phase in ("reading", "decoding"):
            run.move(Measuring(index, point, phase, 1.0))
            fractions.append(run.view(101.0).fraction)
    assert fractions == sorted(fractions)
    assert fractions[-1] == pytest.approx(1.0)


def test_it_says_what_it_measures_at_this_moment(run: RunUnderWay) -> None:
    run.move(Measuring(1, WISH.points[1], "decoding", 0.5, step_s=0.05))
    view = run.view(110.0)
    assert view.words.startswith("Batch 8 of 8, 512 tokens · ")
    assert view.words.endswith("left")
    assert view.live == f"20.0 each · 160{NBSP}tok/s in all"
    run.move(Measuring(1, WISH.points[1], "reading", 0.5))
    assert run.view(110.0).live == "reading the prompts"


def test_points_stand_beside_what_was_predicted_for_them(run: RunUnderWay) -> None:
    run.take(Measured(0, WISH.points[0], 0.02, 0.3, 1_000))
    kept = run.as_run(148.0)
    [point] = kept.points
    assert point.predicted_s == point_step_s(PLAN, WISH.points[0], 32)
    assert (point.step_s, point.ttft_s, point.memory_bytes) == (0.02, 0.3, 1_000)
    assert kept.took_s == 48.0
    assert (kept.steps, kept.repeats) == (32, 3)
    assert kept.band > 0


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        (MeasureEnded(1, "done"), ""),
        (MeasureEnded(1, "stopped"), "Stopped at the beginning; nothing was measured."),
        (MeasureEnded(1, "failed", "It broke.", "Try again."), "It broke. Try again."),
    ],
)
def test_the_end_of_a_run_that_has_not_begun(run: RunUnderWay, ended: MeasureEnded, words: str) -> None:
    assert run.end_words(ended) == words


def test_the_end_after_some_points(run: RunUnderWay) -> None:
    run.take(Measured(0, WISH.points[0], 0.02, 0.3, 1_000))
    run.move(Measuring(1, WISH.points[1], "reading", 0.1))
    assert run.end_words(MeasureEnded(1, "stopped")) == "Stopped at batch 8; results so far are kept."
    run.take(Measured(1, WISH.points[1], failed="There is no room."))
    assert run.end_words(MeasureEnded(1, "done")) == "1 of 2 points failed. There is no room."


@pytest.mark.parametrize(("steps", "words"), [(1, "s)"), (2_000, "s)"), (100_000_000, "min)")])
def test_how_long_it_takes_is_said_in_round_figures(steps: int, words: str) -> None:
    said = about(PLAN, MeasureWish(WISH.points, steps, 1))
    assert said.startswith("(about ") and said.endswith(words)
    assert about(PLAN, None) == ""
