"""The chats' side of the window: which one is shown, and what is sent, queued and continued in it.

Knows conversations; they are read by the chat reading, answers are written by the answer desk, models are the
model desk's, the list of chats is the library's, other branches are the branch desk's.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, Signal

from app.answer_desk import ABOUT_ANSWER, AnswerDesk
from app.branch_desk import BranchDesk
from app.chat_library import ChatLibrary
from app.chat_reading import ChatReading, joined
from app.conversation import BEFORE_ALL, Conversation, Turn, new_id, title_of
from app.drafts import NEW_CHAT, Drafts
from app.message_queue import MessageQueue
from app.model_desk import ModelDesk
from app.not_kept import NotKept
from app.running_answer import RunningAnswer, turn_view
from app.store import Chat
from app.store_lane import StoreLane
from app.store_watch import StoreWatch
from app.unsaved_chats import UnsavedChats
from engine.words import tr
from ui.attachment_text import AttachedText, compose, headline, parse
from ui.main_window import MainWindow
from ui.values import NoticeView

DRAFT_MS = 1_000  # after the last key


class ChatDesk(QObject):
    """Owns conversations, the queue and the drafts. ``shown`` fires when another chat is in view, ``begun``
    with the id of one that has its first message now.
    """

    shown = Signal()
    begun = Signal(str)

    def __init__(
        self,
        window: MainWindow,
        answers: Callable[[Callable[[str], bool]], AnswerDesk],
        store: StoreLane,
        desk: ModelDesk,
        not_kept: NotKept,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self._window = window
        self._store = store
        self._desk = desk
        self._clock = clock
        self.conversations: dict[str, Conversation] = {}
        self._current: str | None = None
        self._drafts = Drafts(store)
        self._reading = ChatReading(window, store, self._drafts, self, clock)
        self.is_closing = False
        self.answers = answers(lambda chat_id: chat_id == self._current)
        self.queue = MessageQueue(window, store, desk, self)
        self.library = ChatLibrary(window, store, self, clock)
        self.branches = BranchDesk(window, store, self)
        self._unsaved = UnsavedChats(window, not_kept, store, self)
        window.close_question = self._unsaved.question
        self._watch = StoreWatch(window, store, self)
        self.answers.began.connect(self._show_state)
        self.answers.ended.connect(self._on_answer_ended)
        self.answers.refused.connect(self._on_answer_refused)
        self._draft_timer = QTimer(self, singleShot=True, interval=DRAFT_MS)
        self._draft_timer.timeout.connect(self._keep_draft)
        window.text_typed.connect(lambda _: self._draft_timer.start())
        window.composing.files_changed.connect(self._draft_timer.start)
        desk.ready.connect(self.queue.send)
        self._reading.open(self._on_opened)

    @property
    def current_id(self) -> str | None:
        """The id of the shown chat; None for a new one."""
        return self._current

    @property
    def current_conversation(self) -> Conversation | None:
        """The shown conversation; None for a new chat, and until a chat's messages have been read."""
        return self.conversations.get(self._current) if self._current else None

    @property
    def is_answering(self) -> bool:
        """Whether an answer is being written in the shown chat."""
        return self._current in self.answers.chat_ids

    @property
    def is_reading(self) -> bool:
        """Whether the shown chat's messages are still being read."""
        return self._current is not None and self._current not in self.conversations

    def is_in_use(self, chat_id: str) -> bool:
        """Whether more is known of a chat here than on the disk, or will be soon."""
        busy = self.answers.chat_ids | self.queue.chat_ids | self._reading.chat_ids
        return chat_id in busy or self._store.is_temporary(chat_id) or self._unsaved.holds(chat_id)

    # What the user does

    def send(self, text: str) -> None:
        """Add a message to the current chat; it goes to the model now, or when one can answer."""
        if self.branches.is_editing:
            self.branches.submit(text)
            return
        if not text.strip():
            return
        if self._current is not None and self.is_reading:
            self._reading.send_later(self._current, text)
            return
        self._drafts.save(self._current, "")
        self.send_to(self._open_conversation(text), text)

    def stop(self) -> None:
        """Stop the answer of the current chat; what is written stays. With none, stop a load."""
        if self.is_answering:
            self.answers.stop(self._current)
        else:
            self._desk.cancel_load()

    def go_on(self, turn_id: str) -> None:
        """Continue the last answer of the shown chat, which is unfinished."""
        conversation, plan = self.current_conversation, self._desk.plan
        path = conversation.path()[-2:] if conversation else ()
        if conversation is None or self.is_answering or len(path) < 2 or path[1].id != turn_id:
            return  # it is not the last one any more
        if plan is None:
            self.wake()
            title = tr("The answer cannot go on yet.")
            text = tr("It needs a model that is ready.")
            self._window.show_notice(NoticeView("info", title, text, key=ABOUT_ANSWER))
            return
        self._forget_notices()
        self.answers.go_on(conversation, path[0], path[1], plan)

    def answer_again(self, conversation: Conversation, question: Turn) -> None:
        """Begin another answer to a stored question; only where ``can_answer``."""
        self._forget_notices()
        self.begin_answer(conversation, question, is_stored=True)

    def recall(self) -> None:
        """Take the message that waits in the shown chat back into the composer; with none, edit the last."""
        conversation = self.current_conversation
        turn_id = self.queue.take(conversation.chat_id) if conversation else None
        if conversation is None or turn_id is None:
            self.branches.edit_last()
            return
        turn = conversation.update(turn_id, status="done")
        conversation.rewind(turn.parent_id)
        self._store.write(turn.chat_id, lambda store: store.update_message(turn))
        self.keep_branch(conversation)
        self.show_transcript()
        self._window.set_composer_text(turn.content)

    def add_to_draft(self, chat_id: str | None, file: AttachedText) -> None:
        """Attach a text to the message that was being written in a chat, which is not shown any more."""
        files, typed = parse(self._drafts.get(chat_id))
        self._drafts.save(chat_id, compose((*files, file), typed))

    def draft_of(self, chat_id: str) -> str:
        """What is typed in a chat and not sent."""
        return self._drafts.get(chat_id)

    def new_chat(self) -> None:
        """Show an empty chat; it is kept with its first message."""
        self._window.chats.end_search()
        self.show_chat(None)

    def new_temporary_chat(self) -> None:
        """Show an empty chat of which nothing will ever be stored."""
        self._window.chats.end_search()
        chat_id = new_id()
        self._store.make_temporary(chat_id)
        self.conversations[chat_id] = Conversation(chat_id, clock=self._clock)
        self.show_chat(chat_id)

    def select(self, chat_id: str) -> None:
        """Show a chat; its messages are read unless they are here."""
        if chat_id != self._current:
            self.show_chat(chat_id)
        if self.is_reading:
            self._reading.read(chat_id)

    def reveal(self, chat_id: str, turn_id: str) -> None:
        """Bring a turn of the shown chat into view, once its messages are there; another branch is opened."""
        conversation = self.conversations.get(chat_id)
        if chat_id != self._current:
            return
        if conversation is None:
            self._reading.reveal_later(chat_id, turn_id)
            return
        if turn_id in {turn.id for turn in conversation.turns()}:
            if not conversation.is_on_path(turn_id):
                conversation.select(turn_id)
                self.keep_branch(conversation)
                self.answers.show(conversation)
            self._window.chats.reveal(turn_id)

    def leave(self, chat_id: str) -> str | None:
        """A chat is deleted: stop its answer, show another one; the turn that waited in it."""
        self.answers.stop(chat_id)
        if chat_id == self._current:
            self.show_chat(None)
        self._show_list()
        return self.queue.take(chat_id)

    def come_back(self, chat_id: str, queued_id: str | None) -> None:
        """A deleted chat is there again; a message that waited in it waits again."""
        if queued_id is not None:
            self.queue.put(chat_id, queued_id)
        self.select(chat_id)
        self._show_list()
        self.queue.send()

    def prepare_to_close(self) -> None:
        """Begin nothing more: what waits is sent after the next start."""
        self.is_closing = True
        self._draft_timer.stop()
        self._watch.stop()
        self.library.stop()

    def close(self) -> None:
        """Keep what is unfinished and unsent, and close the database."""
        self._keep_draft()
        self._reading.close()
        self.answers.save_all()
        self._unsaved.close()
        self._store.close()

    # How a message goes

    def send_to(self, conversation: Conversation, text: str) -> None:
        """Put a message at the end of the active path and have it answered now, or when that can be."""
        self._forget_notices()
        chat_id, queued_id = conversation.chat_id, self.queue.waiting_in(conversation.chat_id)
        if queued_id is not None:
            self.queue.change(conversation, joined(conversation.turn(queued_id).content, text))
            return
        can_go = self.can_answer(chat_id)
        turn = conversation.append("user", text, "done" if can_go else "queued")
        self.show_message(turn, is_new=True)
        self.library.list.change(chat_id, updated_s=turn.created_s)
        if can_go:
            self.begin_answer(conversation, turn, is_stored=False)
        else:
            self.queue.put(chat_id, turn.id)
            self._store.write(chat_id, lambda store: store.add_message(turn))
            self._show_list()

    def wake(self) -> None:
        """Load the model again that has given its memory back; where none rests, nothing happens."""
        self._desk.wake()

    def can_answer(self, chat_id: str) -> bool:
        """Whether a message could go now: one at a time in a chat, and as many chats as the model serves."""
        plan, busy = self._desk.plan, self.answers.chat_ids | self.queue.claiming
        is_free = plan is not None and chat_id not in busy and len(busy) < plan.max_sequences
        return is_free and not self.is_closing

    def begin_answer(self, conversation: Conversation, question: Turn, is_stored: bool) -> None:
        """Begin an answer, and show the list with it."""
        plan = self._desk.plan
        assert plan is not None
        self.answers.begin(conversation, question, plan, is_stored)

    def _open_conversation(self, text: str) -> Conversation:
        """The current conversation, or a new chat that is named after its first message."""
        conversation = self.current_conversation
        if conversation is not None and conversation.chat_id in self.library.list:
            return conversation
        chat_id, now, title = self._current or new_id(), self._clock(), title_of(headline(text))
        is_temporary = self._store.is_temporary(chat_id)
        self.library.list.put(Chat(chat_id, title, now, now), is_temporary=is_temporary)
        self._current = chat_id
        self._window.chats.end_search()  # the new chat is to be seen in the list
        self._desk.set_chat_shown(True)
        self._store.write(chat_id, lambda store: store.create_chat(title, chat_id))
        self.begun.emit(chat_id)
        return self.conversations.setdefault(chat_id, Conversation(chat_id, clock=self._clock))

    # What comes back

    def _on_answer_ended(self, chat_id: str) -> None:
        plan, tps = self._desk.plan, self.answers.last_tps
        if plan is not None and tps is not None and chat_id in self.library.list:
            name = plan.model.name
            self.library.list.change(chat_id, model=name, decode_tps=tps)
            self._store.write(chat_id, lambda store: store.describe_chat(chat_id, name, tps))
        self._show_state()
        self.queue.send()

    def _on_answer_refused(self, answer: RunningAnswer) -> None:
        """A message that could not even be read goes back to where it was typed, if that place is free."""
        is_free = answer.chat_id == self._current and not self._window.composer_text().strip()
        conversation = answer.conversation
        if (
            not is_free
            or self.queue.waiting_in(answer.chat_id)
            or not conversation.is_on_path(answer.turn_id)
        ):
            return  # it stays in view as failed; what waits behind it hangs on it
        question = conversation.turn(answer.question_id)
        conversation.rewind(question.parent_id)
        self.keep_branch(conversation)
        self.answers.show(conversation)
        self._window.set_composer_text(question.content)

    def _on_opened(self) -> None:
        """The list is here."""
        if self._current is None and not self._window.composer_text():
            self._window.set_composer_text(self._drafts.get(NEW_CHAT))
        self._watch.start()
        self._show_list()
        self.queue.send()

    # What is shown

    def show_chat(self, chat_id: str | None) -> None:
        """Show a chat, with the text that was left unsent in it."""
        self._keep_draft()
        self.branches.forget()
        self._current = chat_id
        self._window.set_composer_text(self._drafts.get(chat_id))
        self._forget_notices()
        self.show_transcript()

    def show_transcript(self) -> None:
        """Show the active path of the current chat."""
        self._desk.set_chat_shown(self._current is not None)
        self._window.chats.set_temporary(
            self._current is not None and self._store.is_temporary(self._current)
        )
        self.answers.show(self.current_conversation)
        self._show_state()
        self.shown.emit()

    def _keep_draft(self) -> None:
        draft = self.branches.held_text if self.branches.is_editing else self._window.composer_text()
        self._drafts.save(self._current, draft)

    def keep_branch(self, conversation: Conversation) -> None:
        """Store which path of a chat is active."""
        chat_id, active_id = conversation.chat_id, conversation.active_id or BEFORE_ALL
        self.library.list.change(chat_id, active_id=active_id)
        self._store.write(chat_id, lambda store: store.select_branch(chat_id, active_id))

    def _forget_notices(self) -> None:
        """What was said of the message before, or in another chat, goes; what is about other things stays."""
        self._window.clear_notice(ABOUT_ANSWER)

    def show_message(self, turn: Turn, *, is_new: bool) -> None:
        conversation = self.conversations[turn.chat_id]
        if turn.chat_id == self._current and conversation.is_on_path(turn.id):
            show = self._window.append_message if is_new else self._window.set_message
            show(turn_view(conversation, turn))

    def _show_state(self, _: str = "") -> None:
        self._desk.set_answering(self.answers.count > 0)
        self._window.set_generating(self.is_answering)
        self._show_list()

    def _show_list(self) -> None:
        self.library.show()
