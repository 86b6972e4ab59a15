"""What stands around the words of a message: markers, the stats line with its actions, the waiting line."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QFontMetricsF, QPainter

from engine.words import mark, tr
from ui import theme
from ui.blocks import LINE_PX, Control, Item, Look, draw_caret
from ui.markdown import visible
from ui.message_actions import ACTION_PX, CONTINUE, MessageActions

MAKE_ROOM = "make-room"
_LINKS = {CONTINUE: mark("Continue"), MAKE_ROOM: mark("Make room")}
_ICON_PX = 22  # of a marker, with the space behind it
_RULE_GAP = 12  # between a marker's words and its lines
_LEAST_RULE = 16
_CENTER = int(Qt.AlignmentFlag.AlignVCenter)


class MarkerItem(Item):
    """One sentence between two hairlines, and maybe a ``link``: an action. ``color`` is the icon's token."""

    gap = 16

    def __init__(self, text: str, icon: str, color: str = "text2", link: str = "") -> None:
        super().__init__()
        self.sentence = visible(text.replace("\n", " "))
        self._icon, self._color, self._link = icon, color, link
        self.height = 20

    @property
    def key(self) -> object:
        """The message it belongs to, and what it says there."""
        return self.owner, self.sentence

    def _spread(self) -> tuple[float, str, float, float]:
        """Left edge, the words as they have room, where the link begins, and where all of it ends."""
        metrics = QFontMetricsF(theme.font("small", 500))
        words_link = tr(_LINKS.get(self._link, ""))
        link = QFontMetricsF(theme.font("small", 600)).horizontalAdvance(words_link) if words_link else 0.0
        rest = _ICON_PX + (link + _RULE_GAP if link else 0.0)
        room = self._width - rest - 2 * (_RULE_GAP + _LEAST_RULE)
        words = metrics.elidedText(self.sentence, Qt.TextElideMode.ElideRight, room)
        width = metrics.horizontalAdvance(words) + rest
        left = (self._width - width) / 2
        return left, words, left + width - link, left + width

    def controls(self) -> list[Control]:
        if not self._link:
            return []
        _, _, start, end = self._spread()
        return [Control(self._link, QRectF(start - 6, -4, end - start + 12, 28), tr(_LINKS[self._link]))]

    def paint(self, painter: QPainter, clip: QRectF, look: Look) -> None:
        colors = theme.palette()
        left, words, start, end = self._spread()
        middle = self.height // 2
        painter.fillRect(QRectF(0, middle, left - _RULE_GAP, 1), colors.line)
        painter.fillRect(QRectF(end + _RULE_GAP, middle, self._width - end - _RULE_GAP, 1), colors.line)
        color = getattr(colors, self._color)
        if self._icon == "square":  # the stop sign is solid
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(color)
            painter.drawRoundedRect(QRectF(left + 2, middle - 4.5, 10, 10), 2, 2)
        else:
            theme.draw_icon(painter, QRectF(left, middle - 7, 14, 14), self._icon, color)
        painter.setFont(theme.font("small", 500))
        painter.setPen(colors.text2)
        painter.drawText(QRectF(left + _ICON_PX, 0, end - left, self.height), _CENTER, words)
        if self._link:
            painter.setFont(theme.font("small", 600))
            painter.setPen(colors.accent_hi if look.hover == self._link else colors.accent)
            painter.drawText(QRectF(start, 0, end - start + 1, self.height), _CENTER, tr(_LINKS[self._link]))


class StatsItem(Item):
    """Tokens and speed of an answer, and its ``actions``: seen on hover, on focus and for the last answer."""

    gap = 6

    def __init__(
        self, stats: str, actions: Sequence[str] = (), branch: tuple[int, int] = (1, 1), details: str = ""
    ) -> None:
        super().__init__()
        self.tooltip = details
        self._stats, self._actions = visible(stats), MessageActions(actions, branch)
        self.height = ACTION_PX

    @property
    def key(self) -> object:
        """The message it belongs to."""
        return self.owner

    def controls(self) -> list[Control]:
        return self._actions.controls(self._width, 0)

    def paint(self, painter: QPainter, clip: QRectF, look: Look) -> None:
        font = theme.font("small")
        painter.setFont(font)
        painter.setPen(theme.palette().text3)
        taken = self._actions.width
        room = QRectF(0, 0, self._width - (taken + 12 if taken else 0), self.height)
        words = QFontMetricsF(font).elidedText(self._stats, Qt.TextElideMode.ElideRight, room.width())
        painter.drawText(room, _CENTER, words)
        self._actions.paint(painter, self._width, 0, look)


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
