"""What the Batch lab measures: the copies always, lengths there is room for, and no run without an end."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from app import lab_points
from app.lab_points import (
    COPIES,
    KEPT_COPIES,
    MOST_S,
    PointCost,
    chat_wish,
    done_s,
    point_costs,
    remaining_s,
    sweep_wish,
)
from engine.types import NO_OPTIONS, CopiesPoint, LoadPlan, Message
from tests.fakes import make_plan

PLAN = make_plan(context=4096)
COSTS = (PointCost(1.0, 3.0), PointCost(0.0, 4.0), PointCost(2.0, 2.0))


@pytest.mark.parametrize("context", [64, 256, 1000, 4096])
def test_all_copies_are_measured_at_one_length_that_the_context_has(context: int) -> None:
    points = sweep_wish(make_plan(context=context)).points
    lengths = [{point.tokens for point in points if point.copies == copies} for copies in COPIES]
    [base] = set.intersection(*lengths)
    assert 1 <= base <= min(512, context)
    assert points == tuple(sorted(points, key=lambda point: (point.tokens, point.copies)))


def test_copies_at_other_lengths_share_the_context_as_chats_do() -> None:
    points = sweep_wish(PLAN).points
    assert CopiesPoint(1, 2048) in points
    assert CopiesPoint(4, 2048) not in points
    assert CopiesPoint(4, 64) in points
    assert all(point.copies * point.tokens <= 4096 for point in points if point.tokens != 512)


@pytest.mark.parametrize("factor", [1.0, 1e3, 1e5])
def test_a_slow_model_measures_fewer_points_but_never_fewer_copies(
    factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    step_s, prefill_s = lab_points.step_s, lab_points.prefill_s

    def slow(made: LoadPlan, *args: int) -> float:
        return factor * step_s(made, *args)

    monkeypatch.setattr(lab_points, "step_s", slow)
    monkeypatch.setattr(lab_points, "prefill_s", lambda made, *args: factor * prefill_s(made, *args))
    wish = sweep_wish(PLAN)
    total_s = sum(cost.total_s for cost in point_costs(PLAN, wish))
    kept = {CopiesPoint(copies, 512) for copies in COPIES if copies <= KEPT_COPIES}
    assert kept <= set(wish.points)
    assert total_s <= MOST_S or set(wish.points) == kept


def test_a_copy_that_is_there_reads_only_what_it_lacks() -> None:
    whole, again, longer = point_costs(
        PLAN,
        replace(sweep_wish(PLAN), points=(CopiesPoint(2, 512), CopiesPoint(2, 512), CopiesPoint(2, 1024))),
    )
    alone = point_costs(PLAN, replace(sweep_wish(PLAN), points=(CopiesPoint(2, 1024),)))[0]
    assert whole.reading_s > 0
    assert again.reading_s == 0
    assert longer.reading_s == pytest.approx(alone.reading_s - whole.reading_s, rel=0.2)


def test_what_is_done_grows_from_nothing_to_all() -> None:
    places = [
        (index, phase, fraction)
        for index in range(len(COSTS))
        for phase in ("reading", "decoding")
        for fraction in (0.0, 0.5, 1.0)
    ]
    done = [done_s(COSTS, *place) for place in places]
    assert done[0] == 0
    assert done == sorted(done)
    assert done[-1] == sum(cost.total_s for cost in COSTS)


def test_what_is_left_follows_how_long_the_rest_has_really_taken() -> None:
    assert remaining_s(COSTS, 6.0, 12.0) == pytest.approx(12.0)
    assert remaining_s(COSTS, 6.0, 3.0) == pytest.approx(3.0)
    assert remaining_s(COSTS, 0.1, 0.5) == pytest.approx(11.9)  # too early to tell
    assert remaining_s(COSTS, 0.1, 1.5) < 20  # the first steps took long: of the rest that says little
    assert remaining_s(COSTS, 12.0, 30.0) == 0


def test_a_chat_is_measured_in_its_copies() -> None:
    wish = chat_wish((Message("user", "hi"),), NO_OPTIONS, 20)
    assert [point.copies for point in wish.points] == [1, 2, 4, 8]
    assert wish.messages[0].content == "hi"


@pytest.mark.parametrize("context", [700, 2200, 4096, 8192])
def test_the_longest_length_is_that_of_the_context_and_stands_apart(context: int) -> None:
    points = sweep_wish(make_plan(context=context)).points
    alone = sorted(point.tokens for point in points if point.copies == 1)
    assert context - 200 < alone[-1] < context
    assert all(low * 1.15 <= high for low, high in pairwise(alone))
