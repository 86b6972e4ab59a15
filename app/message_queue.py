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
        self._shown: NoticeView | None = None
        desk.standing.connect(self.show)
        chats.shown.connect(self.show)

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
        self.show()

    def take(self, chat_id: str) -> str | None:
        """No message waits in this chat any more; the id of the one that did."""
        turn_id = self._queued.pop(chat_id, None)
        self.show()
        return turn_id

    def change(self, conversation: Conversation, text: str) -> None:
        """Give the message that waits in a chat another wording."""
        turn = conversation.update(self._queued[conversation.chat_id], content=text)
        self._store.write(turn.chat_id, lambda store: store.update_message(turn))
        self._chats.show_message(turn, is_new=False)
        self.show()

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
        self.show()

        def done(is_ours: bool) -> None:
            self.claiming.discard(chat_id)
            conversation = self._chats.conversations.get(chat_id)
            if conversation is None or self._desk.plan is None or self._chats.is_closing:
                return
            turn = conversation.update(turn_id, status="done")
            self._chats.show_message(turn, is_new=False)
            if is_ours:
                self._chats.begin_answer(conversation, turn, is_stored=True)

        def failed(failure: Failed) -> None:
            self._store.failed.emit(failure)
            done(True)

        self._store.write(chat_id, lambda store: store.claim_queued(turn_id), on_done=done, on_error=failed)

    def show(self) -> None:
        """Say that a message waits and how it gets a model, for as long as that is so; with one that is ready
        it only waits for its turn.
        """
        view = None if self._desk.is_ready else self._notice()
        if view == self._shown:
            return
        self._shown = view
        self._window.offer_starter(view is not None and bool(view.actions))
        if view is None:
            self._window.clear_notice(WAITING)
        else:
            self._window.show_notice(view)

    def _notice(self) -> NoticeView | None:
        """About the message that waits in the shown chat, else about the last one."""
        shown, conversations = self._chats.current_id, self._chats.conversations
        waiting = [each for each in self._queued if each in conversations]
        if not waiting:
            return None
        chat_id = shown if shown in waiting else waiting[-1]
        text = conversations[chat_id].turn(self._queued[chat_id]).content
        title = tr("Your message waits: {title}").format(title=title_of(headline(text)))
        if not self._desk.needs_model:
            words = tr("It is sent when the model is ready.")
            return NoticeView("info", title, words, key=WAITING, is_lasting=True)
        action = NoticeAction(DOWNLOAD_STARTER, self._desk.download.offer_words)
        return NoticeView("info", title, self._wanted(), (action,), key=WAITING, is_lasting=True)

    def _wanted(self) -> str:
        """What the user can do, after why the last try failed."""
        view = self._desk.download.view
        if view is not None and view.state == "here":
            return tr(
                "It is sent when a model is ready: press Enter to use the starter, which is on this computer,"
                " or choose a model."
            )
        wanted = tr(
            "It is sent when a model is ready: press Enter to download the starter, or choose a model."
        )
        return f"{view.message} {wanted}" if view is not None and view.state == "failed" else wanted
