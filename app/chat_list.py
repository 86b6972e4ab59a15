"""The sidebar's list: rows of chats and folders, their order and headings, as values. Knows no window and no
database.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import date, datetime, timedelta

from app.conversation import shown_title
from app.store import Chat, ChatNews, Folder
from engine.words import tr
from ui import numbers
from ui.chat_values import ChatRow, FolderRow
from ui.numbers import NBSP

_FOR_CHAT = re.compile(r"[-_. ](Instruct|Chat|it)$", re.IGNORECASE)


class ChatList:
    """Chats and folders in memory; the store's rows are its beginning."""

    def __init__(self) -> None:
        self._chats: dict[str, Chat] = {}
        self._temporary: set[str] = set()
        self._removed: set[str] = set()
        self._folders: dict[str, Folder] = {}

    def load(self, chats: Iterable[Chat], folders: Iterable[Folder] = ()) -> None:
        """Take the stored chats; those made meanwhile stay."""
        for chat in chats:
            self._chats.setdefault(chat.id, chat)
        for folder in folders:
            self._folders.setdefault(folder.id, folder)

    def take(self, news: ChatNews, is_kept: Callable[[str], bool]) -> frozenset[str]:
        """The list as it is in the store now; returns the chats that are gone and not kept."""
        listed = {chat.id: chat for chat in news.chats}
        gone = frozenset(each for each in self._chats.keys() - listed.keys() if not is_kept(each))
        for chat_id in gone:
            del self._chats[chat_id]
        self._chats |= listed
        self._folders = {folder.id: folder for folder in news.folders}
        return gone

    def __contains__(self, chat_id: str) -> bool:
        return chat_id in self._chats

    def get(self, chat_id: str) -> Chat | None:
        return self._chats.get(chat_id)

    def put(self, chat: Chat, *, is_temporary: bool = False) -> None:
        """Add a chat, or put one back."""
        self._chats[chat.id] = chat
        self._removed.discard(chat.id)
        if is_temporary:
            self._temporary.add(chat.id)

    def remove(self, chat_id: str) -> Chat | None:
        self._removed.add(chat_id)
        return self._chats.pop(chat_id, None)

    def is_removed(self, chat_id: str) -> bool:
        """Whether it was this window that took a chat out."""
        return chat_id in self._removed

    def change(self, chat_id: str, **values: object) -> None:
        """Set fields of a chat; unknown ids are ignored, the chat may have been deleted meanwhile."""
        if chat_id in self._chats:
            self._chats[chat_id] = replace(self._chats[chat_id], **values)  # type: ignore[arg-type]

    def folder(self, folder_id: str) -> Folder | None:
        return self._folders.get(folder_id)

    def put_folder(self, folder: Folder) -> None:
        """Add a folder, or take its new name or state."""
        self._folders[folder.id] = folder

    def remove_folder(self, folder_id: str) -> Folder | None:
        """Take a folder away; its chats stay."""
        return self._folders.pop(folder_id, None)

    def chats_in(self, folder_id: str) -> tuple[str, ...]:
        """The chats of a folder."""
        return tuple(chat.id for chat in self._chats.values() if chat.folder_id == folder_id)

    def folder_rows(self) -> list[FolderRow]:
        """Folders for the sidebar, by name."""
        counts = Counter(chat.folder_id for chat in self._chats.values())
        ordered = sorted(self._folders.values(), key=lambda each: (each.name.casefold(), each.created_s))
        return [FolderRow(each.id, each.name, counts[each.id], each.is_open) for each in ordered]

    def rows(self, writing: frozenset[str], now_s: float) -> list[ChatRow]:
        """Rows for the sidebar: temporary chats, pinned ones as they were pinned, then the last used first.

        ``writing`` are chats in which an answer is running.
        """
        today = datetime.fromtimestamp(now_s).date()
        ordered = sorted(self._chats.values(), key=lambda chat: chat.updated_s, reverse=True)
        rows = [self._row(chat, today, chat.id in writing) for chat in ordered]
        pins = {chat.id: chat.pinned_s or 0.0 for chat in ordered}
        rows.sort(key=lambda row: (_rank(row), pins[row.chat_id]))
        return rows

    def _row(self, chat: Chat, today: date, is_writing: bool) -> ChatRow:
        is_temporary, is_pinned = chat.id in self._temporary, chat.pinned_s is not None
        if is_temporary:
            group = tr("Temporary")
        else:
            group = tr("Pinned") if is_pinned else _group(chat.updated_s, today)
        folder = chat.folder_id if chat.folder_id in self._folders else None
        title = shown_title(chat.title)
        return ChatRow(
            chat.id, title, _detail(chat), group, is_writing, is_pinned, folder or "", is_temporary
        )


def _rank(row: ChatRow) -> int:
    """Temporary chats stand before pinned ones, and these before the others."""
    return 0 if row.is_temporary else 1 if row.is_pinned else 2


def _detail(chat: Chat) -> str:
    if not chat.model:
        return ""
    name = _FOR_CHAT.sub("", chat.model)  # the row is narrow, and every model here is made for chat
    if chat.decode_tps is None:
        return name
    return f"{name} · {numbers.tps(chat.decode_tps)}{NBSP}tok/s"


def _group(updated_s: float, today: date) -> str:
    try:
        day = datetime.fromtimestamp(updated_s).date()
    except (OverflowError, OSError, ValueError):
        return tr("Earlier")  # a row from a broken clock
    if day >= today:
        return tr("Today")
    return tr("Yesterday") if day == today - timedelta(days=1) else tr("Earlier")
