"""Where running answers have their keys and values, and what ended ones left there to be reused.

A store gives out caches and takes them back; it knows token ids, no tensors and no requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from engine.kv.cache import KVCache
from engine.kv.pool import KVPool, PagedCache


@dataclass(frozen=True, slots=True)
class Usage:
    """Bytes and tokens of a store. ``waste_bytes`` are taken and hold no token."""

    reserved_bytes: int = 0
    used_bytes: int = 0
    waste_bytes: int = 0
    used_tokens: int = 0

    def with_draft(self, draft: Usage) -> Usage:
        """Both together; the tokens are those of the chats, whoever has read them."""
        return Usage(
            self.reserved_bytes + draft.reserved_bytes,
            self.used_bytes + draft.used_bytes,
            self.waste_bytes + draft.waste_bytes,
            self.used_tokens,
        )


class KVStore(Protocol):
    """The keys and values of a loaded model."""

    def begin(self, prompt: Sequence[int]) -> KVCache:
        """A cache that holds what there is of ``prompt`` already; never its last token, whose logits are
        needed. No more run at once than the plan allows.
        """
        ...

    def settle(self, cache: KVCache) -> None:
        """A prompt has been read: where it ends is worth keeping."""
        ...

    def release(self, cache: KVCache) -> None:
        """End a sequence; what it holds stays while there is room."""
        ...

    def drop(self, cache: KVCache) -> None:
        """End a sequence whose numbers are not to be trusted."""
        ...

    def forget(self) -> None:
        """Give up whatever no running sequence holds."""
        ...

    def usage(self) -> Usage:
        """How full it is."""
        ...


class PagedStore:
    """Sequences of at most ``context`` tokens that share the pages of a pool."""

    def __init__(self, pool: KVPool, context: int) -> None:
        self._pool = pool
        self._context = context

    def begin(self, prompt: Sequence[int]) -> PagedCache:
        return self._pool.begin(prompt, self._context)

    def settle(self, cache: KVCache) -> None:
        self._pool.pages.turn_ended(_paged(cache).pages)

    def release(self, cache: KVCache) -> None:
        self._pool.release(_paged(cache))

    def drop(self, cache: KVCache) -> None:
        self._pool.drop(_paged(cache))

    def forget(self) -> None:
        self._pool.pages.forget_idle()

    def usage(self) -> Usage:
        stats = self._pool.pages.stats()
        return Usage(
            reserved_bytes=self._pool.nbytes,
            used_bytes=self._pool.bytes_of([each.tokens for each in stats]),
            waste_bytes=self._pool.bytes_of([each.waste_tokens for each in stats]),
            used_tokens=max(each.tokens for each in stats),
        )


def _paged(cache: KVCache) -> PagedCache:
    assert isinstance(cache, PagedCache), "it was begun here"
    return cache


class SlotCache(KVCache, Protocol):
    """A cache that is kept between answers: it knows the ids whose keys and values it holds."""

    @property
    def ids(self) -> Sequence[int]: ...


class SlotStore:
    """A cache of its own for each of some sequences, for devices and models whose caches cannot be shared.

    Without ``can_trim`` a cache can only be gone on from at its end.
    """

    def __init__(self, caches: Sequence[SlotCache], can_trim: bool = True) -> None:
        self._caches = caches
        self._running: list[KVCache] = []
        self._can_trim = can_trim

    def begin(self, prompt: Sequence[int]) -> SlotCache:
        cache = max(self._idle(), key=lambda each: self._reusable(each, prompt))
        cache.trim(self._reusable(cache, prompt))
        self._running.append(cache)
        return cache

    def settle(self, cache: KVCache) -> None:
        """Nothing: it is kept whole."""

    def release(self, cache: KVCache) -> None:
        self._running = [each for each in self._running if each is not cache]

    def drop(self, cache: KVCache) -> None:
        cache.trim(0)
        self.release(cache)

    def forget(self) -> None:
        for cache in self._idle():
            cache.trim(0)

    def usage(self) -> Usage:
        return Usage(
            reserved_bytes=sum(cache.nbytes for cache in self._caches),
            used_bytes=sum(cache.used_nbytes for cache in self._caches),
            waste_bytes=0,
            used_tokens=sum(cache.length for cache in self._caches),
        )

    def _idle(self) -> list[SlotCache]:
        return [cache for cache in self._caches if not any(cache is each for each in self._running)]

    def _reusable(self, cache: SlotCache, prompt: Sequence[int]) -> int:
        """Number of leading tokens of ``prompt`` that need not be read again."""
        count = 0
        for held, wanted in zip(cache.ids, prompt[:-1], strict=False):
            if held != wanted:
                break
            count += 1
        return count if self._can_trim or count == cache.length else 0
