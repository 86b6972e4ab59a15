"""The verdict card: whether the chosen settings fit, in words with an icon. Works nothing out."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QFontMetricsF, QPainter, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from ui import theme
from ui.gauge import Gauge
from ui.label import plain_tooltip
from ui.painting import Run, draw_runs
from ui.values import VerdictView

_ICONS = {"fits": "circle-check", "tight": "triangle-alert", "no": "circle-x"}
_TOKENS = {"fits": "ok", "tight": "warn", "no": "bad"}
_LEFT = 42.0


class VerdictCard(Gauge):
    """Two lines on a tinted ground; hidden while there is no verdict."""

    SIDE = 0  # the ring lies on the card's border

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Verdict", parent)
        self.setFixedHeight(48)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._view: VerdictView | None = None

    def set_view(self, view: VerdictView | None) -> None:
        """Show ``view`` at once: it follows the control under the pointer."""
        self._view = view
        self.setVisible(view is not None)
        self.setToolTip("" if view is None else plain_tooltip(f"{view.title}. {view.detail}"))
        self.show_now()

    def sentence(self) -> str:
        return "" if self._view is None else f"{self._view.title}. {self._view.detail}"

    def paint(self, painter: QPainter) -> None:
        if self._view is None:
            return
        colors = theme.palette()
        token = _TOKENS[self._view.kind]
        ink, ground, line = (getattr(colors, f"{token}{part}") for part in ("", "_soft", "_line"))
        painter.setPen(QPen(line, 1))
        painter.setBrush(ground)
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 8, 8)
        theme.draw_icon(painter, QRectF(13, (self.height() - 18) / 2, 18, 18), _ICONS[self._view.kind], ink)
        room = self.width() - _LEFT - 10
        for text, style, weight, color, baseline in (
            (self._view.title, "ui", 600, ink, 20.0),
            (self._view.detail, "small", 400, colors.text1 if theme.is_dark() else colors.text2, 37.0),
        ):
            font = theme.font(style, weight)
            short = QFontMetricsF(font).elidedText(text, Qt.TextElideMode.ElideRight, room)
            draw_runs(painter, _LEFT, baseline, [Run(short, font, color)])

    def sizeHint(self) -> QSize:
        return QSize(328, 48)
