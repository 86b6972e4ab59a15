"""Grounds with round corners for groups of widgets, and the thin progress bar. Knows no contents."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QProgressBar, QSizePolicy, QWidget

from ui import theme
from ui.painting import draw_meter, with_alpha


class Card(QWidget):
    """A rounded ground with a hairline; ``ground`` and ``edge`` are palette tokens. Popups cast a shadow."""

    SHADOW = 12  # px around a popup that belong to its shadow

    def __init__(
        self,
        ground: str = "bg2",
        edge: str = "line",
        radius: int = 12,
        *,
        is_popup: bool = False,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._ground, self._edge, self._radius = ground, edge, radius
        self._margin = self.SHADOW if is_popup else 0
        theme.notifier().changed.connect(self.update)

    def set_colors(self, ground: str, edge: str) -> None:
        """Change both palette tokens."""
        self._ground, self._edge = ground, edge
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        colors = theme.palette()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        inset = self._margin
        body = QRectF(self.rect()).adjusted(inset + 0.5, inset + 0.5, -inset - 0.5, -inset - 0.5)
        if inset and colors.shadow.alpha():
            self._paint_shadow(painter, body)
        painter.setPen(QPen(getattr(colors, self._edge), 1))
        painter.setBrush(getattr(colors, self._ground))
        painter.drawRoundedRect(body, self._radius, self._radius)

    def _paint_shadow(self, painter: QPainter, body: QRectF) -> None:
        """0 2 12 of the shadow colour, as a few rings: cheaper than a blur and drawn once per repaint."""
        color = with_alpha(theme.palette().shadow, theme.palette().shadow.alphaF() / 5)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(color)
        for spread in (10, 8, 6, 4, 2):
            ring = body.adjusted(-spread, 2 - spread, spread, min(2 + spread, self.SHADOW - 1))
            painter.drawRoundedRect(ring, self._radius + spread, self._radius + spread)


class ProgressLine(QProgressBar):
    """A bar of 6 px in the accent colour; 0..1000 so that it moves smoothly."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setRange(0, 1000)
        self.setTextVisible(False)
        self.setAccessibleName(name)
        self.setFixedHeight(6)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.notifier().changed.connect(self.update)

    def paintEvent(self, event: QPaintEvent) -> None:
        colors = theme.palette()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        share = self.value() / self.maximum()
        draw_meter(painter, QRectF(self.rect()), share, colors.accent, colors.track)

    def sizeHint(self) -> QSize:
        return QSize(200, 6)
