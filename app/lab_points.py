"""What the Batch lab measures of a plan, and how long that should take. Pure arithmetic on predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.fit.speed import prefill_s, step_s
from engine.types import CopiesPoint, LoadPlan, MeasureWish, Message, TemplateOptions

COPIES = (1, 2, 4, 8, 16)  # all of them at the base; 16 rows are the most of one step of the native kernels
LIVE_COPIES = (1, 2, 4, 8)  # of a chat
KEPT_COPIES = 8  # up to which they are measured however long it takes
CONTEXT_COPIES = (1, 4)  # at every other length
BASE_TOKENS = 512
CONTEXTS = (64, 2048, 4096, 8192, 16384, 32768)
MOST_S = 120.0  # of a run, by what is predicted
STEPS, REPEATS, LIVE_STEPS = 32, 3, 64
_WARM_STEPS = 2
_TELLING = 0.25  # of a run: how long that took tells how long the rest will
_APART = 1.3  # the longest length, as a multiple of the one before it at least


@dataclass(frozen=True, slots=True)
class PointCost:
    """Seconds that a point should take."""

    reading_s: float
    decoding_s: float

    @property
    def total_s(self) -> float:
        return self.reading_s + self.decoding_s


def sweep_wish(made: LoadPlan) -> MeasureWish:
    """All copies at the base, and the lengths that the plan's context has room for: copies share it, as chats
    do. What would take too long is left out, the longest first.
    """
    room = _WARM_STEPS + STEPS * REPEATS
    most = max(1, made.context - room)
    base = min(BASE_TOKENS, most)
    points = [CopiesPoint(copies, base) for copies in COPIES]
    for tokens in (*CONTEXTS, most):
        points += [
            CopiesPoint(copies, tokens)
            for copies in CONTEXT_COPIES
            if copies * (tokens + room) <= made.context and tokens != base and not _is_near(tokens, most)
        ]
    points.sort(key=lambda point: (point.tokens, point.copies))
    wish = MeasureWish(tuple(points), STEPS, REPEATS)
    costs = dict(zip(points, point_costs(made, wish), strict=True))
    while sum(cost.total_s for cost in costs.values()) > MOST_S:
        spare = [point for point in points if point.tokens != base or point.copies > KEPT_COPIES]
        if not spare:
            break
        points.remove(max(spare, key=lambda point: costs[point].total_s))
        wish = MeasureWish(tuple(points), STEPS, REPEATS)
        costs = dict(zip(points, point_costs(made, wish), strict=True))
    return wish


def _is_near(tokens: int, most: int) -> bool:
    """Whether a length says hardly more than the longest one does."""
    return most / _APART < tokens < most


def chat_wish(messages: tuple[Message, ...], template: TemplateOptions, tokens: int) -> MeasureWish:
    """Copies of a chat that has about so many tokens."""
    points = tuple(CopiesPoint(copies, max(1, tokens)) for copies in LIVE_COPIES)
    return MeasureWish(points, LIVE_STEPS, 1, messages, template)


def point_step_s(made: LoadPlan, point: CopiesPoint, steps: int) -> float:
    """The predicted mean step of a point."""
    return step_s(made, point.tokens + steps // 2, 1, point.copies)


def point_costs(made: LoadPlan, wish: MeasureWish) -> tuple[PointCost, ...]:
    """What each point should take; a copy that is there from an earlier point reads only what it lacks."""
    held: list[int] = []
    costs = []
    for point in wish.points:
        held += [0] * (point.copies - len(held))
        reading = sum(
            prefill_s(made, point.tokens, tokens) for tokens in held[: point.copies] if tokens < point.tokens
        )
        held[: point.copies] = [max(tokens, point.tokens) for tokens in held[: point.copies]]
        steps = wish.steps * wish.repeats + _WARM_STEPS
        costs.append(PointCost(reading, steps * point_step_s(made, point, wish.steps)))
    return tuple(costs)


def done_s(costs: Sequence[PointCost], index: int, phase: str, fraction: float) -> float:
    """Predicted seconds of what is done, where a run is in a phase (reading, decoding) of a point."""
    cost = costs[index]
    own = fraction * cost.reading_s if phase == "reading" else cost.reading_s + fraction * cost.decoding_s
    return sum(each.total_s for each in costs[:index]) + own


def remaining_s(costs: Sequence[PointCost], done: float, took_s: float) -> float:
    """What is left, scaled by how long the part that is done has really taken; in the first second, as
    predicted, and the less is done the more so: a little that took long says little of the rest.
    """
    whole = sum(cost.total_s for cost in costs)
    left = max(0.0, whole - done)
    if took_s < 1.0 or done <= 0:
        return left
    telling = _TELLING * whole
    known = min(1.0, done / telling)
    return left * ((1 - known) + took_s / max(done, telling))
