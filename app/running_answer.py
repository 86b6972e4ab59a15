"""An answer that is being written, and a turn as the transcript shows it: values, no window, no store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.answer_figures import details, joined, kept, line
from app.conversation import ELSEWHERE, Conversation, Turn
from app.left_out import LEFT_OUT, LeftOut
from app.readouts import live_line
from engine.events import ContextShifted, Failed, Finished, StepStats
from engine.words import mark, tr
from ui.chat_values import MessageView

# How an answer ended, in the words of the engine and of the transcript.
STATUS = {"stop": "done", "length": "length", "context": "context", "cancelled": "stopped", "error": "failed"}


WAITING = mark("Waiting for room: another chat is being answered")
IN_ANOTHER_WINDOW = mark("Being written in another window")


@dataclass(slots=True)
class RunningAnswer:
    """An answer that is being written; its turn's id is the request's id.

    ``before`` is the unfinished answer that goes on; ``parts`` and ``thoughts`` are what came since.
    """

    conversation: Conversation
    turn_id: str
    question_id: str
    begun_s: float
    saved_s: float
    before: Turn | None = None
    shown_s: float = 0.0
    parts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    thinking_since_s: float | None = None  # when the first of the thoughts came
    thinking_s: float | None = None  # how long it thought, once that is over
    prompt_tokens: int = 0
    reading: str = ""  # how much of the prompt is being read, where that takes long
    note: str = ""
    left_out: LeftOut | None = None
    step: StepStats | None = None  # the newest
    failure: Failed | None = None
    is_submitted: bool = False
    is_stopped: bool = False  # by the user, maybe before the engine has heard of it
    is_paused: bool = False
    has_shifted: bool = False  # and ``left_out`` is of this request, not of the answer before it

    @property
    def chat_id(self) -> str:
        return self.conversation.chat_id

    @property
    def has_begun(self) -> bool:
        """Whether anything new is written, thoughts or text."""
        return bool(self.parts or self.thoughts)

    @property
    def text(self) -> str:
        """What is written of the answer so far."""
        return (self.before.content if self.before else "") + _joined(self.parts)

    @property
    def thinking(self) -> str:
        """What was thought so far."""
        return (self.before.thinking if self.before else "") + _joined(self.thoughts)

    def turn(self, now_s: float) -> Turn:
        """The answer's turn with all that is written so far."""
        stats = dict(self._stats_before)
        if self.step is not None:
            stats |= kept(joined(self._stats_before, self.step))
        stats |= self._own_figures(now_s)
        return self.conversation.update(self.turn_id, self.text, stats=stats, thinking=self.thinking)

    def ended(self, event: Finished, predicted_tps: float | None = None) -> Turn:
        """The turn as it stays; what did not get further stays as it was."""
        before = self.before
        if before is not None and event.reason == "error" and not self.has_begun:
            return self.conversation.update(self.turn_id, status=before.status, stats=before.stats)
        figures = kept(joined(self._stats_before, event.stats)) | self._own_figures(0.0)
        figures["predicted_tps"] = predicted_tps
        text, thinking = event.text or _joined(self.parts), event.thinking or _joined(self.thoughts)
        raw = event.raw
        if before is not None:
            text, thinking = before.content + text, before.thinking + thinking
            raw = (before.content if before.raw is None else before.raw) + raw
        whole = raw if raw not in ("", text) else None
        status = STATUS[event.reason]
        return self.conversation.update(self.turn_id, text, status, figures, thinking, whole)

    @property
    def _stats_before(self) -> Mapping[str, object]:
        return self.before.stats if self.before else {}

    def _own_figures(self, now_s: float) -> dict[str, object]:
        left_out = self.left_out.figures() if self.left_out else None
        return {"note": self.note, "thinking_s": self.thought(now_s), LEFT_OUT: left_out}

    def view(self, now_s: float) -> MessageView:
        """The answer as it is now."""
        turn, place = self.turn(now_s), self.conversation.place(self.turn_id)
        if self.is_paused:
            return message_view(turn, stats=tr(WAITING), status="waiting", place=place)
        if self.step is None:
            return message_view(turn, stats=self.reading if turn.status == "reading" else "", place=place)
        return message_view(turn, stats=live_line(joined(self._stats_before, self.step)), place=place)

    def shift(self, event: ContextShifted) -> LeftOut:
        """Take what the engine has left out: it says how many turns in all, and how many tokens more."""
        tokens = event.dropped_tokens + (self.left_out.tokens if self.left_out and self.has_shifted else 0)
        messages = (
            len(self.conversation.oldest(event.dropped_turns, self.turn_id)) if event.dropped_turns else 0
        )
        self.left_out, self.has_shifted = LeftOut(event.dropped_turns, messages, tokens), True
        return self.left_out

    def begin_thinking(self, now_s: float) -> None:
        """A thought comes; one that goes on adds to the time it has taken already."""
        if self.thinking_since_s is None:
            self.thinking_since_s, self.thinking_s = now_s - (self.thinking_s or 0.0), None

    def thought(self, now_s: float) -> float | None:
        """Seconds of thinking until now, or in all; None where nothing was thought."""
        if self.thinking_s is None and self.thinking_since_s is not None:
            return now_s - self.thinking_since_s
        return self.thinking_s

    def end_thinking(self, now_s: float) -> None:
        """The answer begins, or ends: no thought follows."""
        self.thinking_s = self.thought(now_s)


def _joined(parts: list[str]) -> str:
    """All parts as one text; joined once, not with every piece."""
    if len(parts) > 1:
        parts[:] = ["".join(parts)]
    return parts[0] if parts else ""


def message_view(
    turn: Turn,
    stats: str | None = None,
    status: str | None = None,
    left_out: str = "",
    place: tuple[int, int] = (1, 1),
) -> MessageView:
    """A turn as the transcript shows it; its stored figures unless newer ones are given.

    ``place`` is which of how many branches it is.
    """
    thinking_s = turn.stats.get("thinking_s")
    if turn.status == ELSEWHERE:
        stats, status = tr(IN_ANOTHER_WINDOW), "waiting"
    return MessageView(
        turn.id,
        turn.role,
        turn.content,
        status or turn.status,
        line(turn.stats) if stats is None else stats,
        str(turn.stats.get("note") or ""),
        turn.thinking,
        float(thinking_s) if isinstance(thinking_s, int | float) else None,
        left_out,
        *place,
        details="" if status else details(turn.stats, turn.status),
    )


def turn_view(conversation: Conversation, turn: Turn, left_out: str = "") -> MessageView:
    """A turn as the transcript shows it, with which of its branches it is."""
    return message_view(turn, left_out=left_out, place=conversation.place(turn.id))
