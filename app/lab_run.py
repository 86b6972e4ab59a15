"""A run of the Batch lab that is under way: its points so far, how far it is, and how it ended in words."""

from __future__ import annotations

import time

from app.lab_points import done_s, point_costs, point_step_s, remaining_s
from app.lab_record import KeptPoint, LabRun
from engine.events import Measured, MeasureEnded, Measuring
from engine.fit.speed import predict
from engine.types import LoadPlan, MeasureWish
from engine.words import tr
from ui import numbers
from ui.lab_values import RunningView

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

    def as_run(self, now_s: float, ended: str = "running", note: str = "") -> LabRun:
        """It as far as it is, and what of it is kept when it has ended."""
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
            return RunningView(0.0, tr("Beginning"))
        done = done_s(self._costs, now.index, now.phase, now.fraction)
        whole = sum(cost.total_s for cost in self._costs)
        left = numbers.time_left(remaining_s(self._costs, done, now_s - self._began_s))
        most = max(point.copies for point in self._wish.points)
        words = tr("Batch {copies} of {most}, {tokens} tokens · {left}").format(
            copies=now.point.copies, most=most, tokens=numbers.count(now.point.tokens), left=left
        )
        return RunningView(done / whole if whole else 0.0, words, _live(now))

    def end_words(self, event: MeasureEnded) -> str:
        """How it ended; empty where all went well."""
        if event.reason == "failed":
            return f"{event.message} {event.hint}".strip()
        if event.reason == "stopped":
            return self._stopped_words()
        failed = [point for point in self.points if point.failed]
        if not failed:
            return ""
        words = tr("{failed} of {count} points failed.").format(failed=len(failed), count=len(self.points))
        return f"{words} {failed[0].failed}"

    def _stopped_words(self) -> str:
        if self._now is None:
            if self.points:
                return tr("Stopped at the beginning; results so far are kept.")
            return tr("Stopped at the beginning; nothing was measured.")
        words = tr("Stopped at batch {copies}; nothing was measured.")
        words = tr("Stopped at batch {copies}; results so far are kept.") if self.points else words
        return words.format(copies=self._now.point.copies)


def _live(now: Measuring) -> str:
    if not now.step_s:
        return tr("reading the prompts") if now.phase == "reading" else ""
    each = 1 / now.step_s
    return tr("{each} each · {all}\u00a0tok/s in all").format(
        each=numbers.tps(each), all=numbers.tps(each * now.point.copies)
    )


def about(made: LoadPlan, wish: MeasureWish | None) -> str:
    """ "(about 50 s)": what a run should take."""
    if wish is None:
        return ""
    seconds = sum(cost.total_s for cost in point_costs(made, wish))
    if seconds < 10:
        return tr("(about {seconds}\u00a0s)").format(seconds=max(1, round(seconds)))
    if seconds < 90:
        return tr("(about {seconds}\u00a0s)").format(seconds=10 * round(seconds / 10))
    return tr("(about {minutes}\u00a0min)").format(minutes=round(seconds / 60))
