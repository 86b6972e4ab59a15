"""The heatmap: how every precision fits with every context, and its predicted speed. Works nothing out."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QEvent, QModelIndex, QPersistentModelIndex, QRectF, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFocusEvent,
    QKeyEvent,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPen,
    QResizeEvent,
    QWheelEvent,
)
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

from engine.words import mark, tr
from ui import numbers, theme
from ui.fit import FIT_TOKENS, FIT_WORDS
from ui.gauge import is_keyboard_focus
from ui.painting import (
    Run,
    centred_baseline,
    dashed_pen,
    draw_runs,
    draw_runs_right,
    hatch,
    rounded,
    runs_width,
)
from ui.tuning_values import HeatCell, HeatRow, HeatView

Index = QModelIndex | QPersistentModelIndex
ROW_PX, LEAST_ROW_PX = 20, 14
_LABELS = 44  # px for the names of the rows
_HEADER = 16  # px for the contexts
_LEGEND = 17
_GAP = 2.0  # between cells
_RADIUS = 4.0
_NOTCH = 6.0
_PLACE = Qt.ItemDataRole.UserRole + 1  # a HeatRow and a HeatCell
_GROUNDS = {"fits": "heat_ok", "tight": "heat_warn", "spills": "heat_warn", "no": "heat_bad"}
_LEGEND_WORDS = {
    "fits": mark("fits"),
    "tight": mark("tight"),
    "spills": mark("spills"),
    "no": mark("no fit"),
}


class HeatMap(QWidget):
    """One row a format, one column a context. ``cell_chosen`` carries both, for the user's choices only.

    Solid outline: chosen; dashed: loaded. A cell that is tight or spills has a notch; one that does not fit
    is hatched and has a dash. Keys: arrows, then Enter.
    """

    cell_chosen = Signal(str, int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._view: HeatView | None = None
        self._row_px = ROW_PX
        self.cells = HeatCells(self)
        self.cells.chosen.connect(self.cell_chosen)
        theme.notifier().changed.connect(self.update)
        self.set_view(None)

    def set_view(self, view: HeatView | None) -> None:
        """Show ``view``; hidden while there is none. Emits nothing."""
        if view == self._view and view is not None:
            return
        has_grown = view is None or self._view is None or len(view.rows) != len(self._view.rows)
        self._view = view
        self.setVisible(view is not None)
        self.cells.set_view(view)
        if has_grown:
            self._lay_out()
        self.update()

    def set_row_height(self, px: int) -> None:
        """Rows of ``px``, from LEAST_ROW_PX to ROW_PX: as the panel has room."""
        px = min(max(px, LEAST_ROW_PX), ROW_PX)
        if px != self._row_px:
            self._row_px = px
            self._lay_out()

    @property
    def num_rows(self) -> int:
        """Formats that are shown."""
        return len(self._view.rows) if self._view is not None else 0

    def height_for(self, row_px: int) -> int:
        """How high it is with rows of ``row_px``."""
        return _HEADER + self.num_rows * row_px + _LEGEND

    def _lay_out(self) -> None:
        self.setFixedHeight(self.height_for(self._row_px))
        self._place_cells()

    def _place_cells(self) -> None:
        self.cells.setGeometry(_LABELS, _HEADER, max(0, self.width() - _LABELS), self.num_rows * self._row_px)
        self.cells.fit_sections(self._row_px)

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._view is None or not self._view.rows:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._paint_contexts(painter, self._view)
        self._paint_formats(painter, self._view)
        self._paint_legend(painter, self._view)

    def _paint_contexts(self, painter: QPainter, view: HeatView) -> None:
        """The contexts that have room, the chosen one first."""
        columns = list(enumerate(cell.context for cell in view.rows[0].cells))
        taken: list[tuple[float, float]] = []
        for column, context in sorted(columns, key=lambda each: each[1] != view.chosen[1]):
            run = _label(numbers.context(context), context == view.chosen[1])
            left, width = self.cells.column_span(column)
            x = _LABELS + left + (width - runs_width([run])) / 2
            end = x + runs_width([run])
            if any(x < other_end + 3 and other < end + 3 for other, other_end in taken):
                continue
            taken.append((x, end))
            draw_runs(painter, x, centred_baseline(run.font, 0, _HEADER - 1), [run])

    def _paint_formats(self, painter: QPainter, view: HeatView) -> None:
        for place, row in enumerate(view.rows):
            run = _label(row.label, row.key == view.chosen[0])
            top = _HEADER + place * self._row_px
            draw_runs(painter, 0, centred_baseline(run.font, top, self._row_px), [run])

    def _paint_legend(self, painter: QPainter, view: HeatView) -> None:
        colors = theme.palette()
        font = theme.font("micro")
        baseline = centred_baseline(font, self.height() - _LEGEND + 3, _LEGEND - 3)
        draw_runs(painter, _LABELS, baseline, [Run(tr("tok/s, context half full"), font, colors.text3)])
        present = {cell.fit for row in view.rows for cell in row.cells}
        right = float(self.width())
        for fit in [fit for fit in reversed(_LEGEND_WORDS) if fit in present]:
            run = Run(tr(_LEGEND_WORDS[fit]), font, colors.text3)
            left = draw_runs_right(painter, right, baseline, [run])
            box = QRectF(left - 11.5, baseline - 7.5, 7, 7)
            painter.setPen(QPen(getattr(colors, FIT_TOKENS[fit]), 1))
            painter.setBrush(getattr(colors, _GROUNDS[fit]))
            painter.drawRoundedRect(box, 2, 2)
            right = left - 20

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._place_cells()


class HeatModel(QAbstractTableModel):
    """The places of a view; a screen reader is told them one by one."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.rows: tuple[HeatRow, ...] = ()

    def set_rows(self, rows: tuple[HeatRow, ...]) -> None:
        """Show these; where their shape stays, places keep the keyboard."""
        is_reshaped = [len(row.cells) for row in rows] != [len(row.cells) for row in self.rows]
        if is_reshaped:
            self.beginResetModel()
        self.rows = rows
        if is_reshaped:
            self.endResetModel()
        elif rows:
            self.dataChanged.emit(self.index(0, 0), self.index(len(rows) - 1, self.columnCount() - 1))

    def place(self, format: str, context: int) -> QModelIndex:
        """Where a format and a context are; no valid index where they are not."""
        for row, each in enumerate(self.rows):
            for column, cell in enumerate(each.cells):
                if (each.key, cell.context) == (format, context):
                    return self.index(row, column)
        return QModelIndex()

    def rowCount(self, parent: Index | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(self.rows)

    def columnCount(self, parent: Index | None = None) -> int:
        is_inner = parent is not None and parent.isValid()
        return 0 if is_inner or not self.rows else len(self.rows[0].cells)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        row = self.rows[index.row()]
        cell = row.cells[index.column()]
        if role == Qt.ItemDataRole.DisplayRole:
            return numbers.UNKNOWN if cell.fit == "no" else numbers.predicted_tps(cell.tps)
        if role in (Qt.ItemDataRole.AccessibleTextRole, Qt.ItemDataRole.ToolTipRole):
            return _sentence(row, cell)
        return (row, cell) if role == _PLACE else None


class HeatCells(QTableView):
    """The cells. ``chosen`` carries format and context of a click or of Enter."""

    chosen = Signal(str, int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.heat = HeatModel(self)
        self.has_ring = False
        self.chosen_place = self.loaded_place = ("", 0)
        self.setModel(self.heat)
        self.setItemDelegate(_CellDelegate(self))
        self.setAccessibleName(tr("Fit and speed by precision and context"))
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setShowGrid(False)
        self.setTabKeyNavigation(False)
        self.setSelectionMode(QAbstractItemView.SelectionMode.NoSelection)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        for header in (self.horizontalHeader(), self.verticalHeader()):
            header.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
            header.setMinimumSectionSize(1)
            header.hide()
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.viewport().setAutoFillBackground(False)
        self.setMouseTracking(True)
        self.clicked.connect(self._choose)
        theme.notifier().changed.connect(self.viewport().update)

    def set_view(self, view: HeatView | None) -> None:
        """Show the cells; the keyboard begins at the chosen one."""
        self.heat.set_rows(view.rows if view is not None else ())
        if view is not None:
            self.chosen_place, self.loaded_place = view.chosen, view.loaded
        place = self.heat.place(*self.chosen_place)
        if not self.hasFocus() or not self.currentIndex().isValid():
            self.setCurrentIndex(place if place.isValid() else self.heat.index(0, 0))
        self.viewport().update()

    def fit_sections(self, row_px: int) -> None:
        """Share the width among the columns to the pixel."""
        columns = self.heat.columnCount()
        ends = [round(self.width() * place / columns) for place in range(columns + 1)] if columns else []
        for column, (start, end) in enumerate(pairwise(ends)):
            self.setColumnWidth(column, end - start)
        for row in range(self.heat.rowCount()):
            self.setRowHeight(row, row_px)

    def column_span(self, column: int) -> tuple[int, int]:
        """Left edge and width of a column."""
        return self.columnViewportPosition(column), self.columnWidth(column)

    def _choose(self, index: QModelIndex) -> None:
        place = index.data(_PLACE)
        if place is not None:
            row, cell = place
            self.chosen.emit(row.key, cell.context)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        is_plain = not event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space) and is_plain:
            self._choose(self.currentIndex())
        elif event.text().strip():
            event.ignore()  # letters go to the composer, they look for nothing here
        else:
            super().keyPressEvent(event)

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()  # it scrolls the panel

    def focusInEvent(self, event: QFocusEvent) -> None:
        self.has_ring = is_keyboard_focus(event, self.has_ring)
        super().focusInEvent(event)
        self.viewport().update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.viewport().update()

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self.viewport().update()


class _CellDelegate(QStyledItemDelegate):
    """Paints one cell on the ground of its fit."""

    def __init__(self, cells: HeatCells) -> None:
        super().__init__(cells)
        self._cells = cells

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        row, cell = index.data(_PLACE)
        colors = theme.palette()
        box = QRectF(option.rect).adjusted(_GAP / 2, _GAP / 2, -_GAP / 2, -_GAP / 2)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        shape = rounded(box, _RADIUS)
        painter.fillPath(shape, getattr(colors, _GROUNDS[cell.fit]))
        if cell.fit == "no":
            hatch(painter, shape, colors.bad_line, 5)
        elif cell.fit != "fits":
            _paint_notch(painter, box, shape, colors.warn_fill)
        place = (row.key, cell.context)
        self._paint_text(painter, box, index.data(), place)
        self._paint_outline(painter, box, place, option, index)
        painter.restore()

    def _paint_text(self, painter: QPainter, box: QRectF, text: str, place: tuple[str, int]) -> None:
        font = theme.font("micro", 600 if place == self._cells.chosen_place else 500)
        run = Run(text, font, theme.palette().text1)
        x = box.center().x() - runs_width([run]) / 2
        draw_runs(painter, x, centred_baseline(font, box.top(), box.height()), [run])

    def _paint_outline(
        self,
        painter: QPainter,
        box: QRectF,
        place: tuple[str, int],
        option: QStyleOptionViewItem,
        index: Index,
    ) -> None:
        colors = theme.palette()
        has_keyboard = self._cells.has_ring and self._cells.hasFocus()
        is_focused = has_keyboard and index == self._cells.currentIndex()
        inset = 3.0 if is_focused else 0.75
        if place == self._cells.chosen_place:
            pen = QPen(colors.accent, 1.5)
        elif place == self._cells.loaded_place:
            pen = dashed_pen(colors.accent)
        elif option.state & QStyle.StateFlag.State_MouseOver:
            pen = QPen(colors.text2, 1)
        else:
            pen = QPen(Qt.PenStyle.NoPen)
        painter.setPen(pen)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(box.adjusted(inset, inset, -inset, -inset), _RADIUS, _RADIUS)
        if is_focused:
            theme.draw_focus_ring(painter, box.adjusted(-1, -1, 1, 1), _RADIUS)


def _paint_notch(painter: QPainter, box: QRectF, shape: QPainterPath, color: QColor) -> None:
    """A small triangle in the upper right corner."""
    notch = QPainterPath(box.topRight())
    notch.lineTo(box.right() - _NOTCH, box.top())
    notch.lineTo(box.right(), box.top() + _NOTCH)
    notch.closeSubpath()
    painter.fillPath(notch.intersected(shape), color)


def _label(text: str, is_strong: bool) -> Run:
    colors = theme.palette()
    ink = colors.text1 if is_strong else colors.text3
    return Run(text, theme.font("micro", 600 if is_strong else 400), ink)


def _sentence(row: HeatRow, cell: HeatCell) -> str:
    parts = [row.label, numbers.context(cell.context), tr(FIT_WORDS[cell.fit])]
    if cell.fit != "no" and cell.tps is not None:
        parts.append(tr("{speed} tok/s").format(speed=numbers.predicted_tps(cell.tps)))
    return ", ".join(parts)
