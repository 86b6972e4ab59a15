"""The popup in which commands are found by their words and given. Knows no command by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import QAbstractListModel, QEvent, QModelIndex, QObject, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QFontMetricsF, QKeyEvent, QPainter
from PySide6.QtWidgets import (
    QApplication,
    QFrame,
    QListView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from engine.words import tr
from ui import theme
from ui.card import Card
from ui.commands import Command
from ui.label import Label, key_text
from ui.library_field import Field
from ui.picker import Index
from ui.popup import Popup

COMMAND_ROLE = Qt.ItemDataRole.UserRole + 1
WIDTH, ROW_PX, MOST_ROWS, TOP = 520, 36, 10, 72
_MOVES = {
    Qt.Key.Key_Down: 1,
    Qt.Key.Key_Up: -1,
    Qt.Key.Key_PageDown: MOST_ROWS,
    Qt.Key.Key_PageUp: -MOST_ROWS,
}


def found(commands: Sequence[Command], query: str) -> list[Command]:
    """Commands whose name or group has all words: those that can be given first, then those that begin so."""
    words = query.casefold().split()

    def matches(command: Command) -> bool:
        text = f"{tr(command.group)} {command.name}".casefold()
        return command.is_named and all(word in text for word in words)

    def rank(command: Command) -> tuple[bool, bool]:
        begins = command.name.casefold().startswith(query.strip().casefold())
        return not command.is_enabled(), not begins

    return sorted(filter(matches, commands), key=rank)


class _Commands(QAbstractListModel):
    """The commands that were found."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.rows: list[Command] = []

    def set_rows(self, rows: list[Command]) -> None:
        self.beginResetModel()
        self.rows = rows
        self.endResetModel()

    def rowCount(self, parent: Index | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(self.rows)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        command = self.rows[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            return command.name
        if role == Qt.ItemDataRole.AccessibleTextRole:
            state = "" if command.is_enabled() else tr("not now")
            keys = key_text(command.keys) if command.keys else ""
            parts = (command.name, tr(command.group), keys, state)
            return ", ".join(part for part in parts if part)
        return command if role == COMMAND_ROLE else None


class _RowDelegate(QStyledItemDelegate):
    """Paints a command: its name, its group and its key."""

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        command, colors = index.data(COMMAND_ROLE), theme.palette()
        body = QRectF(option.rect).adjusted(0, 1, 0, -1)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if option.state & (QStyle.StateFlag.State_Selected | QStyle.StateFlag.State_MouseOver):
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colors.bg3)
            painter.drawRoundedRect(body, 6, 6)
        is_on = command.is_enabled()
        keys = key_text(command.keys).replace("+", " ") if command.keys else ""
        right, middle = body.adjusted(12, 0, -12, 0), int(Qt.AlignmentFlag.AlignVCenter)
        for words, font in ((keys, theme.font("micro", 600)), (tr(command.group), theme.font("small"))):
            painter.setFont(font)
            painter.setPen(colors.text3)
            if words:
                painter.drawText(right, middle | int(Qt.AlignmentFlag.AlignRight), words)
                right.setRight(right.right() - QFontMetricsF(font).horizontalAdvance(words) - 12)
        font = theme.font("ui", 500)
        painter.setFont(font)
        painter.setPen(colors.text1 if is_on else colors.text3)
        name = QFontMetricsF(font).elidedText(command.name, Qt.TextElideMode.ElideRight, right.width())
        painter.drawText(right, middle, name)
        painter.restore()

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        return QSize(200, ROW_PX)


class CommandPalette(Popup):
    """The keyboard stays in the line; Up and Down move in the list, Enter gives the command and Esc gives the
    keyboard back to where it was. ``given`` carries the Command, once the palette is gone.
    """

    given = Signal(object)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._commands: Sequence[Command] = ()
        self._before: QWidget | None = None
        self.setAccessibleName(tr("Commands"))
        self.field = Field("search", tr("Find a command"), tr("Find a command"))
        self.list = QListView()
        self._rows = _Commands(self)
        self._none = Label(tr("No command has these words."), "ui", "text2")
        self._none.setContentsMargins(12, 8, 12, 8)
        self._build()
        self.closed.connect(self._give_keyboard_back)

    def _build(self) -> None:
        view = self.list
        view.setModel(self._rows)
        view.setItemDelegate(_RowDelegate(view))
        view.setFrameShape(QFrame.Shape.NoFrame)
        view.setMouseTracking(True)
        view.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # the line keeps the keyboard
        view.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        view.viewport().setAutoFillBackground(False)
        view.setAccessibleName(tr("Commands"))
        view.clicked.connect(self._give)
        self.field.typed.connect(self._find)
        self.field.line.installEventFilter(self)
        column = self._column = QVBoxLayout(self.panel)
        edge = Card.SHADOW + 8
        column.setContentsMargins(edge, edge, edge, edge)
        column.setSpacing(8)
        for widget in (self.field, view, self._none):
            column.addWidget(widget)

    def open_with(self, commands: Sequence[Command]) -> None:
        """Open with all of them listed."""
        self._commands = commands
        if not self.isVisible():
            self._before = QApplication.focusWidget()
        self.field.set_text("")
        self._find("")
        self.open_under(QRect())

    def focus_region(self) -> None:
        self.field.setFocus(Qt.FocusReason.PopupFocusReason)

    def _give_keyboard_back(self) -> None:
        if self._before is not None:
            self._before.setFocus(Qt.FocusReason.PopupFocusReason)

    def _find(self, query: str) -> None:
        self._rows.set_rows(found(self._commands, query))
        count = len(self._rows.rows)
        self.list.setVisible(count > 0)
        self._none.setVisible(not count)
        if count:
            self.list.setCurrentIndex(self._rows.index(0))
        self.place()

    def place(self) -> None:
        shadow = Card.SHADOW
        room = max(1, (self.height() - TOP - 120) // ROW_PX)
        self.list.setFixedHeight(min(MOST_ROWS, room, max(1, len(self._rows.rows))) * ROW_PX)
        width = min(WIDTH, self.width() - 32) + 2 * shadow
        self._column.invalidate()
        height = self._column.sizeHint().height()
        self.panel.setGeometry((self.width() - width) // 2, TOP - shadow, width, height)

    def _give(self, index: QModelIndex) -> None:
        command = index.data(COMMAND_ROLE)
        if isinstance(command, Command) and command.is_enabled():
            self.close_popup()
            self.given.emit(command)

    def _move(self, by: int) -> None:
        count = len(self._rows.rows)
        if count:
            at = max(0, self.list.currentIndex().row())
            target = (at + by) % count if abs(by) == 1 else max(0, min(count - 1, at + by))
            self.list.setCurrentIndex(self._rows.index(target))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if isinstance(event, QKeyEvent) and watched is self.field.line:
            return self._on_key(event)
        return super().eventFilter(watched, event)

    def _on_key(self, event: QKeyEvent) -> bool:
        """Keys of the line that are the palette's."""
        key = Qt.Key(event.key())
        if event.type() == QEvent.Type.ShortcutOverride and (key in _MOVES or key == Qt.Key.Key_Escape):
            event.accept()
            return True
        if event.type() != QEvent.Type.KeyPress:
            return False
        if key == Qt.Key.Key_Escape:
            self.close_popup()
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._give(self.list.currentIndex())
        elif key in _MOVES:
            self._move(_MOVES[key])
        else:
            return False
        return True
