"""Renders a model's chat template for a list of messages, whatever the template tries to do.

Knows messages and how templates refuse them; does not know token ids or models.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
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
from engine.text import reasoning
from engine.text.limits import Allowance, LimitExceededError, Limits
from engine.text.prompt import Disguise, Rendered, Spellings
from engine.text.sandbox import RefusedError, Sandbox
from engine.text.turns import (
    Shaper,
    changed,
    fold_system,
    has_bad_arguments,
    parsed,
    readable,
    system_is_lost,
    texts_in,
    with_system_word,
)
from engine.types import NO_OPTIONS, Message, TemplateOptions
from engine.words import mark, tr

FOLDED_NOTE = mark("This model takes no system message: yours was put before your first message.")
_HINT = mark("Choose another model, or a newer file of this one.")
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
            said = tr("This model has no chat template, so it is not made for chatting.")
            raise TemplateError(said, tr(_HINT))
        self._source = source
        self._tokens = {"bos_token": bos_token, "eos_token": eos_token}
        self._spellings = Spellings(control_texts)
        self._inspected = self._spellings.texts & _inspected(source)
        self._limits = limits or Limits()
        self._clock = clock
        self._lock = threading.Lock()
        self._sandbox = Sandbox(self._limits, now)
        self._shaper = Shaper(source)
        self._template = self._guarded(self._compile, self._limits)

    def render(
        self,
        messages: Sequence[Message],
        add_generation_prompt: bool = True,
        options: TemplateOptions = NO_OPTIONS,
    ) -> Rendered:
        """The prompt for `messages`; raises TemplateError with a sentence where the template fails, WishError
        for options that are not JSON.

        A system message that the template refuses or drops is put before the first user message, with a note.
        """
        turns = readable(messages)
        variables = self._variables(options) | {"add_generation_prompt": add_generation_prompt}
        typed = self._typed(options)
        word = reasoning.system_word(self._source, options.thinking)
        refusal: TemplateError | None = None
        try:
            rendered = self._render(with_system_word(turns, word) if word else turns, variables, typed)
        except _RefusedMessagesError as error:
            refusal = error
        else:
            if not system_is_lost(turns, rendered.text):
                return rendered
        folded = fold_system(turns)
        if folded is None:
            said = tr("This model's chat template drops the system message.")
            raise refusal or TemplateError(said, tr(_HINT))
        return Rendered(self._render(folded, variables, typed).parts, (tr(FOLDED_NOTE),))

    @functools.cached_property
    def thinking(self) -> str:
        """What the template does by itself where it can switch thinking: on or off; "" where it cannot."""
        if not reasoning.has_switch_words(self._source):
            return ""
        try:
            alone, on, off = map(self._probe, (None, True, False))
        except TemplateError:
            return ""
        return "" if on == off else "off" if alone == off else "on"

    @property
    def sample(self) -> str:
        """The template's text and a short prompt of it: tags may stand in either."""
        with contextlib.suppress(TemplateError):
            return f"{self._source}\n{self._probe(is_thinking=True)}"
        return self._source

    def _probe(self, is_thinking: bool | None) -> str:
        """A short prompt."""
        return self.render([Message("user", "x")], options=TemplateOptions(thinking=is_thinking)).text

    def _variables(self, options: TemplateOptions) -> dict[str, Any]:
        """What the program itself tells the template besides the messages."""
        switch = {} if options.thinking is None else reasoning.switch(self._source, options.thinking)
        return {"tools": None, "documents": None, **switch}

    def _typed(self, options: TemplateOptions) -> dict[str, Any]:
        """What a person tells the template besides the messages."""
        given: dict[str, Any] = {}
        if options.variables:
            given |= parsed(options.variables, dict)
        if options.tools and (tools := parsed(options.tools, list)):
            if not re.search(r"\btools\b", self._source):
                raise TemplateError(
                    tr("This model's chat template takes no tools."),
                    tr("Ask without, or choose another model."),
                )
            given["tools"] = tools
        return given

    def _render(
        self, turns: Sequence[Message], variables: Mapping[str, Any], typed: Mapping[str, Any]
    ) -> Rendered:
        """Some templates take the arguments of calls as objects, some as text."""
        try:
            return self._render_shaped(turns, variables, typed, parses_arguments=True)
        except TemplateError as error:
            if isinstance(error, _RefusedMessagesError) or not any(turn.tool_calls for turn in turns):
                raise
            failure = error
        with contextlib.suppress(TemplateError):
            return self._render_shaped(turns, variables, typed, parses_arguments=False)
        raise _bad_arguments() if has_bad_arguments(turns) else failure

    def _render_shaped(
        self,
        turns: Sequence[Message],
        variables: Mapping[str, Any],
        typed: Mapping[str, Any],
        parses_arguments: bool,
    ) -> Rendered:
        texts = [text for turn in turns for text in texts_in(dataclasses.astuple(turn))] + [*texts_in(typed)]
        disguise = Disguise(self._spellings, [self._source, *texts])
        # A model's own answer may hold what its template looks for, such as the end of its thinking.
        keep = {"assistant": self._inspected}

        def hide(text: str, role: str = "") -> str:
            return disguise.hide(text, keep.get(role, frozenset()))

        shown = self._shaper.shaped(turns, hide, parses_arguments)
        told = {**variables, **{name: changed(value, hide) for name, value in typed.items()}}
        limits = self._limits.for_input(sum(map(sys.getsizeof, texts)), len(shown))
        text = self._guarded(lambda: self._run({**told, **self._tokens, "messages": shown}), limits)
        return Rendered(disguise.reveal(text))

    def _compile(self) -> jinja2.Template:
        if len(self._source) > self._limits.source_chars:
            raise LimitExceededError(tr("it is too long"))
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


def _bad_arguments() -> TemplateError:
    return TemplateError(
        tr("A tool was called with arguments that are no JSON object, and its template takes no others."),
        tr("Edit or delete the message with the call, or start a new chat."),
    )


def _told(error: BaseException) -> TemplateError:
    """What went wrong in a template, as a sentence."""
    words = _shown(error)
    if isinstance(error, RefusedError):
        return _RefusedMessagesError(
            tr("This model's chat template refuses these messages: {reason}").format(reason=words),
            tr("Edit or delete the messages it names, or start a new chat."),
        )
    if isinstance(error, LimitExceededError):
        said = tr("This model's chat template was stopped: {reason}.").format(reason=words)
    elif isinstance(error, jinja2.TemplateSyntaxError):
        said = tr("This model's chat template is broken at line {line}: {reason}")
        said = said.format(line=error.lineno, reason=words)
    else:
        said = tr("This model's chat template failed ({error}).").format(error=type(error).__name__)
        said = f"{said} {words}".strip()
    return TemplateError(said, tr(_HINT))


def _shown(error: BaseException) -> str:
    """An error's own words, short and on one line: they may come from a hostile file."""
    words = error.message if isinstance(error, jinja2.TemplateError) and error.message else str(error)
    return printable(words, _SHOWN_CHARS)


def _inspected(source: str) -> frozenset[str]:
    """The texts that a template looks for in what it is given, as in `content.split('</think>')`."""
    return frozenset(text for pattern in _SEARCHES for text in pattern.findall(source))
