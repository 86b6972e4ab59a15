"""The sidebar's list: rows of chats, their order and headings, as values. Knows no window and no database."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import date, datetime, timedelta

from app.store import Chat
from ui import numbers
from ui.numbers import NBSP
from ui.values import ChatRow

_FOR_CHAT = re.compile(r"[-_. ](Instruct|Chat|it)$", re.IGNORECASE)


class ChatList:
    """Chats in memory, the last used first; the store's rows are its beginning."""

    def __init__(self) -> None:
        self._chats: dict[str, Chat] = {}

    def load(self, chats: Iterable[Chat]) -> None:
        """Take the stored chats; those made meanwhile stay."""
        for chat in chats:
            self._chats.setdefault(chat.id, chat)

    def __contains__(self, chat_id: str) -> bool:
        return chat_id in self._chats

    def get(self, chat_id: str) -> Chat | None:
        return self._chats.get(chat_id)

    def put(self, chat: Chat) -> None:
        """Add a chat, or put one back."""
        self._chats[chat.id] = chat

    def remove(self, chat_id: str) -> Chat | None:
        return self._chats.pop(chat_id, None)

    def change(self, chat_id: str, **values: object) -> None:
        """Set fields of a chat; unknown ids are ignored, the chat may have been deleted meanwhile."""
        if chat_id in self._chats:
            self._chats[chat_id] = replace(self._chats[chat_id], **values)  # type: ignore[arg-type]

    def rows(self, writing: frozenset[str], now_s: float) -> list[ChatRow]:
        """Rows for the sidebar. ``writing`` are chats in which an answer is running."""
        today = datetime.fromtimestamp(now_s).date()
        ordered = sorted(self._chats.values(), key=lambda chat: chat.updated_s, reverse=True)
        return [
            ChatRow(chat.id, chat.title, _detail(chat), _group(chat.updated_s, today), chat.id in writing)
            for chat in ordered
        ]


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
        return "Earlier"  # a row from a broken clock
    if day >= today:
        return "Today"
    return "Yesterday" if day == today - timedelta(days=1) else "Earlier"
