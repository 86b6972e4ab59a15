"""Lists of models in one look: what a row says, its fit mark, and buttons that are painted, not widgets.

Two hundred rows cost as much as the few that are seen. Rows come in as values, wishes leave as signals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from PySide6.QtCore import (
    QAbstractListModel,
    QModelIndex,
    QPersistentModelIndex,
    QPoint,
    QRect,
    QRectF,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import QContextMenuEvent, QHelpEvent, QKeyEvent, QMouseEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QHBoxLayout,
    QListView,
    QMenu,
    QSizePolicy,
    QToolTip,
    QVBoxLayout,
    QWidget,
)

from engine.words import tr
from ui import theme
from ui.card import Card
from ui.label import plain_tooltip
from ui.library_painting import MORE, ROW_HEIGHT, ROW_ROLE, Places, RowDelegate, button_width, place_row
from ui.library_values import NO_MARK, FitMark

Index = QModelIndex | QPersistentModelIndex
_WORDS_WIDTH = 520  # px


@dataclass(frozen=True, slots=True)
class RowAction:
    """A button of a row, or an entry of its menu."""

    key: str
    label: str
    icon: str = ""
    is_primary: bool = False
    tooltip: str = ""

    def translated(self) -> RowAction:
        """A constant one in the chosen language."""
        return replace(self, label=tr(self.label), tooltip=tr(self.tooltip))


@dataclass(frozen=True, slots=True)
class Row:
    """What a row shows. ``warning`` stands in place of the detail; ``state`` in place of the button."""

    key: str
    title: str
    detail: str = ""
    tag: str = ""  # beside the title: where it lies
    fit: FitMark = NO_MARK
    warning: str = ""
    state: str = ""  # "Loaded"
    is_loaded: bool = False
    action: RowAction | None = None
    menu: tuple[RowAction, ...] = ()
    tooltip: str = ""
    icon: str = ""

    @property
    def sentence(self) -> str:
        """For screen readers: all of it."""
        fit = " ".join(part for part in (self.fit.title, self.fit.speed, self.fit.trust) if part)
        parts = (self.title, self.tag, self.warning or self.detail, fit, self.state)
        return ", ".join(part for part in parts if part)


class RowModel(QAbstractListModel):
    """The rows, in the order given."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.rows: tuple[Row, ...] = ()
        self.slot = 0.0  # px that every row leaves for its button, so that fit marks stand in one column

    def set_rows(self, rows: Sequence[Row]) -> None:
        """Show these; where the keys are the same, only what changed is painted again."""
        rows = tuple(rows)
        if rows == self.rows:
            return
        self.slot = max((button_width(row) for row in rows), default=0.0)
        if [row.key for row in rows] == [row.key for row in self.rows]:
            changed = [place for place, row in enumerate(rows) if row != self.rows[place]]
            self.rows = rows
            for place in changed:
                self.dataChanged.emit(self.index(place), self.index(place))
            return
        self.beginResetModel()
        self.rows = rows
        self.endResetModel()

    def rowCount(self, parent: Index | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(self.rows)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        row = self.rows[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            return row.title
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return row.sentence
        if role == Qt.ItemDataRole.AccessibleDescriptionRole:
            return row.action.label if row.action else ""
        return row if role == ROW_ROLE else None


def framed(rows: RowList) -> QWidget:
    """A list on a card that is as high as its rows; where there is less room the list scrolls."""
    page, card = QWidget(), Card("bg1")
    card.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Maximum)
    inner = QVBoxLayout(card)
    inner.setContentsMargins(1, 6, 1, 6)
    inner.addWidget(rows)
    column = QVBoxLayout(page)
    column.setContentsMargins(0, 0, 0, 0)
    column.setSpacing(0)
    column.addWidget(card)
    column.addStretch(1)
    return page


def in_the_middle(words: QWidget) -> QHBoxLayout:
    """A few sentences in place of a list, in a column that is easy to read."""
    words.setFixedWidth(_WORDS_WIDTH)
    across = QHBoxLayout()
    across.addStretch(1)
    across.addWidget(words)
    across.addStretch(1)
    return across


class RowList(QListView):
    """``triggered`` carries a row's key and the action's: of its button, of its menu, or by a key of the
    keyboard (Enter: the button, Delete: the menu's "delete", the menu key: all of the menu).
    """

    triggered = Signal(str, str)

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.model_ = RowModel(self)
        self.setModel(self.model_)
        self.setItemDelegate(RowDelegate(self))
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setMouseTracking(True)
        self.setUniformItemSizes(True)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Maximum)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setAccessibleName(name)
        self.viewport().setAutoFillBackground(False)
        self.hovered: tuple[int, str] = (-1, "")  # a row, and which of its buttons
        theme.notifier().changed.connect(self.viewport().update)

    def set_rows(self, rows: Sequence[Row]) -> None:
        """Show these; the row that was current stays so where its key is still there."""
        current = self.current_key()
        self.model_.set_rows(rows)
        self.updateGeometry()
        keys = [row.key for row in self.model_.rows]
        if current in keys and self.current_key() != current:
            self.setCurrentIndex(self.model_.index(keys.index(current)))

    def current_key(self) -> str:
        """The key of the row under the keyboard, "" where there is none."""
        row = self.currentIndex().data(ROW_ROLE)
        return row.key if isinstance(row, Row) else ""

    def focus_first(self) -> None:
        """Give the keyboard to the list, and to its first row where none has it."""
        if not self.currentIndex().isValid() and self.model_.rows:
            self.setCurrentIndex(self.model_.index(0))
        self.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def places_of(self, index: QModelIndex) -> Places:
        """Where the parts of a row are, in coordinates of the viewport."""
        row = index.data(ROW_ROLE)
        assert isinstance(row, Row)
        return place_row(QRectF(self.visualRect(index)), row, self.model_.slot)

    def open_menu(self, index: QModelIndex, at: QPoint) -> None:
        """The menu of a row at a place of the screen."""
        row = index.data(ROW_ROLE)
        if not isinstance(row, Row) or not row.menu:
            return
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        for action in row.menu:
            entry = menu.addAction(action.label)
            entry.triggered.connect(lambda _=False, key=action.key: self.triggered.emit(row.key, key))
        menu.popup(at)

    def _button_at(self, at: QPoint) -> tuple[QModelIndex, str]:
        index = self.indexAt(at)
        if not index.isValid():
            return index, ""
        places = self.places_of(index)
        point = at.toPointF()
        if places.more is not None and places.more.contains(point):
            return index, MORE
        row = index.data(ROW_ROLE)
        is_button = places.button is not None and places.button.contains(point)
        return index, row.action.key if is_button and row.action else ""

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        index, key = self._button_at(event.position().toPoint())
        if (index.row(), key) != self.hovered:
            self.hovered = (index.row(), key)
            hand = Qt.CursorShape.PointingHandCursor if key else Qt.CursorShape.ArrowCursor
            self.viewport().setCursor(hand)
            self.viewport().update()
        super().mouseMoveEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        index, key = self._button_at(event.position().toPoint())
        if event.button() != Qt.MouseButton.LeftButton or not key:
            return
        if key == MORE:
            more = self.places_of(index).more
            assert more is not None
            self.open_menu(index, self.viewport().mapToGlobal(more.bottomLeft().toPoint()))
        else:
            self.triggered.emit(index.data(ROW_ROLE).key, key)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """A double click is no second press of a button."""
        event.accept()

    def leaveEvent(self, event: Any) -> None:
        self.hovered = (-1, "")
        self.viewport().update()
        super().leaveEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        is_key = event.reason() == QContextMenuEvent.Reason.Keyboard
        index = self.currentIndex() if is_key else self.indexAt(event.pos())
        if index.isValid():
            rect: QRect = self.visualRect(index)
            local = rect.center() if is_key else event.pos()
            self.open_menu(index, self.viewport().mapToGlobal(local))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        row = self.currentIndex().data(ROW_ROLE)
        if isinstance(row, Row) and event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            if row.action is not None:
                self.triggered.emit(row.key, row.action.key)
            return
        if isinstance(row, Row) and event.key() == Qt.Key.Key_Delete:
            if any(action.key == "delete" for action in row.menu):
                self.triggered.emit(row.key, "delete")
            return
        super().keyPressEvent(event)

    def viewportEvent(self, event: Any) -> bool:
        if isinstance(event, QHelpEvent):
            self._show_tooltip(event)
            return True
        return super().viewportEvent(event)

    def _show_tooltip(self, event: QHelpEvent) -> None:
        index = self.indexAt(event.pos())
        row = index.data(ROW_ROLE)
        if not isinstance(row, Row):
            QToolTip.hideText()
            return
        places, at = self.places_of(index), event.pos().toPointF()
        texts: tuple[str, ...] = (row.warning or row.detail, row.tooltip)
        if row.action is not None and places.button is not None and places.button.contains(at):
            texts = (row.action.tooltip or row.action.label,)
        elif places.fit is not None and places.fit.contains(at):
            texts = (row.fit.title, row.fit.tooltip)
        QToolTip.showText(event.globalPos(), plain_tooltip(*texts), self)

    def sizeHint(self) -> QSize:
        return QSize(480, ROW_HEIGHT * len(self.model_.rows))
