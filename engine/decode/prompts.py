"""Prompts that fit the context: as the template renders the chat or, where that is too long, a part of it.

Knows messages and token ids; no caches and no sequences.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.decode.overflow import MIDDLE, OLDEST, target_length, without_middle, without_oldest
from engine.errors import ContextError, TemplateError
from engine.text.chat import ChatText, Prompt
from engine.types import GenerateRequest, Message
from engine.words import figure, tr


@dataclass(frozen=True, slots=True)
class Fitted:
    """A prompt, and what was left out of it: turns, or only tokens."""

    prompt: Prompt
    dropped_turns: int = 0
    dropped_tokens: int = 0


class Prompts:
    """Makes the prompts of one model for a context of so many tokens."""

    def __init__(self, text: ChatText, context: int, vocab_size: int) -> None:
        self._text = text
        self._context = context
        self._vocab_size = vocab_size

    def of(self, request: GenerateRequest) -> Fitted:
        """The prompt of a new answer.

        Raises TemplateError, WishError, and ContextError where it is empty or does not fit, and nothing may
        be left out.
        """
        prompt = self._render(request, request.messages)
        if not prompt.ids:
            raise ContextError(tr("The prompt is empty."), tr("Write a message first."))
        if len(prompt.ids) < self._context:
            return Fitted(prompt)
        fitted = self._shortened(request, prompt, len(prompt.ids))
        if fitted is None:
            raise ContextError(
                tr("The prompt has {tokens} tokens and the context holds {context}.").format(
                    tokens=figure(len(prompt.ids)), context=figure(self._context)
                ),
                tr("Shorten it, start a new chat, or raise the context length."),
            )
        return fitted

    def shorter(self, request: GenerateRequest, prompt: list[int], generated: list[int]) -> Fitted | None:
        """The prompt of an answer that has filled the context with what it ``generated``; None where nothing
        may be left out.
        """
        return self._shortened(request, Prompt(prompt), len(prompt) + len(generated))

    def _shortened(self, request: GenerateRequest, prompt: Prompt, length: int) -> Fitted | None:
        """``prompt`` without what makes a chat of ``length`` tokens too long."""
        rest = length - len(prompt.ids)
        if request.when_full == OLDEST:
            found = without_oldest(
                request.messages,
                target_length(self._context) - rest,
                lambda messages: self._render(request, messages),
                lambda rendered: len(rendered.ids),
            )
            if found is not None:
                shorter, turns = found
                return Fitted(shorter, turns, len(prompt.ids) - len(shorter.ids))
        if request.when_full == MIDDLE:
            ids = without_middle(prompt.ids, length, self._context)
            if ids is not None:
                return Fitted(replace(prompt, ids=ids), 0, len(prompt.ids) - len(ids))
        return None

    def _render(self, request: GenerateRequest, messages: tuple[Message, ...]) -> Prompt:
        prompt = self._text.prepare(messages, request.template, request.continues)
        if any(token >= self._vocab_size for token in prompt.ids):
            raise TemplateError(
                tr("The tokenizer and the weights do not belong together."), tr("Download the model again.")
            )
        return prompt
