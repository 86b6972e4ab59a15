"""Which tags a model puts around its thinking, told from its chat template and its vocabulary.

Knows the tags of published models; not how a reply is parted by them, nor how a template is rendered.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from engine.text.channels import ANSWER, THINKING, TOOL, Block, Grammar

# <think>, <seed:think>, <think:opensource>, <thought>, ...; in a template the closing one may stand alone.
_THINK_TAG = re.compile(r"<(/?)((?:[\w-]{1,20}:)?(?:think|thinking|thought|reasoning)(?::[\w-]{1,20})?)>")
_ANSWER_TAGS = (("<response>", "</response>"), ("<answer>", "</answer>"))
_TOOL_TAGS = (
    ("<tool_call>", "</tool_call>"),
    ("<tool_calls>", "</tool_calls>"),
    ("<seed:tool_call>", "</seed:tool_call>"),
    ("<minimax:tool_call>", "</minimax:tool_call>"),
    ("<|tool_call>", "<tool_call|>"),
    ("<|tool_call_start|>", "<|tool_call_end|>"),
    ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
    ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
    ("<|START_ACTION|>", "<|END_ACTION|>"),
    ("<|tools_prefix|>", "<|tools_suffix|>"),
    ("[TOOL_CALLS]", ""),
)
USUAL = Grammar({"<think>": Block(THINKING, ("</think>",))}, is_named=False)

# Pairs that only one house of models writes.
_PAIRS = (
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("[THINK]", "[/THINK]"),
)
_WRAPPED = {
    "<|START_TEXT|>": Block(ANSWER, ("<|END_TEXT|>",), "between"),
    "<|START_RESPONSE|>": Block(ANSWER, ("<|END_RESPONSE|>",), "between"),
}
_MESSAGES = Grammar(  # the response format of gpt-oss, and its relatives with recipients
    heads=("<|start|>", "<|channel|>"),
    head_ends={"<|message|>": ""},
    message_ends=("<|end|>", "<|return|>", "<|call|>", "<|eom|>", "<|eot|>"),
)
_NAMED_MESSAGES = Grammar(
    heads=("<|begin|>",),
    head_ends={"<|think|>": THINKING, "<|content|>": ANSWER, "<|tool_calls|>": TOOL},
    message_ends=("<|end|>", "<|flush|>", "<|calls|>"),
)
_CHANNELS = Grammar(heads=("<|channel>",), head_ends={"\n": THINKING}, message_ends=("<channel|>",))
_STEPS = Grammar(
    {
        "Here are my reasoning steps:": Block(THINKING, ("[BEGIN FINAL RESPONSE]",)),
        "[BEGIN FINAL RESPONSE]": Block(ANSWER, ("[END FINAL RESPONSE]",), "between"),
    }
)


def grammar_of(template: str, vocabulary: Iterable[str] = ()) -> Grammar:
    """The tags of a model by its template's text, else by the added tokens of its vocabulary.

    Where neither has any, a reply that begins with ``<think>`` is taken at its word.
    """
    for text in (template, "\n".join(vocabulary)):
        found = _found(text)
        if found is not None:
            return _with_tools(found, template)
    return _with_tools(USUAL, template)


def _found(text: str) -> Grammar | None:
    if "<|message|>" in text and ("<|channel|>" in text or "to=self" in text):
        return _MESSAGES
    if "<|think|>" in text and "<|content|>" in text:
        return _NAMED_MESSAGES
    if "<|channel>" in text and "<channel|>" in text:
        return _CHANNELS
    if "[BEGIN FINAL RESPONSE]" in text:
        return _STEPS
    for begin, end in _PAIRS:
        if begin in text and end in text:
            wrapped = {tag: block for tag, block in _WRAPPED.items() if tag in text}
            return Grammar({begin: Block(THINKING, (end,)), **wrapped})
    return _think_tags(text)


def _think_tags(text: str) -> Grammar | None:
    """Tags in angle brackets; of several those that are closed, of these the ones written most often."""
    found = _THINK_TAG.findall(text)
    if not found:
        return None
    counts = Counter(name for _slash, name in found)
    closed = {name for slash, name in found if slash}
    name = max(counts, key=lambda each: (each in closed, counts[each]))
    blocks = {f"<{name}>": Block(THINKING, (f"</{name}>",))}
    for begin, end in _ANSWER_TAGS:
        if begin in text and end in text:
            blocks[begin] = Block(ANSWER, (end,), "between")
    return Grammar(blocks)


def _with_tools(grammar: Grammar, template: str) -> Grammar:
    tools = {
        begin: Block(TOOL, (end,) if end else (), "anywhere")
        for begin, end in _TOOL_TAGS
        if begin in template and end in template
    }
    return replace(grammar, blocks={**grammar.blocks, **tools}) if tools else grammar


# The variables by which templates are told to think or not to, as (name, on, off); None is left unsaid.
_SWITCHES: tuple[tuple[str, object, object], ...] = (
    ("enable_thinking", True, False),
    ("thinking", True, False),
    ("thinking_mode", "enabled", "disabled"),
    ("thinking_budget", None, 0),
    ("reasoning", True, False),
)
# Efforts that mean none, by the words of a template: others know more or less, never none.
_NO_EFFORTS = ("no_think", "minimal")
_SYSTEM_WORDS = {True: "/think", False: "/no_think"}


def switch(template: str, is_on: bool) -> dict[str, object]:
    """The variables that switch thinking on or off in this template; none where it has no words for it."""
    values: dict[str, object] = {}
    for name, on, off in _SWITCHES:
        if re.search(rf"(?<![.\w'\"]){name}\b", template):
            values[name] = on if is_on else off
    if "reasoning_effort" in template:
        for word in _NO_EFFORTS:
            if f'"{word}"' in template or f"'{word}'" in template:
                values["reasoning_effort"] = "high" if is_on else word
    return {name: value for name, value in values.items() if value is not None}


def system_word(template: str, is_on: bool | None) -> str:
    """A word by which the system message switches thinking in some templates, which take it out of it."""
    looks_for_it = any(f"{quote}/no_think{quote}" in template for quote in "'\"")
    return _SYSTEM_WORDS[is_on] if is_on is not None and looks_for_it else ""


def has_switch_words(template: str) -> bool:
    """Whether the template may know a switch for thinking; rendering it both ways tells for certain."""
    return bool(switch(template, False) or system_word(template, False))
