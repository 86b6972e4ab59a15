"""The list of chats: keys, pointer and menus. Knows no database: it shows and emits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from PySide6.QtCore import QEvent, QModelIndex, QPoint, Qt, Signal
from PySide6.QtGui import QAction, QContextMenuEvent, QFocusEvent, QKeyEvent, QKeySequence, QMouseEvent
from PySide6.QtWidgets import QAbstractItemView, QFrame, QListView, QMenu, QWidget

from engine.words import mark, tr
from ui import theme
from ui.chat_list_model import ROW_ROLE, ChatListModel
from ui.chat_row import ChatRowDelegate, menu_target, row_area
from ui.chat_values import ChatRow, FolderRow

NEW_FOLDER = mark("New folder")


class ChatList(QListView):
    """Chats and folders with the keyboard: Up, Down, Enter opens, F2 renames, Del asks for deletion.

    Signals carry ids of chats and folders as named; ``chat_moved`` a chat and a folder or "",
    ``folder_added`` a name and a chat to put there, ``export_requested`` a chat and "md" or "json".
    """

    chat_selected = Signal(str)
    chat_renamed = Signal(str, str)
    chat_delete_requested = Signal(str)
    pin_requested = Signal(str)
    chat_moved = Signal(str, str)
    export_requested = Signal(str, str)
    folder_added = Signal(str, str)
    folder_renamed = Signal(str, str)
    folder_toggled = Signal(str)
    folder_delete_requested = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.chats = ChatListModel(self)
        self.has_keyboard_focus = False
        self._rows: Sequence[ChatRow] = ()
        self._folders: Sequence[FolderRow] = ()
        self._waiting: tuple[Sequence[ChatRow], str | None] | None = None
        self._may_move = False  # the user asked for what moves a row
        self._names_folder = False  # the next new folder gets its name
        self._is_behind = False  # what there is to show waits for a name that is being typed
        self.setModel(self.chats)
        delegate = ChatRowDelegate(self)
        self.setItemDelegate(delegate)
        delegate.closeEditor.connect(self._on_editor_closed)  # behind the view's own slot
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setMouseTracking(True)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setAccessibleName(tr("Chats"))
        self.viewport().setAutoFillBackground(False)
        self.chats.renamed.connect(self.chat_renamed)
        self.chats.folder_renamed.connect(self.folder_renamed)
        theme.notifier().changed.connect(self.viewport().update)

    def set_rows(self, rows: Sequence[ChatRow], current_id: str | None) -> None:
        """Show these chats. No row moves under the pointer: a new order of the same chats waits for that."""
        before = {row.chat_id: row for row in self._rows}
        same = sorted(before) == sorted(row.chat_id for row in rows)
        places = {chat_id: place for place, chat_id in enumerate(before)}
        is_moved = same and any(
            places[row.chat_id] != place or _place(row) != _place(before[row.chat_id])
            for place, row in enumerate(rows)
        )
        if is_moved and self.underMouse() and not self._may_move:
            self._waiting = (rows, current_id)
            kept = sorted(rows, key=lambda row: places[row.chat_id])
            rows = [_at_place_of(row, before[row.chat_id]) for row in kept]
        else:
            self._waiting, self._may_move = None, False
        self._show(rows, current_id)

    def set_folders(self, folders: Sequence[FolderRow]) -> None:
        """Show these folders; one that the user has just made is given its name."""
        before = {folder.folder_id for folder in self._folders}
        self._folders = tuple(folders)
        self._show(self._rows, self.chats.current_id)
        new = [folder.folder_id for folder in folders if folder.folder_id not in before]
        if self._names_folder and new:
            self._names_folder = False
            index = self.chats.index_of_folder(new[0])
            self.setCurrentIndex(index)
            self.rename(index)

    def put_in_order(self) -> None:
        """Take on the order that waited for the pointer to leave."""
        if self._waiting is not None:
            rows, current_id = self._waiting
            self._waiting = None
            self._show(rows, current_id)

    def _show(self, rows: Sequence[ChatRow], current_id: str | None) -> None:
        self._rows, self.chats.current_id = tuple(rows), current_id
        self._is_behind = self.state() == QAbstractItemView.State.EditingState
        if self._is_behind:
            return  # another row under it would close the field, and lose what is typed
        focused, folder = self._current_id(), self._current_folder()
        self.chats.set_rows(rows, current_id, self._folders)
        if focused is not None and self._current_id() != focused:
            self.setCurrentIndex(self.chats.index_of(focused))
        elif folder is not None and self._current_folder() is None:
            self.setCurrentIndex(self.chats.index_of_folder(folder.folder_id))

    def _on_editor_closed(self) -> None:
        if self._is_behind:
            self._show(self._rows, self.chats.current_id)

    def show_menu(self, index: QModelIndex, position: QPoint) -> None:
        """The menu of a chat or a folder."""
        self.setCurrentIndex(index)
        row = index.data(ROW_ROLE)
        menu = QMenu(self)
        if isinstance(row, ChatRow):
            self._fill_chat_menu(menu, index, row)
        elif isinstance(row, FolderRow):
            self._fill_folder_menu(menu, index, row)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(position)

    def _fill_chat_menu(self, menu: QMenu, index: QModelIndex, row: ChatRow) -> None:
        chat_id = row.chat_id
        _add(menu, tr("Unpin") if row.is_pinned else tr("Pin"), lambda: self._pin(chat_id), "Ctrl+P")
        _add(menu, tr("Rename"), lambda: self.rename(index), "F2")
        folders = menu.addMenu(tr("Move to folder"))
        for folder in self._folders:
            name = folder.name.replace("&", "&&")
            move = _add(folders, name, partial(self._move, chat_id, folder.folder_id))
            move.setCheckable(True)
            move.setChecked(folder.folder_id == row.folder_id)
        if self._folders:
            folders.addSeparator()
        _add(folders, tr("New folder…"), lambda: self.new_folder(chat_id))
        if row.folder_id:
            _add(folders, tr("No folder"), lambda: self._move(chat_id, ""))
        export = menu.addMenu(tr("Export"))
        _add(export, tr("As Markdown…"), lambda: self.export_requested.emit(chat_id, "md"))
        _add(export, tr("As JSON…"), lambda: self.export_requested.emit(chat_id, "json"))
        menu.addSeparator()
        _add(menu, tr("Delete"), self._request_delete, "Del")

    def _fill_folder_menu(self, menu: QMenu, index: QModelIndex, row: FolderRow) -> None:
        toggle = tr("Close", "a folder") if row.is_open else tr("Open", "a folder")
        _add(menu, toggle, lambda: self.folder_toggled.emit(row.folder_id))
        _add(menu, tr("Rename"), lambda: self.rename(index), "F2")
        _add(menu, tr("New folder…"), lambda: self.new_folder(""))
        menu.addSeparator()
        _add(menu, tr("Delete folder"), self._request_delete, "Del")

    def new_folder(self, chat_id: str) -> None:
        """Ask for a new folder, for a chat or empty; its name is typed where it stands."""
        self._names_folder = self._may_move = True
        self.folder_added.emit(tr(NEW_FOLDER), chat_id)

    def _pin(self, chat_id: str) -> None:
        self._may_move = True
        self.pin_requested.emit(chat_id)

    def _move(self, chat_id: str, folder_id: str) -> None:
        self._may_move = True
        self.chat_moved.emit(chat_id, folder_id)

    def rename(self, index: QModelIndex) -> None:
        """Edit the name where it stands; Enter keeps it, Esc drops it."""
        if index.isValid():
            self.scrollTo(index)
            self.edit(index)

    def focused_chat(self) -> str:
        """The chat under the keyboard, "" where the keyboard is elsewhere."""
        return (self._current_id() or "") if self.hasFocus() else ""

    def _current_id(self) -> str | None:
        row = self.currentIndex().data(ROW_ROLE)
        return row.chat_id if isinstance(row, ChatRow) else None

    def _current_folder(self) -> FolderRow | None:
        row = self.currentIndex().data(ROW_ROLE)
        return row if isinstance(row, FolderRow) else None

    def _request_delete(self) -> None:
        chat_id, folder = self._current_id(), self._current_folder()
        if chat_id is not None:
            self.chat_delete_requested.emit(chat_id)
        elif folder is not None:
            self.folder_delete_requested.emit(folder.folder_id)

    def _open_current(self) -> None:
        chat_id, folder = self._current_id(), self._current_folder()
        if chat_id is not None:
            self.chat_selected.emit(chat_id)
        elif folder is not None:
            self.folder_toggled.emit(folder.folder_id)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        self.has_keyboard_focus = True
        if self.state() == QAbstractItemView.State.EditingState:
            return  # the Enter that ends a rename reaches the list too, and must not open the chat
        key, folder = event.key(), self._current_folder()
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._open_current()
        elif key == Qt.Key.Key_F2:
            self.rename(self.currentIndex())
        elif key == Qt.Key.Key_Delete:
            self._request_delete()
        elif folder is not None and key in (Qt.Key.Key_Left, Qt.Key.Key_Right):
            if folder.is_open == (key == Qt.Key.Key_Left):
                self.folder_toggled.emit(folder.folder_id)
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
        return menu_target(row_area(self.visualRect(index))).contains(event.position().toPoint())

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


def _place(row: ChatRow) -> tuple[str, str, bool]:
    """What decides where a row stands, but for its order."""
    return row.group, row.folder_id, row.is_pinned


def _at_place_of(row: ChatRow, before: ChatRow) -> ChatRow:
    return replace(row, group=before.group, folder_id=before.folder_id, is_pinned=before.is_pinned)


def _add(menu: QMenu, text: str, slot: Callable[[], object], keys: str = "") -> QAction:
    action = menu.addAction(text)
    if keys:
        action.setShortcut(QKeySequence(keys))
    action.triggered.connect(lambda _=False: slot())
    return action
