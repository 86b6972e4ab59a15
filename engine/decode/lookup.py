"""Drafts looked up in the conversation itself: what followed the same tokens before. Knows ids, no model.

Prompt lookup decoding as in github.com/apoorvumang/prompt-lookup-decoding, with an index that grows by the
token, so that a step's draft costs the same at any length of the chat.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

MAX_MATCH = 8  # tokens; longer matches foretell no better
CANDIDATES = 16  # earlier places compared; more of them found no better ones in prose and code
_CLASSES = (1, 2, 3, MAX_MATCH)  # matches of a class foretell about equally well

_Key = TypeVar("_Key")


@dataclass(frozen=True, slots=True)
class Draft:
    """Proposed next tokens, and how many tokens before them matched (at most MAX_MATCH; 0: no proposal)."""

    ids: tuple[int, ...] = ()
    match: int = 0

    @property
    def kind(self) -> int | None:
        """The class of the match, whose drafts are right about equally often; None without one."""
        return max((least for least in _CLASSES if least <= self.match), default=None)


class Lookup:
    """The index of one conversation: for every token and pair of tokens, the places where it ended before.

    Takes about 100 bytes a token. ``ends`` are the ids that end an answer: no draft goes on after one.
    """

    def __init__(self, ids: Iterable[int] = (), ends: frozenset[int] = frozenset()) -> None:
        self._ids: list[int] = []
        self._ends = ends
        self._tokens: dict[int, int] = {}  # id → its last place
        self._pairs: dict[tuple[int, int], int] = {}  # (id, id) → last place of the second
        self._same_token = array("i")  # place → the place before of the same token; -1: none
        self._same_pair = array("i")
        for token in ids:
            self.push(token)

    def __len__(self) -> int:
        return len(self._ids)

    def push(self, token: int) -> None:
        """Note the next token of the conversation, whoever wrote it."""
        place = len(self._ids)
        self._same_token.append(self._tokens.get(token, -1))
        self._tokens[token] = place
        before = -1
        if place:
            pair = (self._ids[-1], token)
            before = self._pairs.get(pair, -1)
            self._pairs[pair] = place
        self._same_pair.append(before)
        self._ids.append(token)

    def trim(self, length: int) -> None:
        """Forget all but the first ``length`` tokens; takes as long as there are tokens to forget."""
        while len(self._ids) > max(0, length):
            token = self._ids.pop()
            _restore(self._tokens, token, self._same_token.pop())
            before = self._same_pair.pop()
            if self._ids:
                _restore(self._pairs, (self._ids[-1], token), before)

    def draft(self, max_len: int) -> Draft:
        """At most ``max_len`` tokens that followed the longest match with the end of the conversation, the
        latest of several. A match that overlaps the end is a loop, and the draft goes round in it.
        """
        place, match = self._longest_match()
        if max_len <= 0 or not match:
            return Draft()
        ids = self._ids
        period = len(ids) - 1 - place
        drafted: list[int] = []
        for at in range(place + 1, place + 1 + max_len):
            token = ids[at] if at < len(ids) else drafted[-period]
            drafted.append(token)
            if token in self._ends:
                break
        return Draft(tuple(drafted), match)

    def _longest_match(self) -> tuple[int, int]:
        """(place, length): where the last tokens stood before, and how many of them."""
        if not self._ids:
            return -1, 0
        place, match = self._same_token[-1], 1
        at = self._same_pair[-1]
        for _ in range(CANDIDATES):
            if at < 0 or match == MAX_MATCH:
                break
            length = self._match_at(at)
            if length > match:
                place, match = at, length
            at = self._same_pair[at]
        return (place, match) if place >= 0 else (-1, 0)

    def _match_at(self, place: int) -> int:
        """How many tokens up to ``place`` equal the last ones, given that two do."""
        ids, last = self._ids, len(self._ids) - 1
        length = 2
        while length < MAX_MATCH and length <= place and ids[place - length] == ids[last - length]:
            length += 1
        return length


def _restore(index: dict[_Key, int], key: _Key, before: int) -> None:
    if before < 0:
        del index[key]
    else:
        index[key] = before
