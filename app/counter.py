"""Counts a chat's tokens beside the engine, with a tokenizer of its own. Lives on one I/O lane."""

from __future__ import annotations

from engine.errors import EngineError
from engine.text.chat import ChatText
from engine.types import NO_OPTIONS, Message, TemplateOptions

LEAST_KEPT = 0.8  # of a text, where it is cut at a line


class TokenCounter:
    """Keeps the tokenizer of the last model asked for."""

    def __init__(self) -> None:
        self._path = ""
        self._text: ChatText | None = None

    def count(
        self, path: str, messages: tuple[Message, ...], options: TemplateOptions = NO_OPTIONS
    ) -> int | None:
        """Prompt tokens of ``messages`` for the model at ``path``; None where they cannot be counted."""
        try:
            if path != self._path:
                self._path, self._text = path, None
                self._text = ChatText.load(path)
            if self._text is None:
                return None
            return len(self._text.prompt(messages, options)[0]) if messages else 0
        except EngineError:
            return None  # the engine will say why, when the message is sent

    def count_text(self, path: str, text: str) -> int | None:
        """Tokens of a text inside a message; None where they cannot be counted."""
        try:
            return len(self._read(path).tokenizer.encode(text, literal=True, goes_on=True))
        except EngineError:
            return None

    def beginning(self, path: str, text: str, most: int) -> str:
        """As much of the beginning of ``text`` as ``most`` tokens hold, up to the end of a line where that
        costs little. Raises EngineError.
        """
        tokenizer = self._read(path).tokenizer
        while text and (tokens := len(tokenizer.encode(text, literal=True, goes_on=True))) > most:
            text = text[: min(len(text) - 1, len(text) * most // tokens)]
        line_end = text.rfind("\n")
        return text[: line_end + 1] if line_end >= len(text) * LEAST_KEPT else text

    def _read(self, path: str) -> ChatText:
        """The tokenizer of the model at ``path``. Raises EngineError."""
        if path != self._path or self._text is None:
            self._path, self._text = path, None
            self._text = ChatText.load(path)
        return self._text
