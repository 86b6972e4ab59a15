"""The verdict card: whether the chosen settings fit, in words with an icon. Works nothing out."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.words import tr
from ui import theme
from ui.fit import FIT_ICONS, FIT_TOKENS
from ui.gauge import Gauge
from ui.label import plain_tooltip
from ui.painting import Run, draw_runs, draw_runs_right, runs_width
from ui.tuning_values import VerdictView

_LEFT = 42.0
_GAP = 12.0


class VerdictCard(Gauge):
    """Two lines on a tinted ground; hidden while there is no verdict."""

    SIDE = 0  # the ring lies on the card's border

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(tr("Verdict"), parent)
        self.setFixedHeight(48)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._view: VerdictView | None = None

    def set_view(self, view: VerdictView | None) -> None:
        """Show ``view`` at once: it follows the control under the pointer."""
        self._view = view
        self.setVisible(view is not None)
        self.setToolTip("" if view is None else plain_tooltip(self.sentence(), view.tooltip))
        self.show_now()

    def sentence(self) -> str:
        if self._view is None:
            return ""
        lines = (self._view.title, self._view.detail, self._view.quality)
        return ". ".join(line for line in lines if line)

    def paint(self, painter: QPainter) -> None:
        if self._view is None:
            return
        colors = theme.palette()
        token = FIT_TOKENS[self._view.kind]
        ink, ground, line = (getattr(colors, f"{token}{part}") for part in ("", "_soft", "_line"))
        painter.setPen(QPen(line, 1))
        painter.setBrush(ground)
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 8, 8)
        theme.draw_icon(
            painter, QRectF(13, (self.height() - 18) / 2, 18, 18), FIT_ICONS[self._view.kind], ink
        )
        self._paint_lines(painter, self._view, ink)

    def _paint_lines(self, painter: QPainter, view: VerdictView, ink: QColor) -> None:
        """Two lines, and the quality at the end of the first where there is room for it."""
        colors = theme.palette()
        right = self.width() - 12.0
        quiet = colors.text1 if theme.is_dark() else colors.text2
        quality = Run(view.quality, theme.font("micro"), quiet)
        title = Run(view.title, theme.font("ui", 600), ink)
        if view.quality and _LEFT + runs_width([title, quality]) + _GAP <= right:
            draw_runs_right(painter, right, 20, [quality])
        for text, font, color, baseline in (
            (view.title, title.font, ink, 20.0),
            (view.detail, theme.font("small"), quiet, 37.0),
        ):
            short = QFontMetricsF(font).elidedText(text, Qt.TextElideMode.ElideRight, right - _LEFT)
            draw_runs(painter, _LEFT, baseline, [Run(short, font, color)])

    def sizeHint(self) -> QSize:
        return QSize(328, 48)
