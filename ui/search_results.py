"""What a search of the chats found: titles, and the words in their places. Knows no search."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QFontMetricsF, QKeyEvent, QMouseEvent, QPainter
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QListView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from engine.words import tr
from ui import theme
from ui.chat_list_model import ROW_ROLE, Index
from ui.chat_row import ROW_WIDTH, row_area
from ui.chat_values import SearchHit, SearchView
from ui.label import one_line, plain_tooltip
from ui.painting import Run, draw_runs

_TITLE_PX, _LINE_PX, _PAD = 20, 16, 6
_LINES = 2  # of a snippet


class SearchModel(QAbstractListModel):
    """The chats that were found, in the order given."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.hits: tuple[SearchHit, ...] = ()

    def set_hits(self, hits: tuple[SearchHit, ...]) -> None:
        """Show these."""
        self.beginResetModel()
        self.hits = hits
        self.endResetModel()

    def rowCount(self, parent: Index | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(self.hits)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        hit = self.hits[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            return hit.title
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return ", ".join(part for part in (hit.title, _count(hit), hit.snippet) if part)
        if role == Qt.ItemDataRole.ToolTipRole:
            return plain_tooltip(one_line(hit.title), hit.snippet, _count(hit))
        return hit if role == ROW_ROLE else None


def _count(hit: SearchHit) -> str:
    return tr("%n message(s)", "", hit.count) if hit.count else ""


class SearchDelegate(QStyledItemDelegate):
    """Paints a title and up to two lines of the text around the first word."""

    def __init__(self, view: SearchResults) -> None:
        super().__init__(view)
        self._view = view

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        hit = index.data(ROW_ROLE)
        colors = theme.palette()
        area = row_area(option.rect)
        body = QRectF(area).adjusted(0, 1, 0, -1)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        is_chosen = bool(option.state & QStyle.StateFlag.State_Selected) and self._view.hasFocus()
        if is_chosen or bool(option.state & QStyle.StateFlag.State_MouseOver):
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colors.bg2 if theme.is_dark() and not is_chosen else colors.bg3)
            painter.drawRoundedRect(body, 8, 8)
        if is_chosen:
            theme.draw_focus_ring(painter, body, 8)
        width = area.width() - 24
        title = _cut(one_line(hit.title), width, "ui")
        _draw_marked(painter, area.left() + 12, area.top() + _PAD + 15, title, hit.title_marks, "title")
        for number, (line, marks) in enumerate(_lines(hit, width)):
            baseline = area.top() + _PAD + _TITLE_PX + number * _LINE_PX + 12
            _draw_marked(painter, area.left() + 12, baseline, line, marks, "snippet")
        painter.restore()

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        lines = len(_lines(index.data(ROW_ROLE), ROW_WIDTH - 24))
        return QSize(ROW_WIDTH, 2 * _PAD + _TITLE_PX + lines * _LINE_PX)


Marks = tuple[tuple[int, int], ...]


def _lines(hit: SearchHit, width: int) -> list[tuple[str, Marks]]:
    """The snippet in lines of ``width`` px, each with the marks in it; at most two."""
    lines: list[tuple[str, Marks]] = []
    start, text = 0, hit.snippet
    while start < len(text) and len(lines) < _LINES:
        is_last = len(lines) == _LINES - 1
        line = _cut(text[start:], width, "small") if is_last else _fitting(text[start:], width)
        end = start + len(line)
        marks = tuple(
            (max(a, start) - start, min(b, end) - start) for a, b in hit.marks if a < end and b > start
        )
        lines.append((line, marks))
        start = end
        while start < len(text) and text[start] == " ":
            start += 1
    return lines


def _fitting(text: str, width: int) -> str:
    """As many whole words as fit, or letters where the first word is too long."""
    metrics = QFontMetricsF(theme.font("small", 600))  # the widest it can get
    end = len(text)
    while end > 1 and metrics.horizontalAdvance(text[:end]) > width:
        space = text.rfind(" ", 1, end - 1)
        end = space if space > 0 else end - max(1, end // 8)
    return text[:end]


def _cut(text: str, width: int, style: str) -> str:
    return QFontMetricsF(theme.font(style, 600)).elidedText(text, Qt.TextElideMode.ElideRight, width)


def _draw_marked(painter: QPainter, x: float, baseline: float, text: str, marks: Marks, kind: str) -> None:
    """A line with its marked places in the accent colour."""
    colors = theme.palette()
    is_title = kind == "title"
    font = theme.font("ui", 600) if is_title else theme.font("small")
    ink = colors.text1 if is_title else colors.text3
    marked = theme.font("ui", 600) if is_title else theme.font("small", 600)
    runs, at = [], 0
    for start, end in marks:
        if start >= len(text):
            break
        runs += [Run(text[at:start], font, ink), Run(text[start:end], marked, colors.accent)]
        at = end
    runs.append(Run(text[at:], font, ink))
    draw_runs(painter, x, baseline, [run for run in runs if run.text])


class SearchResults(QListView):
    """``hit_chosen`` carries a chat and a message or ""; ``left`` says that Up left the first row."""

    hit_chosen = Signal(str, str)
    left = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.found = SearchModel(self)
        self.setModel(self.found)
        self.setItemDelegate(SearchDelegate(self))
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setMouseTracking(True)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setAccessibleName(tr("Chats found"))
        self.viewport().setAutoFillBackground(False)
        theme.notifier().changed.connect(self.viewport().update)

    def set_view(self, view: SearchView) -> None:
        """Show what was found."""
        self.found.set_hits(view.hits)
        if view.hits:
            self.setCurrentIndex(self.found.index(0))

    def choose(self, index: QModelIndex) -> None:
        """Open a chat that was found."""
        hit = index.data(ROW_ROLE)
        if isinstance(hit, SearchHit):
            self.hit_chosen.emit(hit.chat_id, hit.message_id)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = event.key()
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.choose(self.currentIndex())
        elif key == Qt.Key.Key_Up and self.currentIndex().row() <= 0:
            self.left.emit()
        elif event.text() and event.text().isprintable() and not event.text().isspace():
            event.ignore()  # not Qt's search by typing
        else:
            super().keyPressEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        index = self.indexAt(event.position().toPoint())
        super().mouseReleaseEvent(event)
        if event.button() == Qt.MouseButton.LeftButton and index.isValid():
            self.choose(index)
