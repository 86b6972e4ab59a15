"""The answers that are being written: from the stored question to the stored answer. Knows no list of chats.

Every turn is on the disk before the engine sees it, and an answer at least once a second while it grows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import QObject, Signal

from app import readouts
from app.conversation import Conversation, Turn
from app.engine_thread import NO_STATS, Cancel, EngineThread, Submit
from app.preferences import Preferences
from app.running_answer import STATUS, RunningAnswer, message_view
from app.store import Store
from app.store_lane import StoreLane
from engine.types import Chunk, Failed, Finished, GenerateRequest, Prefilled, StepStats
from ui import numbers
from ui.main_window import MainWindow
from ui.values import CounterView, NoticeView, SpeedView

SAVE_EVERY_S = 1.0
STATS_EVERY_S = 0.5
SHOW_READING_S = 0.5  # a shorter pause needs no explanation
SETTLED_TOKENS = 5  # the first steps of an answer say little about its speed
CONTEXT_FULL = NoticeView(
    "info",
    "The context is full.",
    "What was written is kept. Raise the context length in Tuning and press Apply, or start a new chat.",
)


class AnswerDesk(QObject):
    """Must be told of every engine event through ``handle``.

    ``began`` and ``ended`` carry a chat's id, ``refused`` a RunningAnswer whose message could not even be
    read. ``is_shown`` tells whether a chat is the one in the transcript.
    """

    began = Signal(str)
    ended = Signal(str)
    refused = Signal(object)

    def __init__(
        self,
        window: MainWindow,
        engine: EngineThread,
        store: StoreLane,
        preferences: Preferences,
        is_shown: Callable[[str], bool],
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self._window = window
        self._engine = engine
        self._store = store
        self._preferences = preferences
        self._is_chat_shown = is_shown
        self._clock = clock
        self._answers: dict[str, RunningAnswer] = {}
        self._context = 0
        self.last_tps: float | None = None

    @property
    def count(self) -> int:
        """Answers that are being written."""
        return len(self._answers)

    @property
    def chat_ids(self) -> frozenset[str]:
        """Chats in which an answer is being written."""
        return frozenset(answer.chat_id for answer in self._answers.values())

    def begin(self, conversation: Conversation, question: Turn, context: int, is_stored: bool) -> None:
        """Show an empty answer, store question and answer, then submit: a crash loses no question."""
        settings = self._preferences.value
        messages = conversation.messages(settings.system_prompt)
        turn = conversation.append("assistant", "", "reading")
        now = self._clock()
        answer = RunningAnswer(conversation, turn.id, question.id, now, now)
        self._answers[turn.id], self._context = answer, context
        if self._is_shown(answer):
            self._window.append_message(message_view(turn))
        request = GenerateRequest(turn.id, messages, settings.sampling(), settings.max_tokens)
        new = (turn,) if is_stored else (question, turn)

        def store_new(store: Store) -> None:
            for each in new:
                store.add_message(each)

        def unstored(failed: Failed) -> None:
            # A full disk is no reason not to answer: the chat lives in memory and the user is told.
            self._store.failed.emit(failed)
            self._submit(answer, request)

        self._store.run(
            store_new,
            on_done=lambda _: self._submit(answer, request),
            on_error=unstored,
        )
        self.began.emit(conversation.chat_id)

    def stop(self, chat_id: str | None) -> None:
        """Stop the answer of a chat; what is written stays."""
        for answer in self._answers.values():
            if answer.chat_id == chat_id:
                answer.is_stopped = True
                if answer.is_submitted:
                    self._engine.post(Cancel(answer.turn_id))

    def current_turn(self, turn: Turn) -> Turn:
        """``turn`` with what is written so far, if it is an answer that is being written."""
        answer = self._answers.get(turn.id)
        return answer.turn() if answer else turn

    def save_all(self) -> None:
        """Write every unfinished answer as it is now: the end may be near."""
        for answer in self._answers.values():
            self._save(replace(answer.turn(), status="stopped"))

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

    def _submit(self, answer: RunningAnswer, request: GenerateRequest) -> None:
        if answer.is_stopped:  # before the engine has heard of it: it ends here
            self.handle(Finished(answer.turn_id, "cancelled", "", NO_STATS))
            return
        answer.is_submitted = True
        self._engine.post(Submit(request))

    def _on_prefilled(self, answer: RunningAnswer, event: Prefilled) -> None:
        answer.note, answer.prompt_tokens = " ".join(event.notes), event.prompt_tokens
        is_slow = self._clock() - answer.begun_s >= SHOW_READING_S
        if not answer.parts and self._is_shown(answer) and (is_slow or answer.note):
            new = event.prompt_tokens - event.reused_tokens
            stats = f"{numbers.count(new)} tokens" if is_slow else ""
            self._window.set_message(message_view(answer.turn(), stats=stats, note=answer.note))

    def _on_chunk(self, answer: RunningAnswer, event: Chunk) -> None:
        if not answer.parts:
            turn = answer.conversation.update(answer.turn_id, status="writing")
            if self._is_shown(answer):
                self._window.set_message(message_view(turn, note=answer.note))
        answer.parts.append(event.text)
        if self._is_shown(answer):
            self._window.append_text(answer.turn_id, event.text)
        now = self._clock()
        if now - answer.saved_s >= SAVE_EVERY_S:
            answer.saved_s = now
            self._save(answer.turn())

    def _on_step(self, answer: RunningAnswer, event: StepStats) -> None:
        is_new, answer.has_speed = not answer.has_speed, True
        rate = event.recent_tps if event.generated_tokens >= SETTLED_TOKENS else None
        self._window.set_speed(SpeedView(rate, True, event.ttft_s, None, event.step_ms, is_new))
        now = self._clock()
        if self._is_shown(answer) and answer.parts and now - answer.shown_s >= STATS_EVERY_S:
            answer.shown_s = now
            line = readouts.live_line(event)
            self._window.set_message(message_view(answer.turn(), stats=line, note=answer.note))
            used = answer.prompt_tokens + event.generated_tokens
            self._window.set_counter(CounterView(used, self._context))

    def _on_finished(self, answer: RunningAnswer, event: Finished) -> None:
        del self._answers[event.request_id]
        stats = event.stats
        kept = {
            "line": readouts.stats_line(stats) if stats.generated_tokens else "",
            "decode_tps": stats.decode_tps,
            "ttft_s": stats.ttft_s,
            "tokens": stats.generated_tokens,
            "seed": stats.seed,
            "note": answer.note,
        }
        text = event.text or answer.text
        turn = answer.conversation.update(
            answer.turn_id, content=text, status=STATUS[event.reason], stats=kept
        )
        self._save(turn)
        self.last_tps = stats.decode_tps
        if answer.has_speed:
            speed = readouts.prompt_speed(stats)
            self._window.set_speed(SpeedView(stats.decode_tps, False, stats.ttft_s, speed))
        if self._is_shown(answer):
            self._window.set_message(message_view(turn))
        self._explain(answer, event)
        self.ended.emit(answer.chat_id)

    def _explain(self, answer: RunningAnswer, event: Finished) -> None:
        """Say why an answer failed or had to end."""
        failed = answer.failure
        if failed is not None:
            notice = NoticeView("error", failed.message, failed.hint, (), failed.details)
            self._window.show_notice(notice)
            if not answer.parts and failed.kind != "bug":
                self.refused.emit(answer)
        elif event.reason == "context":
            self._window.show_notice(CONTEXT_FULL)

    def _save(self, turn: Turn) -> None:
        self._store.run(lambda store: store.update_message(turn))

    def _is_shown(self, answer: RunningAnswer) -> bool:
        return self._is_chat_shown(answer.chat_id)
