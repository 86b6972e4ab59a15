"""The messages of a chat in the shape in which a template expects them.

Knows messages and the keys by which published templates look for thinking and calls of tools; does not know
Jinja, control tokens or models.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from engine.errors import TemplateError, WishError
from engine.types import Message, ToolCall
from engine.words import tr

RESERVED = frozenset({"messages", "tools", "add_generation_prompt", "bos_token", "eos_token"})
_THINKING_KEYS = ("reasoning_content", "reasoning", "thinking", "thought")
_TAKES_BLOCKS = (re.compile(r"\bcontent\.blocks\b"), re.compile(r"""==\s*['"]thoughts['"]"""))
_TAKES_PARTS = re.compile(r"""(?:\[\s*['"]type['"]\s*\]|\.type)\s*==\s*['"]thinking['"]""")


def readable(messages: Sequence[Message]) -> list[Message]:
    """The messages with their content as text: None is empty, text parts are joined.

    Raises TemplateError for anything else.
    """
    return [replace(message, content=_content_text(message.content)) for message in messages]


def _content_text(content: object) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list | tuple):
        raise TemplateError(tr("A message holds something that is not text."), tr("Only text can be sent."))
    texts = []
    for part in content:
        if not isinstance(part, Mapping) or part.get("type") != "text":
            kind = part.get("type", "unknown") if isinstance(part, Mapping) else type(part).__name__
            said = tr("A message holds a part of the kind {kind}, but only text can be sent.")
            raise TemplateError(said.format(kind=repr(kind)))
        texts.append(str(part.get("text") or ""))
    return "".join(texts)


def fold_system(turns: Sequence[Message]) -> list[Message] | None:
    """The turns with a leading system message put into the first user turn; None where there is none."""
    if not turns or turns[0].role != "system":
        return None
    system, rest = turns[0].content, list(turns[1:])
    for index, turn in enumerate(rest):
        if turn.role == "user":
            joined = f"{system}\n\n{turn.content}" if system.strip() else turn.content
            return [*rest[:index], replace(turn, content=joined), *rest[index + 1 :]]
    return None


def system_is_lost(turns: Sequence[Message], prompt: str) -> bool:
    """Whether the leading system message left no trace in the prompt, however it was spaced or quoted."""
    if not turns or turns[0].role != "system" or turns[0].content.strip() in prompt:
        return False
    seen = "".join(prompt.split())
    spellings = (turns[0].content, json.dumps(turns[0].content, ensure_ascii=False)[1:-1])
    return not any("".join(spelling.split()) in seen for spelling in spellings)


def with_system_word(turns: Sequence[Message], word: str) -> list[Message]:
    """The turns with a word of command at the end of the system message."""
    if turns and turns[0].role == "system":
        return [replace(turns[0], content=f"{turns[0].content}\n\n{word}"), *turns[1:]]
    return [Message("system", word), *turns]


class Shaper:
    """Makes the dictionaries that one template takes for messages."""

    def __init__(self, source: str) -> None:
        self._keys = [key for key in _THINKING_KEYS if re.search(rf"\b{key}\b", source)]
        self._has_blocks = all(pattern.search(source) for pattern in _TAKES_BLOCKS)
        self._has_parts = bool(_TAKES_PARTS.search(source)) and "reasoning_content" not in source

    def shaped(
        self, turns: Sequence[Message], hide: Callable[[str, str], str], parses_arguments: bool = True
    ) -> list[dict[str, Any]]:
        """One dictionary a turn; every text in it has gone through ``hide(text, role)``. The arguments of
        calls are parsed where they are JSON, and wanted so.
        """
        in_blocks = self._has_blocks and any(turn.thinking for turn in turns)
        return [
            self._turn(turn, partial(_hidden, hide, turn.role), in_blocks, parses_arguments) for turn in turns
        ]

    def _turn(
        self, turn: Message, hide: Callable[[str], str], in_blocks: bool, parses_arguments: bool
    ) -> dict[str, Any]:
        content, thinking = hide(turn.content), hide(turn.thinking)
        shape: dict[str, Any] = {"role": turn.role, "content": content}
        if turn.role == "assistant" and in_blocks:
            thoughts = [{"type": "thoughts", "text": thinking}] if thinking else []
            shape["content"] = {"blocks": [*thoughts, {"type": "response", "text": content}]}
        elif thinking and self._has_parts:
            thoughts = [{"type": "thinking", "thinking": thinking}]
            shape["content"] = [*thoughts, {"type": "text", "text": content}]
        elif thinking:
            shape |= dict.fromkeys(self._keys, thinking)
        if turn.tool_calls:
            shape["tool_calls"] = [_call(call, hide, parses_arguments) for call in turn.tool_calls]
        named = {"name": hide(turn.name), "tool_call_id": hide(turn.tool_call_id)}
        return shape | {key: value for key, value in named.items() if value}


def _hidden(hide: Callable[[str, str], str], role: str, text: str) -> str:
    return hide(text, role) if text else text


def _call(call: ToolCall, hide: Callable[[str], str], parses_arguments: bool) -> dict[str, Any]:
    arguments = changed(_arguments(call.arguments) if parses_arguments else call.arguments, hide)
    function = {"name": hide(call.name), "arguments": arguments}
    return {"id": hide(call.id), "type": "function", "function": function}


def _arguments(text: str) -> Any:
    """The arguments of a call as an object; text that is no JSON object stays text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text


def has_bad_arguments(turns: Sequence[Message]) -> bool:
    """Whether a call's arguments are not the JSON object that they should be."""
    return any(isinstance(_arguments(call.arguments), str) for turn in turns for call in turn.tool_calls)


def parsed(text: str, kind: type) -> Any:
    """Tools (a list) or variables (an object) that were given as JSON. Raises WishError where the value is
    not of its kind.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, kind):
        if kind is list:
            raise WishError(tr("The tools are not a JSON list."), tr("Give tools as a JSON list."))
        raise WishError(tr("The variables are not a JSON object."), tr("Give variables as a JSON object."))
    if isinstance(value, dict) and (taken := RESERVED & value.keys()):
        said = tr('The variable "{name}" is the program\'s own.').format(name=min(taken))
        raise WishError(said, tr("Choose another name."))
    return value


def texts_in(value: object) -> Iterator[str]:
    """All texts in a value as JSON has them, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield from texts_in(key)
            yield from texts_in(entry)
    elif isinstance(value, list | tuple):
        for entry in value:
            yield from texts_in(entry)


def changed(value: Any, change: Callable[[str], str]) -> Any:
    """The same value with every text in it changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(key): changed(entry, change) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [changed(entry, change) for entry in value]
    return value
