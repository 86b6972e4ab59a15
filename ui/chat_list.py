"""The list of chats: its model, its rows and renaming in place. Knows no database: it shows and emits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from PySide6.QtCore import (
    QAbstractItemModel,
    QAbstractListModel,
    QEvent,
    QModelIndex,
    QPersistentModelIndex,
    QPoint,
    QPointF,
    QRect,
    QRectF,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import (
    QAction,
    QContextMenuEvent,
    QFocusEvent,
    QFontMetricsF,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QLineEdit,
    QListView,
    QMenu,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from ui import theme
from ui.label import one_line, plain_tooltip
from ui.painting import with_alpha
from ui.values import ChatRow

Index = QModelIndex | QPersistentModelIndex
ROW_ROLE = Qt.ItemDataRole.UserRole + 1  # the ChatRow, or None for a heading
ROW_WIDTH, ROW_HEIGHT, HEADING_HEIGHT = 216, 48, 32
MAX_TITLE = 200  # characters; what a person can still read in a row


class ChatListModel(QAbstractListModel):
    """Chats under their headings. ``renamed`` carries (chat id, new title)."""

    renamed = Signal(str, str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._entries: list[ChatRow | str] = []
        self.current_id: str | None = None

    def set_rows(self, rows: Sequence[ChatRow], current_id: str | None) -> None:
        """Show these chats. Where only texts changed, no row is rebuilt, so that focus and scrolling stay."""
        self.current_id = current_id
        entries: list[ChatRow | str] = []
        group = None
        for row in rows:
            if row.group != group:
                group = row.group
                entries.append(group)
            entries.append(row)
        if [_key(entry) for entry in entries] == [_key(entry) for entry in self._entries]:
            self._entries = entries
            if entries:
                self.dataChanged.emit(self.index(0), self.index(len(entries) - 1))
            return
        self.beginResetModel()
        self._entries = entries
        self.endResetModel()

    def chat_ids(self) -> list[str]:
        """The chats from top to bottom."""
        return [entry.chat_id for entry in self._entries if isinstance(entry, ChatRow)]

    def index_of(self, chat_id: str | None) -> QModelIndex:
        """The row of a chat; an invalid index where it is not listed."""
        for place, entry in enumerate(self._entries):
            if isinstance(entry, ChatRow) and entry.chat_id == chat_id:
                return self.index(place)
        return QModelIndex()

    def rename(self, index: QModelIndex, text: str) -> None:
        """Take a new title, its white space made single; an empty one or the old one changes nothing."""
        entry = self._entries[index.row()] if index.isValid() else None
        title = " ".join(text.split())[:MAX_TITLE]
        if not isinstance(entry, ChatRow) or title in ("", entry.title):
            return
        self._entries[index.row()] = replace(entry, title=title)
        self.dataChanged.emit(index, index)
        self.renamed.emit(entry.chat_id, title)

    def rowCount(self, parent: Index | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(self._entries)

    def flags(self, index: Index) -> Qt.ItemFlag:
        if not index.isValid() or not isinstance(self._entries[index.row()], ChatRow):
            return Qt.ItemFlag.NoItemFlags
        return Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsEditable

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        entry = self._entries[index.row()]
        if not isinstance(entry, ChatRow):
            return entry if role == Qt.ItemDataRole.DisplayRole else None
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.EditRole):
            return entry.title
        if role == Qt.ItemDataRole.AccessibleTextRole:
            writing = "an answer is being written" if entry.is_writing else ""
            parts = (entry.title, entry.detail.replace(" · ", ", "), writing)
            return ", ".join(part for part in parts if part)
        if role == Qt.ItemDataRole.ToolTipRole:
            writing = "\nAn answer is being written" if entry.is_writing else ""
            return plain_tooltip(one_line(entry.title) + writing).replace("\n", "<br>")
        return entry if role == ROW_ROLE else None


def _key(entry: ChatRow | str) -> tuple[str, str]:
    return ("chat", entry.chat_id) if isinstance(entry, ChatRow) else ("heading", entry)


class ChatRowDelegate(QStyledItemDelegate):
    """Paints headings and rows, and edits a title where it stands."""

    def __init__(self, view: ChatList) -> None:
        super().__init__(view)
        self._view = view

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        row = index.data(ROW_ROLE)
        area = _row_area(option.rect)
        if row is None:
            self._paint_heading(painter, area, index.data())
        else:
            self._paint_row(painter, area, row, option.state)
        painter.restore()

    def _paint_heading(self, painter: QPainter, area: QRect, text: str) -> None:
        painter.setFont(theme.font("small", 600))
        painter.setPen(theme.palette().text3)
        flags = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignBottom
        painter.drawText(area.adjusted(12, 0, -12, -6), int(flags), text)

    def _paint_row(self, painter: QPainter, area: QRect, row: ChatRow, state: QStyle.StateFlag) -> None:
        colors = theme.palette()
        model = self._view.chats
        is_open = row.chat_id == model.current_id
        is_hovered = bool(state & QStyle.StateFlag.State_MouseOver)
        body = QRectF(area.adjusted(0, 1, 0, -1))
        if is_open or is_hovered:
            ground = colors.bg3 if is_open else colors.bg2 if theme.is_dark() else colors.bg3
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(ground)
            painter.drawRoundedRect(body, 8, 8)
        if is_open:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colors.accent)
            painter.drawRoundedRect(QRectF(body.left(), body.center().y() - 10, 3, 20), 1.5, 1.5)
        if bool(state & QStyle.StateFlag.State_HasFocus) and self._view.has_keyboard_focus:
            theme.draw_focus_ring(painter, body, 8)
        has_menu = is_open or is_hovered
        self._paint_texts(painter, area, row, has_menu=has_menu)
        if has_menu:
            theme.draw_icon(painter, _menu_icon(area), "ellipsis", colors.text2)
        if row.is_writing:
            _paint_dot(painter, QPointF(area.right() - 16.5, area.top() + 33))

    def _paint_texts(self, painter: QPainter, area: QRect, row: ChatRow, *, has_menu: bool) -> None:
        colors = theme.palette()
        lines = (
            (row.title, theme.font("ui", 600), colors.text1, 5, 20, 40 if has_menu else 12),
            (row.detail, theme.font("small"), colors.text3, 25, 16, 36 if row.is_writing else 12),
        )
        for text, font, color, top, height, right in lines:
            box = QRectF(area.left() + 12, area.top() + top, area.width() - 12 - right, height)
            elided = QFontMetricsF(font).elidedText(one_line(text), Qt.TextElideMode.ElideRight, box.width())
            painter.setFont(font)
            painter.setPen(color)
            painter.drawText(box, int(Qt.AlignmentFlag.AlignVCenter), elided)

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        if index.data(ROW_ROLE) is not None:
            return QSize(ROW_WIDTH, ROW_HEIGHT)
        return QSize(ROW_WIDTH, HEADING_HEIGHT if index.row() else HEADING_HEIGHT - 4)

    def createEditor(self, parent: QWidget, option: QStyleOptionViewItem, index: Index) -> QWidget:
        editor = QLineEdit(parent)
        editor.setObjectName("rename")
        editor.setAccessibleName("Chat title")
        editor.setMaxLength(MAX_TITLE)
        editor.setFont(theme.font("ui", 600))
        editor.setFrame(False)
        colors = theme.palette()
        editor.setStyleSheet(
            f"QLineEdit {{ background: {colors.bg0.name()}; color: {colors.text1.name()}; padding: 0 6px;"
            f" border: 2px solid {colors.accent.name()}; border-radius: 6px; }}"
        )
        return editor

    def setModelData(self, editor: QWidget, model: QAbstractItemModel, index: Index) -> None:
        if isinstance(editor, QLineEdit):
            self._view.chats.rename(self._view.chats.index(index.row()), editor.text())

    def updateEditorGeometry(self, editor: QWidget, option: QStyleOptionViewItem, index: Index) -> None:
        editor.setGeometry(_row_area(option.rect).adjusted(3, 8, -3, -8))

    def editorEvent(
        self, event: QEvent, model: QAbstractItemModel, option: QStyleOptionViewItem, index: Index
    ) -> bool:
        if isinstance(event, QMouseEvent) and event.type() == QEvent.Type.MouseButtonRelease:
            area = _row_area(option.rect)
            if index.data(ROW_ROLE) is not None and _menu_target(area).contains(event.position().toPoint()):
                self._view.show_menu(self._view.chats.index(index.row()), event.globalPosition().toPoint())
                return True
        return super().editorEvent(event, model, option, index)


class ChatList(QListView):
    """The chats with the keyboard: Up, Down, Enter opens, F2 renames, Del asks for deletion.

    Signals carry chat ids; ``chat_renamed`` the new title too.
    """

    chat_selected = Signal(str)
    chat_renamed = Signal(str, str)
    chat_delete_requested = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.chats = ChatListModel(self)
        self.has_keyboard_focus = False
        self._waiting: tuple[Sequence[ChatRow], str | None] | None = None
        self.setModel(self.chats)
        self.setItemDelegate(ChatRowDelegate(self))
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setMouseTracking(True)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setAccessibleName("Chats")
        self.viewport().setAutoFillBackground(False)
        self.chats.renamed.connect(self.chat_renamed)
        theme.notifier().changed.connect(self.viewport().update)

    def set_rows(self, rows: Sequence[ChatRow], current_id: str | None) -> None:
        """Show these chats. No row moves under the pointer: a new order of the same chats waits for that."""
        same = sorted(self.chats.chat_ids()) == sorted(row.chat_id for row in rows)
        if same and self.underMouse() and self.chats.chat_ids() != [row.chat_id for row in rows]:
            self._waiting = (rows, current_id)
            places = {chat_id: place for place, chat_id in enumerate(self.chats.chat_ids())}
            groups = [self.chats.data(self.chats.index_of(i), ROW_ROLE).group for i in places]
            kept = sorted(rows, key=lambda row: places[row.chat_id])
            rows = [replace(row, group=group) for row, group in zip(kept, groups, strict=True)]
        else:
            self._waiting = None
        self._show(rows, current_id)

    def put_in_order(self) -> None:
        """Take on the order that waited for the pointer to leave."""
        if self._waiting is not None:
            rows, current_id = self._waiting
            self._waiting = None
            self._show(rows, current_id)

    def _show(self, rows: Sequence[ChatRow], current_id: str | None) -> None:
        focused = self._current_id()
        self.chats.set_rows(rows, current_id)
        if focused is not None and self._current_id() != focused:
            self.setCurrentIndex(self.chats.index_of(focused))

    def show_menu(self, index: QModelIndex, position: QPoint) -> None:
        """The row's menu: Rename and Delete."""
        self.setCurrentIndex(index)
        menu = QMenu(self)
        rename = QAction("Rename", menu)
        rename.setShortcut(QKeySequence(Qt.Key.Key_F2))
        rename.triggered.connect(lambda: self.rename(index))
        delete = QAction("Delete", menu)
        delete.setShortcut(QKeySequence(Qt.Key.Key_Delete))
        delete.triggered.connect(self._request_delete)
        menu.addActions([rename, delete])
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(position)

    def rename(self, index: QModelIndex) -> None:
        """Edit the title where it stands; Enter keeps it, Esc drops it."""
        if index.isValid():
            self.scrollTo(index)
            self.edit(index)

    def _current_id(self) -> str | None:
        row = self.currentIndex().data(ROW_ROLE)
        return row.chat_id if isinstance(row, ChatRow) else None

    def _request_delete(self) -> None:
        chat_id = self._current_id()
        if chat_id is not None:
            self.chat_delete_requested.emit(chat_id)

    def _open_current(self) -> None:
        chat_id = self._current_id()
        if chat_id is not None:
            self.chat_selected.emit(chat_id)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        self.has_keyboard_focus = True
        if self.state() == QAbstractItemView.State.EditingState:
            return  # the Enter that ends a rename reaches the list too, and must not open the chat
        key = event.key()
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._open_current()
        elif key == Qt.Key.Key_F2:
            self.rename(self.currentIndex())
        elif key == Qt.Key.Key_Delete:
            self._request_delete()
        elif event.text() and event.text().isprintable() and not event.text().isspace():
            event.ignore()  # letters belong to the composer, not to Qt's search by typing
        else:
            super().keyPressEvent(event)
        self.viewport().update()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.has_keyboard_focus = False
        super().mousePressEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        index = self.indexAt(event.position().toPoint())
        pressed = self.currentIndex()
        super().mouseReleaseEvent(event)
        is_left = event.button() == Qt.MouseButton.LeftButton
        if is_left and index.isValid() and index == pressed and not self._is_menu(index, event):
            self._open_current()

    def _is_menu(self, index: QModelIndex, event: QMouseEvent) -> bool:
        return _menu_target(_row_area(self.visualRect(index))).contains(event.position().toPoint())

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        by_key = event.reason() == QContextMenuEvent.Reason.Keyboard
        index = self.currentIndex() if by_key else self.indexAt(event.pos())
        if index.data(ROW_ROLE) is not None:
            corner = self.viewport().mapToGlobal(self.visualRect(index).center())
            self.show_menu(index, corner if by_key else event.globalPos())

    def focusInEvent(self, event: QFocusEvent) -> None:
        self.has_keyboard_focus = event.reason() != Qt.FocusReason.MouseFocusReason
        if not self.currentIndex().isValid() and self.chats.chat_ids():
            first = self.chats.index_of(self.chats.current_id)
            self.setCurrentIndex(first if first.isValid() else self.chats.index_of(self.chats.chat_ids()[0]))
        super().focusInEvent(event)

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self.put_in_order()


def _row_area(rect: QRect) -> QRect:
    return QRect(rect.left(), rect.top(), ROW_WIDTH, rect.height())


def _menu_icon(area: QRect) -> QRectF:
    return QRectF(area.right() - 25, area.top() + 7, 16, 16)


def _menu_target(area: QRect) -> QRect:
    return QRect(area.right() - 33, area.top() + 1, 32, 28)


def _paint_dot(painter: QPainter, center: QPointF) -> None:
    colors = theme.palette()
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(with_alpha(colors.accent, 0.28))
    painter.drawEllipse(center, 6.0, 6.0)
    painter.setBrush(colors.accent)
    painter.drawEllipse(center, 3.0, 3.0)
