"""The prompt that ends inside an unfinished answer, so that a model goes on with it.

Knows chats, templates and the tags of replies; not token ids. Templates are written for whole answers: they
end one, trim it, drop a thought. What they do is found by a mark behind the answer, as transformers does for
`continue_final_message`: https://huggingface.co/docs/transformers/chat_templating#continuefinalmessage
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.errors import TemplateError, WishError
from engine.text.channels import ANSWER, THINKING, Grammar, Splitter
from engine.text.prompt import Part
from engine.text.template import ChatTemplate
from engine.text.turns import readable
from engine.types import Message, TemplateOptions
from engine.words import tr

_MARK = "\U0010fff2\U0010ffe1\U0010fff2"  # private use: no message has it, and none is disguised by it


@dataclass(frozen=True, slots=True)
class Asked:
    """The prompt that asked for an answer, and its end, as far as the template itself wrote it. A continued
    answer has the very ids of the prompt with which it was begun before it.
    """

    prompt: str
    end: str


def last_answer(messages: Sequence[Message]) -> Message:
    """The unfinished answer. Raises WishError where there is none."""
    last = readable(messages[-1:])[0] if messages else Message("user", "")
    if last.role != "assistant" or last.tool_calls:
        raise WishError(
            tr("There is no unfinished answer to continue."),
            tr("Ask a question, or continue a model's message."),
        )
    return last


def said(
    template: ChatTemplate,
    messages: Sequence[Message],
    options: TemplateOptions,
    asked: Asked,
    grammar: Grammar,
) -> tuple[Part, ...]:
    """What the model has written behind the prompt that ``asked`` it: the last of ``messages``, as the model
    itself writes it. Where that has no answer yet, it ends inside its thought.

    Raises WishError where there is nothing to continue, TemplateError where the template has no place for an
    unfinished thought.
    """
    answer = last_answer(messages)
    if not answer.content and not answer.thinking:
        return ()
    parts = _marked(template, messages, answer, options)
    found = _behind(asked.prompt, parts)
    if found is not None and _is_whole(found, answer, asked, grammar):
        return found
    return _composed(asked, "".join(part.text for part in parts), answer, grammar)


def _marked(
    template: ChatTemplate, messages: Sequence[Message], answer: Message, options: TemplateOptions
) -> tuple[Part, ...]:
    """The whole chat as the template writes it, up to the end of the answer; nothing where it refuses."""
    name = "content" if answer.content else "thinking"
    marked = replace(answer, **{name: getattr(answer, name) + _MARK})
    try:
        rendered = template.render([*messages[:-1], marked], add_generation_prompt=False, options=options)
    except TemplateError:
        return ()
    end = rendered.text.rfind(_MARK)
    return _cut(rendered.parts, 0, end) if end >= 0 else ()


def _cut(parts: Sequence[Part], start: int, end: int) -> tuple[Part, ...]:
    """The characters from ``start`` to ``end``, still in parts."""
    found, at = [], 0
    for part in parts:
        text = part.text[max(0, start - at) : max(0, end - at)]
        at += len(part.text)
        if text:
            found.append(Part(text, part.literal))
    return tuple(found)


def _behind(base: str, parts: Sequence[Part]) -> tuple[Part, ...] | None:
    """What ``parts`` have behind ``base``; None where they do not begin with it."""
    text = "".join(part.text for part in parts)
    return _cut(parts, len(base), len(text)) if text.startswith(base) else None


def _is_whole(said: Sequence[Part], answer: Message, asked: Asked, grammar: Grammar) -> bool:
    """Whether nothing of the answer was lost, nor of a thought for which the model has tags, and the part
    that is open at the end is the right one: not the thought that the prompt began.
    """
    text = "".join(part.text for part in said)
    thought = answer.thinking.strip() if grammar.is_named else ""
    if not text.endswith((answer.content or answer.thinking).lstrip()) or thought not in text:
        return False
    splitter = Splitter(grammar)
    splitter.open(asked.end)
    splitter.push(text)
    return splitter.kind == (ANSWER if answer.content or not grammar.is_named else THINKING)


def _composed(asked: Asked, marked: str, answer: Message, grammar: Grammar) -> tuple[Part, ...]:
    """What the model has written, put together by its tags: for templates that write an earlier answer in
    another way than they ask for one. ``marked`` is what they write.
    """
    splitter = Splitter(grammar)
    splitter.open(asked.end)
    if splitter.kind == "":
        return _message(asked.end, marked, answer, grammar)
    thoughts = ((tag, block) for tag, block in grammar.blocks.items() if block.kind == THINKING)
    begin, ends = next(((tag, block.ends) for tag, block in thoughts), ("", ()))
    is_open, is_fresh = splitter.kind == THINKING, not _has_closed(asked.end, ends)
    parts: list[Part] = []
    if answer.thinking and not is_open and is_fresh and begin:
        parts.append(Part(begin))
        is_open = True
    if not answer.content and not is_open:
        raise _no_place()
    if is_open:
        parts.append(Part(answer.thinking, literal=True))
    if answer.content:
        space = "\n" if asked.end.endswith("\n") else ""
        end = ends[0] if is_open and ends else ""
        parts.append(Part(f"{space}{end}{2 * space}" if end else ""))
        tag = "" if end in grammar.blocks else _answer_tag(marked, answer, grammar)
        parts += [Part(tag), Part(answer.content, literal=True)]
    return tuple(part for part in parts if part.text)


def _message(end: str, marked: str, answer: Message, grammar: Grammar) -> tuple[Part, ...]:
    """The same for a model that writes messages, in whose head ``end`` stands: the head is the template's."""
    head = end[max(map(end.rfind, grammar.heads)) :]
    text = answer.content or answer.thinking
    at = marked.rfind(head)
    if at < 0 or not marked.endswith(text):
        raise _no_place()
    return (Part(marked[at + len(head) : len(marked) - len(text)]), Part(text, literal=True))


def _has_closed(end: str, ends: Sequence[str]) -> bool:
    """Whether the prompt ends behind a thought, an empty one."""
    return end.rstrip().endswith(tuple(ends)) if ends else False


def _answer_tag(marked: str, answer: Message, grammar: Grammar) -> str:
    """The tag that the template writes before an answer, where its model has one."""
    before = marked.removesuffix(answer.content).rstrip()
    tags = (tag for tag, block in grammar.blocks.items() if block.kind == ANSWER and before.endswith(tag))
    return next(tags, "")


def _no_place() -> TemplateError:
    return TemplateError(
        tr("This model's chat template has no place for an unfinished thought."),
        tr("Have it answer anew instead."),
    )
