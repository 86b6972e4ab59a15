"""From the messages of a chat to the ids of a prompt, and from ids to a reply: one model's tokenizer and
template together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.errors import NoTemplateError
from engine.models.gguf import GgufHeader
from engine.text import continuation
from engine.text import tokenizer as tokenizers
from engine.text.continuation import Asked
from engine.text.prompt import Part, Rendered
from engine.text.reasoning import grammar_of
from engine.text.reply import Reply, ReplyFormat
from engine.text.template import ChatTemplate
from engine.text.tokenizer import Tokenizer
from engine.text.turns import readable
from engine.types import NO_OPTIONS, Message, TemplateOptions


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt that asks for the next reply. ``end`` is what the template itself wrote last; ``notes`` say
    what was changed to fit it. ``said`` is what an unfinished reply has already, behind ``end``.
    """

    ids: list[int]
    end: str = ""
    notes: tuple[str, ...] = ()
    said: tuple[Part, ...] = ()


class ChatText:
    """Tokenizer and template of the model at one path.

    A model without a template can be loaded and measured; only chatting with it is refused.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._template = self._compiled(tokenizer.chat_template)
        self._tool_template = self._compiled(tokenizer.tool_template)
        # What the template does by itself where it can switch thinking: on or off; "" where it cannot.
        self.thinking = self._template.thinking if self._template else ""
        self._grammar = grammar_of(self._template.sample if self._template else "", tokenizer.added_texts)
        self.reply_format = ReplyFormat(self._grammar, tokenizer.hidden(self._grammar.tags))

    def _compiled(self, source: str | None) -> ChatTemplate | None:
        tokenizer = self.tokenizer
        if not source:
            return None
        return ChatTemplate(source, tokenizer.bos_token, tokenizer.eos_token, tokenizer.control_texts)

    @classmethod
    def load(cls, path: str, header: GgufHeader | None = None) -> ChatText:
        """Read both from a model file or folder; ``header`` is a GGUF file's where it has been read already.

        Raises TokenizerError, TemplateError, ModelFileError.
        """
        return cls(tokenizers.load(path, header))

    def prompt(
        self, messages: Sequence[Message], options: TemplateOptions = NO_OPTIONS
    ) -> tuple[list[int], tuple[str, ...]]:
        """Ids and notes of ``prepare``."""
        prepared = self.prepare(messages, options)
        return prepared.ids, prepared.notes

    def prepare(
        self, messages: Sequence[Message], options: TemplateOptions = NO_OPTIONS, continues: bool = False
    ) -> Prompt:
        """The prompt that asks for the next reply, or for the rest of the last one where it ``continues``.

        Raises TemplateError where the model has no template or its template fails, WishError for options
        that are not JSON and where there is nothing to continue.
        """
        answer = continuation.last_answer(messages) if continues else None
        asking = messages[:-1] if continues else messages
        if options.is_plain:
            goes_on = [Part(answer.content, literal=True)] if answer else []
            return self._prompt([Part(_plain_text(asking), literal=True)], said=tuple(goes_on))
        template = self._tool_template if options.tools and self._tool_template else self._template
        if template is None:
            raise NoTemplateError
        rendered = template.render(asking, options=options)
        asked = Asked(rendered.text, _written_end(rendered, asking))
        said = continuation.said(template, messages, options, asked, self._grammar) if answer else ()
        return self._prompt(rendered.parts, asked.end, rendered.notes, said)

    def _prompt(
        self,
        parts: Sequence[Part],
        end: str = "",
        notes: tuple[str, ...] = (),
        said: tuple[Part, ...] = (),
    ) -> Prompt:
        ids = self.tokenizer.encode_prompt(parts)
        return Prompt(ids + self.tokenizer.encode_reply(said) if said else ids, end, notes, said)

    def reply(
        self,
        prompt_end: str,
        stops: Sequence[str] = (),
        options: TemplateOptions = NO_OPTIONS,
        said: Sequence[Part] = (),
    ) -> Reply:
        """What takes the ids of the reply to a prompt with such an end, of which some may have been said."""
        return Reply(self.tokenizer, self.reply_format, stops, prompt_end, bool(options.tools), said)


def _written_end(rendered: Rendered, messages: Sequence[Message]) -> str:
    """What the template wrote behind the last message; "" where that, as typed, stands last."""
    last = rendered.parts[-1] if rendered.parts else Part("")
    typed = readable(messages[-1:])[0].content.strip() if messages else ""
    if last.literal or (typed and rendered.text.rstrip().endswith(typed)):
        return ""
    return last.text


def _plain_text(messages: Sequence[Message]) -> str:
    """The messages as one text: an answer goes on from its question, a question begins a paragraph."""
    text = ""
    for message in readable(messages):
        is_reply = message.role == "assistant"
        text += message.content if is_reply or not text else f"\n\n{message.content}"
    return text
