"""A block of code: header with language and Copy, lines that never wrap, colours once it is complete."""

from __future__ import annotations

import re

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QFontMetricsF, QPainter, QPen

from engine.words import tr
from ui import theme
from ui.blocks import GAP, INDENT, RIGHT, Control, Item, Look, draw_caret
from ui.highlight import Highlighter, language_title
from ui.markdown import Code, visible
from ui.sideways import BAR_PX, Sideways
from ui.text_layout import Mark, Style, TextLayout
from ui.text_units import cut, units

COPY = "copy-code"
BAR = "sideways"
FOLD_CHARS = 1_000  # of one line that are shown; Copy takes all
_LINE_PX = 20
_HEADER_PX = 33
_PAD_X, _PAD_TOP, _PAD_BOTTOM = 16, 9, 12  # the bar of a wide block fits below its lines
_COPY_BESIDE_PX = 40  # of the button, beside its word: the icon and the room around both
_TICKS = re.compile("`+")
_STYLE = Style("code", line_px=_LINE_PX, wraps=False)


class CodeSource:
    """What the pieces of one block share: the exact text, its colours and how far it is scrolled sideways."""

    def __init__(self, language: str) -> None:
        self.language = language
        self.sideways = Sideways()
        self.is_closed = False
        self._pieces: list[str] = []
        self._highlighter: Highlighter | None = None

    def set_piece(self, index: int, text: str) -> None:
        """Piece ``index`` is now ``text``; pieces behind it are gone."""
        del self._pieces[index:]
        self._pieces.append(text)

    def text(self) -> str:
        """The characters between the fences, without the last line break: pasting them runs nothing."""
        return "\n".join(self._pieces)

    def marks(self, index: int) -> list[tuple[int, int, str]] | None:
        """Roles in piece ``index`` as (start, end, role) in characters, or None when they need more time."""
        if self._highlighter is None:
            self._highlighter = Highlighter(self.language, self.text())
        start = sum(len(piece) + 1 for piece in self._pieces[:index])
        end = start + len(self._pieces[index])
        if not self._highlighter.advance(end):
            return None
        return [(run.start, run.end, run.role) for run in self._highlighter.runs(start, end)]


class CodeItem(Item):
    """Some lines of a block of code; the first piece has the header, the last the lower border."""

    def __init__(self, block: Code, source: CodeSource, index: int, *, is_tail: bool) -> None:
        super().__init__()
        self.block, self.source, self._index = block, source, index
        self.gap = GAP if block.is_first else 0
        self._has_end = block.is_last or is_tail
        self._layout: TextLayout | None = None
        self._is_colored = False
        lines = [line.removesuffix("\r") for line in block.text.split("\n")]
        self._is_folded = any(len(line) > FOLD_CHARS for line in lines) or "\r" in block.text
        self._plain = visible("\n".join(map(_fold, lines)))
        self.length = units(self._plain)

    @property
    def sideways(self) -> Sideways:
        """How far the block is scrolled."""
        return self.source.sideways

    @property
    def key(self) -> object:
        """The block, which outlives its pieces."""
        return self.source

    @property
    def _top(self) -> int:
        return _HEADER_PX + _PAD_TOP if self.block.is_first else 0

    def _left(self, width: int) -> int:
        return min(self.block.level * INDENT, width // 2)

    def _guess(self, width: int) -> int:
        lines = self._plain.count("\n") + 1
        return self._top + lines * _LINE_PX + (_PAD_BOTTOM if self._has_end else 0)

    def _is_ready(self) -> bool:
        return self._layout is not None

    def _lay_out(self, width: int) -> int:
        self._layout = TextLayout.of_code(self._plain, self._marks(), self.toned(_STYLE))
        sideways = self.sideways
        sideways.view = width - self._left(width) - 2 * _PAD_X
        sideways.content = max(sideways.content, int(self._layout.natural_width) + 1)
        sideways.scroll_to(sideways.offset)
        return self._top + self._layout.height + (_PAD_BOTTOM if self._has_end else 0)

    def _marks(self) -> list[Mark]:
        if not self.source.is_closed:
            return []
        if self.is_left_out:
            self._is_colored = True
            return []
        found = self.source.marks(self._index)
        self._is_colored = found is not None
        if not found or self._is_folded:
            return []
        text = self.block.text
        if text.isascii():
            return [Mark(start, end, f"code_{role}") for start, end, role in found]
        return [Mark(units(text[:start]), units(text[:end]), f"code_{role}") for start, end, role in found]

    def release(self) -> None:
        self._layout = None

    def paint(self, painter: QPainter, clip: QRectF, look: Look) -> None:
        if self.source.is_closed and not self._is_colored:
            self._layout = None
        self.fit(self._width)
        look.wants_more |= self.source.is_closed and not self._is_colored
        assert self._layout
        left = self._left(self._width)
        box = QRectF(left, 0, self._width - left, self.height)
        self._paint_frame(painter, box, look)
        body = box.adjusted(_PAD_X, self._top, -_PAD_X, 0)
        painter.save()
        painter.setClipRect(body, Qt.ClipOperation.IntersectClip)
        shown = clip.intersected(body)
        self._layout.draw(painter, self._origin(), look.selection, shown)
        if self.has_caret:
            end = self._layout.end_point() + self._origin()
            draw_caret(painter, end.x(), end.y(), _LINE_PX)
        text_box = QRectF(body.left(), body.top(), body.width(), self._layout.height)
        self.sideways.paint_fades(painter, text_box, theme.palette().bg1)
        painter.restore()
        if self._has_end:
            self.sideways.paint_bar(painter, body.left(), self.height - BAR_PX - 2)

    def _origin(self) -> QPointF:
        return QPointF(self._left(self._width) + _PAD_X - self.sideways.offset, self._top)

    def _paint_frame(self, painter: QPainter, box: QRectF, look: Look) -> None:
        colors = theme.palette()
        painter.save()
        painter.setClipRect(box, Qt.ClipOperation.IntersectClip)
        frame = box.adjusted(0.5, 0.5, -0.5, -0.5)
        frame.adjust(0, 0 if self.block.is_first else -24, 0, 0 if self._has_end else 24)
        painter.setPen(QPen(colors.line, 1))
        painter.setBrush(colors.bg1)
        painter.drawRoundedRect(frame, 8, 8)
        if self.block.is_first:
            painter.fillRect(QRectF(box.left() + 1, _HEADER_PX - 1, box.width() - 2, 1), colors.line)
            painter.setFont(theme.font("small", 500))
            painter.setPen(colors.text2)
            left = box.left() + _PAD_X
            title = QRectF(left, 0, self._copy_rect().left() - left - _PAD_X, _HEADER_PX - 1)
            painter.drawText(title, int(Qt.AlignmentFlag.AlignVCenter), language_title(self.block.language))
            self._paint_copy(painter, look)
        painter.restore()

    def _copy_rect(self) -> QRectF:
        words = (tr("Copy"), tr("Copied"))
        metrics = QFontMetricsF(theme.font("small", 600))
        width = _COPY_BESIDE_PX + max(metrics.horizontalAdvance(word) for word in words)
        return QRectF(self._width - width - 6, 3, width, _HEADER_PX - 7)

    def _paint_copy(self, painter: QPainter, look: Look) -> None:
        colors = theme.palette()
        rect = self._copy_rect()
        is_done = look.done == COPY
        if look.hover == COPY:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colors.bg3)
            painter.drawRoundedRect(rect, 6, 6)
        words = tr("Copied") if is_done else tr("Copy")
        painter.setFont(theme.font("small", 600))
        width = painter.fontMetrics().horizontalAdvance(words)
        color = colors.ok if is_done else colors.text2
        painter.setPen(color)
        painter.drawText(rect.adjusted(0, 0, -10, 0), RIGHT, words)
        icon = QRectF(rect.right() - 10 - width - 22, rect.center().y() - 7, 14, 14)
        theme.draw_icon(painter, icon, "check" if is_done else "copy", color)

    def controls(self) -> list[Control]:
        return [Control(COPY, self._copy_rect(), tr("Copy code"))] if self.block.is_first else []

    def action_at(self, point: QPointF) -> str:
        is_bar = self._has_end and self.sideways.most and point.y() >= self.height - BAR_PX - 6
        return super().action_at(point) or (BAR if is_bar else "")

    def is_text_at(self, point: QPointF) -> bool:
        return point.y() >= self._top and not self.action_at(point)

    def hit(self, point: QPointF) -> int:
        self.fit(self._width)
        assert self._layout
        return self._layout.hit(point - self._origin())

    def text(self, start: int, end: int) -> str:
        return cut(self._plain, start, end)

    def markdown(self, start: int, end: int) -> str:
        """With its fences where all of the piece is taken, and then exact."""
        if (start, end) != (0, self.length):
            return self.text(start, end)
        fence = "`" * max(3, 1 + max(map(len, _TICKS.findall(self.source.text())), default=0))
        opening = f"{fence}{self.block.language}\n" if self.block.is_first else ""
        return opening + self.block.text + (f"\n{fence}" if self.block.is_last else "")


def _fold(line: str) -> str:
    if len(line) <= FOLD_CHARS:
        return line
    words = tr("{line} … %n more character(s)", "", len(line) - FOLD_CHARS)
    return words.format(line=line[:FOLD_CHARS])
