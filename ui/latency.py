"""The latency line: milliseconds of the last decode steps. Knows no model."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from statistics import median

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPen, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.words import tr
from ui import numbers, theme
from ui.gauge import Gauge
from ui.painting import Run, dashed_pen, draw_runs, draw_runs_right, with_alpha

NUM_STEPS = 96

_TOP, _BOTTOM = 22.0, 44.0  # of the line's band
_LOW, _HIGH = 0.7, 2.0  # the band's ends, in medians
_DRIFT = 1.25  # the scale follows the median only when it is off by this factor


class LatencyLine(Gauge):
    """The last 96 steps. Band: the middle half. Amber cap: off the scale, which no spike changes."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(tr("Latency per token"), parent)
        self.setFixedHeight(48)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setToolTip(tr("Time of each decode step. Band: the middle half. Amber: off the scale"))
        self._steps: deque[float] = deque(maxlen=NUM_STEPS)
        self._sorted: list[float] = []  # those that are no gap
        self._reference_ms: float | None = None

    @property
    def steps(self) -> tuple[float, ...]:
        """The steps that are shown, in milliseconds, oldest first; NaN is a gap."""
        return tuple(self._steps)

    @property
    def reference_ms(self) -> float | None:
        """The median that the scale was last set by."""
        return self._reference_ms

    def add_steps(self, step_ms: Sequence[float], *, is_new_answer: bool = False) -> None:
        """Append steps; ``is_new_answer`` empties the line first. What is no time becomes a gap."""
        if is_new_answer:
            self._steps.clear()
        self._steps.extend(value if math.isfinite(value) and value >= 0 else math.nan for value in step_ms)
        if step_ms or is_new_answer:
            self._sorted = sorted(value for value in self._steps if not math.isnan(value))
            self._follow_median()
            self.mark_changed()

    def _follow_median(self) -> None:
        values = self._sorted
        if not values:
            self._reference_ms = None
            return
        now = max(median(values), 0.01)
        reference = self._reference_ms
        if reference is None or not reference / _DRIFT <= now <= reference * _DRIFT:
            self._reference_ms = now

    def sentence(self) -> str:
        values = self._sorted
        if not values:
            return tr("Starts with the next answer")
        slowest = numbers.milliseconds(values[-1])
        words = tr("Median {median} milliseconds, slowest {slowest} milliseconds")
        return words.format(median=numbers.decimal(median(values), 1), slowest=slowest)

    def sizeHint(self) -> QSize:
        return QSize(328 + 2 * self.SIDE, 48)

    def paint(self, painter: QPainter) -> None:
        colors = theme.palette()
        font = theme.font("micro")
        draw_runs(painter, 0, 13, [Run(tr("Latency per token"), font, colors.text2)])
        values = self._sorted
        if not values:
            words = Run(tr("starts with the next answer"), font, colors.text2)
            draw_runs_right(painter, self.span, 13, [words])
            painter.setPen(dashed_pen(colors.track, 1))
            painter.drawLine(QPointF(0, _BOTTOM - 6.5), QPointF(self.span, _BOTTOM - 6.5))
            return
        slowest = numbers.milliseconds(values[-1])
        text = tr("median {median} · slowest {slowest}\u00a0ms")
        text = text.format(median=numbers.decimal(median(values), 1), slowest=slowest)
        draw_runs_right(painter, self.span, 13, [Run(text, font, colors.text2)])
        self._draw_band(painter, values)
        self._draw_line(painter)

    def _y(self, value_ms: float) -> float:
        reference = self._reference_ms or 1.0
        share = (value_ms / reference - _LOW) / (_HIGH - _LOW)
        return _BOTTOM - min(max(share, 0.0), 1.0) * (_BOTTOM - _TOP)

    def _x(self, index: int) -> float:
        return index * (self.span - 5.0) / (NUM_STEPS - 1)

    def _draw_band(self, painter: QPainter, values: list[float]) -> None:
        low, high = values[len(values) // 4], values[(len(values) * 3) // 4]
        top, bottom = self._y(high), self._y(low)
        rect = QRectF(0, top, self._x(len(self._steps) - 1), max(bottom - top, 1.5))
        painter.fillRect(rect, with_alpha(theme.palette().accent, 0.18))

    def _draw_line(self, painter: QPainter) -> None:
        colors = theme.palette()
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(colors.accent, 1.4, j=Qt.PenJoinStyle.RoundJoin))
        part = QPolygonF()
        across = self._x(1)
        for index, value in enumerate(self._steps):
            if math.isnan(value):
                painter.drawPolyline(part)
                part = QPolygonF()
            else:
                part.append(QPointF(index * across, self._y(value)))
        painter.drawPolyline(part)
        limit = (self._reference_ms or 1.0) * _HIGH
        for index, value in enumerate(self._steps):
            if value > limit:
                painter.fillRect(QRectF(self._x(index) - 3, _TOP - 2, 6, 2), colors.warn_fill)
        if not part.isEmpty():
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colors.text1)
            painter.drawEllipse(part.last(), 2.4, 2.4)
