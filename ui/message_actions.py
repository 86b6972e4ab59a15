"""The small buttons of a message, and the arrows between its branches: where they stand, how they look.

Shared by answers, which have them under the text, and by the user's bubbles, which have them at their left.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QFontMetricsF, QPainter

from engine.words import mark, tr
from ui import theme
from ui.blocks import Control, Look
from ui.painting import with_alpha

COPY_MESSAGE, EDIT, REGENERATE, CONTINUE = "copy", "edit", "regenerate", "continue"
PREVIOUS, NEXT = "previous-branch", "next-branch"
ACTION_PX = 28
_GAP = 2
_ARROW_PX, _ARROW_GAP, _BRANCH_GAP = 20, 4, 8
_LOOKS = {
    COPY_MESSAGE: ("copy", mark("Copy")),
    EDIT: ("pencil", mark("Edit")),
    REGENERATE: ("refresh-cw", mark("Regenerate")),
    CONTINUE: ("corner-down-right", mark("Continue the answer")),
    PREVIOUS: ("chevron-left", mark("Branch before")),
    NEXT: ("chevron-right", mark("Next branch")),
}
_KEYS = {REGENERATE: "Ctrl+R", PREVIOUS: "Alt+Left", NEXT: "Alt+Right"}
_CENTER = int(Qt.AlignmentFlag.AlignCenter)


class MessageActions:
    """``branch`` is which of how many branches the message is; one alone has no arrows."""

    def __init__(self, actions: Sequence[str], branch: tuple[int, int] = (1, 1)) -> None:
        self._actions = tuple(actions)
        self._place, self._count = branch

    @property
    def _words(self) -> str:
        return f"{self._place}/{self._count}"

    @property
    def _branch_width(self) -> float:
        if self._count < 2:
            return 0.0
        words = QFontMetricsF(theme.font("small", 600)).horizontalAdvance("0" * len(self._words))
        return words + 2 * (_ARROW_PX + _ARROW_GAP)

    @property
    def width(self) -> float:
        """Of all of it, in px."""
        buttons = len(self._actions) * (ACTION_PX + _GAP) - _GAP if self._actions else 0
        gap = _BRANCH_GAP if buttons and self._count > 1 else 0
        return buttons + gap + self._branch_width

    def controls(self, right: float, top: float) -> list[Control]:
        """What can be pressed, from left to right, where all of it ends at ``right``."""
        left = right - self.width
        found = []
        for place, action in enumerate(self._actions):
            rect = QRectF(left + place * (ACTION_PX + _GAP), top, ACTION_PX, ACTION_PX)
            found.append(Control(action, rect, tr(_LOOKS[action][1])))
        start = right - self._branch_width
        if self._count > 1 and self._place > 1:
            rect = QRectF(start, top, _ARROW_PX, ACTION_PX)
            found.append(Control(PREVIOUS, rect, self._name(self._place - 1)))
        if self._place < self._count:
            rect = QRectF(right - _ARROW_PX, top, _ARROW_PX, ACTION_PX)
            found.append(Control(NEXT, rect, self._name(self._place + 1)))
        return found

    def _name(self, place: int) -> str:
        return tr("Branch {place} of {count}").format(place=place, count=self._count)

    def paint(self, painter: QPainter, right: float, top: float, look: Look) -> None:
        """Buttons only where the message is looked at; the place among the branches always."""
        for control in self.controls(right, top):
            if control.action in (PREVIOUS, NEXT) or look.shows_actions or look.done:
                _paint_control(painter, control, look)
        if self._count > 1:
            self._paint_place(painter, right, top)

    def _paint_place(self, painter: QPainter, right: float, top: float) -> None:
        colors = theme.palette()
        start = right - self._branch_width
        for is_here, icon, left in (
            (self._place == 1, "chevron-left", start),
            (self._place == self._count, "chevron-right", right - _ARROW_PX),
        ):
            if is_here:  # there is nothing beyond: no button, and its sign set back
                theme.draw_icon(painter, _arrow(left, top), icon, with_alpha(colors.text3, 0.45))
        painter.setFont(theme.font("small", 600))
        painter.setPen(colors.text2)
        edge = _ARROW_PX + _ARROW_GAP
        box = QRectF(start + edge - 2, top, self._branch_width - 2 * edge + 4, ACTION_PX)
        painter.drawText(box, _CENTER, self._words)


def shortcut_of(action: str) -> str:
    """The key of an action, "" where it has none."""
    return _KEYS.get(action, "")


def _arrow(left: float, top: float) -> QRectF:
    return QRectF(left + (_ARROW_PX - 16) / 2, top + (ACTION_PX - 16) / 2, 16, 16)


def _paint_control(painter: QPainter, control: Control, look: Look) -> None:
    colors = theme.palette()
    if look.hover == control.action:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(colors.bg3)
        painter.drawRoundedRect(control.rect, 6, 6)
    is_done = look.done == control.action
    icon = "check" if is_done else _LOOKS[control.action][0]
    is_arrow = control.action in (PREVIOUS, NEXT)
    place = (
        _arrow(control.rect.left(), control.rect.top()) if is_arrow else control.rect.adjusted(6, 6, -6, -6)
    )
    theme.draw_icon(painter, place, icon, colors.ok if is_done else colors.text2)
