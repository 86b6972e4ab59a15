"""The pieces a transcript is made of: each knows its height, paints itself and finds what is under a point.

Here are the base, prose, rules and the user's bubbles. Pieces know nothing of scrolling or of messages.
"""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QFontMetricsF, QPainter, QPen

from ui import theme
from ui.markdown import Prose, Rule
from ui.text_layout import Style, TextLayout, cut, units

LINE_PX = 24
GAP = 12  # between blocks
INDENT = 24  # of one list
QUOTE = 16  # of one quote
BUBBLE_MAX = 560
RIGHT = int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
_PAD_X, _PAD_Y = 16, 9
_HEADINGS = {
    1: Style("title", 600, line_px=28, size_px=20),
    2: Style("title", 600, line_px=26, size_px=17),
    3: Style("title", 600, line_px=24),
}
_SMALL_HEADING = Style("body", 600, line_px=LINE_PX)
_BODY = Style("body", line_px=LINE_PX)
_QUOTED = Style("body", color="text2", line_px=LINE_PX)


@dataclass(slots=True)
class Look:
    """What a piece is told when it paints."""

    selection: tuple[int, int] | None = None
    hover: str = ""  # the action under the pointer
    done: str = ""  # the action that was just carried out: it says so for 2 s
    shows_actions: bool = False
    wants_more: bool = False  # set by a piece that is not ready: paint again soon


class Item:
    """One piece. ``height`` is a guess until ``fit`` was called for the width that counts."""

    gap = GAP
    owner = ""  # the id of its message
    length = 0  # of its text that can be selected, in UTF-16 units

    def __init__(self) -> None:
        self.height = 0
        self.has_caret = False
        self._width = -1  # the width that the height is exact for

    @property
    def key(self) -> object:
        """What stays the same when a piece is made again while its text grows."""
        return self

    def guess(self, width: int) -> None:
        """Set a height without laying out, unless it is known."""
        if self._width != width:
            self.height = max(1, self._guess(width))

    def fit(self, width: int) -> bool:
        """Lay out for a width, if needed; True when the height changed."""
        before = self.height
        if self._width != width or not self._is_ready():
            self._width = width
            self.height = self._lay_out(width)
        return self.height != before

    def release(self) -> None:
        """Forget the layout, not the height: it is far from the view."""

    def restyle(self) -> None:
        """The theme changed: forget colours and layout."""
        self.release()

    def paint(self, painter: QPainter, clip: QRectF, look: Look) -> None:
        """Paint with the origin at the piece's top left."""
        raise NotImplementedError

    def hit(self, point: QPointF) -> int:
        """The text position nearest to a point."""
        return 0 if point.y() < self.height / 2 else self.length

    def link_at(self, point: QPointF) -> str:
        """The address under a point, or ""."""
        return ""

    def action_at(self, point: QPointF) -> str:
        """The name of the control under a point, or ""."""
        return ""

    def is_text_at(self, point: QPointF) -> bool:
        """Whether the pointer should be a text cursor here."""
        return self.length > 0

    def text(self, start: int, end: int) -> str:
        """The selected part, as plain text."""
        return ""

    def _is_ready(self) -> bool:
        return True

    def _guess(self, width: int) -> int:
        return self.height or LINE_PX

    def _lay_out(self, width: int) -> int:
        return self.height or LINE_PX


def draw_caret(painter: QPainter, left: float, top: float, line_px: int) -> None:
    """The block that stands where the next word will."""
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(theme.palette().accent)
    painter.drawRoundedRect(QRectF(left + 3, top + (line_px - 17) / 2, 4, 17), 1, 1)


class ProseItem(Item):
    """A paragraph, heading or list item. ``bar_above``: quote bars that reach over the gap above it."""

    def __init__(self, block: Prose, before: Prose | None = None) -> None:
        super().__init__()
        self.block = block
        self.gap = _prose_gap(block, before)
        self.bar_above = min(block.quote, before.quote) if before else 0
        self._layout: TextLayout | None = None
        self._plain = "".join(span.text for span in block.spans)
        self.length = units(self._plain)
        style = _HEADINGS.get(block.heading, _SMALL_HEADING) if block.heading else _BODY
        self._style = _QUOTED if block.quote and not block.heading else style

    def _indent(self, width: int) -> int:
        return min(self.block.quote * QUOTE + self.block.level * INDENT, width // 2)

    def _guess(self, width: int) -> int:
        per_line = max(8, (width - self._indent(width)) // 7)
        lines = sum(1 + len(line) // per_line for line in self._plain.split("\n"))
        return lines * self._style.line_px

    def _is_ready(self) -> bool:
        return self._layout is not None

    def _lay_out(self, width: int) -> int:
        self._layout = TextLayout.of_spans(self.block.spans, self._style, width - self._indent(width))
        return self._layout.height

    def release(self) -> None:
        self._layout = None

    def paint(self, painter: QPainter, clip: QRectF, look: Look) -> None:
        self.fit(self._width)
        assert self._layout
        indent = self._indent(self._width)
        self._paint_bars(painter)
        if self.block.marker:
            self._paint_marker(painter, indent)
        self._layout.draw(painter, QPointF(indent, 0), look.selection, clip)
        if self.has_caret:
            end = self._layout.end_point()
            draw_caret(painter, min(indent + end.x(), self._width - 7), end.y(), self._style.line_px)

    def _paint_marker(self, painter: QPainter, indent: int) -> None:
        font = self._style.make_font()
        metrics = QFontMetricsF(font)
        left = indent - 8 - metrics.horizontalAdvance(self.block.marker)
        top = round((self._style.line_px - metrics.height()) / 2)
        painter.setFont(font)
        painter.setPen(theme.palette().text2)
        painter.drawText(QPointF(left, top + metrics.ascent()), self.block.marker)

    def _paint_bars(self, painter: QPainter) -> None:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.palette().track)
        for depth in range(min(self.block.quote, self._width // 2 // QUOTE)):
            above = self.gap if depth < self.bar_above else 0
            painter.drawRect(QRectF(depth * QUOTE, -above, 2, self.height + above))

    def hit(self, point: QPointF) -> int:
        self.fit(self._width)
        assert self._layout
        return self._layout.hit(point - QPointF(self._indent(self._width), 0))

    def link_at(self, point: QPointF) -> str:
        layout = self._layout
        return layout.link_at(point - QPointF(self._indent(self._width), 0)) if layout else ""

    def text(self, start: int, end: int) -> str:
        lead = f"{self.block.marker} " if self.block.marker and start == 0 else ""
        return lead + cut(self._plain, start, end)


def _prose_gap(block: Prose, before: Prose | None) -> int:
    if block.is_joined:
        return 0
    if block.heading:
        return 20 if block.heading < 3 else 16
    if before and before.heading:
        return 8
    if block.marker and before and (before.marker or before.level):
        return 4
    return GAP


class RuleItem(Item):
    """A line across the column."""

    def __init__(self, block: Rule) -> None:
        super().__init__()
        self.block = block
        self.height = 9

    def paint(self, painter: QPainter, clip: QRectF, look: Look) -> None:
        painter.fillRect(QRectF(0, 4, self._width, 1), theme.palette().line)


@dataclass(slots=True)
class BubbleShape:
    """What the pieces of one bubble share. ``width``: of the ground, 0 until the first piece is laid out."""

    is_queued: bool = False
    is_one: bool = True
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
        return min(BUBBLE_MAX, width - 32) - 2 * _PAD_X

    def _guess(self, width: int) -> int:
        per_line = max(8, self._room(width) // 7)
        return self._pads + sum(1 + len(line) // per_line for line in self._text.split("\n")) * LINE_PX

    def _is_ready(self) -> bool:
        return self._layout is not None

    def _lay_out(self, width: int) -> int:
        room = self._room(width)
        self._layout = TextLayout.of_text(self._text, _BODY, room)
        natural = room if not self._shape.is_one else min(room, int(self._layout.natural_width) + 1)
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
            painter.drawText(label, RIGHT, "queued")
        self._layout.draw(painter, self._origin(), look.selection, clip)

    def hit(self, point: QPointF) -> int:
        self.fit(self._width)
        assert self._layout
        return self._layout.hit(point - self._origin())

    def is_text_at(self, point: QPointF) -> bool:
        return point.x() >= self._width - self._shape.width

    def text(self, start: int, end: int) -> str:
        return cut(self._text, start, end)
