"""`decodeck bench --roofline`: measures the goals and says which are met.

Knows a goal's shape and the report; the goals themselves are in `goals`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.bench.contenders import require_llama_cpp
from app.bench.interleave import Spread
from app.bench.lab import Lab
from engine.errors import EngineError, WishError
from engine.hardware.cores import physical_cores

AT_LEAST, BELOW = "at least", "below"
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was measured. ``bytes_per_token`` says what each side of a comparison reads."""

    spread: Spread
    note: str
    bytes_per_token: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Goal:
    """One promise: the median of ``measure`` is ``direction`` ``goal``."""

    name: str
    direction: str
    goal: float
    unit: str
    measure: Callable[[Lab], Outcome]

    def is_met(self, value: float) -> bool:
        return value >= self.goal if self.direction == AT_LEAST else value < self.goal

    def entry(self, outcome: Outcome | None, note: str) -> dict[str, Any]:
        """The goal's line in the report; without an outcome it is not met."""
        value = outcome.spread.median if outcome else None
        return {
            "name": self.name,
            "goal": self.goal,
            "value": value,
            "spread": outcome.spread.as_json() if outcome else None,
            "met": value is not None and self.is_met(value),
            "direction": self.direction,
            "unit": self.unit,
            "bytes_per_token": outcome.bytes_per_token if outcome else {},
            "note": note,
        }


def chosen(goals: Sequence[Goal], names: Sequence[str]) -> list[Goal]:
    """The goals that are named, all where none is. Raises WishError for a name that is no goal's."""
    known = {goal.name: goal for goal in goals}
    for name in names:
        if name not in known:
            raise WishError(f"There is no goal {name!r}.", f"Goals: {', '.join(known)}.")
    return [known[name] for name in names] if names else list(goals)


def measure_goals(
    goals: Sequence[Goal], threads: int | None, repeat: int, starter: Callable[[], Path], say: Say
) -> dict[str, object]:
    """The `goals` of the JSON report. What cannot be measured is not met, and its note says why.

    Raises WishError where llama-cpp-python is missing.
    """
    require_llama_cpp()
    entries = []
    with Lab.opened(threads or physical_cores(), repeat, starter, say) as lab:
        for number, goal in enumerate(goals, 1):
            say(f"goal {number} of {len(goals)}: {goal.name}")
            try:
                outcome = goal.measure(lab)
                entries.append(goal.entry(outcome, outcome.note))
            except EngineError as error:
                if error.kind == "cancelled":
                    raise
                entries.append(goal.entry(None, str(error)))
            say(_line(entries[-1]))
    return {"goals": entries}


def _line(entry: dict[str, Any]) -> str:
    if entry["value"] is None:
        return f"  not measured: {entry['note']}"
    verdict = "met" if entry["met"] else "not met"
    wanted = f"{entry['direction']} {entry['goal']:g}"
    return f"  {entry['value']:.3f} {entry['unit']}, {wanted}: {verdict} ({entry['note']})"
