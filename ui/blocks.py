"""The pieces a transcript is made of: each knows its height, paints itself and finds what is under a point.

Here are the base, prose and rules. Pieces know nothing of scrolling or of messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QFontMetricsF, QPainter

from engine.words import tr
from ui import theme
from ui.markdown import Prose, Rule
from ui.markdown_source import prose_source
from ui.text_layout import Style, TextLayout
from ui.text_units import cut, units

LINE_PX = 24
GAP = 12  # between blocks
INDENT = 24  # of one list
LINK = "link "  # the action of a control that leads to the address behind it
RIGHT = int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
QUOTE = 16  # of one quote
_HEADINGS = {
    1: Style("title", 600, line_px=28, size_px=20),
    2: Style("title", 600, line_px=26, size_px=17),
    3: Style("title", 600, line_px=24),
}
_SMALL_HEADING = Style("body", 600, line_px=LINE_PX)
_BODY = Style("body", line_px=LINE_PX)
_CODE = Style("code", line_px=20)
_FORMS = {"lines": Style("body", line_px=26), "grid": _CODE, "raw": _CODE}
_QUOTED = Style("body", color="text2", line_px=LINE_PX)


@dataclass(slots=True)
class Look:
    """What a piece is told when it paints."""

    selection: tuple[int, int] | None = None
    hover: str = ""  # the action under the pointer
    done: str = ""  # the action that was just carried out: it says so for 2 s
    shows_actions: bool = False
    wants_more: bool = False  # set by a piece that is not ready: paint again soon


class Control(NamedTuple):
    """What can be pressed in a piece, and where; ``name`` is what assistive technology calls it."""

    action: str
    rect: QRectF
    name: str


class Item:
    """One piece. ``height`` is a guess until ``fit`` was called for the width that counts."""

    gap = GAP
    owner = ""  # the id of its message
    length = 0  # of its text that can be selected, in UTF-16 units
    tooltip = ""  # of all of it but its controls
    is_aside = False  # a bar at the left sets it off from the answer
    is_left_out = False  # the model does not know it any more: it is set back

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

    def controls(self) -> list[Control]:
        """What the keys can reach, from left to right."""
        return []

    def action_at(self, point: QPointF) -> str:
        """The action of the control under a point, or ""."""
        return next((control.action for control in self.controls() if control.rect.contains(point)), "")

    @property
    def shown_width(self) -> int:
        """How much of the column's right part it takes."""
        return self._width

    def set_left_out(self, is_left_out: bool) -> None:
        """Set it back, or bring it forward again; its height stays."""
        if is_left_out != self.is_left_out:
            self.is_left_out = is_left_out
            self.restyle()

    def toned(self, style: Style) -> Style:
        """``style`` as this piece is to be seen."""
        return style._replace(color="text3") if self.is_left_out else style

    def is_text_at(self, point: QPointF) -> bool:
        """Whether the pointer should be a text cursor here."""
        return self.length > 0

    def text(self, start: int, end: int) -> str:
        """The selected part, as plain text."""
        return ""

    def markdown(self, start: int, end: int) -> str:
        """The selected part, as Markdown."""
        return self.text(start, end)

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
        style = _QUOTED if block.quote and not block.heading else style
        self._style = _FORMS.get(block.form, style)

    def _indent(self, width: int) -> int:
        levels = self.block.level + (self.block.form in ("lines", "grid"))
        return min(self.block.quote * QUOTE + levels * INDENT, width // 2)

    def _guess(self, width: int) -> int:
        per_line = max(8, (width - self._indent(width)) // 7)
        lines = sum(1 + len(line) // per_line for line in self._plain.split("\n"))
        return lines * self._style.line_px

    def _is_ready(self) -> bool:
        return self._layout is not None

    def _lay_out(self, width: int) -> int:
        style = self.toned(self._style)
        self._layout = TextLayout.of_spans(self.block.spans, style, width - self._indent(width))
        return self._layout.height

    def release(self) -> None:
        self._layout = None

    def paint(self, painter: QPainter, clip: QRectF, look: Look) -> None:
        self.fit(self._width)
        assert self._layout
        self._paint_bars(painter)
        if self.block.marker:
            self._paint_marker(painter)
        origin = self._origin()
        self._layout.draw(painter, origin, look.selection, clip)
        if self.has_caret:
            end = self._layout.end_point() + origin
            left = end.x() - 10 if self._is_mirrored else end.x()
            draw_caret(painter, max(-3, min(left, self._width - 7)), end.y(), self._style.line_px)

    @property
    def _is_mirrored(self) -> bool:
        """Text that reads from the right is set in from the right."""
        return self._layout is not None and self._layout.is_right_to_left

    def _origin(self) -> QPointF:
        return QPointF(0 if self._is_mirrored else self._indent(self._width), 0)

    def _paint_marker(self, painter: QPainter) -> None:
        font = self._style.make_font()
        metrics = QFontMetricsF(font)
        indent = self._indent(self._width)
        left = indent - 8 - metrics.horizontalAdvance(self.block.marker)
        if self._is_mirrored:
            left = self._width - indent + 8
        top = round((self._style.line_px - metrics.height()) / 2)
        painter.setFont(font)
        painter.setPen(theme.palette().text2)
        painter.drawText(QPointF(left, top + metrics.ascent()), self.block.marker)

    def _paint_bars(self, painter: QPainter) -> None:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.palette().track)
        for depth in range(min(self.block.quote, self._width // 2 // QUOTE)):
            above = self.gap if depth < self.bar_above else 0
            left = self._width - depth * QUOTE - 2 if self._is_mirrored else depth * QUOTE
            painter.drawRect(QRectF(left, -above, 2, self.height + above))

    def hit(self, point: QPointF) -> int:
        self.fit(self._width)
        assert self._layout
        return self._layout.hit(point - self._origin())

    def link_at(self, point: QPointF) -> str:
        return self._layout.link_at(point - self._origin()) if self._layout else ""

    def controls(self) -> list[Control]:
        if not any(span.href for span in self.block.spans):
            return []
        self.fit(self._width)
        assert self._layout
        words = tr("Link, {text}, {address}")
        return [
            Control(f"{LINK}{href}", rect.translated(self._origin()), words.format(text=text, address=href))
            for text, href, rect in self._layout.links()
        ]

    def action_at(self, point: QPointF) -> str:
        return ""  # the pointer presses a link by its text, which it may also select

    def text(self, start: int, end: int) -> str:
        lead = f"{self.block.marker} " if self.block.marker and start == 0 else ""
        return lead + cut(self._plain, start, end)

    def markdown(self, start: int, end: int) -> str:
        return prose_source(self.block, start, end)


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
