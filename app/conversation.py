"""The tree of messages of one chat, and the path through it that is shown. Knows no database, no window."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from engine.types import Message

TITLE_CHARS = 48
BEFORE_ALL = ""  # an active id: the path was taken back to before the first turn
_UNFINISHED = {"reading": "failed", "writing": "failed"}


def new_id() -> str:
    """An id for a chat or a message, made before anything is written."""
    return uuid.uuid4().hex


def title_of(text: str) -> str:
    """A chat's title from its first message: one line, cut between words."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[:1000]).split())
    if not line:
        return "New chat"
    if len(line) <= TITLE_CHARS:
        return line
    words, space, _ = line[:TITLE_CHARS].rpartition(" ")
    return (words if space and len(words) > TITLE_CHARS // 2 else line[: TITLE_CHARS - 1]) + "…"


@dataclass(frozen=True, slots=True)
class Turn:
    """One message. ``status``: done, reading, writing, stopped, failed, length, context or queued.

    ``stats`` holds figures of an answer, as JSON can hold them.
    """

    id: str
    chat_id: str
    parent_id: str | None
    role: str  # user | assistant | system
    content: str
    status: str = "done"
    stats: Mapping[str, object] = field(default_factory=dict, hash=False)
    created_s: float = 0.0  # seconds since 1970


class Conversation:
    """Turns by their parents, in the order of their making, and the active path from a root to a leaf.

    Made from rows that nobody writes at the moment: an answer found half written was cut off by the end of
    the program and counts as failed. A row whose parent is missing counts as a root.
    """

    def __init__(
        self,
        chat_id: str,
        turns: Iterable[Turn] = (),
        active_id: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.chat_id = chat_id
        self._clock = clock
        self._turns: dict[str, Turn] = {}
        for turn in turns:
            self._turns[turn.id] = replace(turn, status=_UNFINISHED.get(turn.status, turn.status))
        self._active_id: str | None = None
        newest = next(reversed(self._turns), None)
        if active_id in self._turns:
            self._active_id = active_id  # also where it has children: the path was taken back to it
        elif newest is not None and active_id != BEFORE_ALL:
            self.select(newest)

    @property
    def active_id(self) -> str | None:
        """The last turn of the active path."""
        return self._active_id

    def turn(self, turn_id: str) -> Turn:
        """Raises KeyError for an id that is not here."""
        return self._turns[turn_id]

    def append(self, role: str, content: str, status: str = "done", parent_id: str | None = None) -> Turn:
        """A new turn at the end of the active path, or as another branch under ``parent_id``."""
        parent = self._active_id if parent_id is None else parent_id
        turn = Turn(new_id(), self.chat_id, parent, role, content, status, {}, self._clock())
        self._turns[turn.id] = turn
        self._active_id = turn.id
        return turn

    def update(
        self,
        turn_id: str,
        content: str | None = None,
        status: str | None = None,
        stats: Mapping[str, object] | None = None,
    ) -> Turn:
        """The turn with what is given changed. Raises KeyError for an id that is not here."""
        old = self._turns[turn_id]
        turn = replace(
            old,
            content=old.content if content is None else content,
            status=old.status if status is None else status,
            stats=old.stats if stats is None else stats,
        )
        self._turns[turn_id] = turn
        return turn

    def path(self) -> tuple[Turn, ...]:
        """The active path, oldest turn first. A damaged chat may hold a circle; each turn comes once."""
        turns: dict[str, Turn] = {}
        turn_id = self._active_id
        while turn_id is not None and turn_id in self._turns and turn_id not in turns:
            turns[turn_id] = self._turns[turn_id]
            turn_id = turns[turn_id].parent_id
        return tuple(reversed(turns.values()))

    def siblings(self, turn_id: str) -> tuple[Turn, ...]:
        """The branches at this place, ``turn_id`` among them, in the order of their making."""
        parent = self._parent_of(self._turns[turn_id])
        return tuple(turn for turn in self._turns.values() if self._parent_of(turn) == parent)

    def select(self, turn_id: str) -> None:
        """Make the path through ``turn_id`` active, down to its newest leaf."""
        newest_child = {self._parent_of(turn): turn.id for turn in self._turns.values()}
        seen: set[str] = set()
        leaf = turn_id
        while leaf not in seen:
            seen.add(leaf)
            leaf = newest_child.get(leaf, leaf)
        self._active_id = leaf

    def rewind(self, turn_id: str | None) -> None:
        """End the active path at ``turn_id``, or before all turns; what came after stays as a branch."""
        self._active_id = turn_id if turn_id in self._turns else None

    def messages(self, system_prompt: str = "") -> tuple[Message, ...]:
        """The active path as a model takes it: user and assistant in turn, beginning with the user.

        Answers without text are left out, so are answers before the first question; what then stands side
        by side with the same role becomes one message.
        """
        system = [system_prompt] if system_prompt.strip() else []
        merged: list[Message] = []
        for turn in self.path():
            if turn.role == "system":
                system.append(turn.content)
            elif turn.role == "user" or (turn.content.strip() and merged):
                if merged and merged[-1].role == turn.role:
                    both = f"{merged[-1].content}\n\n{turn.content}"
                    merged[-1] = Message(turn.role, both)
                else:
                    merged.append(Message(turn.role, turn.content))
        head = [Message("system", "\n\n".join(system))] if system else []
        return tuple(head + merged)

    def _parent_of(self, turn: Turn) -> str | None:
        return turn.parent_id if turn.parent_id in self._turns else None
