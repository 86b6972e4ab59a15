"""Reply: from token ids to parts, through the detokenizer, the stop strings and the tags together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text.channels import ANSWER, THINKING, Block, Grammar
from engine.text.reasoning import grammar_of
from engine.text.reply import Reply, ReplyFormat
from tests.engine.text.test_detok import ScriptedTokens

THINK = ReplyFormat(Grammar({"<think>": Block(THINKING, ("</think>",))}))
CONTROLS = ("<|channel|>", "<|message|>", "<|end|>", "<|start|>")
HARMONY = ReplyFormat(
    grammar_of("".join(CONTROLS)), {1000 + index: text for index, text in enumerate(CONTROLS)}
)


class Letters:
    """A tokenizer with one token a byte; control tokens from 1000 on have no bytes."""

    strips_first_space = False

    def token_bytes(self, token_id: int) -> bytes:
        return bytes([token_id]) if token_id < 256 else b""


def ids(text: str) -> list[int]:
    """The ids of a text in which control tokens are spelled."""
    for token_id, control in HARMONY.controls.items():
        text = text.replace(control, chr(0xE000 + token_id - 1000))
    return [
        token
        for letter in text
        for token in ([1000 + ord(letter) - 0xE000] if "\ue000" <= letter < "\ue010" else letter.encode())
    ]


def run(reply: Reply, tokens: list[int]) -> tuple[str, str]:
    """What was thought and what was answered, joined from the pieces as they came."""
    came = []
    for token in tokens:
        came += reply.push(token)
        if reply.is_stopped:
            break
    came += reply.flush()
    texts = ["".join(text for kind, text in came if kind == each) for each in (THINKING, ANSWER)]
    assert texts == [reply.text(THINKING), reply.text(ANSWER)]
    return texts[0], texts[1]


def test_a_long_stop_string_holds_nothing_back_and_the_end_is_parted_too() -> None:  # B007
    reply = Reply(Letters(), THINK, ["#" * 40])
    came = [reply.push(token) for token in ids("<think>a</think>b")]
    assert came[len("<think>")] == [(THINKING, "a")]
    assert came[-1] == [(ANSWER, "b")]
    assert sum(map(len, came)) == 2
    assert reply.flush() == []


@pytest.mark.parametrize("said", ["<think>a</think>b##", "<think>a</think>b#"])
def test_what_a_stop_string_held_back_is_parted_at_the_end(said: str) -> None:  # B007
    assert run(Reply(Letters(), THINK, ["#" * 40]), ids(said)) == ("a", said.removeprefix("<think>a</think>"))
    assert run(Reply(Letters(), THINK, ["k>never"]), ids("<think>a</think>")) == ("a", "")


def test_a_stop_string_ends_thinking_too_and_may_be_a_tag() -> None:
    assert run(Reply(Letters(), THINK, ["stop"]), ids("<think>a stop b</think>c")) == ("a ", "")
    assert run(Reply(Letters(), THINK, ["</think>"]), ids("<think>a</think>c")) == ("a", "")


def test_control_tokens_part_a_reply_and_are_never_seen() -> None:
    text = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Hi"
    reply = Reply(Letters(), HARMONY, prompt_end="<|start|>assistant")
    assert run(reply, ids(text)) == ("hm", "Hi")
    assert reply.raw == text


def test_a_tag_in_plain_letters_is_none_where_tags_are_control_tokens() -> None:  # B021
    head, about = "<|channel|>final<|message|>", "It is written <|end|> or <|channel|>."
    reply = Reply(Letters(), HARMONY, prompt_end="<|start|>assistant")
    assert run(reply, ids(head) + list(about.encode())) == ("", about)
    assert reply.raw == head + about


def test_a_control_token_where_it_means_nothing_stays_unseen() -> None:
    thinking = grammar_of("[THINK][/THINK]")
    reply = Reply(Letters(), ReplyFormat(thinking, {1000: "[THINK]", 1001: "[/THINK]"}))
    assert run(reply, [*b"a", 1000, *b"b", 1001, *b"c"]) == ("", "abc")
    assert reply.raw == "a[THINK]b[/THINK]c"


def test_a_control_token_ends_a_character_that_was_cut_off() -> None:
    reply = Reply(Letters(), HARMONY, prompt_end="<|start|>assistant")
    tokens = [*ids("<|channel|>analysis<|message|>"), *"猫".encode()[:2], *ids("<|end|>")]
    assert run(reply, tokens) == ("\ufffd", "")


def test_a_stop_string_does_not_reach_over_a_control_token() -> None:
    text = "<|channel|>analysis<|message|>EN<|end|><|start|>assistant<|channel|>final<|message|>D"
    reply = Reply(Letters(), HARMONY, ["END"], "<|start|>assistant")
    assert run(reply, ids(text)) == ("EN", "D")


def test_text_without_spaces_is_seen_with_every_token() -> None:  # B005
    for word in (b"ab", "สวัสดี".encode()):
        reply = Reply(ScriptedTokens([word]), THINK)
        assert [reply.push(0) for _ in range(300)] == [[(ANSWER, word.decode())]] * 300


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ((" I", " am", " here"), "I am here"),
        (("if x:", "\n", "    ", "return"), "if x:\n    return"),
    ],
)
def test_words_keep_the_spaces_between_them(pieces: tuple[str, ...], text: str) -> None:  # B004
    tokens = ScriptedTokens([piece.encode() for piece in pieces], strips_first_space=True)
    for form in (THINK, ReplyFormat(grammar_of(""))):
        assert run(Reply(tokens, form), list(range(len(pieces)))) == ("", text)


@given(st.text("<>/think a\n", max_size=40), st.sampled_from(["", "<think>\n"]))
def test_the_raw_reply_is_what_the_model_wrote(text: str, prompt_end: str) -> None:  # B021
    reply = Reply(Letters(), THINK, prompt_end=prompt_end)
    run(reply, ids(text))
    assert reply.raw == text
