"""Splitter: what a model thought, what it answers, and never a piece of a tag."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text.channels import ANSWER, THINKING, TOOL, Block, Grammar, Piece, Splitter
from engine.text.reasoning import USUAL, grammar_of

THINK = Grammar({"<think>": Block(THINKING, ("</think>",))})
GRANITE = grammar_of("<think></think> <response></response>")
APRIEL = grammar_of("[BEGIN FINAL RESPONSE]")
HARMONY = grammar_of("<|start|><|channel|><|message|>")
MUSE = grammar_of("<|start|>assistant to=self<|message|>")
SOLAR = grammar_of("<|think|><|content|><|tool_calls|>")
GEMMA = grammar_of("<|channel>thought<channel|>")
QWEN = grammar_of("<think></think><tool_call></tool_call>")

STEPS = "Here are my reasoning steps:\n"
START = "<|end|><|start|>assistant"
CUTS = [1, 2, 3, 5, 7, 1000]


def pieces(
    grammar: Grammar, text: str, prompt: str = "", cut: int = 1000, has_tools: bool = False
) -> list[Piece]:
    splitter = Splitter(grammar, has_tools)
    splitter.open(prompt)
    found = [each for at in range(0, len(text), cut) for each in splitter.push(text[at : at + cut])]
    return found + splitter.flush()


def parts(
    grammar: Grammar, text: str, prompt: str = "", cut: int = 1000, has_tools: bool = False
) -> dict[str, str]:
    """The text of each kind, whole."""
    joined: dict[str, str] = {}
    for kind, piece in pieces(grammar, text, prompt, cut, has_tools):
        joined[kind] = joined.get(kind, "") + piece
    return joined


def shown(thinking: str = "", answer: str = "", tool: str = "") -> dict[str, str]:
    return {kind: text for kind, text in ((THINKING, thinking), (ANSWER, answer), (TOOL, tool)) if text}


@pytest.mark.parametrize("cut", CUTS)
def test_a_prompt_that_opened_the_block_begins_with_thinking(cut: int) -> None:  # B019
    assert parts(THINK, "plan it</think>Answer.", "<think>\n", cut) == shown("plan it", "Answer.")
    splitter = Splitter(THINK)
    splitter.open("<|im_start|>assistant\n<think>\n")
    came = [splitter.push(text) for text in ("plan it", "</thi", "nk>", "Answer.")]
    assert came == [[(THINKING, "plan it")], [], [], [(ANSWER, "Answer.")]]
    assert splitter.flush() == []


@pytest.mark.parametrize("end", ["<think>\n\n</think>\n\n", "</think>", "<think></think>"])
def test_a_prompt_that_closed_an_empty_block_begins_with_the_answer(end: str) -> None:  # B019
    assert parts(THINK, "Answer.", end, 3) == shown(answer="Answer.")
    assert parts(THINK, "<think> is a tag", end, 3) == shown(answer="<think> is a tag")


@pytest.mark.parametrize("cut", CUTS)
def test_a_reply_that_was_stopped_while_thinking_is_thinking_alone(cut: int) -> None:  # B019
    assert parts(THINK, "plan it", "<think>\n", cut) == shown("plan it")
    assert parts(THINK, "plan it \n</thi", "<think>\n", cut) == shown("plan it \n</thi")


@pytest.mark.parametrize("cut", [5, 1])
def test_a_tag_cut_across_pieces_is_a_tag(cut: int) -> None:  # B020
    text = "hmm, add them</think>It is 7."
    assert parts(THINK, text, "<think>", cut) == shown("hmm, add them", "It is 7.")


def test_only_the_end_of_the_text_is_ever_looked_at_again() -> None:  # B020
    splitter = Splitter(THINK)
    splitter.open("<think>\n")
    block = "It is <1, </, </think or 7.\n\n \t" * 1_600  # 50,000 characters
    for at in range(0, len(block), 5):
        splitter.push(block[at : at + 5])
        assert len(splitter._text) < len("</think>")  # so the work grows with the text, and no faster


@pytest.mark.parametrize("cut", CUTS)
def test_only_the_block_that_begins_the_reply_is_thinking(cut: int) -> None:  # B021
    about = "Write `<think>x</think>` to mark thoughts."
    assert parts(THINK, f"<think>hm</think>{about}", cut=cut) == shown("hm", about)
    assert parts(THINK, about, cut=cut) == shown(answer=about)
    assert parts(THINK, f"<think>hm</think>{about}", "x<think>\n</think>", cut)[ANSWER].startswith(
        "<think>hm"
    )
    again = "<think>more</think>"
    assert parts(THINK, f"<think>hm</think>{again}", cut=cut) == shown("hm", again)


@pytest.mark.parametrize("cut", CUTS)
def test_a_model_without_tags_of_its_own_may_write_about_them(cut: int) -> None:  # B021
    fence = "```\n<think>\nx\n</think>\n```"
    assert parts(USUAL, fence, cut=cut) == shown(answer=fence)
    assert parts(USUAL, " <think>x</think>", cut=cut) == shown(answer=" <think>x</think>")
    assert parts(USUAL, "<think>x</think>y", cut=cut) == shown("x", "y")


def test_a_model_without_tags_of_its_own_is_shown_from_its_first_space_on() -> None:
    assert pieces(USUAL, "  a b", cut=1) == [(ANSWER, letter) for letter in "  a b"]


@pytest.mark.parametrize("cut", CUTS)
def test_tags_take_the_white_space_around_them_with_them(cut: int) -> None:
    text = "\n<think>\n a  b \n\n</think>\n\n c \n d \n"
    assert parts(THINK, text, cut=cut) == shown("a  b", "c \n d \n")
    assert parts(THINK, "\n\n  plain ", cut=cut) == shown(answer="\n\n  plain ")


@pytest.mark.parametrize("cut", CUTS)
def test_a_model_that_opens_what_the_prompt_has_opened_shows_no_tag(cut: int) -> None:
    assert parts(THINK, "<think>\nhm</think>Hi", "<think>\n", cut) == shown("hm", "Hi")
    assert parts(THINK, "<thin ice", "<think>\n", cut) == shown("<thin ice")


@pytest.mark.parametrize("cut", CUTS)
def test_an_answer_in_tags_is_shown_without_them(cut: int) -> None:
    text = "<think>hm</think>\n<response>Hi there.</response>\n"
    assert parts(GRANITE, text, cut=cut) == shown("hm", "Hi there.")
    assert parts(GRANITE, "<think>hm</think>\nHi <response> x", cut=cut) == shown("hm", "Hi <response> x")
    about = "<response>The tag </response> ends it. </response>"
    assert parts(GRANITE, about, cut=cut) == shown(answer="The tag </response> ends it.")


@pytest.mark.parametrize("cut", CUTS)
def test_a_sentence_can_be_a_tag(cut: int) -> None:
    end = "[BEGIN FINAL RESPONSE]"
    assert parts(APRIEL, f"1. x\n{end}\nHi.\n", f"<|begin_assistant|>\n{STEPS}", cut) == shown(
        "1. x", "Hi.\n"
    )
    whole = f"{STEPS}1. x\n{end}\nHi.\n[END FINAL RESPONSE]"
    assert parts(APRIEL, whole, cut=cut) == shown("1. x", "Hi.")
    assert parts(APRIEL, "Here are my three", cut=cut) == shown(answer="Here are my three")


@pytest.mark.parametrize("cut", CUTS)
def test_messages_are_parted_by_their_channel(cut: int) -> None:
    text = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Hi <b>!"
    assert parts(HARMONY, text, START, cut) == shown("hm", "Hi <b>!")
    assert parts(HARMONY, text[: text.index("<|end|>")], START, cut) == shown("hm")
    assert parts(HARMONY, "<|channel|>final<|message|>", START, cut) == {}
    assert parts(HARMONY, "<|channel|>analy", START, cut) == {}


@pytest.mark.parametrize("cut", CUTS)
def test_messages_are_parted_by_their_recipient(cut: int) -> None:
    text = " to=self<|message|>hm<|eom|><|start|>assistant to=user<|message|>Hi"
    assert parts(MUSE, text, "<|start|>assistant", cut) == shown("hm", "Hi")


@pytest.mark.parametrize("cut", CUTS)
def test_messages_are_parted_by_what_begins_them(cut: int) -> None:
    text = "<|think|>hm<|end|><|begin|>assistant<|content|>Hi"
    assert parts(SOLAR, text, "<|begin|>assistant", cut) == shown("hm", "Hi")
    closed = "<|begin|>assistant<|think|><|end|><|begin|>assistant"
    assert parts(SOLAR, "<|content|>Hi", closed, cut) == shown(answer="Hi")


@pytest.mark.parametrize("cut", CUTS)
def test_a_channel_can_have_a_name_of_its_own_line(cut: int) -> None:
    assert parts(GEMMA, "<|channel>thought\nhm\n<channel|>Hi", "<|turn>model\n", cut) == shown("hm", "Hi")
    closed = "<|turn>model\n<|channel>thought\n<channel|>"
    assert parts(GEMMA, "Hi", closed, cut) == shown(answer="Hi")


@pytest.mark.parametrize("cut", CUTS)
def test_a_model_of_messages_that_writes_without_tags_is_shown_all_the_same(cut: int) -> None:
    assert parts(HARMONY, "Hello", START, cut) == shown(answer="Hello")
    long = "Hello " * 100 + "\nyou"
    assert parts(HARMONY, long, START, cut) == shown(answer=long)
    assert parts(GEMMA, "Hello", "<|turn>model\n", cut) == shown(answer="Hello")


@pytest.mark.parametrize("cut", CUTS)
def test_parts_of_a_kind_are_set_apart_by_an_empty_line(cut: int) -> None:
    note = "<|channel|>analysis<|message|>{}<|end|><|start|>assistant"
    text = note.format("one") + note.format("two") + "<|channel|>final<|message|>Hi"
    assert parts(HARMONY, text, START, cut) == shown("one\n\ntwo", "Hi")


@pytest.mark.parametrize("cut", CUTS)
def test_calls_are_a_kind_of_their_own_where_there_are_tools(cut: int) -> None:
    text = '<think>hm</think>Let me see.\n<tool_call>\n{"name": "f"}\n</tool_call>'
    assert parts(QWEN, text, cut=cut, has_tools=True) == shown("hm", "Let me see.", '{"name": "f"}')
    assert parts(QWEN, text, cut=cut) == shown("hm", text.removeprefix("<think>hm</think>"))
    call = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}"
    assert parts(HARMONY, call, START, cut, has_tools=True) == shown(tool="{}")
    assert parts(HARMONY, call, START, cut) == shown(answer="{}")
    assert parts(SOLAR, "<|tool_calls|>x<|calls|>", "<|begin|>assistant", cut, True) == shown(tool="x")


MARKED = st.lists(
    st.sampled_from(
        [
            "<think>",
            "</think>",
            "<",
            "think>",
            "</",
            " ",
            "\n",
            "a",
            "<response>",
            "</response>",
            "<tool_call>",
        ]
    ),
    max_size=14,
).map("".join)
MESSAGES = st.lists(
    st.sampled_from(
        ["<|start|>", "<|channel|>", "<|message|>", "<|end|>", "analysis", "final", " ", "a", "<|", "\n"]
    ),
    max_size=14,
).map("".join)


@given(MARKED, st.integers(1, 9), st.sampled_from(["", "<think>\n", "<think></think>"]), st.booleans())
def test_how_the_text_is_cut_makes_no_difference(text: str, cut: int, prompt: str, has_tools: bool) -> None:
    grammar = grammar_of("<think></think><response></response><tool_call></tool_call>")
    for each in (THINK, USUAL, grammar):
        assert parts(each, text, prompt, cut, has_tools) == parts(each, text, prompt, 1000, has_tools)


@given(MESSAGES, st.integers(1, 9), st.sampled_from(["", START]))
def test_how_messages_are_cut_makes_no_difference(text: str, cut: int, prompt: str) -> None:
    assert parts(HARMONY, text, prompt, cut) == parts(HARMONY, text, prompt)


@given(MARKED, st.sampled_from(["", "<think>\n"]))
def test_thinking_and_answer_are_the_text_without_its_tags(text: str, prompt: str) -> None:
    """Nothing is lost but one opening and one closing tag, and white space beside them."""
    found = parts(THINK, text, prompt, 3)
    everything = found.get(THINKING, "") + found.get(ANSWER, "")
    kept = "".join(everything.split())
    start = text.lstrip()
    ways = {
        "".join(way.split())
        for rest in (start, start.removeprefix("<think>"))
        for way in (rest, rest.replace("</think>", "", 1))  # before white space goes: "</ think>" is no tag
    }
    assert kept in ways
