"""What stands around the words of a message: markers, the stats line with its actions, the waiting line."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QFontMetricsF, QPainter

from ui import theme
from ui.blocks import LINE_PX, Item, Look, draw_caret
from ui.markdown import visible

COPY_MESSAGE = "copy"
_ACTION_PX = 28
_CENTER = int(Qt.AlignmentFlag.AlignVCenter)


class MarkerItem(Item):
    """One sentence between two hairlines. ``color`` is the token of its icon."""

    gap = 16

    def __init__(self, text: str, icon: str, color: str = "text2") -> None:
        super().__init__()
        self.sentence = visible(text.replace("\n", " "))
        self._icon, self._color = icon, color
        self.height = 20

    def paint(self, painter: QPainter, clip: QRectF, look: Look) -> None:
        colors = theme.palette()
        font = theme.font("small", 500)
        metrics = QFontMetricsF(font)
        room = self._width - 22 - 2 * 28
        words = metrics.elidedText(self.sentence, Qt.TextElideMode.ElideRight, room)
        width = metrics.horizontalAdvance(words) + 22
        left = (self._width - width) / 2
        middle = self.height // 2
        painter.fillRect(QRectF(0, middle, left - 12, 1), colors.line)
        painter.fillRect(QRectF(left + width + 12, middle, left - 12, 1), colors.line)
        color = getattr(colors, self._color)
        if self._icon == "square":  # the stop sign is solid
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(color)
            painter.drawRoundedRect(QRectF(left + 2, middle - 4.5, 10, 10), 2, 2)
        else:
            theme.draw_icon(painter, QRectF(left, middle - 7, 14, 14), self._icon, color)
        painter.setFont(font)
        painter.setPen(colors.text2)
        painter.drawText(QRectF(left + 22, 0, width, self.height), _CENTER, words)


class StatsItem(Item):
    """Tokens and speed of an answer, and the actions: shown on hover, on focus and for the last answer."""

    gap = 6

    def __init__(self, stats: str, *, has_actions: bool) -> None:
        super().__init__()
        self._stats, self._has_actions = visible(stats), has_actions
        self.height = _ACTION_PX

    @property
    def key(self) -> object:
        """The message it belongs to."""
        return self.owner

    def _copy_rect(self) -> QRectF:
        return QRectF(self._width - _ACTION_PX, 0, _ACTION_PX, _ACTION_PX)

    def paint(self, painter: QPainter, clip: QRectF, look: Look) -> None:
        colors = theme.palette()
        font = theme.font("small")
        painter.setFont(font)
        painter.setPen(colors.text3)
        room = QRectF(0, 0, self._width - _ACTION_PX - 12, self.height)
        words = QFontMetricsF(font).elidedText(self._stats, Qt.TextElideMode.ElideRight, room.width())
        painter.drawText(room, _CENTER, words)
        if not self._has_actions or not (look.shows_actions or look.done):
            return
        rect = self._copy_rect()
        if look.hover == COPY_MESSAGE:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colors.bg3)
            painter.drawRoundedRect(rect, 6, 6)
        is_done = look.done == COPY_MESSAGE
        icon = rect.adjusted(6, 6, -6, -6)
        theme.draw_icon(painter, icon, "check" if is_done else "copy", colors.ok if is_done else colors.text2)

    def action_at(self, point: QPointF) -> str:
        return COPY_MESSAGE if self._has_actions and self._copy_rect().contains(point) else ""


class WaitingItem(Item):
    """Before the first word: the caret, and what is being read once that takes longer."""

    def __init__(self, sentence: str) -> None:
        super().__init__()
        self.sentence = visible(sentence)
        self.height = LINE_PX

    def paint(self, painter: QPainter, clip: QRectF, look: Look) -> None:
        draw_caret(painter, -3, 0, LINE_PX)
        if self.sentence:
            painter.setFont(theme.font("body"))
            painter.setPen(theme.palette().text3)
            painter.drawText(QRectF(14, 0, self._width - 14, LINE_PX), _CENTER, self.sentence)
