"""Counts a chat's tokens beside the engine, with a tokenizer of its own. Lives on one I/O lane."""

from __future__ import annotations

from engine.errors import EngineError
from engine.text.chat import ChatText
from engine.types import Message


class TokenCounter:
    """Keeps the tokenizer of the last model asked for."""

    def __init__(self) -> None:
        self._path = ""
        self._text: ChatText | None = None

    def count(self, path: str, messages: tuple[Message, ...]) -> int | None:
        """Prompt tokens of ``messages`` for the model at ``path``; None where they cannot be counted."""
        try:
            if path != self._path:
                self._path, self._text = path, None
                self._text = ChatText.load(path)
            if self._text is None:
                return None
            return len(self._text.prompt(messages)[0]) if messages else 0
        except EngineError:
            return None  # the engine will say why, when the message is sent
