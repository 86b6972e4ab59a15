"""Turns generated token ids into text piece by piece, so that what was shown is never taken back.

Knows bytes and UTF-8; what bytes a token stands for, the tokenizer says.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from typing import Protocol


class TokenBytes(Protocol):
    """What a stream needs of a tokenizer."""

    strips_first_space: bool

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes of one token; b"" for control tokens and unknown ids."""
        ...


class StreamDecoder:
    """Joins the bytes of tokens to text. All texts together equal `tokenizer.decode` of all ids.

    Bytes that cannot be text yet are held back, at most three; bytes that never can become U+FFFD. ``marks``
    are control tokens that count, with the letter that stands for each in the stream. A text that ``goes_on``
    keeps its first space.
    """

    def __init__(
        self, tokenizer: TokenBytes, marks: Mapping[int, str] | None = None, goes_on: bool = False
    ) -> None:
        self._tokenizer = tokenizer
        self._marks = marks or {}
        self._utf8 = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._strip = tokenizer.strips_first_space and not goes_on

    def push(self, token_id: int) -> str:
        """The text that is certain after this token; it may be empty."""
        if mark := self._marks.get(token_id):
            return self.flush() + mark
        return self._text(self._utf8.decode(self._tokenizer.token_bytes(token_id)))

    def flush(self) -> str:
        """The end: a character that was cut off becomes one U+FFFD."""
        return self._text(self._utf8.decode(b"", final=True))

    def _text(self, text: str) -> str:
        if self._strip and text:
            self._strip = False
            return text.removeprefix(" ")
        return text
