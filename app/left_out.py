"""What a full context had no room for, as it is kept with the answer that had to do without."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from engine.words import tr

LEFT_OUT = "left_out"  # its place among the figures of an answer


@dataclass(frozen=True, slots=True)
class LeftOut:
    """``turns`` are questions with all that came of them, ``messages`` what the transcript shows of these;
    both are 0 where the middle was left out.
    """

    turns: int
    messages: int
    tokens: int

    @property
    def sentence(self) -> str:
        """The words of the marker."""
        tokens = tr("%n token(s)", "", self.tokens)
        if not self.turns:
            return tr("Context full: {tokens} in the middle left out").format(tokens=tokens)
        messages = tr("%n earlier message(s)", "", self.messages)
        return tr("Context full: {messages} ({tokens}) left out").format(messages=messages, tokens=tokens)

    def figures(self) -> dict[str, int]:
        """As JSON can hold it."""
        return asdict(self)


def left_out_of(stats: Mapping[str, object]) -> LeftOut | None:
    """What was left out for the answer with these figures; None for nothing, and where it cannot be read."""
    found = stats.get(LEFT_OUT)
    if not isinstance(found, Mapping):
        return None
    turns, messages, tokens = (found.get(name) for name in ("turns", "messages", "tokens"))
    if not (isinstance(turns, int) and isinstance(messages, int) and isinstance(tokens, int)):
        return None
    return LeftOut(turns, messages, tokens)
