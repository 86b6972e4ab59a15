"""The tree of messages and what a model is given of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from app.conversation import TITLE_CHARS, Conversation, Turn, title_of
from engine.types import Message


def chat(*turns: tuple[str, str]) -> Conversation:
    conversation = Conversation("c", clock=lambda: 5.0)
    for role, content in turns:
        conversation.append(role, content)
    return conversation


def test_turns_follow_each_other_by_their_parents() -> None:
    conversation = chat(("user", "a"), ("assistant", "b"))
    first, second = conversation.path()
    assert (first.parent_id, second.parent_id) == (None, first.id)
    assert (first.chat_id, first.created_s, first.status) == ("c", 5.0, "done")
    assert conversation.active_id == second.id


def test_an_update_changes_what_is_given_and_nothing_else() -> None:
    conversation = chat(("user", "a"))
    answer = conversation.append("assistant", "", status="reading")
    conversation.update(answer.id, content="b", status="writing")
    final = conversation.update(answer.id, status="done", stats={"generated_tokens": 1})
    assert conversation.turn(answer.id) == final
    assert (final.content, final.status, final.parent_id) == ("b", "done", answer.parent_id)
    with pytest.raises(KeyError):
        conversation.update("nobody", content="x")


def test_a_model_is_given_what_it_thought_before_each_answer() -> None:
    conversation = chat(("user", "a"))
    for content, thinking in (("b", "x"), ("c", ""), ("", "lost with its answer"), ("d", "y")):
        turn = conversation.append("assistant", content)
        conversation.update(turn.id, thinking=thinking, raw=f"<think>{thinking}</think>{content}")
    assert conversation.messages()[1:] == (Message("assistant", "b\n\nc\n\nd", "x\n\ny"),)
    assert conversation.path()[-1].raw == "<think>y</think>d"


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        # B012: an answer stopped before its first token, and two questions in a row
        ((("user", "a"), ("assistant", ""), ("user", "b")), (("user", "a\n\nb"),)),
        ((("user", "a"), ("assistant", " \n"), ("user", "b")), (("user", "a\n\nb"),)),
        ((("assistant", "hello"), ("user", "a")), (("user", "a"),)),
        ((("user", "a"), ("user", "b"), ("assistant", "c")), (("user", "a\n\nb"), ("assistant", "c"))),
        (
            (("user", "a"), ("assistant", "b"), ("assistant", "c"), ("user", "d")),
            (("user", "a"), ("assistant", "b\n\nc"), ("user", "d")),
        ),
        ((), ()),
    ],
)
def test_a_model_is_given_user_and_assistant_in_turn(
    turns: tuple[tuple[str, str], ...], expected: tuple[tuple[str, str], ...]
) -> None:
    assert chat(*turns).messages() == tuple(Message(*each) for each in expected)


def test_the_system_prompt_comes_first_and_once() -> None:
    conversation = chat(("system", "be kind"), ("user", "a"))
    assert conversation.messages("be brief")[0] == Message("system", "be brief\n\nbe kind")
    assert chat(("user", "a")).messages("  ") == (Message("user", "a"),)


@examples(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["user", "assistant"]), st.sampled_from(["", " ", "x", "y z"]))))
def test_roles_alternate_whatever_the_chat_holds(turns: list[tuple[str, str]]) -> None:
    roles = [message.role for message in chat(*turns).messages()]
    assert roles == [("user", "assistant")[index % 2] for index in range(len(roles))]


def test_a_branch_leaves_the_other_one_whole() -> None:
    conversation = chat(("user", "a"), ("assistant", "b"))
    question, first = conversation.path()
    second = conversation.append("assistant", "c", parent_id=question.id)
    assert [turn.content for turn in conversation.path()] == ["a", "c"]
    assert conversation.siblings(first.id) == (first, second)
    conversation.select(first.id)
    conversation.append("user", "d")
    assert [turn.content for turn in conversation.path()] == ["a", "b", "d"]
    conversation.select(second.id)
    assert [turn.content for turn in conversation.path()] == ["a", "c"]
    conversation.select(question.id)
    assert [turn.content for turn in conversation.path()] == ["a", "c"]  # its newest answer


def test_rows_give_the_same_conversation_again() -> None:
    conversation = chat(("user", "a"), ("assistant", "b"))
    question, answer = conversation.path()
    other = conversation.append("assistant", "c", parent_id=question.id)
    rows = (question, answer, other)
    assert Conversation("c", rows, answer.id).path() == (question, answer)
    assert Conversation("c", rows).path() == (question, other)
    assert Conversation("c", rows, "gone").path() == (question, other)


@pytest.mark.parametrize(
    ("found", "shown"),
    [("writing", "failed"), ("reading", "failed"), ("queued", "queued"), ("failed", "failed")],
)
def test_an_answer_found_half_written_counts_as_failed(found: str, shown: str) -> None:
    row = Turn("1", "c", None, "assistant", "half of", found)
    (turn,) = Conversation("c", [row]).path()
    assert (turn.status, turn.content) == (shown, "half of")


def test_circles_and_missing_parents_end_every_walk() -> None:
    circle = [Turn("1", "c", "2", "user", "a"), Turn("2", "c", "1", "assistant", "b")]
    assert len(Conversation("c", circle).path()) == 2
    orphan = Conversation("c", [Turn("1", "c", "gone", "user", "a"), Turn("2", "c", "1", "assistant", "b")])
    assert [turn.id for turn in orphan.path()] == ["1", "2"]
    assert orphan.siblings("1") == (orphan.turn("1"),)


def test_a_long_chat_needs_no_recursion() -> None:
    conversation = chat(*[("user", "x")] * 5000)
    assert len(conversation.path()) == 5000


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("What is a KV cache?", "What is a KV cache?"),
        ("  two\n\nlines\tand a tab ", "two lines and a tab"),
        (" \n", "New chat"),
        ("word " * 40, "word word word word word word word word word…"),
        ("x" * 100, "x" * (TITLE_CHARS - 1) + "…"),
        ("safe\u202egpj.exe\x00", "safe gpj.exe"),
    ],
)
def test_a_title_is_one_printable_line(text: str, title: str) -> None:
    assert title_of(text) == title
    assert len(title) <= TITLE_CHARS
