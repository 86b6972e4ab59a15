"""What is left out of a chat that is too long: as little as will do, the oldest first, never the question."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.decode.overflow import target_length, without_middle, without_oldest, without_turns
from engine.types import Message


def chat(sizes: list[int], system: bool) -> tuple[Message, ...]:
    messages = [Message("system", "s" * 10)] if system else []
    for place, size in enumerate(sizes):
        messages += [Message("user", f"{place}" + "q" * size), Message("assistant", "a" * size)]
    return (*messages, Message("user", "last"))


def size(messages: tuple[Message, ...]) -> int:
    return sum(len(message.content) for message in messages)


@given(st.lists(st.integers(1, 50), max_size=8), st.booleans(), st.integers(1, 400))
def test_as_few_of_the_oldest_turns_go_as_will_do(sizes: list[int], system: bool, room: int) -> None:
    messages = chat(sizes, system)
    found = without_oldest(messages, room, lambda kept: kept, size)
    if found is None:
        assert not sizes or size(without_turns(messages, len(sizes))) > room
        return
    kept, turns = found
    assert size(kept) <= room
    assert turns == 1 or size(without_turns(messages, turns - 1)) > room
    assert kept[-1] == messages[-1]
    assert (kept[0].role == "system") == system
    assert kept[system:] == messages[system + 2 * turns :]


def test_tools_go_with_the_question_that_asked_for_them() -> None:
    called = (Message("user", "1"), Message("assistant", ""), Message("tool", "x"), Message("assistant", "y"))
    messages = (Message("system", "s"), *called, Message("user", "2"))
    assert without_turns(messages, 1) == (messages[0], messages[-1])
    assert without_turns(messages, 0) == messages


@given(st.integers(8, 300), st.integers(1, 400), st.integers(0, 300))
def test_the_middle_goes_and_both_ends_stay(context: int, prompt_tokens: int, generated: int) -> None:
    prompt = list(range(prompt_tokens))
    length = prompt_tokens + generated
    kept = without_middle(prompt, length, context)
    if length <= target_length(context):
        return  # nothing has to go, and nobody asks
    if kept is None:
        assert prompt_tokens - context // 8 < context // 4 + length - target_length(context)
        return
    assert len(kept) + generated == target_length(context)
    first = context // 4
    assert kept[:first] == prompt[:first]
    assert kept[first:] == prompt[prompt_tokens - len(kept) + first :]
    assert len(kept) - first >= context // 8


@pytest.mark.parametrize("context", [1, 2, 3, 7, 8192])
def test_room_is_made_for_many_tokens_at_once(context: int) -> None:
    assert target_length(context) < context
    assert context - target_length(context) >= context // 4
