"""Chats that could not be written, as on a full disk: they live in the window until that works.

Where the file cannot be opened to write, that holds for all that is new.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer

from app.conversation import BEFORE_ALL, ELSEWHERE, Turn
from app.drafts import NEW_CHAT
from app.not_kept import CHATS, NotKept
from app.store import Store
from app.store_lane import StoreLane
from engine.events import Failed
from engine.words import tr
from ui.main_window import CLOSE, MainWindow
from ui.values import NoticeAction, NoticeView

if TYPE_CHECKING:
    from app.chat_desk import ChatDesk

AGAIN_MS = 10_000


class UnsavedChats(QObject):
    """Says what could not be saved, and tries it again as a whole."""

    def __init__(self, window: MainWindow, not_kept: NotKept, store: StoreLane, chats: ChatDesk) -> None:
        super().__init__()
        self._window = window
        self._not_kept = not_kept
        self._store = store
        self._chats = chats
        self._ids: set[str] = set()
        self._reason: str | None = None  # why nothing at all is kept
        self._has_new = False  # something was said in a chat that should stay
        self._timer = QTimer(self, singleShot=True, interval=AGAIN_MS)
        self._timer.timeout.connect(self.try_again)
        store.opened.connect(self._on_opened)
        store.failed.connect(self._on_failed)
        store.unsaved.connect(self._on_unsaved)
        chats.begun.connect(self._on_news)
        chats.answers.began.connect(self._on_news)

    def holds(self, chat_id: str) -> bool:
        """Whether a chat is in the window alone."""
        return chat_id in self._ids

    def question(self) -> NoticeView | None:
        """What is said before the window closes; None where every chat is on the disk."""
        if not self._ids - {NEW_CHAT} and not (self._reason and self._has_new):
            return None
        title = tr("These chats are not stored: they end with this window.")
        text = tr("Export what you want to keep, or close the window once more.")
        return NoticeView("warning", title, text, (NoticeAction(CLOSE, tr("Close without them")),), key=CLOSE)

    def close(self) -> None:
        """The window closes: what is waiting has one more chance."""
        self._timer.stop()
        self.try_again()

    def try_again(self) -> None:
        """Write everything of the chats that are waiting."""
        for chat_id in sorted(self._ids):
            self._keep(chat_id)

    def _keep(self, chat_id: str) -> None:
        chats = self._chats
        chat, conversation = chats.library.list.get(chat_id), chats.conversations.get(chat_id)
        turns: tuple[Turn, ...] = ()  # without a conversation nothing was changed here but the list
        if chat is not None and conversation is not None:
            chat = replace(chat, active_id=conversation.active_id or BEFORE_ALL)
            turns = tuple(turn for turn in conversation.turns() if turn.status != ELSEWHERE)
        is_removed, draft = chats.library.list.is_removed(chat_id), chats.draft_of(chat_id)

        def work(store: Store) -> None:
            if chat is not None:
                store.keep_chat(chat, turns)
            elif is_removed:
                store.delete_chat(chat_id)
            store.save_draft(chat_id, draft)

        self._store.write(chat_id, work, lambda _: self._on_kept(chat_id), lambda _: None)

    def _on_kept(self, chat_id: str) -> None:
        """What failed since this was written has not been told yet: it is not lost here."""
        self._ids.discard(chat_id)
        if not self._ids and self._reason is None:
            self._not_kept.take_back(CHATS)

    def _on_opened(self, reason: str | None) -> None:
        self._reason = reason
        if reason is not None:
            title = tr("Chats are not stored: what is new ends with this window.")
            self._not_kept.say(CHATS, title, Failed(None, "storage", reason, ""))
        elif not self._ids:
            self._not_kept.take_back(CHATS)

    def _on_news(self, chat_id: str) -> None:
        self._has_new |= not self._store.is_temporary(chat_id)

    def _on_unsaved(self, chat_id: str) -> None:
        self._ids.add(chat_id)
        if self._reason is None and not self._timer.isActive():
            self._timer.start()

    def _on_failed(self, failed: Failed) -> None:
        if self._reason is not None:
            return  # it is said already
        if not self._ids:  # of no chat: nothing is tried again
            notice = NoticeView("error", failed.message, failed.hint, (), failed.details)
            self._window.show_notice(notice)
            return
        stays = tr("The chat stays in this window and is tried again.")
        failed = replace(failed, hint=f"{failed.hint} {stays}".strip())
        self._not_kept.say(CHATS, tr("The chat could not be saved."), failed)
