"""From measured and predicted points to what the Batch lab shows: lines, table, findings. Pure functions."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from app.lab_points import CONTEXT_COPIES, point_step_s
from app.lab_record import KeptPoint, LabRun
from engine.fit.speed import limit_tps, predict
from engine.types import CopiesPoint, LoadPlan, MeasureWish
from engine.words import mark, tr
from ui import numbers
from ui.figure_table import LARGE_ERROR
from ui.lab_table import error_text
from ui.lab_values import Finding, LabChart, LabDot, LabLine, LabRow, LabTable
from ui.numbers import NBSP, UNKNOWN

_GAIN = 1.2  # of all together, that makes twice as many copies worth their slower answers
_MEMORY_BOUND = 0.5  # of what the memory's bandwidth allows
_ERROR_COLUMN = 5
_ENDS = {"done": mark("Finished"), "stopped": mark("Stopped"), "failed": mark("Failed")}
_STRONG, _QUIET = (1, 3), (2, 4)


@dataclass(frozen=True, slots=True)
class Spot:
    """One place of a chart: what is predicted there, and what was measured if it was."""

    point: CopiesPoint
    predicted_s: float
    limit_tps: float | None  # of each, by the read bandwidth
    kept: KeptPoint | None = None

    @property
    def predicted_each(self) -> float:
        return 1 / self.predicted_s

    @property
    def each(self) -> float | None:
        return self.kept.each_tps if self.kept else None

    @property
    def total(self) -> float | None:
        each = self.each
        return None if each is None else each * self.point.copies

    @property
    def memory_share(self) -> float | None:
        """Of the bandwidth, measured if it was; None where that is not known."""
        each = self.each if self.each is not None else self.predicted_each
        return each / self.limit_tps if self.limit_tps else None


def spots_of(made: LoadPlan, wish: MeasureWish, run: LabRun | None) -> tuple[Spot, ...]:
    """The points of a wish and those of a run, each once. What was measured keeps the prediction that was
    made before.
    """
    kept = {each.point: each for each in run.points} if run else {}
    points = sorted({*wish.points, *kept}, key=lambda point: (point.tokens, point.copies))
    return tuple(_spot(made, point, wish.steps, kept.get(point)) for point in points)


def _spot(made: LoadPlan, point: CopiesPoint, steps: int, kept: KeptPoint | None) -> Spot:
    predicted = kept.predicted_s if kept else point_step_s(made, point, steps)
    limit = limit_tps(made, point.tokens + steps // 2, 1.0, point.copies)
    return Spot(point, predicted, limit, kept)


def copies_chart(title: str, spots: Sequence[Spot], band: float) -> LabChart:
    """Speed by the number of copies, which all hold as many tokens."""
    best = best_trade(spots)
    return LabChart(
        title=title,
        axis=tr("batch size (copies that are answered together)"),
        ticks=tuple((spot.point.copies, numbers.count(spot.point.copies)) for spot in spots),
        lines=(
            _line(tr("All together"), "accent", spots, _copies, _copies, band),
            _line(tr("Each request"), "text2", spots, _copies, lambda _: 1, band),
        ),
        band=band,
        boundary=_boundary(spots),
        best=best.point.copies if best else None,
        best_words=_trade_words(spots, best) if best else "",
    )


def context_chart(spots: Sequence[Spot], band: float) -> LabChart:
    """Speed by the tokens that each copy holds: one alone, and several at once."""
    alone = [spot for spot in spots if spot.point.copies == CONTEXT_COPIES[0]]
    several = [spot for spot in spots if spot.point.copies == CONTEXT_COPIES[1]]
    ticks = sorted({spot.point.tokens for spot in (*alone, *several)})
    count = numbers.count(CONTEXT_COPIES[1])
    lines = [_line(tr("One alone"), "text1", alone, _tokens, lambda _: 1, band)]
    if several:
        lines.insert(
            0, _line(tr("{count} together").format(count=count), "accent", several, _tokens, _copies, band)
        )
        lines.append(
            _line(tr("Each of {count}").format(count=count), "text2", several, _tokens, lambda _: 1, band)
        )
    return LabChart(
        title=tr("Speed by context"),
        axis=tr("tokens that each request holds"),
        ticks=tuple((tokens, numbers.context(tokens)) for tokens in ticks),
        lines=tuple(lines),
        band=band,
    )


def _copies(spot: Spot) -> int:
    return spot.point.copies


def _tokens(spot: Spot) -> int:
    return spot.point.tokens


def _line(
    name: str,
    color: str,
    spots: Sequence[Spot],
    x: Callable[[Spot], int],
    factor: Callable[[Spot], int],
    band: float,
) -> LabLine:
    measured = tuple(
        LabDot(x(spot), _scaled(spot, factor), _words(name, spot, factor, band))
        for spot in spots
        if spot.kept is not None
    )
    predicted = tuple((x(spot), spot.predicted_each * factor(spot)) for spot in spots)
    return LabLine(name, color, measured, predicted, _end(measured, predicted))


def _scaled(spot: Spot, factor: Callable[[Spot], int]) -> float | None:
    return None if spot.each is None else spot.each * factor(spot)


def _end(measured: Sequence[LabDot], predicted: Sequence[tuple[int, float]]) -> str:
    """ "182 tok/s at 32"; where nothing is measured, "≈ 190 tok/s at 32"."""
    known = [(dot.x, dot.y) for dot in measured if dot.y is not None]
    if known:
        x, y = known[-1]
        return tr("{speed} tok/s at {place}").format(speed=numbers.tps(y), place=numbers.context(x))
    if not predicted:
        return ""
    x, y = predicted[-1]
    speed = f"≈{NBSP}{numbers.predicted_tps(y)}"
    return tr("{speed} tok/s at {place}").format(speed=speed, place=numbers.context(x))


def _words(name: str, spot: Spot, factor: Callable[[Spot], int], band: float) -> str:
    """All of one point in a sentence."""
    point = spot.point
    copies, tokens = numbers.count(point.copies), numbers.count(point.tokens)
    place = tr("1 copy of {tokens} tokens") if point.copies == 1 else tr("{copies} copies of {tokens} tokens")
    place = place.format(copies=copies, tokens=tokens)
    predicted = f"{numbers.predicted_tps(spot.predicted_each * factor(spot))} ±{numbers.percent(band)}"
    if spot.each is None:
        reason = spot.kept.failed if spot.kept else ""
        words = tr("{line}, {place}: failed. {reason} Predicted {predicted}\u00a0tok/s")
        return words.format(line=name, place=place, reason=reason, predicted=predicted)
    error = error_text(spot.kept.error if spot.kept else None)
    figure = numbers.tps(spot.each * factor(spot))
    words = tr("{line}, {place}: {speed}\u00a0tok/s, predicted {predicted}, error {error}")
    return words.format(line=name, place=place, speed=figure, predicted=predicted, error=error)


# What the figures say


def best_trade(spots: Sequence[Spot]) -> Spot | None:
    """The last doubling that still gave a fifth more in all; None where one alone is best, or too little is
    measured.
    """
    measured = [spot for spot in spots if spot.total is not None]
    if len(measured) < 3:
        return None
    best = measured[0]
    for before, spot in pairwise(measured):
        if (spot.total or 0.0) < _GAIN * (before.total or 0.0):
            break
        best = spot
    return best if best is not measured[0] else None


def _trade_words(spots: Sequence[Spot], best: Spot) -> str:
    first = next(spot for spot in spots if spot.each is not None)
    work = (best.total or 0.0) / (first.total or 1.0)
    slower = (first.each or 0.0) / (best.each or 1.0)
    words = tr("best trade: {work}× the work, as fast each")
    if slower >= 1.05:
        words = tr("best trade: {work}× the work, {slower}× slower each")
    return words.format(work=numbers.decimal(work, 1), slower=numbers.decimal(slower, 1))


def _boundary(spots: Sequence[Spot]) -> float | None:
    """The number of copies from which arithmetic is the limit, between two of them on the chart's axis."""
    shares = [(spot.point.copies, spot.memory_share) for spot in spots]
    for (low, high_share), (high, low_share) in pairwise(shares):
        if high_share is None or low_share is None or not low_share < _MEMORY_BOUND <= high_share:
            continue
        part = (high_share - _MEMORY_BOUND) / (high_share - low_share)
        return low * math.pow(high / low, part)
    return None


def findings(spots: Sequence[Spot]) -> tuple[tuple[Finding, ...], str]:
    """What the measured copies say, and from where on arithmetic is the limit."""
    measured = [spot for spot in spots if spot.each is not None]
    if not measured:
        return (), ""
    found = []
    if measured[0].point.copies == 1:
        text = tr("{speed}\u00a0tok/s, without drafting.").format(speed=numbers.tps(measured[0].each))
        found.append(Finding("1", tr("Best for one person"), text))
    best, most = best_trade(spots), max(measured, key=lambda spot: spot.total or 0.0)
    if best is not None and best is not most:
        found.append(Finding(numbers.count(best.point.copies), tr("Best trade"), _both(best)))
    if most.point.copies > 1:
        later = _later(best, most) if best is not None else ""
        found.append(Finding(numbers.count(most.point.copies), tr("Most output"), _both(most) + later))
    return tuple(found), _limit_words(spots)


def _both(spot: Spot) -> str:
    words = tr("{all}\u00a0tok/s in all, {each} for each.")
    return words.format(all=numbers.tps(spot.total), each=numbers.tps(spot.each))


def _later(best: Spot, most: Spot) -> str:
    """How much longer the last request waits for its first token."""
    first, last = (spot.kept.ttft_s if spot.kept else None for spot in (best, most))
    if first is None or last is None or last < 1.2 * first:
        return ""
    words = tr("The wait for the first token is {times} times that of batch {copies}.").format(
        times=numbers.decimal(last / first, 1), copies=numbers.count(best.point.copies)
    )
    return f" {words}"


def _limit_words(spots: Sequence[Spot]) -> str:
    boundary, known = _boundary(spots), [spot.memory_share for spot in spots]
    if None in known or not known:
        return ""
    if boundary is not None:
        words = tr(
            "Compute-bound from batch {copies}: weights are read once for the whole batch, so arithmetic"
            " becomes the limit"
        )
        return words.format(copies=numbers.count(math.ceil(boundary)))
    if (known[0] or 0.0) >= _MEMORY_BOUND:
        return tr("Memory-bound throughout: more requests at once cost each of them little")
    return tr("Memory is not the limit here: the model is small, and what is fixed for each step counts more")


# Table and facts


def copies_table(made: LoadPlan, spots: Sequence[Spot]) -> LabTable:
    """A row for every number of copies that was measured."""
    return _table(made, tr("Batch"), spots, lambda spot: numbers.count(spot.point.copies), _copies)


def context_table(made: LoadPlan, spots: Sequence[Spot]) -> LabTable:
    """A row for every length and number of copies that was measured."""

    def place(spot: Spot) -> str:
        copies = "" if spot.point.copies == 1 else f"{spot.point.copies} × "
        return f"{copies}{numbers.context(spot.point.tokens)}"

    own = [spot for spot in spots if spot.point.copies in CONTEXT_COPIES]
    return _table(made, tr("Context"), own, place, _tokens)


def _table(
    made: LoadPlan, head: str, spots: Sequence[Spot], place: Callable[[Spot], str], x: Callable[[Spot], int]
) -> LabTable:
    measured = [spot for spot in spots if spot.kept is not None]
    errors = [abs(spot.kept.error) for spot in measured if spot.kept and spot.kept.error is not None]
    detail = tr("tok/s")
    if errors:
        error = numbers.percent(median(errors), 1)
        detail = tr("tok/s · median error {error}").format(error=error)
    heads = (
        tr("Each request"),
        tr("predicted"),
        tr("All together"),
        tr("predicted"),
        tr("Error"),
        tr("First token"),
        tr("RAM") if made.device == "cpu" else tr("Memory"),
    )
    return LabTable(
        heads=(head, *heads, tr("Limited by")),
        rows=tuple(_row(spot, place(spot), x(spot)) for spot in measured),
        error_column=_ERROR_COLUMN,
        strong=_STRONG,
        quiet=_QUIET,
        left=(len(heads) + 1,),
        detail=detail,
    )


def _row(spot: Spot, place: str, x: int) -> LabRow:
    kept = spot.kept
    assert kept is not None
    ttft = UNKNOWN if kept.ttft_s is None else f"{numbers.seconds(kept.ttft_s)}{NBSP}s"
    memory = UNKNOWN if kept.memory_bytes is None else numbers.size(kept.memory_bytes)
    cells = (
        place,
        numbers.tps(spot.each),
        numbers.predicted_tps(spot.predicted_each),
        numbers.tps(spot.total),
        numbers.predicted_tps(spot.predicted_each * spot.point.copies),
        ttft,
        memory,
        tr(limited_by(spot)),
    )
    error = kept.error
    return LabRow(x, cells, error, error is not None and abs(error) > LARGE_ERROR, kept.failed)


def limited_by(spot: Spot) -> str:
    """What a measured point was limited by, in English."""
    if spot.each is None or spot.memory_share is None:
        return UNKNOWN
    return mark("memory bus") if spot.memory_share >= _MEMORY_BOUND else mark("compute")


def facts(
    made: LoadPlan, wish: MeasureWish, run: LabRun | None, spots: Sequence[Spot]
) -> tuple[tuple[str, str], ...]:
    """How it was, or would be, measured."""
    lengths = sorted({spot.point.tokens for spot in spots})
    tokens = numbers.count(lengths[0]) if lengths else UNKNOWN
    if len(lengths) > 1:
        tokens = tr("{least} to {most}").format(least=tokens, most=numbers.count(lengths[-1]))
    steps, repeats = (run.steps, run.repeats) if run else (wish.steps, wish.repeats)
    in_a_chat = tr("one at a time")
    if made.max_sequences > 1:
        in_a_chat = tr("{count} at once, more wait").format(count=numbers.count(made.max_sequences))
    listed = [
        (
            tr("Prompt · answer"),
            tr("{prompt} · {answer} tokens").format(prompt=tokens, answer=numbers.count(steps)),
        ),
        (tr("Repeats"), tr("{count}, median shown").format(count=repeats) if repeats > 1 else "1"),
        (tr("KV precision"), tr("{bits}-bit, a cache each").format(bits=made.kv_bits)),
        (tr("Drafting"), tr("off")),
        (tr("In a chat"), in_a_chat),
    ]
    if run is not None and run.ended in _ENDS:
        took = tr("{when}, took {seconds}\u00a0s")
        if run.ended != "done":
            took = tr("{when}, after {seconds}\u00a0s")
        took = took.format(when=_when(run.when_s), seconds=numbers.decimal(run.took_s, 0))
        listed.append((tr(_ENDS[run.ended]), took))
    return tuple(listed)


def _when(when_s: float) -> str:
    """ "today 14:32", "2026-11-30 14:32"."""
    then, now = time.localtime(when_s), time.localtime()
    at = time.strftime("%H:%M", then)
    if then[:3] == now[:3]:
        return tr("today {time}").format(time=at)
    return f"{time.strftime('%Y-%m-%d', then)} {at}"


def band_of(made: LoadPlan, run: LabRun | None) -> float:
    """Of the predictions that are shown, a fraction."""
    return run.band if run and run.points else predict(made).band
