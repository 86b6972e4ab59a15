"""Chats begin, grow, are trimmed and end at random in a pool that is too small for them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.kv.page_pool import PageKind
from tests.engine.kv.page_model import Chat, ModelledPool

WINDOWS = [(None,), (None, 4), (None, 1), (None, 6), (5,), (3, None, 9), (2, 7)]
KINDS = st.tuples(st.sampled_from(WINDOWS), st.tuples(*[st.integers(3, 14)] * 3)).map(
    lambda drawn: [PageKind(num_pages, window) for window, num_pages in zip(*drawn, strict=False)]
)
ACTIONS = ["begin", "go_on", "go_on", "go_on", "reject_drafts", "trim", "turn_ended", "release", "drop"]
NUMBER = st.integers(0, 1023)
STEPS = st.lists(st.tuples(st.sampled_from(ACTIONS), NUMBER, NUMBER, NUMBER), max_size=40)


def bits(number: int) -> list[int]:
    """Up to nine ids, of only two kinds, so that prompts have much in common."""
    return [int(digit) for digit in f"{number:b}"[1:]]


class ManyChats:
    """Most prompts continue, shorten or change an earlier one."""

    def __init__(self, kinds: list[PageKind], page_size: int) -> None:
        self.model = ModelledPool(kinds, page_size)
        self.told: list[list[int]] = [[]]
        self.has_released = False

    def begin(self, which: int, kept: int, more: list[int]) -> None:
        earlier = self.told[which % len(self.told)]
        self.told.append(earlier[: kept % (len(earlier) + 1)] + more)
        self.model.begin(self.told[-1])

    def go_on(self, chat: Chat, _: int, more: list[int]) -> None:
        read = len(chat.ids)
        rest = chat.prompt[read:] if chat.ids == chat.prompt[:read] else []
        self.model.write(chat, rest or more)

    def reject_drafts(self, chat: Chat, accepted: int, drafts: list[int]) -> None:
        length = len(chat.ids) + accepted % (len(drafts) + 1)
        if self.model.write(chat, drafts):
            if accepted & 64 and len(self.model.chats) < 5:
                self.model.begin([*chat.ids[:-1], 1])
            self.model.trim(chat, length)

    def trim(self, chat: Chat, length: int, _: list[int]) -> None:
        length %= len(chat.ids) + 1
        if chat.pages.can_trim(length):
            self.model.trim(chat, length)

    def turn_ended(self, chat: Chat, _: int, __: list[int]) -> None:
        self.model.pool.turn_ended(chat.pages)

    def release(self, chat: Chat, _: int, __: list[int]) -> None:
        self.told.append(list(chat.ids))
        self.has_released = True
        self.model.release(chat)

    def drop(self, chat: Chat, _: int, __: list[int]) -> None:
        self.model.drop(chat)

    def step(self, action: str, which: int, number: int, more: list[int]) -> None:
        chats = self.model.chats
        if action != "begin" and chats:
            getattr(self, action)(chats[which % len(chats)], number, more)
        elif len(chats) < 4:
            self.begin(which, number, more)
        self.model.check()

    def end(self) -> None:
        """Nothing is left of chats that are dropped, nor of idle ones that are forgotten."""
        model = self.model
        for chat in list(model.chats):
            model.drop(chat)
        if self.has_released:
            model.pool.forget_idle()
        assert all(allocator.num_free == allocator.num_pages for allocator in model.pool.allocators)
        assert not model.pool.index.root.children
        assert all(windows.is_empty for windows in model.pool.index.window_pages.values())


def live(kinds: list[PageKind], page_size: int, steps: list[tuple[str, int, int, int]]) -> None:
    chats = ManyChats(kinds, page_size)
    for action, which, number, more in steps:
        chats.step(action, which, number, bits(more))
    chats.end()


@settings(max_examples=150, deadline=None)
@given(KINDS, st.integers(1, 4), STEPS)
def test_every_law_holds_whatever_many_chats_do(
    kinds: list[PageKind], page_size: int, steps: list[tuple[str, int, int, int]]
) -> None:
    live(kinds, page_size, steps)


@pytest.mark.slow
@settings(max_examples=3000, deadline=None)
@given(KINDS, st.integers(1, 4), STEPS)
def test_every_law_holds_whatever_very_many_chats_do(
    kinds: list[PageKind], page_size: int, steps: list[tuple[str, int, int, int]]
) -> None:
    live(kinds, page_size, steps)
