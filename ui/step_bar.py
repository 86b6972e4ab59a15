"""What takes the time of a step, as one bar with its legend. Predicts nothing."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.words import tr
from ui import numbers, theme
from ui.gauge import Gauge
from ui.gauge_values import StepPart
from ui.memory_bar import part_widths
from ui.painting import Run, draw_runs, rounded, runs_width

_BAR_TOP, _BAR, _GAP = 4.0, 14.0, 1.0
_LEGEND = 36.0  # baseline of its first row
_ROW = 18.0


class StepBar(Gauge):
    """Parts of a step by their milliseconds, in the order given; those of no time are left out."""

    SIDE = 0  # it stands in a column of text, and begins where that does

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(tr("Time of one step"), parent)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._parts: tuple[StepPart, ...] = ()
        self._fit_height()

    def set_parts(self, parts: Sequence[StepPart]) -> None:
        """Show ``parts`` with the next tick of the clock."""
        if tuple(parts) != self._parts:
            self._parts = tuple(parts)
            self._fit_height()
            self.mark_changed()

    def _fit_height(self) -> None:
        rows = 1 + max((row for row, _, _ in self._placed()), default=0)
        self.setFixedHeight(round(_LEGEND + _ROW * (rows - 1) + 8))

    @property
    def total_ms(self) -> float:
        return sum(part.ms for part in self._parts)

    def _shown(self) -> list[tuple[StepPart, QColor]]:
        colors = theme.palette()
        inks = (colors.mem_weights, colors.mem_kv, colors.mem_working, colors.mem_other)
        both = zip(self._parts, inks, strict=False)
        return [(part, ink) for part, ink in both if part.ms >= 0.001 * self.total_ms]

    def sentence(self) -> str:
        return ", ".join(f"{part.name} {_words(part)}" for part, _ in self._shown()) or tr("Not known yet")

    def paint(self, painter: QPainter) -> None:
        shown, colors = self._shown(), theme.palette()
        bar = QRectF(0, _BAR_TOP, self.span, _BAR)
        painter.save()
        painter.setClipPath(rounded(bar, 4))
        painter.fillRect(bar, colors.track)
        widths = part_widths(
            [round(1e6 * part.ms) for part, _ in shown], round(1e6 * self.total_ms), bar.width()
        )
        left = 0.0
        for (_, ink), width in zip(shown, widths, strict=True):
            painter.fillRect(QRectF(left, _BAR_TOP, width, _BAR), ink)
            painter.fillRect(QRectF(left + width - _GAP, _BAR_TOP, _GAP, _BAR), colors.bg0)
            left += width
        painter.restore()
        for (_, ink), (row, x, runs) in zip(shown, self._placed(), strict=True):
            baseline = _LEGEND + _ROW * row
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(ink)
            painter.drawRoundedRect(QRectF(x, baseline - 8, 8, 8), 2, 2)
            draw_runs(painter, x + 14, baseline, runs)

    def _placed(self) -> list[tuple[int, float, list[Run]]]:
        """Row, left edge and words of each entry of the legend."""
        colors, row, x = theme.palette(), 0, 0.0
        placed = []
        for part, _ in self._shown():
            runs = [
                Run(f"{part.name} ", theme.font("micro"), colors.text3),
                Run(_words(part), theme.font("micro", 600), colors.text2),
            ]
            width = 14 + runs_width(runs)
            if x and x + width > self.span:
                row, x = row + 1, 0.0
            placed.append((row, x, runs))
            x += width + 20
        return placed

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_height()

    def sizeHint(self) -> QSize:
        return QSize(400, self.minimumHeight())


def _words(part: StepPart) -> str:
    ms = f"{numbers.decimal(part.ms, 1)}{numbers.NBSP}ms"
    if not part.nbytes:
        return ms
    return tr("{time} for {size}").format(time=ms, size=numbers.size(part.nbytes))
