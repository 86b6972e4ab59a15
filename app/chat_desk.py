"""The chats' side of the window: what is sent, queued, written, stopped, stored. Knows no model files.

Every turn is on the disk before the engine sees it, and an answer at least once a second while it grows.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtCore import QObject, Signal

from app import readouts
from app.chat_list import ChatList
from app.conversation import Conversation, Turn, new_id, title_of
from app.engine_thread import Cancel, EngineThread, Submit
from app.io_thread import IoThread
from app.model_desk import ModelDesk
from app.preferences import Preferences
from app.running_answer import STATUS, RunningAnswer, message_view
from app.store import Chat, Store
from engine.types import Chunk, Failed, Finished, GenerateRequest, Prefilled, StepStats
from ui import numbers
from ui.main_window import MainWindow
from ui.values import NoticeAction, NoticeView, SpeedView

SAVE_EVERY_S = 1.0
STATS_EVERY_S = 0.25
SHOW_READING_S = 0.5  # a shorter pause needs no explanation
UNDO = "undo-delete"


class ChatDesk(QObject):
    """Owns conversations and running answers. Must be told of every engine event through ``handle``;
    ``answered`` fires when an answer has ended.
    """

    answered = Signal()

    def __init__(
        self,
        window: MainWindow,
        engine: EngineThread,
        io: IoThread,
        desk: ModelDesk,
        preferences: Preferences,
        open_store: Callable[[], Store],
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self._window = window
        self._engine = engine
        self._io = io
        self._desk = desk
        self._preferences = preferences
        self._clock = clock
        self._chats = ChatList()
        self._conversations: dict[str, Conversation] = {}
        self._current: str | None = None
        self._answers: dict[str, RunningAnswer] = {}
        self._queued: dict[str, str] = {}  # chat id → turn id
        self._deleted: Chat | None = None
        self._store: Store  # set by the first job of the database lane, used by the later ones
        self._io.submit(self._open, open_store, on_done=self._on_opened, on_error=self._on_store_error)
        desk.ready.connect(self._send_queued)

    @property
    def is_answering(self) -> bool:
        return bool(self._answers)

    @property
    def current_conversation(self) -> Conversation | None:
        return self._conversations.get(self._current) if self._current else None

    # What the user does

    def send(self, text: str) -> None:
        """Add a message to the current chat; it goes to the model now, or when one can answer."""
        if not text.strip():
            return
        if self._current is not None and self._current not in self._conversations:
            self._io.submit(lambda: text, on_done=self.send)  # after the chat's messages have been read
            return
        self._window.clear_notice()
        conversation = self._open_conversation(text)
        queued_id = self._queued.get(conversation.chat_id)
        if queued_id is not None:
            turn = conversation.turn(queued_id)
            turn = conversation.update(queued_id, content=f"{turn.content}\n\n{text}")
            self._write(lambda store: store.update_message(turn))
            self._window.set_message(message_view(turn))
            return
        can_go = self._desk.is_ready and self._answer_in(conversation.chat_id) is None
        turn = conversation.append("user", text, "done" if can_go else "queued")
        self._window.append_message(message_view(turn))
        self._chats.change(conversation.chat_id, updated_s=turn.created_s)
        if can_go:
            self._begin_answer(conversation, turn, is_stored=False)
        else:
            self._queued[conversation.chat_id] = turn.id
            self._write(lambda store: store.add_message(turn))
            self._say_waiting()
        self._show_list()

    def stop(self) -> None:
        """Stop the answer of the current chat; what is written stays."""
        answer = self._answer_in(self._current)
        if answer is not None:
            self._engine.post(Cancel(answer.turn_id))

    def new_chat(self) -> None:
        """Show an empty chat; it is kept with its first message."""
        self._show(None)

    def select(self, chat_id: str) -> None:
        """Show a chat; its messages are read when it is shown for the first time."""
        if chat_id in self._conversations:
            self._show(chat_id)
            return
        self._current = chat_id
        self._io.submit(
            lambda: (chat_id, self._store.messages(chat_id)),
            on_done=self._on_messages,
            on_error=self._on_store_error,
        )

    def rename(self, chat_id: str, title: str) -> None:
        title = title_of(title)
        self._chats.change(chat_id, title=title)
        self._write(lambda store: store.rename_chat(chat_id, title))
        self._show_list()

    def delete(self, chat_id: str) -> None:
        """Take a chat away; it can be undone from the notice."""
        chat = self._chats.remove(chat_id)
        if chat is None:
            return
        answer = self._answer_in(chat_id)
        if answer is not None:
            self._engine.post(Cancel(answer.turn_id))
        self._queued.pop(chat_id, None)
        self._deleted = chat
        self._write(lambda store: store.delete_chat(chat_id))
        if chat_id == self._current:
            self._show(None)
        self._show_list()
        undo = NoticeAction(UNDO, "Undo")
        self._window.show_notice(NoticeView("info", "Chat deleted.", chat.title, (undo,)))

    def undo_delete(self) -> None:
        chat, self._deleted = self._deleted, None
        if chat is not None:
            self._chats.put(chat)
            self._write(lambda store: store.restore_chat(chat.id))
            self._window.clear_notice()
            self._show_list()

    def flush(self) -> None:
        """Write every unfinished answer as it is now: the end may be near."""
        for answer in self._answers.values():
            conversation = self._conversations[answer.chat_id]
            turn = conversation.update(answer.turn_id, content=answer.text, status="stopped")
            self._write(lambda store, turn=turn: store.update_message(turn))  # type: ignore[misc]

    def close(self) -> None:
        """Write what is unfinished and close the database."""
        self.flush()
        self._write(lambda store: store.close())

    # What the engine says

    def handle(self, event: object) -> None:
        """Take an event of a request; those of requests that are no longer known are dropped."""
        answer = self._answers.get(getattr(event, "request_id", None) or "")
        if answer is None:
            return
        match event:
            case Prefilled():
                self._on_prefilled(answer, event)
            case Chunk():
                self._on_chunk(answer, event)
            case StepStats():
                self._on_step(answer, event)
            case Failed():
                answer.failure = event
            case Finished():
                self._on_finished(answer, event)

    def _on_prefilled(self, answer: RunningAnswer, event: Prefilled) -> None:
        answer.note = " ".join(event.notes)
        is_slow = self._clock() - answer.begun_s >= SHOW_READING_S
        if not answer.parts and self._is_shown(answer) and (is_slow or answer.note):
            new = event.prompt_tokens - event.reused_tokens
            stats = f"{numbers.count(new)} tokens" if is_slow else ""
            self._window.set_message(message_view(self._turn_of(answer), stats=stats, note=answer.note))

    def _on_chunk(self, answer: RunningAnswer, event: Chunk) -> None:
        is_first = not answer.parts
        answer.parts.append(event.text)
        now = self._clock()
        if is_first:
            self._conversations[answer.chat_id].update(answer.turn_id, status="writing")
        if self._is_shown(answer):
            if is_first:
                self._window.set_message(message_view(self._turn_of(answer), text="", note=answer.note))
            self._window.append_text(answer.turn_id, event.text)
        if now - answer.saved_s >= SAVE_EVERY_S:
            answer.saved_s = now
            turn = self._turn_of(answer)
            self._write(lambda store: store.update_message(turn))

    def _on_step(self, answer: RunningAnswer, event: StepStats) -> None:
        is_new = answer.speed is None
        answer.speed = event
        rate = event.recent_tps or event.decode_tps
        self._window.set_speed(SpeedView(rate, True, event.ttft_s, None, event.step_ms, is_new_answer=is_new))
        now = self._clock()
        if self._is_shown(answer) and answer.parts and now - answer.shown_s >= STATS_EVERY_S:
            answer.shown_s = now
            self._window.set_message(
                message_view(self._turn_of(answer), stats=readouts.live_line(event), note=answer.note)
            )

    def _on_finished(self, answer: RunningAnswer, event: Finished) -> None:
        del self._answers[event.request_id]
        stats = event.stats
        conversation = self._conversations[answer.chat_id]
        kept = {
            "line": readouts.stats_line(stats) if stats.generated_tokens else "",
            "decode_tps": stats.decode_tps,
            "ttft_s": stats.ttft_s,
            "tokens": stats.generated_tokens,
            "seed": stats.seed,
            "note": answer.note,
        }
        turn = conversation.update(
            answer.turn_id, content=event.text or answer.text, status=STATUS[event.reason], stats=kept
        )
        self._write(lambda store: store.update_message(turn))
        self._describe(answer.chat_id, stats.decode_tps)
        if stats.generated_tokens:
            self._window.set_speed(
                SpeedView(stats.decode_tps, False, stats.ttft_s, readouts.prompt_speed(stats))
            )
        if answer.failure is not None:
            self._show_failure(answer, answer.failure)
        elif self._is_shown(answer):
            self._window.set_message(message_view(turn))
        self._after_answer()

    def _show_failure(self, answer: RunningAnswer, failed: Failed) -> None:
        """Say what failed. A message that could not even be read goes back to where it was typed."""
        turn = self._turn_of(answer)
        self._window.show_notice(NoticeView("error", failed.message, failed.hint, (), failed.details))
        if turn.content or failed.kind == "bug":
            if self._is_shown(answer):
                self._window.set_message(message_view(turn))
            return
        conversation = self._conversations[answer.chat_id]
        question = conversation.turn(answer.question_id)
        conversation.rewind(question.parent_id)
        if self._is_shown(answer):
            self._window.show_chat([message_view(each) for each in conversation.path()])
            if not self._window.composer_text().strip():
                self._window.set_composer_text(question.content)

    def _after_answer(self) -> None:
        self._desk.set_answering(self.is_answering)
        self._show_state()
        self._send_queued()
        self.answered.emit()

    # How an answer begins

    def _send_queued(self) -> None:
        """Begin the queued messages that can be answered now."""
        if not self._desk.is_ready:
            return
        for chat_id, turn_id in list(self._queued.items()):
            if self._answer_in(chat_id) is None:
                del self._queued[chat_id]
                conversation = self._conversations[chat_id]
                turn = conversation.update(turn_id, status="done")
                if chat_id == self._current:
                    self._window.set_message(message_view(turn))
                self._write(lambda store, turn=turn: store.update_message(turn))  # type: ignore[misc]
                self._begin_answer(conversation, turn, is_stored=True)

    def _begin_answer(self, conversation: Conversation, question: Turn, is_stored: bool) -> None:
        """Show an empty answer, store question and answer, then submit: a crash loses no question."""
        messages = conversation.messages(self._preferences.value.system_prompt)
        turn = conversation.append("assistant", "", "reading")
        now = self._clock()
        self._answers[turn.id] = RunningAnswer(conversation.chat_id, turn.id, question.id, now, saved_s=now)
        if conversation.chat_id == self._current:
            self._window.append_message(message_view(turn))
        settings = self._preferences.value
        request = GenerateRequest(turn.id, messages, settings.sampling(), settings.max_tokens)

        def store_both() -> None:
            if not is_stored:
                self._store.add_message(question)
            self._store.add_message(turn)

        self._io.submit(
            store_both,
            on_done=lambda _: self._submit(request),
            on_error=lambda f: self._submit_unstored(request, f),
        )
        self._desk.set_answering(True)
        self._show_state()

    def _submit(self, request: GenerateRequest) -> None:
        self._engine.post(Submit(request))

    def _submit_unstored(self, request: GenerateRequest, failed: Failed) -> None:
        """A full disk is no reason not to answer; the chat lives in memory and the user is told."""
        self._on_store_error(failed)
        self._submit(request)

    def _open_conversation(self, text: str) -> Conversation:
        """The current conversation, or a new chat that is named after its first message."""
        if self._current is not None and self._current in self._conversations:
            return self._conversations[self._current]
        chat_id, now, title = new_id(), self._clock(), title_of(text)
        self._chats.put(Chat(chat_id, title, now, now))
        self._conversations[chat_id] = Conversation(chat_id, clock=self._clock)
        self._current = chat_id
        self._write(lambda store: store.create_chat(title, chat_id))
        return self._conversations[chat_id]

    def _say_waiting(self) -> None:
        if not self._desk.is_ready and not self._desk.is_coming:
            text = "It is sent when a model is ready. Download the starter, or choose a model."
            self._window.show_notice(NoticeView("info", "Your message is waiting for a model.", text))

    # What is shown and stored

    def _show(self, chat_id: str | None) -> None:
        self._current = chat_id
        conversation = self.current_conversation
        turns = conversation.path() if conversation else ()
        self._window.show_chat([message_view(self._with_text(turn)) for turn in turns])
        self._show_state()

    def _with_text(self, turn: Turn) -> Turn:
        answer = self._answers.get(turn.id)
        return self._turn_of(answer) if answer is not None else turn

    def _turn_of(self, answer: RunningAnswer) -> Turn:
        """The answer's turn with the text written so far."""
        conversation = self._conversations[answer.chat_id]
        turn = conversation.turn(answer.turn_id)
        return turn if not answer.parts else conversation.update(answer.turn_id, content=answer.text)

    def _show_state(self) -> None:
        self._window.set_generating(self._answer_in(self._current) is not None)
        self._show_list()

    def _show_list(self) -> None:
        writing = frozenset(answer.chat_id for answer in self._answers.values())
        self._window.set_chats(self._chats.rows(writing, self._clock()), self._current)

    def _describe(self, chat_id: str, decode_tps: float | None) -> None:
        plan = self._desk.plan
        if plan is None or chat_id not in self._chats:
            return
        name = plan.model.name
        self._chats.change(chat_id, model=name, decode_tps=decode_tps)
        self._write(lambda store: store.describe_chat(chat_id, name, decode_tps))

    def _answer_in(self, chat_id: str | None) -> RunningAnswer | None:
        return next((answer for answer in self._answers.values() if answer.chat_id == chat_id), None)

    def _is_shown(self, answer: RunningAnswer) -> bool:
        return answer.chat_id == self._current

    def _open(self, open_store: Callable[[], Store]) -> tuple[str | None, tuple[Chat, ...]]:
        self._store = open_store()
        return self._store.notice or self._store.read_only_reason, self._store.list_chats()

    def _on_opened(self, opened: tuple[str | None, tuple[Chat, ...]]) -> None:
        notice, chats = opened
        self._chats.load(chats)
        if notice:
            self._window.show_notice(NoticeView("warning", "Chats", notice))
        self._show_list()

    def _on_messages(self, result: tuple[str, tuple[Turn, ...]]) -> None:
        chat_id, turns = result
        chat = self._chats.get(chat_id)
        if chat_id not in self._conversations and chat is not None:
            self._conversations[chat_id] = Conversation(chat_id, turns, chat.active_id, self._clock)
        if chat_id == self._current:
            self._show(chat_id)

    def _write(self, work: Callable[[Store], object]) -> None:
        self._io.submit(lambda: work(self._store), on_error=self._on_store_error)

    def _on_store_error(self, failed: Failed) -> None:
        text = f"{failed.message} {failed.hint} The chat stays in this window."
        self._window.show_notice(
            NoticeView("error", "The chat could not be saved.", text, (), failed.details)
        )
