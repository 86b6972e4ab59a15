"""Which tags a model uses, for templates as they are published, and where its prompt leaves it."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import TemplateError
from engine.text.channels import ANSWER, THINKING, Splitter
from engine.text.reasoning import USUAL, grammar_of, switch
from engine.text.template import ChatTemplate
from engine.types import Message, TemplateOptions

TOOLS = (
    '[{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}]'
)
USER = [Message("user", "Hi")]

THINK, FREE, PLAIN = "thinks", "may think", "answers"
# What a template does about thinking by itself, told to, told not to; whether that is a switch; and a reply
# with a thought in the model's own tags, as it follows the prompt that is told to think.
PUBLISHED = {
    "Apertus-8B-Instruct": (FREE, FREE, FREE, "off", "<|inner_prefix|>hm<|inner_suffix|>Hi"),
    "Apriel-1.6-15b-Thinker-fixed": (THINK, THINK, THINK, "", "hm\n[BEGIN FINAL RESPONSE]\nHi"),
    "ByteDance-Seed-OSS": (FREE, FREE, PLAIN, "on", "<seed:think>hm</seed:think>Hi"),
    "Cohere2MoE": (THINK, THINK, PLAIN, "on", "hm<|END_THINKING|><|START_TEXT|>Hi<|END_TEXT|>"),
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use": (
        *(PLAIN, FREE, PLAIN, "off"),
        "<|START_THINKING|>hm<|END_THINKING|><|START_RESPONSE|>Hi<|END_RESPONSE|>",
    ),
    "GLM-4.6": (FREE, FREE, PLAIN, "on", "\n<think>hm</think>\nHi"),
    "Kimi-K2-Thinking": (FREE, FREE, FREE, "", "<think>hm</think>Hi"),
    "LFM2.5-8B-A1B": (FREE, FREE, FREE, "", "<think>\nhm\n</think>\n\nHi"),
    "MiMo-VL": (FREE, FREE, FREE, "", "<think>\nhm\n</think>\nHi"),
    "MiniMax-M1": (FREE, FREE, FREE, "", "<think>\nhm\n</think>\nHi"),
    "MiniMax-M3": (FREE, THINK, PLAIN, "on", "hm</mm:think>Hi"),
    "NVIDIA-Nemotron-Nano-v2": (THINK, THINK, PLAIN, "on", "hm\n</think>\n\nHi"),
    "Qwen-QwQ-32B": (PLAIN, THINK, PLAIN, "off", "hm\n</think>\n\nHi"),
    "Qwen3.5-4B": (THINK, THINK, PLAIN, "on", "hm\n</think>\n\nHi"),
    "Spark2.5": (THINK, THINK, PLAIN, "on", "hm</think>Hi"),
    "StepFun3.5-Flash": (THINK, THINK, THINK, "", "hm\n</think>\nHi"),
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": (PLAIN, THINK, PLAIN, "off", "hm\n</think>\n\nHi"),
    "deepseek-ai-DeepSeek-V3.1": (PLAIN, THINK, PLAIN, "off", "hm</think>Hi"),
    "deepseek-ai-DeepSeek-V4": (PLAIN, THINK, PLAIN, "off", "hm</think>Hi"),
    "deepseek-ai-DeepSeek-V4-Flash-0731": (PLAIN, THINK, PLAIN, "off", "hm</think>Hi"),
    "google-gemma-4-31B-it-interleaved": (PLAIN, FREE, PLAIN, "off", "<|channel>thought\nhm<channel|>Hi"),
    "ibm-granite-granite-3.3-2B-Instruct": (
        *(FREE, FREE, FREE, "off"),
        "<think>hm</think>\n<response>Hi</response>",
    ),
    "inclusionai-ling-3.0-flash": (THINK, THINK, PLAIN, "on", "hm</think>Hi"),
    "llama-cpp-deepseek-r1": (THINK, THINK, THINK, "", "hm\n</think>\n\nHi"),
    "mistralai-Ministral-3-14B-Reasoning-2512": (FREE, FREE, FREE, "", "[THINK]hm[/THINK]Hi"),
    "muse-glimmer": (
        *(FREE, FREE, FREE, ""),
        " to=self<|message|>hm<|eom|><|start|>assistant to=user<|message|>Hi",
    ),
    "openai-gpt-oss-120b": (
        *(FREE, FREE, FREE, ""),
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Hi",
    ),
    "poolside-Laguna-S-2.1": (THINK, THINK, PLAIN, "on", "hm</think>Hi"),
    "poolside-Laguna-XS-2.1": (PLAIN, THINK, PLAIN, "off", "hm\n</think>\nHi"),
    "tencent-Hy3": (PLAIN, THINK, PLAIN, "off", "hm</think:opensource>Hi"),
    "unsloth-Apriel-1.5": (
        *(FREE, FREE, FREE, ""),
        "Here are my reasoning steps:\nhm\n[BEGIN FINAL RESPONSE]\nHi\n[END FINAL RESPONSE]",
    ),
    "upstage-Solar-Open-100B": (
        *(FREE, FREE, FREE, "on"),
        "<|think|>hm<|end|><|begin|>assistant<|content|>Hi",
    ),
}


def template_of(file: Path) -> ChatTemplate:
    return ChatTemplate(file.read_text(encoding="utf-8"), "<s>", "</s>", ["<s>", "</s>"])


def opened(template: ChatTemplate, thinking: bool | None, tools: str = "") -> Splitter:
    """A reply that follows the template's prompt."""
    splitter = Splitter(grammar_of(template.sample))
    splitter.open(template.render(USER, options=TemplateOptions(thinking, tools)).text)
    return splitter


def manner(splitter: Splitter) -> str:
    """What the model is left to do: plain words are thinking, or the answer, after which it cannot think."""
    came = dict(splitter.push("x\n" * 200) + splitter.flush())
    return THINK if THINKING in came else ANSWER


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_template_tells_where_its_reply_begins(cases_dir: Path, name: str) -> None:  # B019
    *manners, has_switch, reply = PUBLISHED[name]
    template = template_of(cases_dir / "templates" / f"{name}.jinja")
    for thinking, expected in zip((None, True, False), manners, strict=True):
        assert manner(opened(template, thinking)) == (THINK if expected == THINK else ANSWER)
        if expected == PLAIN:
            prompt = template.render(USER, options=TemplateOptions(thinking)).text.rstrip()
            assert any(prompt.endswith(tag) for tag in grammar_of(template.sample).tags)
    assert template.thinking == has_switch
    splitter = opened(template, True)
    parts = [piece for letter in reply for piece in splitter.push(letter)] + splitter.flush()
    for kind, text in ((THINKING, "hm"), (ANSWER, "Hi")):
        assert "".join(piece for each, piece in parts if each == kind) == text


def test_every_other_published_template_shows_all_that_its_model_writes(cases_dir: Path) -> None:
    for file in sorted((cases_dir / "templates").glob("*.jinja")):
        if file.stem in PUBLISHED:
            continue
        template = template_of(file)
        tools = TOOLS if "Hermes" in file.stem else ""  # this one cannot do without
        splitter = opened(template, None, tools)
        reply = " Say <tool> [x] </think> `<think>` <|y|>\n"
        assert "".join(text for _, text in splitter.push(reply) + splitter.flush()) == reply
        assert template.thinking == ""


def test_a_template_is_told_by_the_name_that_it_knows() -> None:
    for name, on, off in (("enable_thinking", "True", "False"), ("thinking_mode", "enabled", "disabled")):
        template = ChatTemplate("{{ " + name + " is defined and " + name + " }}")
        for thinking, text in ((True, on), (False, off), (None, "False")):
            assert template.render(USER, options=TemplateOptions(thinking)).text == text
    deaf = ChatTemplate("{{ messages[0].content }}")
    assert deaf.render(USER, options=TemplateOptions(False)) == deaf.render(USER)
    assert deaf.thinking == ""


def test_a_word_in_a_sentence_is_no_switch() -> None:
    assert switch("{{ message.thinking }} {{ message['reasoning'] }} x_thinking", True) == {}
    template = ChatTemplate("Show your thinking. {{ messages[0].content }}")
    assert template.thinking == ""


def test_a_system_word_that_switches_thinking_leaves_the_system_message_as_it_is() -> None:
    source = (
        "{% set s = messages[0].content if messages[0].role == 'system' else '' %}"
        "[{{ s.replace('/no_think', '').replace('/think', '').strip() }}]"
        "{{ '<think></think>' if '/no_think' in s else '<think>' }}"
    )
    template = ChatTemplate(source)
    assert template.thinking == "on"
    system = [Message("system", "Be brief."), *USER]
    off = TemplateOptions(thinking=False)
    assert template.render(system, options=off).text == "[Be brief.]<think></think>"
    assert template.render(USER, options=off).text == "[]<think></think>"
    assert template.render(system).text == "[Be brief.]<think>"


def test_tags_are_told_from_the_vocabulary_where_the_template_has_none() -> None:
    assert grammar_of("{{ x }}", ["<s>", "[THINK]", "[/THINK]"]).blocks.keys() == {"[THINK]"}
    assert grammar_of("{{ x }}", ["<s>", "<thinking_time>"]) == USUAL
    assert grammar_of("{{ x.split('</reason:think>') }}", ["[THINK]", "[/THINK]"]).blocks.keys() == {
        "<reason:think>"
    }
    closed = grammar_of("Put <thinking>, <thinking> and <thinking>. {{ '</think>' }}")
    assert closed.blocks.keys() == {"<think>"}


def test_tools_are_refused_where_the_template_takes_none() -> None:  # B013
    with pytest.raises(TemplateError, match="takes no tools"):
        ChatTemplate("{{ messages[0].content }}").render(USER, options=TemplateOptions(tools=TOOLS))
