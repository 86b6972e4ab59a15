"""The Lab's table, predicted against measured, with a bar for each error. Knows no model: it shows texts."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import (
    QAbstractTableModel,
    QItemSelectionModel,
    QModelIndex,
    QPersistentModelIndex,
    QRectF,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QHeaderView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QWidget,
)

from engine.words import percent, tr
from ui import numbers, theme
from ui.lab_values import LabRow, LabTable

Index = QModelIndex | QPersistentModelIndex
ROW_HEIGHT, HEAD_HEIGHT = 36, 30
_SIDE = 10  # px of a cell, left and right
_BAR_WIDTH, _BAR_FULL = 76.0, 0.15  # px, and the error that fills half of it
_FIRST_WIDTH, _ERROR_WIDTH, _LAST_WIDTH = 84, 150, 150
_FIRST_NARROW, _ERROR_NARROW, _LAST_NARROW = 64, 76, 96
_ROOMY = 840  # px, from which there is room for bars
_EMPTY = QModelIndex()


class LabTableModel(QAbstractTableModel):
    """Rows and heads of a table."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.table = LabTable()

    def set_table(self, table: LabTable) -> None:
        """Show ``table``; where only figures changed, no row is rebuilt."""
        is_same = [row.x for row in table.rows] == [row.x for row in self.table.rows]
        if is_same and table.heads == self.table.heads:
            self.table = table
            if table.rows:
                last = self.index(len(table.rows) - 1, len(table.heads) - 1)
                self.dataChanged.emit(self.index(0, 0), last)
            return
        self.beginResetModel()
        self.table = table
        self.endResetModel()

    def row(self, index: Index) -> LabRow:
        """The row of a cell."""
        return self.table.rows[index.row()]

    def rowCount(self, parent: Index = _EMPTY) -> int:
        return 0 if parent.isValid() else len(self.table.rows)

    def columnCount(self, parent: Index = _EMPTY) -> int:
        return 0 if parent.isValid() else len(self.table.heads)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        row = self.row(index)
        if role == Qt.ItemDataRole.DisplayRole:
            return self._text(row, index.column())
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return f"{self.table.heads[index.column()]}: {self._text(row, index.column())}"
        if role == Qt.ItemDataRole.ToolTipRole:
            return row.failed
        return None

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = 0) -> Any:
        if role == Qt.ItemDataRole.DisplayRole and orientation == Qt.Orientation.Horizontal:
            return self.table.heads[section]
        return None

    def _text(self, row: LabRow, column: int) -> str:
        if column == self.table.error_column:
            return row.failed or error_text(row.error)
        return row.cells[column - (column > self.table.error_column)]


def error_text(error: float | None) -> str:
    """ "+1.2%", "−5.8%"; a dash where there is none."""
    if error is None:
        return numbers.UNKNOWN
    sign = "−" if error < 0 else "+"
    return percent(f"{sign}{numbers.decimal(100 * abs(error), 1)}")


class _CellDelegate(QStyledItemDelegate):
    """Paints cells: figures to the right, words to the left, the error as a bar from the middle."""

    def __init__(self, model: LabTableModel, view: QTableView) -> None:
        super().__init__(view)
        self._model = model

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        colors, table, row = theme.palette(), self._model.table, self._model.row(index)
        box, column = QRectF(option.rect), index.column()
        if option.state & QStyle.StateFlag.State_Selected:
            painter.fillRect(box, colors.accent_soft)
            if column == 0:
                painter.fillRect(QRectF(box.left(), box.top(), 3, box.height()), colors.accent)
        if index.row() + 1 < len(table.rows):
            painter.fillRect(QRectF(box.left(), box.bottom() - 1, box.width(), 1), colors.line)
        if column == table.error_column:
            self._paint_error(painter, box, row)
            return
        is_strong, is_left = column in (0, *table.strong), column in table.left
        painter.setFont(theme.font("ui", 600 if is_strong else 500))
        painter.setPen(colors.text3 if column in table.quiet else colors.text1)
        side = Qt.AlignmentFlag.AlignLeft if is_left else Qt.AlignmentFlag.AlignRight
        text = str(index.data(Qt.ItemDataRole.DisplayRole))
        painter.drawText(box.adjusted(_SIDE, 0, -_SIDE, 0), int(side | Qt.AlignmentFlag.AlignVCenter), text)

    def _paint_error(self, painter: QPainter, box: QRectF, row: LabRow) -> None:
        colors = theme.palette()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        inner = box.adjusted(_SIDE, 0, -_SIDE, 0)
        flags = int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        if row.failed:
            icon = QRectF(inner.left(), inner.center().y() - 7, 14, 14)
            theme.draw_icon(painter, icon, "circle-x", colors.bad)
            painter.setFont(theme.font("small", 500))
            painter.setPen(colors.bad)
            painter.drawText(inner.adjusted(20, 0, 0, 0), flags, tr("failed"))
            return
        has_bar = box.width() >= _ERROR_WIDTH
        if row.error is not None and has_bar:
            self._paint_bar(painter, inner, row.error, is_large=row.is_large_error)
        painter.setFont(theme.font("small", 600))
        painter.setPen(colors.warn if row.is_large_error else colors.text2)
        left = _BAR_WIDTH + 8 if has_bar else 0
        painter.drawText(inner.adjusted(left, 0, 0, 0), flags, error_text(row.error))

    def _paint_bar(self, painter: QPainter, inner: QRectF, error: float, *, is_large: bool) -> None:
        colors, middle = theme.palette(), inner.left() + _BAR_WIDTH / 2
        y = inner.center().y()
        painter.fillRect(QRectF(inner.left(), y - 0.5, _BAR_WIDTH, 1), colors.control)
        length = max(1.5, min(abs(error) / _BAR_FULL, 1.0) * _BAR_WIDTH / 2)
        left = middle - length if error < 0 else middle
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(colors.warn_fill if is_large else colors.text2)
        painter.drawRoundedRect(QRectF(left, y - 3, length, 6), 2, 2)
        painter.fillRect(QRectF(middle - 0.5, y - 5, 1, 10), colors.text3)


class _Head(QHeaderView):
    """The names of the columns, each over its figures."""

    def __init__(self, model: LabTableModel, parent: QWidget | None = None) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self._table_model = model
        self.setSectionsClickable(False)
        self.setFixedHeight(HEAD_HEIGHT)

    def paintEvent(self, event: QPaintEvent) -> None:
        colors, table = theme.palette(), self._table_model.table
        painter = QPainter(self.viewport())
        painter.fillRect(self.rect(), colors.bg1)
        for column, words in enumerate(table.heads):
            left, width = self.sectionViewportPosition(column), self.sectionSize(column)
            is_left = column in table.left or column == table.error_column
            side = Qt.AlignmentFlag.AlignLeft if is_left else Qt.AlignmentFlag.AlignRight
            painter.setFont(theme.font("micro", 600))
            painter.setPen(colors.text3)
            box = QRectF(left + _SIDE, 0, width - 2 * _SIDE, HEAD_HEIGHT)
            painter.drawText(box, int(side | Qt.AlignmentFlag.AlignVCenter), words)
        painter.fillRect(QRectF(0, HEAD_HEIGHT - 1, self.width(), 1), colors.line)


class PointTable(QTableView):
    """Up and Down go along the rows; ``chosen`` carries the x of the row that was gone to."""

    chosen = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._points = LabTableModel(self)
        self.setModel(self._points)
        self.setItemDelegate(_CellDelegate(self._points, self))
        self.setHorizontalHeader(_Head(self._points, self))
        self.verticalHeader().hide()
        self.verticalHeader().setDefaultSectionSize(ROW_HEIGHT)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setShowGrid(False)
        self.setTabKeyNavigation(False)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setStyleSheet("QTableView { background: transparent; }")
        self.setAccessibleName(tr("Predicted against measured"))
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        theme.notifier().changed.connect(self._on_theme_changed)

    @property
    def table(self) -> LabTable:
        """What is shown."""
        return self._points.table

    def set_table(self, table: LabTable) -> None:
        """Show ``table``."""
        self._points.set_table(table)
        head = self.horizontalHeader()
        for column in range(len(table.heads)):
            is_fixed = column in (0, table.error_column, len(table.heads) - 1)
            mode = QHeaderView.ResizeMode.Fixed if is_fixed else QHeaderView.ResizeMode.Stretch
            head.setSectionResizeMode(column, mode)
        self.setFixedHeight(HEAD_HEIGHT + ROW_HEIGHT * len(table.rows) + 2)
        self._divide()

    def _divide(self) -> None:
        """Widths of the fixed columns; where room is short the bars go."""
        if self.table.heads:
            is_roomy = self.width() >= _ROOMY
            roomy, narrow = (
                (_FIRST_WIDTH, _ERROR_WIDTH, _LAST_WIDTH),
                (_FIRST_NARROW, _ERROR_NARROW, _LAST_NARROW),
            )
            columns = (0, self.table.error_column, len(self.table.heads) - 1)
            for column, width in zip(columns, roomy if is_roomy else narrow, strict=True):
                self.horizontalHeader().resizeSection(column, width)

    def choose(self, x: int | None) -> None:
        """Mark the row of one x without saying so."""
        place = next((i for i, row in enumerate(self.table.rows) if row.x == x), None)
        flags = QItemSelectionModel.SelectionFlag.ClearAndSelect | QItemSelectionModel.SelectionFlag.Rows
        self.selectionModel().blockSignals(True)
        if place is None:
            self.clearSelection()
        else:
            self.selectionModel().setCurrentIndex(self._points.index(place, 0), flags)
        self.selectionModel().blockSignals(False)
        self.viewport().update()

    def currentChanged(self, current: Index, previous: Index) -> None:  # noqa: N802
        super().currentChanged(current, previous)
        if current.isValid():
            self.chosen.emit(self._points.row(current).x)

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._divide()
        super().resizeEvent(event)

    def _on_theme_changed(self) -> None:
        self.viewport().update()
        self.horizontalHeader().viewport().update()

    def sizeHint(self) -> QSize:
        return QSize(700, HEAD_HEIGHT + ROW_HEIGHT * len(self.table.rows) + 2)
