"""Finds stop strings in a stream of text and holds back only what could still become one.

Knows text; does not know tokens. Method: the failure function of Knuth, Morris and Pratt, "Fast pattern
matching in strings", SIAM J. Comput. 6 (1977), one automaton for each stop string.
"""

from __future__ import annotations

from collections.abc import Sequence


class StopMatcher:
    """Releases text up to the first complete stop string; how the text was cut makes no difference."""

    def __init__(self, stops: Sequence[str]) -> None:
        """Empty stop strings are left out: they would end every answer before it begins."""
        self._stops = [stop for stop in dict.fromkeys(stops) if stop]
        self._fallbacks = [_fallback(stop) for stop in self._stops]
        self._matched = [0] * len(self._stops)
        self._held = ""
        self.hit = False

    def push(self, text: str) -> str:
        """The text that is certain now. After a hit nothing more comes."""
        if self.hit or not text:
            return ""
        if not self._stops:
            return text
        everything = self._held + text
        for index, letter in enumerate(text, start=len(self._held) + 1):
            ended = self._advance(letter)
            if ended:
                self.hit, self._held = True, ""
                return everything[: index - ended]
        certain = len(everything) - max(self._matched)
        self._held = everything[certain:]
        return everything[:certain]

    def flush(self) -> str:
        """The text still held back, at the end of the stream."""
        held, self._held = self._held, ""
        self._matched = [0] * len(self._stops)
        return held

    def _advance(self, letter: str) -> int:
        """Take one character; the length of the longest stop string that it completes, else 0."""
        ended = 0
        for number, stop in enumerate(self._stops):
            matched = self._matched[number]
            while matched and stop[matched] != letter:
                matched = self._fallbacks[number][matched]
            matched += stop[matched] == letter
            if matched == len(stop):
                ended = max(ended, matched)
                matched = self._fallbacks[number][matched]
            self._matched[number] = matched
        return ended


def _fallback(stop: str) -> list[int]:
    """For each matched length, the length of the longest shorter match that ends at the same place."""
    table = [0] * (len(stop) + 1)
    length = 0
    for index in range(1, len(stop)):
        while length and stop[index] != stop[length]:
            length = table[length]
        length += stop[index] == stop[length]
        table[index + 1] = length
    return table
