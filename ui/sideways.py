"""Scrolling of one wide block to the side: how far it is, and the bar and the fade that show it."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QLinearGradient, QPainter

from ui import theme

BAR_PX = 6
_FADE_PX = 32


@dataclass(slots=True)
class Sideways:
    """Shared by the pieces of one block; all in pixels."""

    content: int = 0
    view: int = 0
    offset: int = 0

    @property
    def most(self) -> int:
        """The largest offset; 0 when all is visible."""
        return max(0, self.content - self.view)

    def scroll_to(self, offset: float) -> bool:
        """Move as far as there is something to see; True when that changed anything."""
        before, self.offset = self.offset, max(0, min(self.most, round(offset)))
        return self.offset != before

    def drag_ratio(self) -> float:
        """Pixels of content for a pixel of the bar."""
        return self.content / max(1, self.view)

    def paint_bar(self, painter: QPainter, left: float, top: float) -> None:
        """The bar that shows which part is visible."""
        if not self.most:
            return
        ratio = self.view / self.content
        size = max(24.0, self.view * ratio)
        start = (self.view - size) * self.offset / self.most
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.palette().control)
        painter.drawRoundedRect(QRectF(left + start, top, size, BAR_PX - 1), 2.5, 2.5)

    def paint_fades(self, painter: QPainter, box: QRectF, ground: QColor) -> None:
        """Let the text fade out on a side where more of it is hidden."""
        clear = QColor(ground)
        clear.setAlpha(0)
        for is_shown, edge, inner in (
            (self.offset < self.most, box.right(), box.right() - _FADE_PX),
            (self.offset > 0, box.left(), box.left() + _FADE_PX),
        ):
            if is_shown:
                fade = QLinearGradient(QPointF(inner, 0), QPointF(edge, 0))
                fade.setColorAt(0, clear)
                fade.setColorAt(1, ground)
                left = min(edge, inner)
                painter.fillRect(QRectF(left, box.top(), _FADE_PX, box.height()), fade)
