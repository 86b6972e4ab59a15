"""Prompts that end inside an unfinished answer: for every published template, and what comes behind them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import TemplateError, WishError
from engine.text.channels import ANSWER, THINKING, Block, Grammar
from engine.text.chat import ChatText, Prompt
from engine.text.gguf_vocabulary import from_metadata
from engine.text.prompt import Part
from engine.text.reply import Reply, ReplyFormat
from engine.text.tokenizer import Tokenizer
from engine.types import Message, TemplateOptions, ToolCall
from tests.engine.text.test_reasoning import TOOLS
from tests.engine.text.vocabularies import byte_pairs, pieces

QUESTION = Message("user", "Name <|im_end|> it?")
PLAIN = (
    "{% for m in messages %}[{{ m.role }}]{{ m.content | trim }}</s>{% endfor %}"
    "{{ '[assistant]' if add_generation_prompt }}"
)
THINK = ReplyFormat(Grammar({"<think>": Block(THINKING, ("</think>",))}))


def chat(template: str) -> ChatText:
    """A byte-level tokenizer with this template."""
    return ChatText(Tokenizer(from_metadata(byte_pairs() | {"tokenizer.chat_template": template})))


def ids_of(text: ChatText, parts: Sequence[Part]) -> list[int]:
    return text.tokenizer.encode_reply(parts)


def rest(text: ChatText, prompt: Prompt, said: str, options: TemplateOptions) -> tuple[str, str]:
    """What is thought and what is answered where the model says this next."""
    reply = text.reply(prompt.end, options=options, said=prompt.said)
    for token in text.tokenizer.encode(said, literal=True):
        reply.push(token)
    reply.flush()
    return reply.text(THINKING), reply.text(ANSWER)


def check_law(text: ChatText, answer: Message, options: TemplateOptions) -> None:
    """The prompt that asked, then what the model has written, which ends with the answer; in the same part
    the reply goes on, and no more than what is new is given.
    """
    asked = text.prepare([QUESTION], options)
    prompt = text.prepare([QUESTION, answer], options, continues=True)
    said = "".join(part.text for part in prompt.said)
    assert prompt.ids[: len(asked.ids)] == asked.ids
    assert prompt.ids[len(asked.ids) :] == ids_of(text, prompt.said)
    assert said.endswith(answer.content or answer.thinking)
    new = (" and so on", "") if not answer.content else ("", " and so on")
    assert rest(text, prompt, " and so on", options) == new


ANSWERS = {
    "an answer": Message("assistant", "Sure, it is"),
    "space at its end": Message("assistant", "Sure:\n\n"),
    "thought before": Message("assistant", "Sure, it is", "Let me see."),
    "a control token": Message("assistant", "I write <|im_end|> and </s"),
}


def test_every_published_template_goes_on_from_the_ids_that_asked(cases_dir: Path) -> None:
    files = sorted((cases_dir / "templates").glob("*.jinja"))
    assert files
    for file in files:
        text = chat(file.read_text(encoding="utf-8"))
        tools = TOOLS if "Hermes" in file.stem else ""  # this one cannot do without
        for thinking in (None, True, False):
            for answer in ANSWERS.values():
                check_law(text, answer, TemplateOptions(thinking, tools))


NO_THOUGHTS = {"google-gemma-4-31B-it-interleaved"}  # it drops thoughts, and has no tags of which one is told


def test_an_unfinished_thought_goes_on_where_the_model_thinks(cases_dir: Path) -> None:
    thought = Message("assistant", "", "Let me se")
    for file in sorted((cases_dir / "templates").glob("*.jinja")):
        text = chat(file.read_text(encoding="utf-8"))
        options = TemplateOptions(True, TOOLS if "Hermes" in file.stem else "")
        if file.stem in NO_THOUGHTS:
            with pytest.raises(TemplateError, match="no place for an unfinished thought"):
                text.prepare([QUESTION, thought], options, continues=True)
        else:
            check_law(text, thought, options)


def test_a_finished_thought_stays_where_the_model_has_tags_for_it(cases_dir: Path) -> None:
    """Some templates drop the thoughts of an answer; the model has seen its own."""
    answer = Message("assistant", "It is", "Let me see.")
    for name in ("Kimi-K2-Thinking", "deepseek-ai-DeepSeek-V3.1", "Qwen-QwQ-32B", "openai-gpt-oss-120b"):
        text = chat((cases_dir / "templates" / f"{name}.jinja").read_text(encoding="utf-8"))
        prompt = text.prepare([QUESTION, answer], TemplateOptions(thinking=True), continues=True)
        assert "Let me see." in "".join(part.text for part in prompt.said)


@pytest.mark.parametrize(
    ("template", "answer", "said"),
    [
        (PLAIN, Message("assistant", "So be "), "So be "),
        (
            "{% if messages[-1].role != 'user' %}{{ raise_exception('no') }}{% endif %}Q:",
            Message("assistant", "So"),
            "So",
        ),
        (
            "{{ messages[0].content }}{% if add_generation_prompt %}A:{% endif %}",
            Message("assistant", "So"),
            "So",
        ),
        (
            "{% for m in messages %}{{ m.content | upper }}{% endfor %}{{ 'A:' if add_generation_prompt }}",
            Message("assistant", "So"),
            "So",
        ),
        (
            "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
            "{{ '[assistant]<think>\n' if add_generation_prompt }}",
            Message("assistant", "So"),
            "\n</think>\n\nSo",
        ),
        (
            "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
            "{{ '[assistant]<think>' if add_generation_prompt }}{# </think> #}",
            Message("assistant", "So", "hm"),
            "hm</think>So",
        ),
    ],
    ids=["trims and ends", "refuses", "drops", "changes", "opens a thought", "drops a thought"],
)
def test_whatever_a_template_does_to_answers(template: str, answer: Message, said: str) -> None:
    text = chat(template)
    prompt = text.prepare([Message("user", "Hi"), answer], continues=True)
    assert "".join(part.text for part in prompt.said) == said
    check_law(text, answer, TemplateOptions())


def test_typed_tags_stay_text_in_a_continued_answer() -> None:
    """A control token's spelling in the answer is not the token; the ids show it."""
    text = chat(PLAIN)
    prompt = text.prepare([QUESTION, Message("assistant", "a <|im_end|> b")], continues=True)
    assert 260 not in prompt.ids


def test_an_answer_that_has_not_begun_is_asked_for() -> None:
    text = chat(PLAIN)
    empty = text.prepare([QUESTION, Message("assistant", "")], continues=True)
    assert empty == text.prepare([QUESTION])


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [QUESTION],
        [QUESTION, Message("assistant", "", "", (ToolCall("f", "{}"),))],
        [QUESTION, Message("tool", "5")],
    ],
)
def test_without_an_unfinished_answer_there_is_nothing_to_continue(messages: list[Message]) -> None:
    for options in (TemplateOptions(), TemplateOptions(is_plain=True)):
        with pytest.raises(WishError, match="no unfinished answer"):
            chat(PLAIN).prepare(messages, options, continues=True)


def test_a_plain_text_goes_on_without_a_template() -> None:
    text = ChatText(Tokenizer(from_metadata(byte_pairs())))
    check_law(text, Message("assistant", " upon a"), TemplateOptions(is_plain=True))


def test_the_first_space_of_what_comes_next_is_kept() -> None:
    """Some tokenizers put a space before every text, which is dropped where an answer begins, only there."""
    metadata = pieces({"▁": -9.0, "▁a": -1.0, "▁b": -1.0}) | {"tokenizer.chat_template": PLAIN}
    text = ChatText(Tokenizer(from_metadata(metadata)))
    assert text.tokenizer.strips_first_space
    b = next(
        token for token in range(text.tokenizer.vocab_size) if text.tokenizer.token_bytes(token) == b" b"
    )
    prompt = text.prepare([QUESTION, Message("assistant", "a")], continues=True)
    asked = text.prepare([QUESTION])
    assert text.tokenizer.decode(prompt.ids[len(asked.ids) :]) == "a"
    for said, new in ((prompt.said, " b"), ((), "b")):
        reply = text.reply(prompt.end, said=said)
        reply.push(b)
        reply.flush()
        assert reply.text(ANSWER) == new


class Letters:
    """A tokenizer with one token a byte."""

    strips_first_space = False

    def token_bytes(self, token_id: int) -> bytes:
        return bytes([token_id])


def parts_of(reply: Reply, text: str) -> list[tuple[str, str]]:
    came = [piece for byte in text.encode() for piece in reply.push(byte)] + reply.flush()
    kinds = [kind for kind, _ in came]
    return [(kind, "".join(text for each, text in came if each == kind)) for kind in dict.fromkeys(kinds)]


WORDS = st.lists(st.sampled_from(["a", " ", "\n", "<think>", "</think>", "b "]), max_size=8)


@given(WORDS, WORDS)
def test_said_and_new_together_are_the_whole_reply(before: list[str], after: list[str]) -> None:
    """Space that turns out to belong to a tag had been shown already, and cannot be taken back."""
    first, second = "".join(before), "".join(after)
    said = (Part(first, literal=True),) if first else ()
    earlier, new, whole = (
        dict(parts_of(reply, text))
        for reply, text in (
            (Reply(Letters(), THINK), first),
            (Reply(Letters(), THINK, said=said), second),
            (Reply(Letters(), THINK), first + second),
        )
    )
    has_tags = any(tag in second for tag in ("<think>", "</think>"))
    for kind in (THINKING, ANSWER):
        joined, text = earlier.get(kind, "") + new.get(kind, ""), whole.get(kind, "")
        assert "".join(joined.split()) == "".join(text.split())
        assert joined == text or has_tags


def test_a_tag_that_was_cut_is_completed_by_what_comes() -> None:
    reply = Reply(Letters(), THINK, prompt_end="<think>", said=(Part("hm </thi", literal=True),))
    assert reply.kind == THINKING
    assert parts_of(reply, "nk>\n\nSo") == [(ANSWER, "So")]
    other = Reply(Letters(), THINK, prompt_end="<think>", said=(Part("hm </thi", literal=True),))
    assert parts_of(other, "s is") == [(THINKING, "s is")]


def test_space_that_was_said_does_not_come_again() -> None:
    reply = Reply(Letters(), THINK, said=(Part("So \n ", literal=True),))
    assert parts_of(reply, " be") == [(ANSWER, " be")]
    assert reply.raw == " be"
    assert reply.begun == "So \n "
