"""An answer that is being written, and a turn as the transcript shows it: values, no window, no store."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.conversation import Conversation, Turn
from engine.types import Failed
from ui.values import MessageView

# How an answer ended, in the words of the engine and of the transcript.
STATUS = {"stop": "done", "length": "length", "context": "context", "cancelled": "stopped", "error": "failed"}


@dataclass(slots=True)
class RunningAnswer:
    """An answer that is being written; its turn's id is the request's id."""

    conversation: Conversation
    turn_id: str
    question_id: str
    begun_s: float
    saved_s: float
    shown_s: float = 0.0
    parts: list[str] = field(default_factory=list)
    prompt_tokens: int = 0
    note: str = ""
    failure: Failed | None = None
    is_submitted: bool = False
    is_stopped: bool = False  # by the user, maybe before the engine has heard of it
    has_speed: bool = False

    @property
    def chat_id(self) -> str:
        return self.conversation.chat_id

    @property
    def text(self) -> str:
        """What is written so far; joined once, not with every piece."""
        if len(self.parts) > 1:
            self.parts = ["".join(self.parts)]
        return self.parts[0] if self.parts else ""

    def turn(self) -> Turn:
        """The answer's turn with the text written so far."""
        return self.conversation.update(self.turn_id, content=self.text)


def message_view(
    turn: Turn, text: str | None = None, stats: str | None = None, note: str | None = None
) -> MessageView:
    """A turn as the transcript shows it; its stored figures unless newer ones are given."""
    return MessageView(
        turn.id,
        turn.role,
        turn.content if text is None else text,
        turn.status,
        str(turn.stats.get("line") or "") if stats is None else stats,
        str(turn.stats.get("note") or "") if note is None else note,
    )
