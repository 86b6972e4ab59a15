"""Prints an answer while it is written: what the model thinks is for a person's eyes, the answer for anyone.

Knows two streams; not the engine, nor where the text comes from.
"""

from __future__ import annotations

from typing import TextIO

_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"


class AnswerPrinter:
    """Thinking goes dimmed to ``notes`` where that is a terminal, and nowhere else; all other text goes to
    ``out``, None where nobody wants it.
    """

    def __init__(self, out: TextIO | None, notes: TextIO | None) -> None:
        self._out = out
        self._notes = notes if notes is not None and notes.isatty() else None
        self._is_thinking = False

    def text(self, kind: str, text: str) -> None:
        """The next piece of a reply."""
        if kind == "thinking":
            self._think(text)
        elif self._out is not None:
            self._end_thinking()
            self._out.write(text)
            self._out.flush()

    def close(self) -> None:
        """Nothing follows, for whatever reason: leave the terminal as it was."""
        self._end_thinking()

    def _think(self, text: str) -> None:
        if self._out is not None and self._notes is not None:
            self._notes.write(text if self._is_thinking else f"{_DIM}{text}")
            self._notes.flush()
            self._is_thinking = True

    def _end_thinking(self) -> None:
        if self._is_thinking and self._notes is not None:
            self._notes.write(f"{_PLAIN}\n\n")
            self._notes.flush()
        self._is_thinking = False
