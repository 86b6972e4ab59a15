"""The chats' side of the window: which one is shown, what is sent, queued, renamed, deleted, left unsent.

Knows conversations and the list; answers are written by the answer desk, models are the model desk's.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, Signal

from app.answer_desk import AnswerDesk
from app.chat_list import ChatList
from app.conversation import BEFORE_ALL, Conversation, Turn, new_id, title_of
from app.drafts import NEW_CHAT, Drafts
from app.model_desk import ModelDesk
from app.running_answer import RunningAnswer, message_view
from app.store import Chat, Store
from app.store_lane import StoreLane
from engine.types import Failed
from ui.main_window import MainWindow
from ui.values import NoticeAction, NoticeView

UNDO = "undo-delete"
UNDO_MS = 10_000
DRAFT_MS = 1_000  # after the last key
WAITING = "waiting"
DOWNLOAD_STARTER = "download-starter"


class ChatDesk(QObject):
    """Owns conversations, the queue and the drafts. ``shown`` fires when another chat is in view."""

    shown = Signal()

    def __init__(
        self,
        window: MainWindow,
        answers: Callable[[Callable[[str], bool]], AnswerDesk],
        store: StoreLane,
        desk: ModelDesk,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self._window = window
        self._store = store
        self._desk = desk
        self._clock = clock
        self._chats = ChatList()
        self._conversations: dict[str, Conversation] = {}
        self._current: str | None = None
        self._queued: dict[str, str] = {}  # chat id → turn id
        self._unread: dict[str, str] = {}  # chat id → text sent before its messages were read
        self._claiming: set[str] = set()  # chats whose waiting message is about to go
        self._drafts = Drafts(store)
        self._is_closing = False
        self._deleted: tuple[Chat, str | None] | None = None  # with the queued turn, for Undo
        self._undo_timer = QTimer(self, singleShot=True, interval=UNDO_MS)
        self._undo_timer.timeout.connect(self._forget_deleted)
        self.answers = answers(lambda chat_id: chat_id == self._current)
        self.answers.began.connect(self._show_state)
        self.answers.ended.connect(self._on_answer_ended)
        self.answers.refused.connect(self._on_answer_refused)
        self._draft_timer = QTimer(self, singleShot=True, interval=DRAFT_MS)
        self._draft_timer.timeout.connect(self._keep_draft)
        window.text_typed.connect(lambda _: self._draft_timer.start())
        desk.ready.connect(self._send_queued)
        store.failed.connect(self._on_store_failed)
        store.open(_read_all, self._on_opened)

    @property
    def current_conversation(self) -> Conversation | None:
        """The shown conversation; None for a new chat, and until a chat's messages have been read."""
        return self._conversations.get(self._current) if self._current else None

    @property
    def is_answering(self) -> bool:
        """Whether an answer is being written in the shown chat."""
        return self._current in self.answers.chat_ids

    @property
    def is_reading(self) -> bool:
        """Whether the shown chat's messages are still being read."""
        return self._current is not None and self._current not in self._conversations

    # What the user does

    def send(self, text: str) -> None:
        """Add a message to the current chat; it goes to the model now, or when one can answer."""
        if not text.strip():
            return
        if self._current is not None and self.is_reading:
            self._unread[self._current] = _joined(self._unread.get(self._current, ""), text)
            return
        self._drafts.save(self._current, "")
        self._send_to(self._open_conversation(text), text)

    def stop(self) -> None:
        """Stop the answer of the current chat; what is written stays. With none, stop a load."""
        if self.is_answering:
            self.answers.stop(self._current)
        else:
            self._desk.cancel_load()

    def recall(self) -> None:
        """Take the message that waits in the shown chat back into the composer."""
        conversation = self.current_conversation
        turn_id = self._queued.pop(conversation.chat_id, None) if conversation else None
        if conversation is None or turn_id is None:
            return
        turn = conversation.update(turn_id, status="done")
        conversation.rewind(turn.parent_id)
        self._store.run(lambda store: store.update_message(turn))
        self._keep_branch(conversation)
        self._window.clear_notice(WAITING)
        self._show_transcript()
        self._window.set_composer_text(turn.content)

    def new_chat(self) -> None:
        """Show an empty chat; it is kept with its first message."""
        self._show(None)

    def select(self, chat_id: str) -> None:
        """Show a chat; its messages are read when it is shown for the first time."""
        if chat_id == self._current:
            return
        self._show(chat_id)
        if self.is_reading:
            self._store.run(
                lambda store: store.messages(chat_id),
                on_done=lambda turns: self._on_messages(chat_id, turns),
                on_error=lambda failed: self._on_unreadable(chat_id, failed),
            )

    def rename(self, chat_id: str, title: str) -> None:
        title = title_of(title)
        self._chats.change(chat_id, title=title)
        self._store.run(lambda store: store.rename_chat(chat_id, title))
        self._show_list()

    def delete(self, chat_id: str) -> None:
        """Take a chat away; it can be undone from the notice."""
        chat = self._chats.remove(chat_id)
        if chat is None:
            return
        self.answers.stop(chat_id)
        self._deleted = chat, self._queued.pop(chat_id, None)
        self._store.run(lambda store: store.delete_chat(chat_id))
        if chat_id == self._current:
            self._show(None)
        self._show_list()
        undo = NoticeAction(UNDO, "Undo")
        self._window.show_notice(NoticeView("info", f"Chat deleted: {chat.title}", "", (undo,), key=UNDO))
        self._undo_timer.start()

    def undo_delete(self) -> None:
        """Put the chat that was deleted last back and show it; a message that waited in it waits again."""
        deleted, self._deleted = self._deleted, None
        if deleted is None:
            return
        chat, queued_id = deleted
        self._chats.put(chat)
        self._store.run(lambda store: store.restore_chat(chat.id))
        if queued_id is not None:
            self._queued[chat.id] = queued_id
        self._window.clear_notice(UNDO)
        self.select(chat.id)
        self._show_list()
        self._send_queued()

    def _forget_deleted(self) -> None:
        if self._deleted is not None:
            self._deleted = None
            self._window.clear_notice(UNDO)

    def prepare_to_close(self) -> None:
        """Begin nothing more: what waits is sent after the next start."""
        self._is_closing = True
        self._draft_timer.stop()

    def close(self) -> None:
        """Keep what is unfinished and unsent, and close the database."""
        self._keep_draft()
        for chat_id, text in self._unread.items():
            self._drafts.save(chat_id, _joined(text, self._drafts.get(chat_id)))
        self.answers.save_all()
        self._store.run(lambda store: store.close())

    # How a message goes

    def _send_to(self, conversation: Conversation, text: str) -> None:
        self._forget_notices()
        chat_id, queued_id = conversation.chat_id, self._queued.get(conversation.chat_id)
        if queued_id is not None:
            turn = conversation.update(queued_id, content=_joined(conversation.turn(queued_id).content, text))
            self._store.run(lambda store: store.update_message(turn))
            self._show_message(turn, is_new=False)
            return
        can_go = self._can_answer()
        turn = conversation.append("user", text, "done" if can_go else "queued")
        self._show_message(turn, is_new=True)
        self._chats.change(chat_id, updated_s=turn.created_s)
        if can_go:
            self._begin_answer(conversation, turn, is_stored=False)
        else:
            self._queued[chat_id] = turn.id
            self._store.run(lambda store: store.add_message(turn))
            self._say_waiting(text)
        self._show_list()

    def _can_answer(self) -> bool:
        plan, busy = self._desk.plan, self.answers.count + len(self._claiming)
        return not self._is_closing and plan is not None and busy < plan.max_sequences

    def _send_queued(self) -> None:
        """Begin the queued messages that can be answered now. Each is claimed in the store first: another
        window may have the same chat, and only one of them may answer.
        """
        for chat_id, turn_id in list(self._queued.items()):
            if not self._can_answer():
                return
            self._claim(chat_id, turn_id)

    def _claim(self, chat_id: str, turn_id: str) -> None:
        del self._queued[chat_id]
        self._claiming.add(chat_id)

        def done(is_ours: bool) -> None:
            self._claiming.discard(chat_id)
            conversation = self._conversations.get(chat_id)
            if conversation is None or self._desk.plan is None or self._is_closing:
                return
            turn = conversation.update(turn_id, status="done")
            self._show_message(turn, is_new=False)
            if is_ours:
                self._window.clear_notice(WAITING)
                self._begin_answer(conversation, turn, is_stored=True)

        def failed(failure: Failed) -> None:
            self._on_store_failed(failure)
            done(True)

        self._store.run(lambda store: store.claim_queued(turn_id), on_done=done, on_error=failed)

    def _begin_answer(self, conversation: Conversation, question: Turn, is_stored: bool) -> None:
        plan = self._desk.plan
        assert plan is not None
        self.answers.begin(conversation, question, plan.context, is_stored)

    def _open_conversation(self, text: str) -> Conversation:
        """The current conversation, or a new chat that is named after its first message."""
        if self.current_conversation is not None:
            return self.current_conversation
        chat_id, now, title = new_id(), self._clock(), title_of(text)
        self._chats.put(Chat(chat_id, title, now, now))
        self._conversations[chat_id] = Conversation(chat_id, clock=self._clock)
        self._current = chat_id
        self._desk.set_chat_shown(True)
        self._store.run(lambda store: store.create_chat(title, chat_id))
        return self._conversations[chat_id]

    def _say_waiting(self, text: str) -> None:
        if not self._desk.is_ready:
            coming = "It is sent when the model is ready."
            wanted = "It is sent when a model is ready: download the starter, or choose a model."
            title = f"Your message waits: {title_of(text)}"
            is_coming = self._desk.is_coming
            actions = () if is_coming else (NoticeAction(DOWNLOAD_STARTER, "Download the starter"),)
            text = coming if is_coming else wanted
            self._window.show_notice(NoticeView("info", title, text, actions, key=WAITING))

    # What comes back

    def _on_answer_ended(self, chat_id: str) -> None:
        plan, tps = self._desk.plan, self.answers.last_tps
        if plan is not None and tps is not None and chat_id in self._chats:
            name = plan.model.name
            self._chats.change(chat_id, model=name, decode_tps=tps)
            self._store.run(lambda store: store.describe_chat(chat_id, name, tps))
        self._show_state()
        self._send_queued()

    def _on_answer_refused(self, answer: RunningAnswer) -> None:
        """A message that could not even be read goes back to where it was typed, if that place is free."""
        is_free = answer.chat_id == self._current and not self._window.composer_text().strip()
        if not is_free or answer.chat_id in self._queued:
            return  # it stays in view as failed; what waits behind it hangs on it
        conversation = answer.conversation
        question = conversation.turn(answer.question_id)
        conversation.rewind(question.parent_id)
        self._keep_branch(conversation)
        self._window.show_chat([message_view(turn) for turn in conversation.path()])
        self._window.set_composer_text(question.content)

    def _on_opened(self, opened: _Opened) -> None:
        notice, chats, queued, drafts = opened
        self._chats.load(chats)
        self._drafts.load(drafts)
        for chat_id, turns in queued.items():
            chat = self._chats.get(chat_id)
            if chat is not None and chat_id not in self._conversations:
                conversation = Conversation(chat_id, turns, chat.active_id, self._clock)
                self._conversations[chat_id] = conversation
                waiting = [turn.id for turn in conversation.path() if turn.status == "queued"]
                if waiting:
                    self._queued[chat_id] = waiting[-1]
                    self._say_waiting(conversation.turn(waiting[-1]).content)
        if notice:
            self._window.show_notice(NoticeView("warning", "Chats", notice))
        if self._current is None and not self._window.composer_text():
            self._window.set_composer_text(self._drafts.get(NEW_CHAT))
        self._show_list()
        self._send_queued()

    def _on_messages(self, chat_id: str, turns: tuple[Turn, ...]) -> None:
        chat = self._chats.get(chat_id)
        if chat is None or chat_id in self._conversations:
            return
        self._conversations[chat_id] = Conversation(chat_id, turns, chat.active_id, self._clock)
        if chat_id == self._current:
            self._show_transcript()
        text = self._unread.pop(chat_id, "")
        if text:
            self._send_to(self._conversations[chat_id], text)

    def _on_unreadable(self, chat_id: str, failed: Failed) -> None:
        """A chat that cannot be read is not shown; what was typed for it is given back."""
        text = self._unread.pop(chat_id, "")
        if chat_id == self._current:
            self._show(None)
            self._window.set_composer_text(_joined(text, self._window.composer_text()))
        self._window.show_notice(
            NoticeView("error", "The chat could not be read.", failed.message, (), failed.details)
        )

    def _on_store_failed(self, failed: Failed) -> None:
        text = f"{failed.message} {failed.hint} The chat stays in this window."
        self._window.show_notice(
            NoticeView("error", "The chat could not be saved.", text, (), failed.details)
        )

    # What is shown

    def _show(self, chat_id: str | None) -> None:
        """Show a chat, with the text that was left unsent in it."""
        self._keep_draft()
        self._current = chat_id
        self._window.set_composer_text(self._drafts.get(chat_id))
        self._forget_notices()
        self._show_transcript()

    def _show_transcript(self) -> None:
        self._desk.set_chat_shown(self._current is not None)
        conversation = self.current_conversation
        turns = conversation.path() if conversation else ()
        self._window.show_chat([message_view(self.answers.current_turn(turn)) for turn in turns])
        self._show_state()
        self.shown.emit()

    def _keep_draft(self) -> None:
        self._drafts.save(self._current, self._window.composer_text())

    def _keep_branch(self, conversation: Conversation) -> None:
        chat_id, active_id = conversation.chat_id, conversation.active_id or BEFORE_ALL
        self._store.run(lambda store: store.select_branch(chat_id, active_id))

    def _forget_notices(self) -> None:
        """What was said of another moment goes; an offer to undo stays."""
        if self._window.notice_key() != UNDO:
            self._window.clear_notice()

    def _show_message(self, turn: Turn, *, is_new: bool) -> None:
        if turn.chat_id == self._current:
            show = self._window.append_message if is_new else self._window.set_message
            show(message_view(turn))

    def _show_state(self, _: str = "") -> None:
        self._desk.set_answering(self.answers.count > 0)
        self._window.set_generating(self.is_answering)
        self._show_list()

    def _show_list(self) -> None:
        rows = self._chats.rows(self.answers.chat_ids, self._clock())
        self._window.set_chats(rows, self._current)


_Opened = tuple[str | None, tuple[Chat, ...], dict[str, tuple[Turn, ...]], dict[str, str]]


def _read_all(store: Store) -> _Opened:
    queued = {chat_id: store.messages(chat_id) for chat_id in store.queued_chats()}
    return store.notice or store.read_only_reason, store.list_chats(), queued, store.drafts()


def _joined(first: str, second: str) -> str:
    return f"{first}\n\n{second}" if first.strip() and second.strip() else first or second
