"""The prompt as parts, and how text that a person typed is kept apart from a model's control tokens.

Knows the spellings of control tokens; does not know templates, token ids or models.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby

_PRIVATE_USE = (range(0xE000, 0xF900), range(0xF0000, 0xFFFFE), range(0x100000, 0x10FFFE))


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of the prompt. In a literal one no text becomes a control token."""

    text: str
    literal: bool = False


@dataclass(frozen=True, slots=True)
class Rendered:
    """A prompt ready for the tokenizer; ``notes`` say what was changed to fit the template."""

    parts: tuple[Part, ...]
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The whole prompt as the template wrote it."""
        return "".join(part.text for part in self.parts)


class Spellings:
    """A set of texts, found in another text from the left, the longest first, however many they are.

    At a place of the other text, the spelling that stands last in order before what follows there begins
    with every spelling found there: these are it or the spellings that it begins with, one in the other.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = frozenset(text for text in texts if text)
        self.letters = "".join(sorted(set("".join(self.texts))))
        self._sorted = sorted(self.texts)
        self._shorter = _beginnings(self._sorted)
        self._longest = max(map(len, self.texts), default=0)
        self._first = _any_of({text[0] for text in self.texts}) if self.texts else None

    def find(
        self,
        text: str,
        accept: Callable[[int, int], bool] = lambda _start, _end: True,
        among: Callable[[int], Spellings] | None = None,
    ) -> Iterator[tuple[int, int]]:
        """(start, end) of each spelling in `text` that `accept` takes; they do not overlap.

        `among` gives the part of the spellings that may begin at a place.
        """
        start = 0
        while self._first is not None and (hit := self._first.search(text, start)):
            start = hit.start()
            for end in (among(start) if among else self)._ends(text, start):
                if accept(start, end):
                    yield start, end
                    start = end
                    break
            else:
                start += 1

    def within(self, text: str) -> frozenset[str]:
        """The spellings that occur in `text`, those inside others too."""
        found: set[str] = set()
        for hit in self._first.finditer(text) if self._first is not None else ():
            for end in self._ends(text, hit.start()):
                spelling = text[hit.start() : end]
                if spelling in found:  # and so are all that it begins with
                    break
                found.add(spelling)
        return frozenset(found)

    def _ends(self, text: str, start: int) -> Iterator[int]:
        """Where the spellings end that begin at `start`, the longest first."""
        index = bisect_right(self._sorted, text[start : start + self._longest]) - 1
        while index >= 0:
            spelling = self._sorted[index]
            if text.startswith(spelling, start):
                yield start + len(spelling)
            index = self._shorter[index]

    def open_end(self, text: str) -> int:
        """How many characters at the end of `text` could begin a spelling that other text completes."""
        for count in range(min(self._longest - 1, len(text)), 0, -1):
            tail = text[-count:]
            at = bisect_left(self._sorted, tail)
            if at < len(self._sorted) and self._sorted[at].startswith(tail):
                return count
        return 0


def _any_of(letters: set[str]) -> re.Pattern[str]:
    """Matches each of the letters, and perhaps others beyond U+FFFF: the pattern has no table for these."""
    low = sorted(letter for letter in letters if letter <= "\uffff")
    high = "\U00010000-\U0010ffff" if any(letter > "\uffff" for letter in letters) else ""
    return re.compile(f"[{re.escape(''.join(low))}{high}]")


def _beginnings(ordered: Sequence[str]) -> list[int]:
    """For each text the place of the longest other one that it begins with, or -1."""
    places: list[int] = []
    for text in ordered:
        place = len(places) - 1
        while place >= 0 and not text.startswith(ordered[place]):
            place = places[place]
        places.append(place)
    return places


class Disguise:
    """Puts stand-ins for control spellings into messages for a template, and takes them out of its result.

    Each character of such a spelling becomes one private-use character, so lengths, trimming and slices
    stay what they would be. What comes out of the template as a stand-in was typed, not written by it.
    """

    def __init__(self, spellings: Spellings, texts: Iterable[str]) -> None:
        """`texts` is all text that the rendering sees: its own private-use characters are not used."""
        self._spellings = spellings
        used = set().union(*map(set, texts))
        free = (chr(code) for code in chain(*_PRIVATE_USE) if chr(code) not in used)
        self._stand_ins = dict(zip(spellings.letters, free, strict=False))
        self._originals = {stand_in: letter for letter, stand_in in self._stand_ins.items()}

    def hide(self, text: str, keep: frozenset[str] = frozenset()) -> str:
        """`text` with every control spelling disguised, but those in `keep`."""
        spans = [(start, end) for start, end in self._spellings.find(text) if text[start:end] not in keep]
        for shown in (text, text.rstrip()):  # a template may trim it before it appends something
            if count := self._spellings.open_end(shown):
                spans.append((len(shown) - count, len(shown)))
        if not spans:
            return text
        letters = list(text)
        for start, end in spans:
            letters[start:end] = [self._stand_ins.get(letter, letter) for letter in text[start:end]]
        return "".join(letters)

    def reveal(self, text: str) -> tuple[Part, ...]:
        """The parts of a rendered text, with the original characters back in place."""
        if self._originals.keys().isdisjoint(text):
            return (Part(text),) if text else ()
        parts = []
        for literal, letters in groupby(text, key=self._originals.__contains__):
            letters_back = (self._originals.get(letter, letter) for letter in letters)
            parts.append(Part("".join(letters_back), literal))
        return tuple(parts)
