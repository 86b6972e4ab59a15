"""The recorded chats that drafts are judged on, in a model's tokens. Knows texts and ids; runs nothing."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files

from engine.text.chat import ChatText
from engine.types import Message, TemplateOptions

TEXTS = "speculation.toml"
EDIT, SUMMARY, FREE = KINDS = ("edit", "summary", "free")


@dataclass(frozen=True, slots=True)
class Stream:
    """One chat as token ids: the prompt as the model's template writes it, and the answer up to its end
    token, which is one of ``ends``.
    """

    kind: str
    question: str
    prompt: tuple[int, ...]
    answer: tuple[int, ...]
    ends: frozenset[int] = frozenset()

    @property
    def length(self) -> int:
        """Tokens in all."""
        return len(self.prompt) + len(self.answer)


def read_streams(text: ChatText) -> dict[str, Stream]:
    """All chats by kind. A model without a template continues the question."""
    recorded = tomllib.loads(files("assets").joinpath("texts", TEXTS).read_text(encoding="utf-8"))
    return {kind: make_stream(text, kind, **recorded[kind]) for kind in KINDS}


def make_stream(text: ChatText, kind: str, question: str, answer: str) -> Stream:
    """One chat in the tokens of ``text``."""
    prompt, _ = text.prompt((Message("user", question),), options_of(text))
    ids = text.tokenizer.encode(answer, literal=True)
    return Stream(kind, question, tuple(prompt), tuple(ids), text.tokenizer.eos_ids)


def options_of(text: ChatText) -> TemplateOptions:
    """How the prompts are made."""
    return TemplateOptions(is_plain=text.tokenizer.chat_template is None)
