"""A smaller model that drafts for running answers: its caches follow theirs, token by token.

Knows sequences and a runner; not whether a draft pays, nor what becomes of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Many
from dataclasses import dataclass, field
from random import Random

import torch
from torch import Generator, Tensor

from engine.decode.sampler import candidates
from engine.decode.sequence import Sequence
from engine.kv.cache import KVCache
from engine.kv.store import KVStore, Usage
from engine.models.decoder import Runner, Segment
from engine.types import LoadPlan

READ_AT_ONCE = 16  # tokens that the first pass of a draft reads by the way; more are read in pieces


@dataclass(frozen=True, slots=True)
class Drafted:
    """Proposed next tokens, of which the first ``standing`` can be checked: an answer's form may not allow
    the last one. ``q`` as in `acceptance.verify`.
    """

    ids: tuple[int, ...] = ()
    standing: int = 0
    q: tuple[Tensor, ...] | None = None


@dataclass(slots=True)
class _Follower:
    """The draft model's cache of one answer. ``guessed``: its last tokens, which the answer may not have."""

    cache: KVCache
    generator: Generator | None  # None: first choices, no draws
    guessed: list[int] = field(default_factory=list)


class DraftModel:
    """A loaded draft model and what it has read of each running answer.

    Where the answer is greedy, drafts are the model's first choices. So they are where the request names a
    seed: checked by plain decoding's own draws they leave every token as it would have been, whatever
    the length of drafts, which goes by measured times. Elsewhere they are drawn as the answer's tokens are,
    so that more of them stand, by a generator of their own.
    """

    def __init__(
        self, plan: LoadPlan, runner: Runner, store: KVStore, vocab_size: int, ends: frozenset[int]
    ) -> None:
        """``vocab_size``: rows of the target's vocabulary. No draft goes on after one of the ``ends``."""
        self._runner = runner
        self._store = store
        self._piece = plan.prefill_piece
        self._rows = plan.model.vocab_size
        self._shared_rows = min(self._rows, vocab_size)
        self._ends = ends
        self._followers: dict[Sequence, _Follower] = {}

    def bytes_by_part(self) -> tuple[int, int]:
        """Bytes held as weights, and as working memory that stays."""
        return self._runner.bytes_by_part()

    def usage(self) -> Usage:
        """How full its KV store is."""
        return self._store.usage()

    # -- following the answers

    def is_ready(self, sequence: Sequence) -> bool:
        """Whether so little of ``sequence`` is unread that a draft can begin with it. What the store has
        from other chats that begin alike is read.
        """
        length = self._follower(sequence).cache.length
        return len(sequence.ids) - length <= READ_AT_ONCE and self._knows(sequence.ids[length:])

    def read_piece(self, sequences: Iterable[Sequence]) -> None:
        """Read one piece of the first of these answers that is too far ahead for a draft to begin."""
        for sequence in sequences:
            follower = self._follower(sequence)
            done, end = follower.cache.length, len(sequence.ids) - 1  # the last one is read by a draft
            if end - done < READ_AT_ONCE:
                continue
            piece = sequence.ids[done : min(done + self._piece, end)]
            if self._knows(piece) and follower.cache.reserve(len(piece)):
                self._runner.forward([Segment(follower.cache, piece, wants_logits=False)])
                if follower.cache.length == end:
                    self._store.settle(follower.cache)
                return

    def follow(self, sequence: Sequence) -> None:
        """After a step: what was guessed and did not come leaves the cache."""
        follower = self._followers.get(sequence)
        if follower is None:
            return
        cache, guessed = follower.cache, follower.guessed
        stands = cache.length - len(guessed)
        for token, came in zip(guessed, sequence.ids[stands:], strict=False):
            if token != came:
                break
            stands += 1
        if stands < cache.length:
            cache.trim(stands)
        guessed.clear()

    def leave(self, sequence: Sequence, is_sound: bool = True) -> None:
        """Give up what was read of ``sequence``; it stays for the next one that begins alike, if it
        ``is_sound``.
        """
        self.follow(sequence)
        follower = self._followers.pop(sequence, None)
        if follower is not None:
            give_up = self._store.release if is_sound else self._store.drop
            give_up(follower.cache)

    def forget(self) -> None:
        """Give up everything, after an error."""
        for follower in self._followers.values():
            self._store.drop(follower.cache)
        self._followers.clear()
        self._store.forget()

    def _follower(self, sequence: Sequence) -> _Follower:
        if sequence in self._followers:
            return self._followers[sequence]
        generator = None
        if sequence.sampler.params.temperature > 0 and sequence.request.sampling.seed is None:
            # Not the answer's own numbers: those decide whether the draft stands.
            seeds = Random(f"draft {sequence.sampler.seed} {len(sequence.generated)}")
            generator = Generator().manual_seed(seeds.getrandbits(63))
        follower = _Follower(self._store.begin(sequence.ids), generator)
        self._followers[sequence] = follower
        return follower

    def _knows(self, ids: Many[int]) -> bool:
        """Whether it has rows for them: a target may have more, and give a token that stands for nothing."""
        return max(ids, default=0) < self._rows

    # -- drafting

    def draft(self, wanted: Many[tuple[Sequence, int]]) -> list[Drafted]:
        """For each of some answers that are ready at most so many tokens: of all together one in every pass.

        A draft is shorter where the answer would end or its form allows no more, and empty where there is no
        room in the store.
        """
        drafts = [_Draft(sequence, self._followers[sequence], length) for sequence, length in wanted]
        going = [draft for draft in drafts if draft.has_room()]
        while going:
            logits = self._runner.forward([Segment(draft.cache, draft.unread) for draft in going])
            rows = logits[:, : self._shared_rows]
            going = [draft for draft, row in zip(going, rows, strict=True) if draft.goes_on(row, self._ends)]
        return [draft.made() for draft in drafts]


class _Draft:
    """One answer's draft in the making."""

    def __init__(self, sequence: Sequence, follower: _Follower, length: int) -> None:
        self.cache = follower.cache
        self.unread = sequence.ids[follower.cache.length :]  # what its next pass reads
        self._sequence = sequence
        self._follower = follower
        self._length = length
        self._ids: tuple[int, ...] = ()
        self._q: list[Tensor] = []
        self._standing = 0

    def has_room(self) -> bool:
        """Reserve all that it reads, at once: so it can be trimmed to any length from here on."""
        return self.cache.reserve(len(self.unread) + self._length - 1)

    def goes_on(self, row: Tensor, ends: frozenset[int]) -> bool:
        """Take the next token from logits ``row`` [vocab]; whether another one is to follow."""
        token = self._choose(row)
        if token is None:
            return False
        self._ids = (*self._ids, token)
        self._standing = self._sequence.standing(self._ids)
        count = len(self._ids)
        if token in ends or count == self._length or self._standing < count:
            return False
        self._follower.guessed.append(token)
        self.unread = [token]
        return True

    def _choose(self, row: Tensor) -> int | None:
        """A token; None from logits that are no numbers."""
        logits = self._sequence.adjusted(row, self._ids)
        generator = self._follower.generator
        if generator is None:
            best, token = logits.max(dim=0)
            return int(token) if bool(best.isfinite()) else None
        ids, probabilities = candidates(logits, self._sequence.sampler.params)
        if not ids.shape[0]:
            return None
        self._q.append(torch.zeros(logits.shape[0]).index_put((ids,), probabilities))
        return int(ids[torch.multinomial(probabilities, 1, generator=generator)])

    def made(self) -> Drafted:
        q = None if self._follower.generator is None else tuple(self._q)
        return Drafted(self._ids, self._standing, q)
