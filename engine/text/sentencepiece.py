"""Encodes as SentencePiece does: of all neighbours the two merge first whose piece has the highest score.

Knows pieces, scores and bytes; does not know files or special tokens.
Kudo and Richardson, "SentencePiece: A simple and language independent subword tokenizer" (2018).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from operator import add

from engine.errors import TokenizerError
from engine.text.vocabulary import SPACE
from engine.words import tr

_MOST_PIECE_CHARS = 1024  # published ones have under 100; it bounds the time that one merge can take
_MOST_PAIRS = 1 << 21  # published vocabularies have up to about 40,000
_MOST_KEPT_CHARS = 64
_MOST_KEPT_WORDS = 1 << 16


class SentencePiece:
    """An encoder of plain text, exact where pieces share a score, too: then the leftmost two merge first.

    Ranks of merges, as tokenizer.json has them, cannot say that: Llama 2 gives all runs of spaces one score.
    Safe to use from several threads: what it keeps between texts are ids that any thread would find.
    """

    def __init__(
        self, pieces: Mapping[str, int], scores: Sequence[float], byte_ids: Sequence[int], add_prefix: bool
    ) -> None:
        """`pieces`: text → id, `scores` by id, `byte_ids` of the 256 bytes for letters that are no piece.

        With `add_prefix` a text that stands first gets a space before it. Raises TokenizerError.
        """
        self._ids = {text: token_id for text, token_id in pieces.items() if len(text) <= _MOST_PIECE_CHARS}
        self._costs = [-score for score in scores]
        self._byte_ids = byte_ids
        self._add_prefix = add_prefix
        self._joined: set[str] = set()  # every two letters that stand side by side in a piece
        for text in self._ids:
            self._joined.update(map(add, text, text[1:]))
            if len(self._joined) > _MOST_PAIRS:
                raise TokenizerError(
                    tr("The tokenizer's pieces are of more pairs of letters than any language has."),
                    tr("Choose another file of this model."),
                )
        self._kept: dict[str, list[int]] = {}

    def encode(self, text: str, is_first: bool) -> list[int]:
        """The ids of `text`; a space goes before it where `is_first`."""
        if is_first and self._add_prefix:
            text = " " + text
        ids: list[int] = []
        for word in self._words(text.replace(" ", SPACE)):
            found = self._kept.get(word)
            if found is None:
                found = self._merged(word)
                self._keep(word, found)
            ids += found
        return ids

    def _words(self, text: str) -> Iterator[str]:
        """The parts of a text that no merge can join, as no piece holds what stands at their borders."""
        joined, start = self._joined, 0
        for end, pair in enumerate(map(add, text, text[1:]), 1):
            if pair not in joined:
                yield text[start:end]
                start = end
        if start < len(text):
            yield text[start:]

    def _keep(self, word: str, ids: list[int]) -> None:
        """Texts repeat their words: short ones are merged once."""
        if len(word) <= _MOST_KEPT_CHARS:
            if len(self._kept) >= _MOST_KEPT_WORDS:
                self._kept = {}
            self._kept[word] = ids

    def _merged(self, word: str) -> list[int]:
        """The ids of one word: merge until no two neighbours are a piece together.

        `ends[start]` is where the symbol ends that begins at `start`, 0 where none does; `starts[end]` the
        other way round. A candidate (cost, start, end) is stale once one of its two symbols has grown.
        """
        ends = list(range(1, len(word) + 1))
        starts = list(range(-1, len(word)))
        candidates: list[tuple[float, int, int]] = []

        def propose(start: int, end: int) -> None:
            token_id = self._ids.get(word[start:end])
            if token_id is not None:
                heapq.heappush(candidates, (self._costs[token_id], start, end))

        for start in range(len(word) - 1):
            propose(start, start + 2)
        while candidates:
            _, start, end = heapq.heappop(candidates)
            middle = ends[start]
            if not start < middle < end or ends[middle] != end:
                continue
            ends[start], ends[middle], starts[end] = end, 0, start
            if start > 0:
                propose(starts[start], end)
            if end < len(word):
                propose(start, ends[end])
        return self._ids_of_symbols(word, ends)

    def _ids_of_symbols(self, word: str, ends: list[int]) -> list[int]:
        """The pieces of a merged word; a letter that is none becomes its bytes."""
        ids: list[int] = []
        start = 0
        while start < len(word):
            symbol = word[start : ends[start]]
            token_id = self._ids.get(symbol)
            if token_id is None:
                ids += [self._byte_ids[byte] for byte in symbol.encode()]
            else:
                ids.append(token_id)
            start = ends[start]
        return ids
