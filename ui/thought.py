"""The row above an answer that says how long the model thought, and opens what it thought."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QFont, QFontMetricsF, QPainter

from engine.words import tr
from ui import numbers, theme
from ui.blocks import Control, Item, Look

TOGGLE_THOUGHT = "toggle-thought"
_ROW_PX = 28
_ICON_PX = 16
_INSET = 5  # of the arrow in its icon: it stands in line with the text below
_TEXT_PX = 16
_PAD_X = 8  # of the ground under the pointer, which reaches out of the column
_LONG_S = 60


def thought_title(seconds: float | None, is_running: bool) -> str:
    """ "Thinking… 4 s", "Thought for 12 s", "Thought for 2 min 5 s"; without a figure where none is known."""
    if seconds is None:
        return tr("Thinking…") if is_running else tr("Thought")
    whole = max(1, round(seconds))
    minutes, rest = divmod(whole, 60)
    time = f"{rest}{numbers.NBSP}s" if rest or not minutes else ""
    if whole >= _LONG_S:
        time = f"{numbers.count(minutes)}{numbers.NBSP}min {time}".strip()
    title = tr("Thinking… {time}") if is_running else tr("Thought for {time}")
    return title.format(time=time)


class ThoughtItem(Item):
    """Closed until someone opens it: by a click, or with Enter or Space on its message."""

    def __init__(self) -> None:
        super().__init__()
        self.title = ""
        self.is_expanded = False
        self._is_running = False
        self.height = _ROW_PX

    @property
    def name(self) -> str:
        """What assistive technology says of it: "Thought for 12 s, collapsed"."""
        name = tr("{title}, expanded") if self.is_expanded else tr("{title}, collapsed")
        return name.format(title=self.title)

    def set(self, seconds: float | None, *, is_running: bool) -> bool:
        """The time of thinking so far, or in all; True where the row looks different now."""
        before = self.title, self._is_running
        self.title, self._is_running = thought_title(seconds, is_running), is_running
        return before != (self.title, self._is_running)

    def _rect(self) -> QRectF:
        width = QFontMetricsF(_font()).horizontalAdvance(self.title)
        return QRectF(-_PAD_X, 0, _PAD_X + _TEXT_PX + width + _PAD_X, _ROW_PX)

    def paint(self, painter: QPainter, clip: QRectF, look: Look) -> None:
        colors = theme.palette()
        rect = self._rect()
        is_hovered = look.hover == TOGGLE_THOUGHT
        if is_hovered:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colors.bg3)
            painter.drawRoundedRect(rect, 6, 6)
        color = colors.text1 if is_hovered else colors.text2
        top = (_ROW_PX - _ICON_PX) / 2
        icon = "chevron-down" if self.is_expanded else "chevron-right"
        theme.draw_icon(painter, QRectF(-_INSET, top, _ICON_PX, _ICON_PX), icon, color)
        painter.setFont(_font())
        painter.setPen(color)
        words = QRectF(_TEXT_PX, 0, rect.width(), _ROW_PX)
        painter.drawText(words, int(Qt.AlignmentFlag.AlignVCenter), self.title)

    def controls(self) -> list[Control]:
        return [Control(TOGGLE_THOUGHT, self._rect(), self.name)]


def _font() -> QFont:
    return theme.font("ui", 500)
