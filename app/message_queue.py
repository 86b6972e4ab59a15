"""Messages that wait until they can be answered: one in a chat, stored, and sent by one window alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from app.conversation import Conversation, title_of
from app.model_desk import ModelDesk
from app.store_lane import StoreLane
from engine.events import Failed
from engine.words import tr
from ui.attachment_text import headline
from ui.main_window import MainWindow
from ui.values import NoticeAction, NoticeView

if TYPE_CHECKING:
    from app.chat_desk import ChatDesk

WAITING = "waiting"
DOWNLOAD_STARTER = "download-starter"


class MessageQueue(QObject):
    """The waiting turn of each chat; ``claiming`` are chats whose message is about to go."""

    def __init__(self, window: MainWindow, store: StoreLane, desk: ModelDesk, chats: ChatDesk) -> None:
        super().__init__()
        self._window = window
        self._store = store
        self._desk = desk
        self._chats = chats
        self._queued: dict[str, str] = {}  # chat id → turn id
        self.claiming: set[str] = set()

    @property
    def chat_ids(self) -> frozenset[str]:
        """Chats in which a message waits, or is about to go."""
        return frozenset(self._queued) | self.claiming

    def waiting_in(self, chat_id: str) -> str | None:
        """The id of the message that waits in a chat."""
        return self._queued.get(chat_id)

    def put(self, chat_id: str, turn_id: str) -> None:
        """This message waits."""
        self._queued[chat_id] = turn_id
        self._desk.wake()

    def take(self, chat_id: str) -> str | None:
        """No message waits in this chat any more; the id of the one that did."""
        return self._queued.pop(chat_id, None)

    def change(self, conversation: Conversation, text: str) -> None:
        """Give the message that waits in a chat another wording."""
        turn = conversation.update(self._queued[conversation.chat_id], content=text)
        self._store.write(turn.chat_id, lambda store: store.update_message(turn))
        self._chats.show_message(turn, is_new=False)

    def send(self) -> None:
        """Begin what can be answered now. Each message is claimed in the store first: another window may have
        the same chat, and only one of them may answer.
        """
        for chat_id, turn_id in list(self._queued.items()):
            if self._chats.can_answer(chat_id):
                self._claim(chat_id, turn_id)

    def _claim(self, chat_id: str, turn_id: str) -> None:
        del self._queued[chat_id]
        self.claiming.add(chat_id)

        def done(is_ours: bool) -> None:
            self.claiming.discard(chat_id)
            conversation = self._chats.conversations.get(chat_id)
            if conversation is None or self._desk.plan is None or self._chats.is_closing:
                return
            turn = conversation.update(turn_id, status="done")
            self._chats.show_message(turn, is_new=False)
            if is_ours:
                self._window.clear_notice(WAITING)
                self._chats.begin_answer(conversation, turn, is_stored=True)

        def failed(failure: Failed) -> None:
            self._store.failed.emit(failure)
            done(True)

        self._store.write(chat_id, lambda store: store.claim_queued(turn_id), on_done=done, on_error=failed)

    def say_waiting(self, text: str) -> None:
        """Say that a message waits, unless a model is ready and only busy."""
        if self._desk.is_ready:
            return
        is_coming = self._desk.is_coming
        wanted = tr("It is sent when a model is ready: download the starter, or choose a model.")
        words = tr("It is sent when the model is ready.") if is_coming else wanted
        actions = () if is_coming else (NoticeAction(DOWNLOAD_STARTER, tr("Download the starter")),)
        title = tr("Your message waits: {title}").format(title=title_of(headline(text)))
        self._window.show_notice(NoticeView("info", title, words, actions, key=WAITING))
