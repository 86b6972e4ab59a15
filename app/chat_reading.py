"""Chats as they come from the store: their list at the start, the messages of one when it is shown first.

What the user wants of a chat that is still being read waits here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from app.conversation import Conversation, Turn
from app.drafts import Drafts
from app.store import Chat, Folder, Store
from app.store_lane import StoreLane
from engine.events import Failed
from engine.words import tr
from ui.main_window import MainWindow
from ui.values import NoticeView

if TYPE_CHECKING:
    from app.chat_desk import ChatDesk


class ChatReading:
    """Puts what was read where the chat desk has it."""

    def __init__(
        self,
        window: MainWindow,
        store: StoreLane,
        drafts: Drafts,
        chats: ChatDesk,
        clock: Callable[[], float],
    ) -> None:
        self._window = window
        self._store = store
        self._drafts = drafts
        self._chats = chats
        self._clock = clock
        self._unsent: dict[str, str] = {}  # chat id → text that is to be sent
        self._to_reveal = ("", "")  # chat and turn

    @property
    def chat_ids(self) -> frozenset[str]:
        """Chats to which something is to be sent."""
        return frozenset(self._unsent)

    def open(self, on_opened: Callable[[], None]) -> None:
        """Read what there is, before everything that comes later."""

        def done(opened: _Opened) -> None:
            self._on_opened(opened)
            on_opened()

        self._store.open(_read_all, done)

    def read(self, chat_id: str) -> None:
        """Read the messages of a chat."""
        self._store.visit(
            lambda store: store.messages(chat_id),
            on_done=lambda turns: self._on_messages(chat_id, turns),
            on_error=lambda failed: self._on_unreadable(chat_id, failed),
        )

    def send_later(self, chat_id: str, text: str) -> None:
        """Send ``text`` when the messages before it are here."""
        self._unsent[chat_id] = joined(self._unsent.get(chat_id, ""), text)

    def reveal_later(self, chat_id: str, turn_id: str) -> None:
        """Bring a turn into view when it is here."""
        self._to_reveal = chat_id, turn_id

    def close(self) -> None:
        """The window closes: what was to be sent is kept as a draft."""
        for chat_id, text in self._unsent.items():
            self._drafts.save(chat_id, joined(text, self._drafts.get(chat_id)))

    def _on_opened(self, opened: _Opened) -> None:
        notice, listed, folders, queued, drafts = opened
        chats = self._chats
        chats.library.list.load(listed, folders)
        self._drafts.load(drafts)
        for chat_id, turns in queued.items():
            chat = chats.library.list.get(chat_id)
            if chat is not None and chat_id not in chats.conversations:
                conversation = Conversation(chat_id, turns, chat.active_id, self._clock)
                chats.conversations[chat_id] = conversation
                waiting = [turn.id for turn in conversation.path() if turn.status == "queued"]
                if waiting:
                    chats.queue.put(chat_id, waiting[-1])
        if notice:
            self._window.show_notice(NoticeView("warning", tr("Chats"), notice))

    def _on_messages(self, chat_id: str, turns: tuple[Turn, ...]) -> None:
        chats = self._chats
        chat = chats.library.list.get(chat_id)
        if chat is None or chat_id in chats.conversations:
            return
        conversation = Conversation(chat_id, turns, chat.active_id, self._clock)
        chats.conversations[chat_id] = conversation
        if chat_id == chats.current_id:
            chats.show_transcript()
        text = self._unsent.pop(chat_id, "")
        if text:
            chats.send_to(conversation, text)
        elif self._to_reveal[0] == chat_id:
            chats.reveal(*self._to_reveal)
        self._to_reveal = ("", "")

    def _on_unreadable(self, chat_id: str, failed: Failed) -> None:
        """A chat that cannot be read is not shown; what was typed for it is given back."""
        text = self._unsent.pop(chat_id, "")
        if chat_id == self._chats.current_id:
            self._chats.show_chat(None)
            self._window.set_composer_text(joined(text, self._window.composer_text()))
        title = tr("The chat could not be read.")
        self._window.show_notice(NoticeView("error", title, failed.message, (), failed.details))


_Opened = tuple[str | None, tuple[Chat, ...], tuple[Folder, ...], dict[str, tuple[Turn, ...]], dict[str, str]]


def _read_all(store: Store) -> _Opened:
    queued = {chat_id: store.messages(chat_id) for chat_id in store.queued_chats()}
    notice = None if store.unsaved_reason else store.notice  # what is lost is said for as long as it is
    return notice, store.list_chats(), store.folders(), queued, store.drafts()


def joined(first: str, second: str) -> str:
    """Two texts as one; without an empty one."""
    return f"{first}\n\n{second}" if first.strip() and second.strip() else first or second
