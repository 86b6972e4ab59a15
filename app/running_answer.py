"""An answer that is being written, and a turn as the transcript shows it: values, no window, no store."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.conversation import Turn
from engine.types import Failed, StepStats
from ui.values import MessageView

# How an answer ended, in the words of the engine and of the transcript.
STATUS = {"stop": "done", "length": "length", "context": "context", "cancelled": "stopped", "error": "failed"}


@dataclass(slots=True)
class RunningAnswer:
    """An answer that is being written; its turn's id is the request's id."""

    chat_id: str
    turn_id: str
    question_id: str
    begun_s: float
    parts: list[str] = field(default_factory=list)
    note: str = ""
    failure: Failed | None = None
    saved_s: float = 0.0
    shown_s: float = 0.0
    speed: StepStats | None = None

    @property
    def text(self) -> str:
        if len(self.parts) > 1:
            self.parts = ["".join(self.parts)]
        return self.parts[0] if self.parts else ""


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
