"""Renders a model's chat template for a list of messages, whatever the template tries to do.

Knows messages and how templates refuse them; does not know token ids or models.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

import jinja2

from engine.errors import TemplateError
from engine.foreign import printable
from engine.text.limits import Allowance, LimitExceededError, Limits
from engine.text.prompt import Disguise, Rendered, Spellings
from engine.text.sandbox import RefusedError, Sandbox
from engine.types import Message

FOLDED_NOTE = "This model takes no system message: yours was put before your first message."
_HINT = "Choose another model, or a newer file of this one."
_SHOWN_CHARS = 300
_QUOTED = r"""["']([^"']{1,256})["']"""
_SEARCHES = (
    re.compile(rf"\.(?:r?split|r?partition|r?find|startswith|endswith|replace)\(\s*{_QUOTED}"),
    re.compile(rf"(?={_QUOTED}\s*(?:not\s+)?in\b)"),  # consumes nothing: an end quote may begin the next
)
_Made = TypeVar("_Made")


class ChatTemplate:
    """One template, compiled once. Rendering is thread-safe: one at a time."""

    def __init__(
        self,
        source: str | None,
        bos_token: str = "",
        eos_token: str = "",
        control_texts: Iterable[str] = (),
        *,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = datetime.now,
    ) -> None:
        """Compile `source`. Raises TemplateError where it is missing, broken or too large.

        `control_texts` are the spellings that only the template itself may turn into control tokens.
        """
        if not source or not source.strip():
            raise TemplateError("This model has no chat template, so it is not made for chatting.", _HINT)
        self._source = source
        self._tokens = {"bos_token": bos_token, "eos_token": eos_token}
        self._spellings = Spellings(control_texts)
        self._inspected = self._spellings.texts & _inspected(source)
        self._limits = limits or Limits()
        self._clock = clock
        self._lock = threading.Lock()
        self._sandbox = Sandbox(self._limits, now)
        self._template = self._guarded(self._compile, self._limits)

    def render(self, messages: Sequence[Message], add_generation_prompt: bool = True) -> Rendered:
        """The prompt for `messages`; raises TemplateError with a sentence where the template fails.

        A system message that the template refuses or drops is put before the first user message, with a note.
        """
        turns = [(message.role, _content_text(message.content)) for message in messages]
        refusal: TemplateError | None = None
        try:
            rendered = self._render(turns, add_generation_prompt)
        except _RefusedMessagesError as error:
            refusal = error
        else:
            if not _system_is_lost(turns, rendered.text):
                return rendered
        folded = _fold_system(turns)
        if folded is None:
            raise refusal or TemplateError("This model's chat template drops the system message.", _HINT)
        return Rendered(self._render(folded, add_generation_prompt).parts, (FOLDED_NOTE,))

    def _render(self, turns: list[tuple[str, str]], add_generation_prompt: bool) -> Rendered:
        disguise = Disguise(self._spellings, [self._source, *(content for _role, content in turns)])
        # A model's own answer may hold what its template looks for, such as the end of its thinking.
        keep = {"assistant": self._inspected}
        shown = [
            {"role": role, "content": disguise.hide(content, keep.get(role, frozenset()))}
            for role, content in turns
        ]
        input_bytes = sum(sys.getsizeof(message["content"]) for message in shown)
        limits = self._limits.for_input(input_bytes, len(shown))
        variables: dict[str, Any] = {
            **self._tokens,
            "messages": shown,
            "tools": None,
            "documents": None,
            "add_generation_prompt": add_generation_prompt,
        }
        text = self._guarded(lambda: self._run(variables), limits)
        return Rendered(disguise.reveal(text))

    def _compile(self) -> jinja2.Template:
        if len(self._source) > self._limits.source_chars:
            raise LimitExceededError("it is too long")
        return self._sandbox.from_string(self._source)

    def _run(self, variables: dict[str, Any]) -> str:
        """Like Template.render, which would write the traceback of an error anew, piece by piece counted."""
        context = self._template.new_context(variables)
        allowance, pieces, num_chars = self._sandbox.allowance, [], 0
        for piece in self._template.root_render_func(context):
            allowance.charge(16)
            num_chars += len(piece)
            allowance.expect_text(num_chars)
            pieces.append(piece)
        return "".join(pieces)

    def _guarded(self, work: Callable[[], _Made], limits: Limits) -> _Made:
        """Do `work` within `limits`. An error is told in words and let go: its frames hold large texts."""
        with self._lock:
            self._sandbox.allowance = Allowance(limits, self._clock)
            try:
                return work()
            except (Exception, LimitExceededError) as error:  # a foreign template can raise anything
                failure = _told(error)
        raise failure


class _RefusedMessagesError(TemplateError):
    """The template itself said no, as opposed to failing."""


def _told(error: BaseException) -> TemplateError:
    """What went wrong in a template, as a sentence."""
    words = _shown(error)
    if isinstance(error, RefusedError):
        return _RefusedMessagesError(
            f"This model's chat template refuses these messages: {words}",
            "Edit or delete the messages it names, or start a new chat.",
        )
    if isinstance(error, LimitExceededError):
        reason = f"This model's chat template was stopped: {words}."
    elif isinstance(error, jinja2.TemplateSyntaxError):
        reason = f"This model's chat template is broken at line {error.lineno}: {words}"
    else:
        reason = f"This model's chat template failed ({type(error).__name__}). {words}".strip()
    return TemplateError(reason, _HINT)


def _shown(error: BaseException) -> str:
    """An error's own words, short and on one line: they may come from a hostile file."""
    words = error.message if isinstance(error, jinja2.TemplateError) and error.message else str(error)
    return printable(words, _SHOWN_CHARS)


def _content_text(content: object) -> str:
    """A message's content as text: None is empty, text parts are joined, anything else is refused."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list | tuple):
        raise TemplateError("A message holds something that is not text.", "Only text can be sent.")
    texts = []
    for part in content:
        if not isinstance(part, Mapping) or part.get("type") != "text":
            kind = part.get("type", "unknown") if isinstance(part, Mapping) else type(part).__name__
            raise TemplateError(f"A message holds a part of the kind {kind!r}, but only text can be sent.")
        texts.append(str(part.get("text") or ""))
    return "".join(texts)


def _fold_system(turns: list[tuple[str, str]]) -> list[tuple[str, str]] | None:
    """The turns with a leading system message put into the first user turn; None where there is none."""
    if not turns or turns[0][0] != "system":
        return None
    system, rest = turns[0][1], turns[1:]
    for index, (role, content) in enumerate(rest):
        if role == "user":
            joined = f"{system}\n\n{content}" if system.strip() else content
            return [*rest[:index], (role, joined), *rest[index + 1 :]]
    return None


def _system_is_lost(turns: list[tuple[str, str]], prompt: str) -> bool:
    """Whether the leading system message left no trace in the prompt, however it was spaced or quoted."""
    if not turns or turns[0][0] != "system" or turns[0][1].strip() in prompt:
        return False
    seen = "".join(prompt.split())
    spellings = (turns[0][1], json.dumps(turns[0][1], ensure_ascii=False)[1:-1])
    return not any("".join(spelling.split()) in seen for spelling in spellings)


def _inspected(source: str) -> frozenset[str]:
    """The texts that a template looks for in what it is given, as in `content.split('</think>')`."""
    return frozenset(text for pattern in _SEARCHES for text in pattern.findall(source))
