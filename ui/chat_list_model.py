"""The rows of the list of chats: headings, folders and chats, from top to bottom. Paints nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, QPersistentModelIndex, Qt, Signal
from PySide6.QtWidgets import QWidget

from engine.words import tr
from ui.chat_values import ChatRow, FolderRow
from ui.label import one_line, plain_tooltip

Index = QModelIndex | QPersistentModelIndex
Entry = ChatRow | FolderRow | str
ROW_ROLE = Qt.ItemDataRole.UserRole + 1  # the ChatRow or FolderRow, None for a heading
MAX_TITLE = 200  # characters; what a person can still read in a row


class ChatListModel(QAbstractListModel):
    """Chats under their headings and in their folders. ``renamed`` and ``folder_renamed`` carry an id and the
    new name.
    """

    renamed = Signal(str, str)
    folder_renamed = Signal(str, str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._entries: list[Entry] = []
        self.current_id: str | None = None

    def set_rows(
        self, rows: Sequence[ChatRow], current_id: str | None, folders: Sequence[FolderRow] = ()
    ) -> None:
        """Show these chats. Where only texts changed, no row is rebuilt, so that focus and scrolling stay."""
        self.current_id = current_id
        entries = _entries(rows, folders)
        if [_key(entry) for entry in entries] == [_key(entry) for entry in self._entries]:
            self._entries = entries
            if entries:
                self.dataChanged.emit(self.index(0), self.index(len(entries) - 1))
            return
        self.beginResetModel()
        self._entries = entries
        self.endResetModel()

    def chat_ids(self) -> list[str]:
        """The chats that are shown, from top to bottom."""
        return [entry.chat_id for entry in self._entries if isinstance(entry, ChatRow)]

    def index_of(self, chat_id: str | None) -> QModelIndex:
        """The row of a chat; an invalid index where it is not listed."""
        return self._find(("chat", chat_id or ""))

    def index_of_folder(self, folder_id: str) -> QModelIndex:
        """The row of a folder; an invalid index where it is not listed."""
        return self._find(("folder", folder_id))

    def _find(self, key: tuple[str, str]) -> QModelIndex:
        places = (place for place, entry in enumerate(self._entries) if _key(entry) == key)
        place = next(places, None)
        return QModelIndex() if place is None else self.index(place)

    def rename(self, index: QModelIndex, text: str) -> None:
        """Take a new title, its white space made single; an empty one or the old one changes nothing."""
        entry = self._entries[index.row()] if index.isValid() else ""
        title = " ".join(text.split())[:MAX_TITLE]
        if isinstance(entry, str) or title in ("", _name(entry)):
            return
        if isinstance(entry, ChatRow):
            self._entries[index.row()] = replace(entry, title=title)
            self.dataChanged.emit(index, index)
            self.renamed.emit(entry.chat_id, title)
        else:
            self._entries[index.row()] = replace(entry, name=title)
            self.dataChanged.emit(index, index)
            self.folder_renamed.emit(entry.folder_id, title)

    def rowCount(self, parent: Index | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(self._entries)

    def flags(self, index: Index) -> Qt.ItemFlag:
        if not index.isValid() or isinstance(self._entries[index.row()], str):
            return Qt.ItemFlag.NoItemFlags
        return Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsEditable

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        entry = self._entries[index.row()]
        if isinstance(entry, str):
            return entry if role == Qt.ItemDataRole.DisplayRole else None
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.EditRole):
            return _name(entry)
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return _spoken(entry)
        if role == Qt.ItemDataRole.ToolTipRole:
            notes = [note for note, _ in _notes(entry)] if isinstance(entry, ChatRow) else []
            return plain_tooltip("\n".join([one_line(_name(entry)), *notes])).replace("\n", "<br>")
        return entry if role == ROW_ROLE else None


def _entries(rows: Sequence[ChatRow], folders: Sequence[FolderRow]) -> list[Entry]:
    """Temporary and pinned chats, then folders with theirs, then the others by day."""
    inside: dict[str, list[ChatRow]] = {folder.folder_id: [] for folder in folders}
    first: list[ChatRow] = []
    rest: list[ChatRow] = []
    for row in rows:
        (first if _is_first(row) else inside.get(row.folder_id, rest)).append(row)
    entries: list[Entry] = []
    _add_grouped(entries, first)
    for folder in folders:
        entries += [folder, *(inside[folder.folder_id] if folder.is_open else ())]
    _add_grouped(entries, rest)
    return entries


def _is_first(row: ChatRow) -> bool:
    return row.is_pinned or row.is_temporary


def _add_grouped(entries: list[Entry], rows: Sequence[ChatRow]) -> None:
    group = None
    for row in rows:
        if row.group != group:
            group = row.group
            entries.append(group)
        entries.append(row)


def _key(entry: Entry) -> tuple[str, str]:
    match entry:
        case ChatRow():
            return "chat", entry.chat_id
        case FolderRow():
            return "folder", entry.folder_id
    return "heading", entry


def _name(entry: ChatRow | FolderRow) -> str:
    return entry.title if isinstance(entry, ChatRow) else entry.name


def _spoken(entry: ChatRow | FolderRow) -> str:
    if isinstance(entry, FolderRow):
        words = (
            tr("{name}, folder, {chats}, open") if entry.is_open else tr("{name}, folder, {chats}, closed")
        )
        return words.format(name=entry.name, chats=tr("%n chat(s)", "", entry.count))
    parts = (entry.title, entry.detail.replace(" · ", ", "), *(note for _, note in _notes(entry)))
    return ", ".join(part for part in parts if part)


def _notes(row: ChatRow) -> list[tuple[str, str]]:
    """What the signs in a row mean: as a line, and within a sentence."""
    notes = [(tr("Pinned"), tr("pinned"))] if row.is_pinned else []
    notes += [(tr("Not stored"), tr("not stored"))] if row.is_temporary else []
    if row.is_writing:
        notes.append((tr("An answer is being written"), tr("an answer is being written")))
    return notes
