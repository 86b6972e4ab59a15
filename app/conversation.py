"""The tree of messages of one chat, and the path through it that is shown. Knows no database, no window."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from engine.foreign import one_line
from engine.types import Message
from engine.words import mark, tr

TITLE_CHARS = 48
UNTITLED = mark("New chat")  # as it is kept, whatever the language; ``shown_title`` translates it
ELSEWHERE = "elsewhere"  # the status of an answer that another window is writing
BEFORE_ALL = ""  # an active id: the path was taken back to before the first turn
OPEN_STATUS = ("reading", "writing")  # of an answer that somebody is writing, or was when the program ended


def new_id() -> str:
    """An id for a chat or a message, made before anything is written."""
    return uuid.uuid4().hex


def title_of(text: str) -> str:
    """A chat's title from its first message: one line, cut between words."""
    line = " ".join(one_line(text[:1000]).split())
    if not line:
        return UNTITLED
    if len(line) <= TITLE_CHARS:
        return line
    words, space, _ = line[:TITLE_CHARS].rpartition(" ")
    return (words if space and len(words) > TITLE_CHARS // 2 else line[: TITLE_CHARS - 1]) + "…"


def shown_title(title: str) -> str:
    """A chat's title as a person reads it."""
    return tr(UNTITLED) if title == UNTITLED else title


@dataclass(frozen=True, slots=True)
class Turn:
    """One message. ``status``: done, reading, writing, elsewhere, stopped, failed, length, context or queued.

    ``stats`` holds figures of an answer, as JSON can hold them. ``thinking`` is what the model thought before
    its answer, ``raw`` its whole reply with the tags between them; None where that is the answer alone.
    """

    id: str
    chat_id: str
    parent_id: str | None
    role: str  # user | assistant | system
    content: str
    status: str = "done"
    stats: Mapping[str, object] = field(default_factory=dict, hash=False)
    created_s: float = 0.0  # seconds since 1970
    thinking: str = ""
    raw: str | None = None


class Conversation:
    """Turns by their parents, in the order of their making, and the active path from a root to a leaf.

    Nothing is ever taken away: another wording or another answer is a branch beside the old one. Made from
    rows that nobody writes at the moment: an answer found half written was cut off by the end of the program
    and counts as failed. A row whose parent is missing counts as a root.
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
            self._turns[turn.id] = replace(turn, status="failed") if turn.status in OPEN_STATUS else turn
        self._children: dict[str | None, list[str]] = {}  # by the parent that is here, in order of making
        for turn in self._turns.values():
            self._children.setdefault(self._parent_of(turn), []).append(turn.id)
        self._active_id: str | None = None
        self._path_ids: frozenset[str] | None = None  # of the active path, once somebody asked
        newest = next(reversed(self._turns), None)
        if active_id in self._turns:
            self._go_to(active_id)  # also where it has children: the path was taken back to it
        elif newest is not None and active_id != BEFORE_ALL:
            self.select(newest)

    @property
    def active_id(self) -> str | None:
        """The last turn of the active path."""
        return self._active_id

    def turn(self, turn_id: str) -> Turn:
        """Raises KeyError for an id that is not here."""
        return self._turns[turn_id]

    def turns(self) -> tuple[Turn, ...]:
        """All turns, branches too, in the order of their making."""
        return tuple(self._turns.values())

    def append(self, role: str, content: str, status: str = "done", parent_id: str | None = None) -> Turn:
        """A new turn at the end of the active path, or as another branch under ``parent_id``."""
        turn = self._add(role, content, status, self._active_id if parent_id is None else parent_id)
        self._go_to(turn.id)
        return turn

    def reply(self, question_id: str, content: str, status: str) -> Turn:
        """A new answer under a question. The path follows only if it ended there: it may be elsewhere now."""
        turn = self._add("assistant", content, status, question_id)
        if self._active_id == question_id:
            self._go_to(turn.id)
        return turn

    def branch(self, turn_id: str, content: str) -> Turn:
        """Another wording of a turn, beside it; the path goes through the new one and ends there."""
        old = self._turns[turn_id]
        turn = self._add(old.role, content, "done", self._parent_of(old))
        self._go_to(turn.id)
        return turn

    def _add(self, role: str, content: str, status: str, parent_id: str | None) -> Turn:
        turn = Turn(new_id(), self.chat_id, parent_id, role, content, status, {}, self._clock())
        self._turns[turn.id] = turn
        self._children.setdefault(self._parent_of(turn), []).append(turn.id)
        return turn

    def _go_to(self, turn_id: str | None) -> None:
        self._active_id, self._path_ids = turn_id, None

    def update(
        self,
        turn_id: str,
        content: str | None = None,
        status: str | None = None,
        stats: Mapping[str, object] | None = None,
        thinking: str | None = None,
        raw: str | None = None,
    ) -> Turn:
        """The turn with what is given changed. Raises KeyError for an id that is not here."""
        old = self._turns[turn_id]
        turn = replace(
            old,
            content=old.content if content is None else content,
            status=old.status if status is None else status,
            stats=old.stats if stats is None else stats,
            thinking=old.thinking if thinking is None else thinking,
            raw=old.raw if raw is None else raw,
        )
        self._turns[turn_id] = turn
        return turn

    def path(self, leaf_id: str | None = None) -> tuple[Turn, ...]:
        """The active path, or the one to ``leaf_id``, oldest turn first.

        A damaged chat may hold a circle; each turn comes once.
        """
        turns: dict[str, Turn] = {}
        turn_id = leaf_id or self._active_id
        while turn_id is not None and turn_id in self._turns and turn_id not in turns:
            turns[turn_id] = self._turns[turn_id]
            turn_id = turns[turn_id].parent_id
        return tuple(reversed(turns.values()))

    def is_on_path(self, turn_id: str) -> bool:
        """Whether the active path goes through a turn."""
        if self._path_ids is None:
            self._path_ids = frozenset(turn.id for turn in self.path())
        return turn_id in self._path_ids

    def siblings(self, turn_id: str) -> tuple[Turn, ...]:
        """The branches at this place, ``turn_id`` among them, in the order of their making."""
        parent = self._parent_of(self._turns[turn_id])
        return tuple(self._turns[each] for each in self._children[parent])

    def place(self, turn_id: str) -> tuple[int, int]:
        """Which of how many branches a turn is, counted from 1."""
        branches = self._children[self._parent_of(self._turns[turn_id])]
        return branches.index(turn_id) + 1, len(branches)

    def step(self, turn_id: str, by: int) -> bool:
        """Go to the branch that many places after ``turn_id``; False where there is none."""
        branches = self._children[self._parent_of(self._turns[turn_id])]
        place = branches.index(turn_id) + by
        if not 0 <= place < len(branches):
            return False
        self.select(branches[place])
        return True

    def select(self, turn_id: str) -> None:
        """Make the path through ``turn_id`` active, down to its newest leaf."""
        seen: set[str] = set()
        leaf = turn_id
        while leaf not in seen:
            seen.add(leaf)
            leaf = self._children.get(leaf, [leaf])[-1]
        self._go_to(leaf)

    def rewind(self, turn_id: str | None) -> None:
        """End the active path at ``turn_id``, or before all turns; what came after stays as a branch."""
        self._go_to(turn_id if turn_id in self._turns else None)

    def messages(
        self, system_prompt: str = "", *, leaf_id: str | None = None, is_continued: bool = False
    ) -> tuple[Message, ...]:
        """The path as a model takes it: user and assistant in turn, beginning with the user.

        Answers without text are left out, so are answers before the first question; what then stands side
        by side with the same role becomes one message. A last answer that ``is_continued`` stays, though it
        may be a thought alone.
        """
        system = [system_prompt] if system_prompt.strip() else []
        merged: list[Message] = []
        path = self.path(leaf_id)
        for turn in path:
            is_kept = bool(turn.content.strip()) or (is_continued and turn is path[-1])
            if turn.role == "system":
                system.append(turn.content)
            elif turn.role == "user" or (is_kept and merged):
                message = Message(turn.role, turn.content, turn.thinking)
                if merged and merged[-1].role == turn.role:
                    merged[-1] = _both(merged[-1], message)
                else:
                    merged.append(message)
        head = [Message("system", "\n\n".join(system))] if system else []
        return tuple(head + merged)

    def oldest(self, num_questions: int, leaf_id: str | None = None) -> tuple[Turn, ...]:
        """The first questions of the path, as ``messages`` has them, each with all that came of it."""
        found: list[Turn] = []
        count, is_asking = 0, False
        for turn in self.path(leaf_id):
            if turn.role == "system":
                continue
            count += turn.role == "user" and not is_asking
            if count > num_questions:
                break
            is_asking = turn.role == "user" or (is_asking and not turn.content.strip())
            found.append(turn)
        return tuple(found)

    def _parent_of(self, turn: Turn) -> str | None:
        return turn.parent_id if turn.parent_id in self._turns else None


def _both(first: Message, second: Message) -> Message:
    """Two messages of one role as one."""
    thinking = "\n\n".join(filter(None, (first.thinking, second.thinking)))
    return Message(first.role, f"{first.content}\n\n{second.content}", thinking)
