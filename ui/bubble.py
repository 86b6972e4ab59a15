"""What a person typed, in a bubble at the right, with its buttons beside it. Knows no list of messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter, QPen

from engine.words import tr
from ui import theme
from ui.blocks import GAP, LINE_PX, RIGHT, Control, Item, Look
from ui.message_actions import ACTION_PX, MessageActions
from ui.text_layout import Style, TextLayout
from ui.text_units import cut, units

BUBBLE_MAX = 560
_PAD_X, _PAD_Y = 16, 9
_LEAST_ASIDE, _ASIDE_GAP = 32, 12  # px at the left of the widest bubble; between buttons and bubble
_ACTIONS_TOP = (LINE_PX + 2 * _PAD_Y - ACTION_PX) / 2  # beside the first line
_BODY = Style("body", line_px=LINE_PX)


@dataclass(slots=True)
class BubbleShape:
    """What the pieces of one bubble share. ``width``: of the ground, 0 until the first piece is laid out."""

    is_queued: bool = False
    is_one: bool = True
    actions: MessageActions = field(default_factory=lambda: MessageActions(()))
    width: int = 0


class BubbleItem(Item):
    """The user's words as they were typed, or a piece of them where they are many."""

    def __init__(self, text: str, shape: BubbleShape, *, is_first: bool, is_last: bool) -> None:
        super().__init__()
        self._text, self._shape = text, shape
        self.length = units(text)
        self._is_first, self._is_last = is_first, is_last
        self.gap = GAP if is_first else 0
        self._layout: TextLayout | None = None

    @property
    def _pads(self) -> int:
        return _PAD_Y * (self._is_first + self._is_last)

    def _room(self, width: int) -> int:
        """For the words: the buttons at the left need theirs."""
        aside = max(_LEAST_ASIDE, ceil(self._shape.actions.width) + _ASIDE_GAP)
        return min(BUBBLE_MAX, width - aside) - 2 * _PAD_X

    def _guess(self, width: int) -> int:
        per_line = max(8, self._room(width) // 7)
        return self._pads + sum(1 + len(line) // per_line for line in self._text.split("\n")) * LINE_PX

    def _is_ready(self) -> bool:
        return self._layout is not None

    def _lay_out(self, width: int) -> int:
        room = self._room(width)
        self._layout = TextLayout.of_text(self._text, self.toned(_BODY), room)
        natural = room if not self._shape.is_one else min(room, int(self._layout.natural_width) + 1)
        if natural < room:
            self._layout.narrow(natural)
        self._shape.width = natural + 2 * _PAD_X
        return self._layout.height + self._pads

    def release(self) -> None:
        self._layout = None

    def _origin(self) -> QPointF:
        top = _PAD_Y if self._is_first else 0
        return QPointF(self._width - self._shape.width + _PAD_X, top)

    def paint(self, painter: QPainter, clip: QRectF, look: Look) -> None:
        self.fit(self._width)
        assert self._layout
        colors = theme.palette()
        left = self._width - self._shape.width
        painter.save()
        painter.setClipRect(QRectF(0, 0, self._width, self.height), Qt.ClipOperation.IntersectClip)
        box = QRectF(left, 0, self._shape.width, self.height).adjusted(0.5, 0.5, -0.5, -0.5)
        box.adjust(0, 0 if self._is_first else -24, 0, 0 if self._is_last else 24)
        if self._shape.is_queued:
            painter.setPen(QPen(colors.control, 1, Qt.PenStyle.DashLine))
            painter.setBrush(Qt.BrushStyle.NoBrush)
        else:
            painter.setPen(QPen(colors.line, 1))
            painter.setBrush(colors.bubble)
        painter.drawRoundedRect(box, 12, 12)
        painter.restore()
        if self._shape.is_queued and self._is_first:
            painter.setFont(theme.font("small"))
            painter.setPen(colors.text3)
            label = QRectF(0, 0, left - 12, LINE_PX + 2 * _PAD_Y)
            painter.drawText(label, RIGHT, tr("queued"))
        self._layout.draw(painter, self._origin(), look.selection, clip)
        if self._is_first:
            self._shape.actions.paint(painter, left - _ASIDE_GAP, _ACTIONS_TOP, look)

    @property
    def key(self) -> object:
        """Its message, for the piece that has the buttons."""
        return self.owner if self._is_first else self

    @property
    def shown_width(self) -> int:
        return self._shape.width

    def controls(self) -> list[Control]:
        if not self._is_first:
            return []
        return self._shape.actions.controls(self._width - self._shape.width - _ASIDE_GAP, _ACTIONS_TOP)

    def hit(self, point: QPointF) -> int:
        self.fit(self._width)
        assert self._layout
        return self._layout.hit(point - self._origin())

    def is_text_at(self, point: QPointF) -> bool:
        return point.x() >= self._width - self._shape.width

    def text(self, start: int, end: int) -> str:
        return cut(self._text, start, end)
