"""What the marks of the dial mean, with their values. Knows no dial."""

from __future__ import annotations

import math
from collections.abc import Callable

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.words import mark, tr
from ui import numbers, theme
from ui.gauge import Gauge
from ui.gauge_values import SpeedView
from ui.painting import Run, draw_runs, draw_runs_right, runs_width, with_alpha

_BASELINE = 13.0
_GAP = 14.0  # between entries
_TOOLTIP = mark(
    "Predicted: for the chat as long as it is now. Bandwidth limit: the bytes cannot be read quicker"
)


def reading_words(reading_tps: tuple[float, float]) -> str:
    """ "4–7": tokens a second that a slow and a quick reader take in."""
    low, high = (max(1, round(each)) if math.isfinite(each) else 0 for each in reading_tps)
    return f"{numbers.count(low)}–{numbers.count(high)}"


class Legend(Gauge):
    """Predicted, bandwidth limit, reading speed; the speed of all chats in its place where several run."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(tr("Marks of the dial"), parent)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # the dial speaks all of it
        self.setFixedHeight(18)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._view = SpeedView()
        self._words: tuple[str, ...] = ()
        self._describe()

    def set_view(self, view: SpeedView) -> None:
        """Show the values of ``view`` with the next tick of the clock."""
        self._view = view
        words = self._shown()
        if words != self._words:
            self._words = words
            self._describe()
            self.mark_changed()

    def _shown(self) -> tuple[str, ...]:
        view = self._view
        predicted, limit = (numbers.predicted_tps(each) for each in (view.predicted_tps, view.limit_tps))
        return predicted, limit, reading_words(view.reading_tps), view.together

    def _describe(self) -> None:
        reading = tr("Reading: people read {speed} tokens of this a second")
        reading = reading.format(speed=reading_words(self._view.reading_tps))
        words = (tr(_TOOLTIP), reading, self._view.together)
        self.setToolTip(". ".join(each for each in words if each))
        self.setAccessibleName(self.sentence())

    def sentence(self) -> str:
        predicted, limit, reading, together = self._shown()
        told = [(tr("predicted {speed}"), predicted), (tr("bandwidth limit {speed}"), limit)]
        words = [text.format(speed=value) for text, value in told if value != numbers.UNKNOWN]
        words += [tr("people read about {speed} tokens per second").format(speed=reading), together]
        return ", ".join(each for each in words if each)

    def paint(self, painter: QPainter) -> None:
        predicted, limit, reading, together = self._shown()
        left = 0.0
        if predicted != numbers.UNKNOWN:
            left = self._entry(painter, left, _draw_triangle, 8, tr("predicted"), predicted)
        if limit != numbers.UNKNOWN:
            name = tr("limit") if together else tr("bandwidth limit")
            left = self._entry(painter, left, _draw_bar, 3, name, limit)
        if together:
            self._draw_together(painter, together)
        else:
            self._entry(painter, left, _draw_wedge, 10, tr("reading", "how fast people read"), reading)

    def _entry(
        self,
        painter: QPainter,
        left: float,
        draw: Callable[[QPainter, float], None],
        wide: float,
        name: str,
        value: str,
    ) -> float:
        """A sign of ``wide`` pixels, a name and a value; where the next entry begins."""
        colors = theme.palette()
        draw(painter, left)
        strong = colors.text1 if theme.is_dark() else colors.text2
        runs = [
            Run(f"{name} ", theme.font("micro"), colors.text2),
            Run(value, theme.font("micro", 600), strong),
        ]
        return draw_runs(painter, left + wide + 5, _BASELINE, runs) + _GAP

    def _draw_together(self, painter: QPainter, words: str) -> None:
        run = Run(words, theme.font("micro", 600), theme.palette().text2)
        draw_runs_right(painter, max(self.span, runs_width([run])), _BASELINE, [run])

    def sizeHint(self) -> QSize:
        return QSize(328 + 2 * self.SIDE, 18)


def _draw_triangle(painter: QPainter, left: float) -> None:
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(theme.palette().text1)
    corners = [QPointF(left, 5.5), QPointF(left + 8, 5.5), QPointF(left + 4, 12.5)]
    painter.drawPolygon(QPolygonF(corners))


def _draw_bar(painter: QPainter, left: float) -> None:
    painter.fillRect(QRectF(left, 3, 2, 12), theme.palette().warn_fill)


def _draw_wedge(painter: QPainter, left: float) -> None:
    painter.fillRect(QRectF(left, 5, 10, 8), with_alpha(theme.palette().text3, 0.4))
