"""An attached text above the user's bubble: a chip with its name, which opens what is in it."""

from __future__ import annotations

from math import ceil

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QFontMetricsF, QPainter, QPen

from engine.words import tr
from ui import theme
from ui.attachment_text import AttachedText
from ui.blocks import GAP, RIGHT, Control, Item, Look
from ui.code_block import CodeItem, CodeSource
from ui.markdown import Code, visible
from ui.message_actions import ACTION_PX, MessageActions
from ui.painting import Run, centred_baseline, draw_runs, runs_width
from ui.splitter import CODE_LINES

TOGGLE_FILE = "toggle-file"
SHOWN_LINES = 400  # of an opened text; Copy takes all of it
COLORED_CHARS = 100_000  # of a longer one finding the colours would take long
_HEIGHT, _PAD, _ICON, _GAP = 32, 10, 16, 6
_ASIDE_GAP = 12


class AttachmentItem(Item):
    """The chip. ``actions`` are the message's, where it has no bubble to bear them."""

    def __init__(
        self, file: AttachedText, number: int, *, is_open: bool, actions: MessageActions | None
    ) -> None:
        super().__init__()
        self.number, self.is_open = number, is_open
        self.is_queued = False
        self._file = file
        self._size = tr("%n line(s)", "", file.text.removesuffix("\n").count("\n") + 1)
        self._actions = actions
        self.height = _HEIGHT
        self.gap = GAP if not number else 6

    @property
    def key(self) -> object:
        """Its message, where it bears its buttons; else its place in that."""
        return self.owner if self._actions else (self.owner, self.number)

    @property
    def name(self) -> str:
        """What assistive technology says of it."""
        words = tr("Attached {name}, expanded") if self.is_open else tr("Attached {name}, collapsed")
        return words.format(name=self._file.name)

    def _runs(self) -> list[Run]:
        colors, file = theme.palette(), self._file
        ink = colors.text3 if self.is_left_out else colors.text1
        detail = f" · {self._size}{f' · {file.note}' if file.note else ''}"
        tail = Run(detail, theme.font("small", 400), colors.text3 if self.is_left_out else colors.text2)
        font = theme.font("small", 600)
        room = max(40.0, self._width - 2 * (_PAD + _ICON + _GAP) - runs_width([tail]) - 2 * ACTION_PX)
        name = QFontMetricsF(font).elidedText(visible(file.name), Qt.TextElideMode.ElideMiddle, room)
        return [Run(name, font, ink), tail]

    @property
    def shown_width(self) -> int:
        return ceil(runs_width(self._runs())) + 2 * (_PAD + _ICON + _GAP)

    def _rect(self) -> QRectF:
        return QRectF(self._width - self.shown_width, 0, self.shown_width, _HEIGHT)

    def controls(self) -> list[Control]:
        rect = self._rect()
        own = [Control(TOGGLE_FILE, rect, self.name)]
        if self._actions is None:
            return own
        return self._actions.controls(rect.left() - _ASIDE_GAP, (_HEIGHT - ACTION_PX) / 2) + own

    def paint(self, painter: QPainter, clip: QRectF, look: Look) -> None:
        colors, rect = theme.palette(), self._rect()
        is_hovered = look.hover == TOGGLE_FILE
        painter.setPen(QPen(colors.control if self.is_queued else colors.line, 1))
        if self.is_queued:
            painter.setPen(QPen(colors.control, 1, Qt.PenStyle.DashLine))
        painter.setBrush(colors.bg3 if is_hovered else colors.bubble)
        painter.drawRoundedRect(rect.adjusted(0.5, 0.5, -0.5, -0.5), 8, 8)
        top, ink = (_HEIGHT - _ICON) / 2, colors.text1 if is_hovered else colors.text2
        theme.draw_icon(painter, QRectF(rect.left() + _PAD, top, _ICON, _ICON), "file-text", ink)
        runs = self._runs()
        baseline = centred_baseline(runs[0].font, 0, _HEIGHT)
        draw_runs(painter, rect.left() + _PAD + _ICON + _GAP, baseline, runs)
        arrow = QRectF(rect.right() - _PAD - _ICON, top, _ICON, _ICON)
        theme.draw_icon(painter, arrow, "chevron-down" if self.is_open else "chevron-right", ink)
        left = rect.left() - _ASIDE_GAP
        if self._actions is not None:
            self._actions.paint(painter, left, (_HEIGHT - ACTION_PX) / 2, look)
            if self.is_queued:
                painter.setFont(theme.font("small"))
                painter.setPen(colors.text3)
                painter.drawText(QRectF(0, 0, left, _HEIGHT), RIGHT, tr("queued"))


class MoreLinesItem(Item):
    """Below an opened text that is longer than is shown."""

    gap = 4

    def __init__(self, count: int) -> None:
        super().__init__()
        self.sentence = tr("%n more line(s); Copy takes all of them", "", count)
        self.height = 20

    def paint(self, painter: QPainter, clip: QRectF, look: Look) -> None:
        painter.setFont(theme.font("small"))
        painter.setPen(theme.palette().text3)
        painter.drawText(QRectF(0, 0, self._width, self.height), RIGHT, self.sentence)


def opened(file: AttachedText) -> list[Item]:
    """An attached text as a block of code."""
    lines = file.text.removesuffix("\n").split("\n")
    _, dot, ending = file.name.rpartition(".")
    source = CodeSource(ending if dot else "")
    source.is_closed = len(file.text) <= COLORED_CHARS
    shown = min(SHOWN_LINES, len(lines))
    items: list[Item] = []
    for index, start in enumerate(range(0, shown, CODE_LINES)):
        end = min(shown, start + CODE_LINES)
        text = "\n".join(lines[start:end])
        source.set_piece(index, text)
        block = Code(text, source.language, is_first=start == 0, is_last=end == shown)
        items.append(CodeItem(block, source, index, is_tail=False))
    if shown < len(lines):
        source.set_piece(len(items), "\n".join(lines[shown:]))
        items.append(MoreLinesItem(len(lines) - shown))
    return items
