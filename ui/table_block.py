"""A table: column widths from its first rows, cells that wrap, and scrolling sideways when it is too wide."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QFontMetricsF, QPainter

from ui import theme
from ui.blocks import GAP, INDENT, Item, Look
from ui.code_block import BAR
from ui.markdown import Spans, Table
from ui.markdown_source import table_source
from ui.sideways import BAR_PX, Sideways
from ui.text_layout import Style, TextLayout
from ui.text_units import cut, units

_PAD_X, _PAD_Y = 12, 7
_MIN_COLUMN = 96
_MAX_COLUMN = 420
_BODY = Style("ui", 400, line_px=20)
_HEAD = Style("ui", 600, line_px=20)
_CELL_CHARS = 1_000  # shown of one cell


class TableShape:
    """The columns that all pieces of one table share; made from its first piece."""

    def __init__(self, first: Table) -> None:
        self.sideways = Sideways()
        self._naturals = _natural_widths(first)
        self._for_width = -1
        self._widths: list[float] = []

    def widths(self, width: int) -> list[float]:
        """The width of each column, in pixels, for a column of text ``width`` wide."""
        if width != self._for_width:
            self._for_width = width
            self._widths = _share(self._naturals, width)
            self.sideways.view, self.sideways.content = width, int(sum(self._widths))
            self.sideways.scroll_to(self.sideways.offset)
        return self._widths


def _natural_widths(table: Table) -> list[float]:
    head, body = QFontMetricsF(_HEAD.make_font()), QFontMetricsF(_BODY.make_font())
    naturals = [48.0] * len(table.aligns)
    for metrics, row in ((head, table.header), *((body, row) for row in table.rows)):
        for index, cell in enumerate(row[: len(naturals)]):
            text = "".join(span.text for span in cell)[:120]
            needed = metrics.horizontalAdvance(text) * 1.04 + 2 * _PAD_X + 4
            naturals[index] = min(_MAX_COLUMN, max(naturals[index], needed))
    return naturals


def _share(naturals: list[float], width: int) -> list[float]:
    """Natural widths if they fit; else wide columns give, down to a least width."""
    if sum(naturals) <= width:
        return naturals
    least = [min(natural, _MIN_COLUMN) for natural in naturals]
    spare = width - sum(least)
    wishes = [natural - low for natural, low in zip(naturals, least, strict=True)]
    if spare <= 0:
        return least
    return [low + spare * wish / sum(wishes) for low, wish in zip(least, wishes, strict=True)]


class TableItem(Item):
    """Some rows of a table; the first piece has the header."""

    def __init__(self, block: Table, shape: TableShape) -> None:
        super().__init__()
        self.block, self._shape, self.is_last = block, shape, True
        self.gap = 0 if block.is_joined else GAP
        self._rows = ([block.header] if block.header else []) + list(block.rows)
        self._cells: list[list[TextLayout]] = []
        self._heights: list[int] = []
        texts = [[_plain(cell) for cell in row] for row in self._rows]
        self._plain = "\n".join("\t".join(row) for row in texts)
        self.length = units(self._plain)

    @property
    def sideways(self) -> Sideways:
        """How far the table is scrolled."""
        return self._shape.sideways

    def _left(self, width: int) -> int:
        return min(self.block.level * INDENT, width // 2)

    def _guess(self, width: int) -> int:
        return len(self._rows) * (_BODY.line_px + 2 * _PAD_Y + 1)

    def _is_ready(self) -> bool:
        return bool(self._cells) or not self._rows

    def _lay_out(self, width: int) -> int:
        widths = self._shape.widths(width - self._left(width))
        self._cells, self._heights = [], []
        for row in self._rows:
            style = self.toned(_HEAD if row is self.block.header else _BODY)
            cells = [
                TextLayout.of_spans(_cut_cell(cell), style, room - 2 * _PAD_X, align)
                for cell, room, align in zip(row, widths, self.block.aligns, strict=False)
            ]
            self._cells.append(cells)
            self._heights.append(max((cell.height for cell in cells), default=20) + 2 * _PAD_Y + 1)
        return sum(self._heights) + (BAR_PX + 4 if self.is_last and self.sideways.most else 0)

    def go_on(self) -> bool:
        """A further piece follows: this one does not carry the bar. True when that is new."""
        was_last, self.is_last = self.is_last, False
        if was_last:
            self._width = -1
        return was_last

    def release(self) -> None:
        self._cells = []

    def paint(self, painter: QPainter, clip: QRectF, look: Look) -> None:
        self.fit(self._width)
        colors = theme.palette()
        left = self._left(self._width)
        view = QRectF(left, 0, self._width - left, self.height)
        painter.save()
        painter.setClipRect(view, Qt.ClipOperation.IntersectClip)
        widths = self._shape.widths(self._width - left)
        top, position = 0, 0
        span = min(sum(widths), view.width())
        for row, height in zip(self._cells, self._heights, strict=True):
            if clip.top() <= top + height and top <= clip.bottom():
                self._paint_row(painter, row, QPointF(left - self.sideways.offset, top), position, clip, look)
                is_head = top == 0 and bool(self.block.header)
                line = colors.control if is_head else colors.line
                painter.fillRect(QRectF(left, top + height - 1, span, 1), line)
            position += sum(cell.length + 1 for cell in row)
            top += height
        self.sideways.paint_fades(painter, QRectF(view.left(), 0, view.width(), top), colors.bg0)
        painter.restore()
        if self.is_last:
            self.sideways.paint_bar(painter, left, self.height - BAR_PX)

    def _paint_row(
        self, painter: QPainter, row: list[TextLayout], at: QPointF, position: int, clip: QRectF, look: Look
    ) -> None:
        left = at.x()
        for index, cell in enumerate(row):
            chosen = None
            if look.selection:
                start, end = look.selection
                chosen = (max(0, start - position), min(cell.length, end - position))
            cell.draw(painter, QPointF(left + _PAD_X, at.y() + _PAD_Y), chosen, clip)
            position += cell.length + 1
            left += self._shape.widths(self._width - self._left(self._width))[index]

    def _cell_at(self, point: QPointF) -> tuple[TextLayout, QPointF, int] | None:
        """The cell nearest to a point, the point inside it, and the position where its text begins."""
        self.fit(self._width)
        top, position = 0.0, 0
        for number, (row, height) in enumerate(zip(self._cells, self._heights, strict=True)):
            if point.y() < top + height or number == len(self._cells) - 1:
                break
            position += sum(cell.length + 1 for cell in row)
            top += height
        else:
            return None
        left = float(self._left(self._width) - self.sideways.offset)
        widths = self._shape.widths(self._width - self._left(self._width))
        for index, cell in enumerate(row):
            if point.x() < left + widths[index] or index == len(row) - 1:
                return cell, point - QPointF(left + _PAD_X, top + _PAD_Y), position
            position += cell.length + 1
            left += widths[index]
        return None

    def hit(self, point: QPointF) -> int:
        found = self._cell_at(point)
        return found[2] + found[0].hit(found[1]) if found else 0

    def link_at(self, point: QPointF) -> str:
        found = self._cell_at(point)
        return found[0].link_at(found[1]) if found else ""

    def action_at(self, point: QPointF) -> str:
        is_bar = self.is_last and self.sideways.most and point.y() >= self.height - BAR_PX - 2
        return BAR if is_bar else ""

    def text(self, start: int, end: int) -> str:
        return cut(self._plain, start, end)

    def markdown(self, start: int, end: int) -> str:
        """Between pipes where all of the piece is taken."""
        return table_source(self.block) if (start, end) == (0, self.length) else self.text(start, end)


def _plain(cell: Spans) -> str:
    return "".join(span.text for span in _cut_cell(cell))


def _cut_cell(cell: Spans) -> Spans:
    """A cell that is no longer than can be read in a table."""
    if sum(len(span.text) for span in cell) <= _CELL_CHARS:
        return cell
    kept, room = [], _CELL_CHARS
    for span in cell:
        if room > 0:
            kept.append(type(span)(span.text[:room]))
            room -= len(span.text)
    return (*kept, type(cell[0])(" …"))
