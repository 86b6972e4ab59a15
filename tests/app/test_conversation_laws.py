"""The tree of a chat against a plain model of it: whatever is done, nothing is lost."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from app.conversation import Conversation, Turn


class TreeOfTurns(RuleBasedStateMachine):
    """The model: parents by id in order of making, contents, and the path as a list of ids."""

    def __init__(self) -> None:
        super().__init__()
        self.chat = Conversation("c")
        self.parents: dict[str, str | None] = {}
        self.texts: dict[str, str] = {}
        self.active: list[str] = []

    def _way(self, leaf: str | None) -> list[str]:
        way: list[str] = []
        while leaf is not None:
            way.append(leaf)
            leaf = self.parents[leaf]
        return way[::-1]

    def _down(self, turn_id: str) -> list[str]:
        """The path through a turn to its newest leaf."""
        leaf = turn_id
        while below := [each for each, parent in self.parents.items() if parent == leaf]:
            leaf = below[-1]
        return self._way(leaf)

    def _pick(self, number: int) -> str:
        return list(self.parents)[number % len(self.parents)]

    def _made(self, turn: Turn, parent: str | None) -> None:
        assert turn.id not in self.parents
        self.parents[turn.id], self.texts[turn.id] = parent, turn.content

    @rule(text=st.text(max_size=3), role=st.sampled_from(["user", "assistant"]))
    def say(self, text: str, role: str) -> None:
        parent = self.active[-1] if self.active else None
        turn = self.chat.append(role, text)
        self._made(turn, parent)
        self.active.append(turn.id)

    @precondition(lambda self: self.parents)
    @rule(number=st.integers(0, 99))
    def answer_again(self, number: int) -> None:
        question = self._pick(number)
        follows = self.active[-1:] == [question]
        turn = self.chat.reply(question, "other", "reading")
        self._made(turn, question)
        self.active += [turn.id] if follows else []

    @precondition(lambda self: self.parents)
    @rule(number=st.integers(0, 99), text=st.text(max_size=3))
    def edit(self, number: int, text: str) -> None:
        old = self._pick(number)
        turn = self.chat.branch(old, text)
        self._made(turn, self.parents[old])
        self.active = self._way(turn.id)

    @precondition(lambda self: self.parents)
    @rule(number=st.integers(0, 99), by=st.sampled_from([-1, 1]))
    def step(self, number: int, by: int) -> None:
        turn_id = self._pick(number)
        branches = [each for each, parent in self.parents.items() if parent == self.parents[turn_id]]
        place = branches.index(turn_id) + by
        assert self.chat.step(turn_id, by) == (0 <= place < len(branches))
        if 0 <= place < len(branches):
            self.active = self._down(branches[place])

    @precondition(lambda self: self.parents)
    @rule(number=st.integers(0, 99))
    def select(self, number: int) -> None:
        turn_id = self._pick(number)
        self.chat.select(turn_id)
        self.active = self._down(turn_id)

    @rule()
    def take_back(self) -> None:
        before = self.active[-2] if len(self.active) > 1 else None
        self.chat.rewind(before)
        self.active = self.active[:-1]

    @precondition(lambda self: self.parents)
    @rule(number=st.integers(0, 99), text=st.text(max_size=3))
    def write_on(self, number: int, text: str) -> None:
        turn_id = self._pick(number)
        self.chat.update(turn_id, text)
        self.texts[turn_id] = text

    @invariant()
    def the_path_is_the_models(self) -> None:
        assert [turn.id for turn in self.chat.path()] == self.active
        assert self.chat.active_id == (self.active[-1] if self.active else None)
        assert all(self.chat.is_on_path(each) == (each in self.active) for each in self.parents)

    @invariant()
    def nothing_is_lost(self) -> None:
        assert {turn.id: turn.content for turn in self.chat.turns()} == self.texts

    @invariant()
    def every_branch_knows_its_place(self) -> None:
        for turn_id, parent in self.parents.items():
            branches = [each for each, its in self.parents.items() if its == parent]
            assert [turn.id for turn in self.chat.siblings(turn_id)] == branches
            assert self.chat.place(turn_id) == (branches.index(turn_id) + 1, len(branches))

    @invariant()
    def rows_give_the_same_tree_again(self) -> None:
        again = Conversation("c", self.chat.turns(), self.chat.active_id or "")
        assert [turn.id for turn in again.path()] == self.active


TestTreeOfTurns = TreeOfTurns.TestCase
TestTreeOfTurns.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
