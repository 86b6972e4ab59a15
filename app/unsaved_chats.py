"""Chats that could not be written, as on a full disk: they live in the window until that works."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer

from app.conversation import BEFORE_ALL, ELSEWHERE
from app.store_lane import StoreLane
from engine.events import Failed
from engine.words import tr
from ui.main_window import MainWindow
from ui.values import NoticeView

if TYPE_CHECKING:
    from app.chat_desk import ChatDesk

AGAIN_MS = 10_000
UNSAVED = "unsaved"


class UnsavedChats(QObject):
    """Says what could not be saved, and tries it again as a whole."""

    def __init__(self, window: MainWindow, store: StoreLane, chats: ChatDesk) -> None:
        super().__init__()
        self._window = window
        self._store = store
        self._chats = chats
        self._ids: set[str] = set()
        self._timer = QTimer(self, singleShot=True, interval=AGAIN_MS)
        self._timer.timeout.connect(self.try_again)
        store.failed.connect(self._on_failed)
        store.unsaved.connect(self._on_unsaved)

    def holds(self, chat_id: str) -> bool:
        """Whether a chat is in the window alone."""
        return chat_id in self._ids

    def close(self) -> None:
        """The window closes: what is waiting has one more chance."""
        self._timer.stop()
        self.try_again()

    def try_again(self) -> None:
        """Write everything of the chats that are waiting."""
        for chat_id in sorted(self._ids):
            self._keep(chat_id)

    def _keep(self, chat_id: str) -> None:
        chat, conversation = self._chats.library.list.get(chat_id), self._chats.conversations.get(chat_id)
        if chat is None or conversation is None:
            self._ids.discard(chat_id)  # deleted, or nothing of it was changed here but the list
            return
        chat = replace(chat, active_id=conversation.active_id or BEFORE_ALL)
        turns = tuple(turn for turn in conversation.turns() if turn.status != ELSEWHERE)
        self._ids.discard(chat_id)
        self._store.write(chat_id, lambda store: store.keep_chat(chat, turns), self._on_kept, lambda _: None)

    def _on_kept(self, _: None) -> None:
        if not self._ids:
            self._window.clear_notice(UNSAVED)

    def _on_unsaved(self, chat_id: str) -> None:
        self._ids.add(chat_id)
        if not self._timer.isActive():
            self._timer.start()

    def _on_failed(self, failed: Failed) -> None:
        stays = tr("The chat stays in this window and is tried again.")
        text = f"{failed.message} {failed.hint} {stays}"
        notice = NoticeView("error", tr("The chat could not be saved."), text, (), failed.details, UNSAVED)
        self._window.show_notice(notice)
