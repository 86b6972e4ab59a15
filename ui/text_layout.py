"""Lays out and paints one piece of styled text with QTextLayout; nothing in it can name a resource to load.

Positions are Qt's UTF-16 units. Knows no messages.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetricsF,
    QPainter,
    QTextCharFormat,
    QTextLayout,
    QTextLine,
    QTextOption,
)

from ui import theme
from ui.markdown import Span, Spans
from ui.text_units import cut, units

BOX_PAD = 3  # what the ground of inline code reaches beyond its letters
_NO_WRAP_WIDTH = 1_000_000.0


class Style(NamedTuple):
    """How a text is set. ``color`` is the name of a palette token; ``line_px`` the height of a line."""

    font: str = "body"
    weight: int | None = None
    color: str = "text1"
    line_px: int = 22
    wraps: bool = True
    size_px: int | None = None  # where the scale has no style: headings inside an answer

    def make_font(self, weight: int | None = None) -> QFont:
        """The font of this style, or the same in another weight."""
        font = theme.font(self.font, weight or self.weight)
        if self.size_px:
            font.setPixelSize(self.size_px)
        return font


class Mark(NamedTuple):
    """Characters ``start`` to ``end`` in the colour of a palette token."""

    start: int
    end: int
    color: str


class TextLayout:
    """A text in lines. Made for one width and one theme; make a new one when either changes."""

    def __init__(self, text: str, style: Style, width: float, align: str = "left") -> None:
        self.text = text
        self.length = units(text)
        self._style = style
        self._width = width
        self._codes: list[tuple[int, int]] = []
        self._boxes: list[QRectF] = []  # grounds of inline code
        self._links: list[tuple[int, int, str]] = []
        self._layout = QTextLayout(text.replace("\n", "\u2028"), style.make_font())
        option = QTextOption(_ALIGN[align])
        wrap = QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere
        option.setWrapMode(wrap if style.wraps else QTextOption.WrapMode.ManualWrap)
        self.is_right_to_left = style.wraps and _is_right_to_left(text)  # code never is
        if self.is_right_to_left:
            option.setTextDirection(Qt.LayoutDirection.RightToLeft)
            side = "right" if align == "left" else align
            option.setAlignment(_ALIGN[side] | Qt.AlignmentFlag.AlignAbsolute)
        self._option = option

    @classmethod
    def of_spans(cls, spans: Spans, style: Style, width: float, align: str = "left") -> TextLayout:
        """Styled runs of Markdown, laid out."""
        layout = cls("".join(span.text for span in spans), style, width, align)
        layout._format(spans)
        layout.break_lines()
        return layout

    @classmethod
    def of_code(cls, text: str, marks: Iterable[Mark], style: Style) -> TextLayout:
        """Lines that do not wrap, with tabs of four columns, laid out."""
        layout = cls(text, style, _NO_WRAP_WIDTH)
        colors = theme.palette()
        layout._layout.setFormats(
            [_range(mark.start, mark.end, _colored(getattr(colors, mark.color))) for mark in marks]
        )
        layout._option.setTabStopDistance(4 * code_advance())
        layout.break_lines()
        return layout

    @classmethod
    def of_text(cls, text: str, style: Style, width: float) -> TextLayout:
        """Plain text, laid out."""
        layout = cls(text, style, width)
        layout.break_lines()
        return layout

    def narrow(self, width: float) -> None:
        """Set it again for the width it needs: what reads from the right begins at that edge."""
        self._width = width
        self.break_lines()

    def break_lines(self) -> None:
        """Set the lines, each ``line_px`` high."""
        self._layout.setTextOption(self._option)
        self._layout.beginLayout()
        top = 0.0
        self.natural_width = 0.0
        while (line := self._layout.createLine()).isValid():
            line.setLineWidth(max(16.0, self._width))
            line.setPosition(QPointF(0, top + round((self._style.line_px - line.height()) / 2)))
            top += self._style.line_px
            self.natural_width = max(self.natural_width, line.naturalTextWidth())
        self._layout.endLayout()
        self.height = round(max(top, self._style.line_px))
        inset = (self._style.line_px - 20) / 2
        self._boxes = [
            rect.adjusted(-BOX_PAD, inset, BOX_PAD, -inset)
            for start, end in self._codes
            for rect in self.rects(start, end)
        ]

    def draw(
        self, painter: QPainter, origin: QPointF, selection: tuple[int, int] | None, clip: QRectF
    ) -> None:
        """Paint at ``origin``; lines outside ``clip``, in the same coordinates, cost nothing."""
        colors = theme.palette()
        if self._boxes:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colors.bg3)
        for box in self._boxes:
            placed = box.translated(origin)
            if placed.intersects(clip):
                painter.drawRoundedRect(placed, 4, 4)
        ranges = []
        if selection and selection[0] < selection[1]:
            wash = QColor(colors.accent)
            wash.setAlphaF(0.28)
            chosen = QTextCharFormat()
            chosen.setBackground(wash)
            ranges.append(_range(selection[0], selection[1], chosen))
        painter.setPen(getattr(colors, self._style.color))
        self._layout.draw(painter, origin, ranges, clip)

    def hit(self, point: QPointF) -> int:
        """The text position nearest to a point."""
        for line in self.lines():
            if point.y() < self._top(line) + self._style.line_px:
                return self._whole(int(line.xToCursor(point.x())))
        return self.length

    def _whole(self, position: int) -> int:
        """Not inside of what is seen as one character, as a family of emoji is where a font lacks it."""
        layout = self._layout
        return position if layout.isValidCursorPosition(position) else layout.previousCursorPosition(position)

    def link_at(self, point: QPointF) -> str:
        """The address under a point, or ""."""
        for start, end, href in self._links:
            if any(rect.contains(point) for rect in self.rects(start, end)):
                return href
        return ""

    def links(self) -> list[tuple[str, str, QRectF]]:
        """Words, address and first line of every link, in order."""
        places = ((start, end, href, self.rects(start, end)) for start, end, href in self._links)
        return [(cut(self.text, start, end), href, rects[0]) for start, end, href, rects in places if rects]

    def rects(self, start: int, end: int) -> list[QRectF]:
        """One rectangle for each line that characters ``start`` to ``end`` stand on."""
        found = []
        for line in self.lines():
            first, last = max(start, line.textStart()), min(end, line.textStart() + line.textLength())
            if first < last:
                left, right = self._edges(line, first, last)
                found.append(QRectF(left, self._top(line), right - left, self._style.line_px))
        return found

    def _edges(self, line: QTextLine, first: int, last: int) -> tuple[float, float]:
        """Where characters of one line begin and end; with two directions their ends may stand anywhere."""
        if self.text.isascii():
            return _x(line, first), _x(line, last)
        boxes = [run.boundingRect() for run in self._layout.glyphRuns(first, last - first)]
        left = min((box.left() for box in boxes), default=0.0)
        return left, max((box.right() for box in boxes), default=left)

    def end_point(self) -> QPointF:
        """Where the next character would stand: its left edge and the top of its line."""
        count = self._layout.lineCount()
        if not count:
            return QPointF(0, 0)
        line = self._layout.lineAt(count - 1)
        return QPointF(_x(line, self.length), self._top(line))

    def lines(self) -> Iterable[QTextLine]:
        """The lines from top to bottom."""
        return (self._layout.lineAt(index) for index in range(self._layout.lineCount()))

    def _top(self, line: QTextLine) -> float:
        return line.lineNumber() * float(self._style.line_px)

    def _format(self, spans: Spans) -> None:
        ranges = []
        position = 0
        for span in spans:
            end = position + units(span.text)
            if span.code:
                self._codes.append((position, end))
            if span.href:
                self._links.append((position, end, span.href))
            if span.bold or span.italic or span.strike or span.code or span.href:
                ranges.append(_range(position, end, _span_format(span, self._style)))
            position = end
        self._layout.setFormats(ranges)


_ALIGN = {
    "left": Qt.AlignmentFlag.AlignLeft,
    "center": Qt.AlignmentFlag.AlignHCenter,
    "right": Qt.AlignmentFlag.AlignRight,
}


def _is_right_to_left(text: str) -> bool:
    """The direction of the first letter that has one: rules P2 and P3 of Unicode's annex 9."""
    if text.isascii():
        return False
    for letter in text:
        direction = unicodedata.bidirectional(letter)
        if direction in ("L", "R", "AL"):
            return direction != "L"
    return False


def code_advance() -> float:
    """Width of one character of code."""
    return QFontMetricsF(theme.font("code")).horizontalAdvance("0")


def _x(line: QTextLine, position: int) -> float:
    found = line.cursorToX(position)
    assert isinstance(found, tuple)  # (x, the position that x belongs to)
    return float(found[0])


def _range(start: int, end: int, style: QTextCharFormat) -> QTextLayout.FormatRange:
    found = QTextLayout.FormatRange()
    found.start, found.length, found.format = start, end - start, style
    return found


def _colored(color: QColor) -> QTextCharFormat:
    style = QTextCharFormat()
    style.setForeground(color)
    return style


def _span_format(span: Span, base: Style) -> QTextCharFormat:
    font = base.make_font(600 if span.bold else None)
    if span.code:  # one pixel below the text around it
        size_px = font.pixelSize() - 1
        font = theme.font("code", 600 if span.bold else None)
        font.setPixelSize(size_px)
    font.setItalic(span.italic)
    font.setStrikeOut(span.strike)
    style = QTextCharFormat()
    style.setFont(font)
    if span.href:
        style.setForeground(theme.palette().accent)
        style.setFontUnderline(True)
    return style
