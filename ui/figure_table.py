"""A small table of figures: all rows shown, no scrolling of its own. Knows no figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, QRectF, QSize, Qt
from PySide6.QtGui import QFontMetricsF, QPainter
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QHeaderView,
    QSizePolicy,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QWidget,
)

from engine.words import percent, tr
from ui import numbers, theme
from ui.painting import Run, centred_baseline, draw_runs, draw_runs_right

Index = QModelIndex | QPersistentModelIndex
CELL_ROLE = Qt.ItemDataRole.UserRole + 1
_ROW, _HEADER, _PAD = 30, 26, 6
LARGE_ERROR = 0.08  # amber from here
_FULL_ERROR = 0.25  # the bar's end
_BAR = 34.0  # px, half of the error's bar


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell. ``error`` draws a bar from its middle beside the text; ``tooltip`` is plain text."""

    text: str
    color: str = "text2"
    weight: int = 400
    error: float | None = None
    tooltip: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column; the one that ``is_wide`` takes the room that is left. Figures stand right, words left.

    A table translates the ``title``.
    """

    title: str
    width: int = 80
    is_wide: bool = False
    is_left: bool = False

    @property
    def stands_left(self) -> bool:
        return self.is_wide or self.is_left


class _Model(QAbstractTableModel):
    def __init__(self, columns: Sequence[Column], parent: QWidget) -> None:
        super().__init__(parent)
        self.columns = tuple(columns)
        self.rows: tuple[tuple[Cell, ...], ...] = ()

    def set_rows(self, rows: Sequence[Sequence[Cell]]) -> None:
        self.beginResetModel()
        self.rows = tuple(tuple(row) for row in rows)
        self.endResetModel()

    def rowCount(self, parent: Index | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(self.rows)

    def columnCount(self, parent: Index | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(self.columns)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        cell = self.rows[index.row()][index.column()]
        if role == Qt.ItemDataRole.DisplayRole:
            return cell.text
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return f"{self.columns[index.column()].title}: {cell.text}".removeprefix(": ")
        if role == Qt.ItemDataRole.ToolTipRole:
            return cell.tooltip or None
        return cell if role == CELL_ROLE else None

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation == Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return self.columns[section].title
        return None


class _Delegate(QStyledItemDelegate):
    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        cell, colors = index.data(CELL_ROLE), theme.palette()
        box = QRectF(option.rect)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if option.state & QStyle.StateFlag.State_Selected and option.state & QStyle.StateFlag.State_Active:
            painter.fillRect(box, colors.bg3)
        painter.fillRect(QRectF(box.left(), box.bottom() - 1, box.width(), 1), colors.line)
        font = theme.font("small", cell.weight)
        inner = box.adjusted(_PAD, 0, -_PAD, 0)
        baseline = centred_baseline(font, box.top(), box.height())
        if cell.error is not None:
            _draw_error(painter, inner, cell.error)
        column = index.model().columns[index.column()]  # type: ignore[attr-defined]
        text = QFontMetricsF(font).elidedText(cell.text, Qt.TextElideMode.ElideRight, inner.width())
        run = Run(text, font, getattr(colors, cell.color))
        if column.stands_left:
            draw_runs(painter, inner.left(), baseline, [run])
        else:
            draw_runs_right(painter, inner.right(), baseline, [run])
        painter.restore()


def _draw_error(painter: QPainter, box: QRectF, error: float) -> None:
    """A bar from the middle of a hairline: to the right where it was quicker than predicted."""
    colors = theme.palette()
    middle, y = box.left() + _BAR, box.center().y()
    painter.fillRect(QRectF(box.left(), y - 0.5, 2 * _BAR, 1), colors.control)
    length = _BAR * min(abs(error) / _FULL_ERROR, 1.0)
    color = colors.warn_fill if abs(error) > LARGE_ERROR else colors.text2
    painter.fillRect(QRectF(middle if error > 0 else middle - length, y - 3, length, 6), color)
    painter.fillRect(QRectF(middle - 0.5, y - 5, 1, 10), colors.control)


def error_cell(error: float) -> Cell:
    """A signed percentage with its bar; amber above 8 %."""
    sign = "+" if error > 0 else "−" if error < 0 else ""
    color = "warn" if abs(error) > LARGE_ERROR else "text2"
    return Cell(percent(f"{sign}{numbers.decimal(100 * abs(error), 1)}"), color, 600, error)


class _Header(QHeaderView):
    """Titles in small type, over a hairline."""

    def __init__(self, columns: Sequence[Column], parent: QWidget) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self._columns = tuple(columns)
        self.setSectionsClickable(False)
        self.setMinimumSectionSize(24)

    def paintSection(self, painter: QPainter, rect: Any, logical_index: int) -> None:
        colors, column = theme.palette(), self._columns[logical_index]
        font, box = theme.font("micro", 600), QRectF(rect)
        painter.save()
        painter.fillRect(QRectF(box.left(), box.bottom() - 1, box.width(), 1), colors.line)
        run = Run(column.title, font, colors.text3)
        baseline = centred_baseline(font, box.top(), box.height())
        if column.stands_left:
            draw_runs(painter, box.left() + _PAD, baseline, [run])
        else:
            draw_runs_right(painter, box.right() - _PAD, baseline, [run])
        painter.restore()


class FigureTable(QTableView):
    """Rows of cells that arrows move along; it is as high as its rows."""

    def __init__(self, name: str, columns: Sequence[Column], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(name)
        columns = [replace(column, title=tr(column.title)) for column in columns]
        self._model = _Model(columns, self)
        self.setModel(self._model)
        self.setItemDelegate(_Delegate(self))
        header = _Header(columns, self)
        self.setHorizontalHeader(header)
        header.setFixedHeight(_HEADER)
        for place, column in enumerate(columns):
            mode = QHeaderView.ResizeMode.Stretch if column.is_wide else QHeaderView.ResizeMode.Fixed
            header.setSectionResizeMode(place, mode)
            if not column.is_wide:
                header.resizeSection(place, column.width)
        self.verticalHeader().hide()
        self.verticalHeader().setDefaultSectionSize(_ROW)
        self.setShowGrid(False)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setTabKeyNavigation(False)
        for policy in (self.setVerticalScrollBarPolicy, self.setHorizontalScrollBarPolicy):
            policy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.viewport().setAutoFillBackground(False)
        header.viewport().setAutoFillBackground(False)
        theme.notifier().changed.connect(self.viewport().update)

    def set_rows(self, rows: Sequence[Sequence[Cell]]) -> None:
        """Show these rows; the same ones leave the selection as it is."""
        new = tuple(tuple(row) for row in rows)
        if new == self._model.rows:
            return
        current = self.currentIndex().row()
        self._model.set_rows(new)
        if 0 <= current < len(new):
            self.selectRow(current)
        self.setFixedHeight(_HEADER + _ROW * len(new))

    @property
    def rows(self) -> tuple[tuple[Cell, ...], ...]:
        """What is shown."""
        return self._model.rows

    def wheelEvent(self, event: Any) -> None:
        event.ignore()  # all rows are shown: what stands around the table scrolls

    def scrollTo(self, index: Index, hint: Any = None) -> None:
        """Nothing: all rows are shown."""

    def sizeHint(self) -> QSize:
        return QSize(400, _HEADER + _ROW * len(self._model.rows))
