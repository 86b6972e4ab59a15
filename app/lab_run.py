"""A run of the Batch lab that is under way: its points so far, how far it is, and how it ended in words."""

from __future__ import annotations

import time

from app.lab_points import done_s, point_costs, point_step_s, remaining_s
from app.lab_record import KeptPoint, LabRun
from engine.events import Measured, MeasureEnded, Measuring
from engine.fit.speed import predict
from engine.types import LoadPlan, MeasureWish
from ui import numbers
from ui.lab_values import RunningView
from ui.numbers import NBSP

_MOST_LETTERS = 200  # of a note that is kept


class RunUnderWay:
    """``kind`` is one of app.lab_record's; ``began_s`` and ``now_s`` below are of one clock."""

    def __init__(
        self, run_id: int, kind: str, title: str, made: LoadPlan, wish: MeasureWish, began_s: float
    ) -> None:
        self.run_id = run_id
        self.kind = kind
        self.made = made
        self.points: list[KeptPoint] = []
        self._title = title
        self._wish = wish
        self._began_s = began_s
        self._costs = point_costs(made, wish)  # as predicted before anything is measured
        self._now: Measuring | None = None

    def move(self, event: Measuring) -> None:
        """Take how far it is."""
        self._now = event

    def take(self, event: Measured) -> None:
        """Take a point."""
        predicted = point_step_s(self.made, event.point, self._wish.steps)
        figures = event.step_s, event.ttft_s, event.memory_bytes, event.failed
        self.points.append(KeptPoint(event.point.copies, event.point.tokens, predicted, *figures))

    def as_run(self, now_s: float, ended: str = "done", note: str = "") -> LabRun:
        """What of it is kept."""
        return LabRun(
            kind=self.kind,
            points=tuple(self.points),
            when_s=time.time(),
            took_s=max(0.0, now_s - self._began_s),
            steps=self._wish.steps,
            repeats=self._wish.repeats,
            band=predict(self.made).band,
            title=self._title,
            ended=ended,
            note=note[:_MOST_LETTERS],
        )

    def view(self, now_s: float) -> RunningView:
        """How far it is, and what it measures at this moment."""
        now = self._now
        if now is None:
            return RunningView(0.0, "Beginning")
        done = done_s(self._costs, now.index, now.phase, now.fraction)
        whole = sum(cost.total_s for cost in self._costs)
        left = numbers.time_left(remaining_s(self._costs, done, now_s - self._began_s))
        most = max(point.copies for point in self._wish.points)
        words = f"Batch {now.point.copies} of {most}, {numbers.count(now.point.tokens)} tokens · {left}"
        return RunningView(done / whole if whole else 0.0, words, _live(now))

    def end_words(self, event: MeasureEnded) -> str:
        """How it ended; empty where all went well."""
        if event.reason == "failed":
            return f"{event.message} {event.hint}".strip()
        if event.reason == "stopped":
            kept = "results so far are kept" if self.points else "nothing was measured"
            at = f"batch {self._now.point.copies}" if self._now else "the beginning"
            return f"Stopped at {at}; {kept}."
        failed = [point for point in self.points if point.failed]
        return f"{len(failed)} of {len(self.points)} points failed. {failed[0].failed}" if failed else ""


def _live(now: Measuring) -> str:
    if not now.step_s:
        return "reading the prompts" if now.phase == "reading" else ""
    each = 1 / now.step_s
    return f"{numbers.tps(each)} each · {numbers.tps(each * now.point.copies)}{NBSP}tok/s in all"


def about(made: LoadPlan, wish: MeasureWish | None) -> str:
    """ "(about 50 s)": what a run should take."""
    if wish is None:
        return ""
    seconds = sum(cost.total_s for cost in point_costs(made, wish))
    if seconds < 10:
        return f"(about {max(1, round(seconds))}{NBSP}s)"
    if seconds < 90:
        return f"(about {10 * round(seconds / 10)}{NBSP}s)"
    return f"(about {round(seconds / 60)}{NBSP}min)"
