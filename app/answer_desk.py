"""The answers that are being written: from the stored question to the stored answer. Knows no list of chats.

Every turn is on the disk before the engine sees it, and an answer at least once a second while it grows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from PySide6.QtCore import QObject, Signal

from app.answer_figures import speed_view
from app.conversation import Conversation, Turn
from app.engine_thread import NO_STATS, Cancel, EngineThread, Submit
from app.left_out import left_out_of
from app.preferences import Preferences
from app.presets import applied
from app.running_answer import RunningAnswer, message_view, turn_view
from app.settings import Settings
from app.speed_gauge import SpeedGauge
from app.store import Store
from app.store_lane import StoreLane
from engine.events import Chunk, ContextShifted, Failed, Finished, Paused, Prefilled, StepStats
from engine.types import GenerateRequest, LoadPlan, Message
from engine.words import tr
from ui import numbers
from ui.chat_values import CounterView, MessageView
from ui.gauge_values import SpeedView
from ui.main_window import MainWindow
from ui.values import NoticeAction, NoticeView

SAVE_EVERY_S = 1.0
STATS_EVERY_S = 0.25  # the digits change at most four times a second
ABOUT_ANSWER = "about-answer"  # the key of what is said of the last message and its answer
PLAIN = "plain-text"  # the action of a notice: continue the text of a model without a template
SHOW_READING_S = 0.5  # a shorter pause needs no explanation


class AnswerDesk(QObject):
    """Must be told of every engine event through ``handle``.

    ``began`` and ``ended`` carry a chat's id, ``refused`` a RunningAnswer whose message could not even be
    read; ``shown`` says that another chat or branch is in view. ``is_shown`` tells whether a chat is the one
    in the transcript.
    """

    began = Signal(str)
    ended = Signal(str)
    shown = Signal()
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
        self._measured_id = ""  # of the answer in view whose figures the gauges show
        self.gauge = SpeedGauge(window, lambda turn_id: turn_id == self._measured_id, clock)
        self.last_tps: float | None = None
        # what a chat has of its own, by the names of settings
        self.options_of: Callable[[str], Mapping[str, object]] = lambda _: {}
        self.plain_model = ""  # path of a model without a template whose texts are continued as they are

    @property
    def count(self) -> int:
        """Answers that are being written."""
        return len(self._answers)

    @property
    def chat_ids(self) -> frozenset[str]:
        """Chats in which an answer is being written."""
        return frozenset(answer.chat_id for answer in self._answers.values())

    @property
    def is_one_in_view(self) -> bool:
        """Whether an answer is being written in what is in view."""
        return any(self._is_shown(answer) for answer in self._answers.values())

    def begin(self, conversation: Conversation, question: Turn, plan: LoadPlan, is_stored: bool) -> None:
        """Show an empty answer, store question and answer, then submit: a crash loses no question."""
        system_prompt = self._settings(conversation.chat_id).system_prompt
        messages = conversation.messages(system_prompt, leaf_id=question.id)
        turn = conversation.reply(question.id, "", "reading")
        now = self._clock()
        answer = RunningAnswer(conversation, turn.id, question.id, now, now)
        if self._is_shown(answer):
            self._window.append_message(turn_view(conversation, turn))
        new = (turn,) if is_stored else (question, turn)

        def store_new(store: Store) -> None:
            for each in new:
                store.add_message(each)

        self._start(answer, self._request(answer, messages, plan), store_new)

    def go_on(self, conversation: Conversation, question: Turn, before: Turn, plan: LoadPlan) -> None:
        """Continue the unfinished last answer of a chat: what comes is added to what it says."""
        system_prompt = self._settings(conversation.chat_id).system_prompt
        messages = conversation.messages(system_prompt, is_continued=True)
        turn = conversation.update(before.id, status="reading")
        now, shown = self._clock(), message_view(before)
        answer = RunningAnswer(conversation, turn.id, question.id, now, now, before)
        answer.thinking_s, answer.note = shown.thinking_s, shown.note
        answer.left_out = left_out_of(before.stats)
        if self._is_shown(answer):
            self._window.set_message(answer.view(now))
        request = replace(self._request(answer, messages, plan), continues=True)
        self._start(answer, request, lambda store: store.continue_message(turn))

    def _settings(self, chat_id: str) -> Settings:
        return applied(self._preferences.value, self.options_of(chat_id))

    def _request(
        self, answer: RunningAnswer, messages: tuple[Message, ...], plan: LoadPlan
    ) -> GenerateRequest:
        self._context = plan.context
        settings = self._settings(answer.chat_id)
        return GenerateRequest(
            answer.turn_id,
            messages,
            settings.sampling(),
            settings.max_tokens,
            template=replace(settings.template(), is_plain=plan.model.path == self.plain_model),
            when_full=settings.when_full,
            speculate=self._preferences.speculation(plan),
        )

    def _start(
        self, answer: RunningAnswer, request: GenerateRequest, write: Callable[[Store], bool | None]
    ) -> None:
        def stored(is_ours: bool | None) -> None:
            if is_ours is False:
                self._give_up(answer)
            else:
                self._submit(answer, request)

        def unstored(failed: Failed) -> None:
            # A full disk is no reason not to answer: the chat lives in memory and the user is told.
            self._store.failed.emit(failed)
            self._submit(answer, request)

        self._answers[answer.turn_id] = answer
        self._store.write(answer.chat_id, write, on_done=stored, on_error=unstored)
        self.began.emit(answer.chat_id)

    def _give_up(self, answer: RunningAnswer) -> None:
        """Another window goes on with this answer; here it stays as it was."""
        before = answer.before
        assert before is not None
        del self._answers[answer.turn_id]
        answer.conversation.update(answer.turn_id, status=before.status, stats=before.stats)
        if self._is_shown(answer):
            self._window.set_message(turn_view(answer.conversation, before))
            title = tr("Another window goes on with this answer.")
            text = tr("It is shown here as it is written.")
            self._window.show_notice(NoticeView("info", title, text, key=ABOUT_ANSWER))
        self.ended.emit(answer.chat_id)

    def stop(self, chat_id: str | None) -> None:
        """Stop the answer of a chat; what is written stays."""
        for answer in self._answers.values():
            if answer.chat_id == chat_id:
                answer.is_stopped = True
                if answer.is_submitted:
                    self._engine.post(Cancel(answer.turn_id))

    def show(self, conversation: Conversation | None) -> None:
        """Show a chat as it is now, with the figures of its last answer; None is one that has not begun."""
        turns = conversation.path() if conversation else ()
        replies = {turn.parent_id: turn for turn in turns if turn.role == "assistant"}
        self._window.show_chat(
            [self._turn_view(conversation, turn, replies.get(turn.id)) for turn in turns]
            if conversation
            else []
        )
        answers = reversed(replies.values())
        last = next((turn for turn in answers if turn.stats or self.gauge.has(turn.id)), None)
        self._measured_id = last.id if last else ""
        self.gauge.show(self._measured_id, speed_view(last.stats) if last else SpeedView())
        if conversation is not None:
            self._show_left_out(conversation)
        self.shown.emit()

    def _turn_view(self, conversation: Conversation, turn: Turn, reply: Turn | None) -> MessageView:
        """``turn`` with what is written so far, and with what was left out for the ``reply`` to it."""
        if turn.id in self._answers:
            return self._answers[turn.id].view(self._clock())
        left_out = left_out_of(reply.stats) if reply and turn.role == "user" else None
        return turn_view(conversation, turn, left_out.sentence if left_out else "")

    def _show_left_out(self, conversation: Conversation) -> None:
        """Set back what the last answer was made without."""
        answers = [turn for turn in conversation.path() if turn.role == "assistant"]
        left_out = left_out_of(answers[-1].stats) if answers else None
        turns: Sequence[Turn] = conversation.oldest(left_out.turns) if left_out and left_out.turns else ()
        self._window.set_left_out(frozenset(turn.id for turn in turns))

    def save_all(self) -> None:
        """Write every unfinished answer as it is now: the end may be near."""
        for answer in self._answers.values():
            self._save(replace(answer.turn(self._clock()), status="stopped"))

    def handle(self, event: object) -> None:
        """Take an event of a request; those of requests that are no longer known are dropped."""
        answer = self._answers.get(getattr(event, "request_id", None) or "")
        if answer is None:
            return
        match event:
            case Prefilled():
                self._on_prefilled(answer, event)
            case ContextShifted():
                self._on_shifted(answer, event)
            case Paused():
                self._on_paused(answer)
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
        self.gauge.read(answer.turn_id)
        answer.note = " ".join(event.notes) or answer.note
        # What was generated before a pause is read again, as a part of the prompt.
        answer.prompt_tokens = event.prompt_tokens - (answer.step.generated_tokens if answer.step else 0)
        if self._clock() - answer.begun_s >= SHOW_READING_S:
            count = numbers.count(event.prompt_tokens - event.reused_tokens)
            answer.reading = tr("{count} tokens").format(count=count)
        was_paused, answer.is_paused = answer.is_paused, False
        if was_paused or (not answer.has_begun and (answer.reading or event.notes)):
            self._refresh(answer)

    def _on_shifted(self, answer: RunningAnswer, event: ContextShifted) -> None:
        """Say what was left out above the question, and set it back."""
        left_out = answer.shift(event)
        self._save(answer.turn(self._clock()))
        if self._is_shown(answer):
            question = answer.conversation.turn(answer.question_id)
            self._window.set_message(turn_view(answer.conversation, question, left_out.sentence))
            self._show_left_out(answer.conversation)

    def _on_paused(self, answer: RunningAnswer) -> None:
        answer.is_paused = True
        self.gauge.pause(answer.turn_id)
        self._refresh(answer)

    def _on_chunk(self, answer: RunningAnswer, event: Chunk) -> None:
        now, is_shown = self._clock(), self._is_shown(answer)
        is_thinking = event.kind == "thinking"
        if not answer.has_begun:
            answer.conversation.update(answer.turn_id, status="writing")
        is_news = not (answer.thoughts if is_thinking else answer.parts) or answer.is_paused
        answer.is_paused = False
        if is_thinking:
            answer.begin_thinking(now)
        elif is_news:
            answer.end_thinking(now)
        if is_news and is_shown:  # a new part begins, what is known of the one before is final; or it goes on
            self._window.set_message(answer.view(now))
        (answer.thoughts if is_thinking else answer.parts).append(event.text)
        if is_shown:
            self._window.append_text(answer.turn_id, event.text, is_thinking=is_thinking)
        if now - answer.saved_s >= SAVE_EVERY_S:
            answer.saved_s = now
            self._save(answer.turn(now))

    def _on_step(self, answer: RunningAnswer, event: StepStats) -> None:
        answer.step = event
        used = answer.prompt_tokens + event.generated_tokens
        if self._is_shown(answer):
            self._measured_id = answer.turn_id
        self.gauge.step(answer.turn_id, event, used, lambda: f"{answer.thinking} {answer.text}")
        now = self._clock()
        if self._is_shown(answer) and answer.has_begun and now - answer.shown_s >= STATS_EVERY_S:
            answer.shown_s = now
            self._window.set_message(answer.view(now))
            self._window.set_counter(CounterView(used, self._context))

    def _refresh(self, answer: RunningAnswer) -> None:
        if self._is_shown(answer):
            self._window.set_message(answer.view(self._clock()))

    def _on_finished(self, answer: RunningAnswer, event: Finished) -> None:
        del self._answers[event.request_id]
        answer.end_thinking(self._clock())
        predicted_tps = self.gauge.end(answer.turn_id, event.stats)
        turn = answer.ended(event, predicted_tps)
        self._save(turn)
        self.last_tps = event.stats.decode_tps
        if self._is_shown(answer):
            self._window.set_message(turn_view(answer.conversation, turn))
            self._show_left_out(answer.conversation)
        self._explain(answer, event)
        self.ended.emit(answer.chat_id)

    def _explain(self, answer: RunningAnswer, event: Finished) -> None:
        """Say why an answer failed or had to end."""
        failed, is_shown = answer.failure, self._is_shown(answer)
        if failed is not None:
            is_offered = failed.kind == "no-template" and is_shown and answer.before is None
            actions = (NoticeAction(PLAIN, tr("Continue my text")),) if is_offered else ()
            title = failed.message
            if not is_shown:
                title = tr("In another chat: {message}").format(message=title)
            key = ABOUT_ANSWER if is_shown else ""
            self._window.show_notice(NoticeView("error", title, failed.hint, actions, failed.details, key))
            if answer.before is None and not answer.has_begun and failed.kind != "bug":
                self.refused.emit(answer)
        elif event.reason == "context" and is_shown:
            self._window.show_notice(_context_full())

    def _save(self, turn: Turn) -> None:
        self._store.write(turn.chat_id, lambda store: store.update_message(turn))

    def _is_shown(self, answer: RunningAnswer) -> bool:
        """Whether its chat is shown, and of that the branch it is written in."""
        return self._is_chat_shown(answer.chat_id) and answer.conversation.is_on_path(answer.turn_id)


def _context_full() -> NoticeView:
    text = tr(
        "What was written is kept. Raise the context length in Tuning and press Apply, or start a new chat."
    )
    return NoticeView("info", tr("The context is full."), text, key=ABOUT_ANSWER)
