"""Pages with tensors behind them: what was written is what is read, wherever it lies, and in place."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from engine.fit.kv_bits import KVBits
from engine.fit.kv_pages import PAGE_TOKENS, LayerKind
from engine.kv.pool import KVPool, PagedCache
from engine.kv.store import PagedStore

HEADS, DIM, WINDOW = 2, 4, 40
FULL, SLIDING = 0, 1  # layers


def pool(pages: int = 8, window_pages: int = 8) -> KVPool:
    kinds = LayerKind(None, (FULL,), pages), LayerKind(WINDOW, (SLIDING,), window_pages)
    return KVPool(kinds, HEADS, DIM, torch.float32, KVBits(32, 32), sequences=4)


def row(token: int, position: int, layer: int) -> Tensor:
    """What a layer would compute for a token at a position, [HEADS, DIM]."""
    return torch.tensor([token, position, layer, 1.0]).expand(HEADS, DIM)


def rows(ids: list[int], layer: int, first: int = 0) -> Tensor:
    """[tokens, HEADS, DIM] from position ``first`` on."""
    return torch.stack([row(token, place, layer) for place, token in enumerate(ids)][first:])


def write(cache: PagedCache, ids: list[int], known: list[int]) -> dict[int, tuple[Tensor, Tensor, int]]:
    """Append ``ids`` to ``known``; what each layer's new rows see, and from which position on."""
    assert cache.reserve(len(ids))
    everything, seen = known + ids, {}
    for layer, first in ((FULL, 0), (SLIDING, max(0, len(known) + 1 - WINDOW))):
        new = rows(everything, layer, len(known))
        seen[layer] = (*cache.append(layer, new, -new, first), first)
    cache.advance(ids)
    known += ids
    return seen


def check(seen: dict[int, tuple[Tensor, Tensor, int]], known: list[int]) -> None:
    for layer, (keys, values, first) in seen.items():
        expected = rows(known, layer, first).transpose(0, 1)
        assert torch.equal(keys, expected)
        assert torch.equal(values, -expected)


def is_in_place(found: Tensor, cache: PagedCache, layer: int) -> bool:
    kind, _ = cache.pool.places[layer]
    return found.untyped_storage().data_ptr() in {
        plane.untyped_storage().data_ptr() for plane in cache.pool.planes[kind]
    }


def test_no_step_of_a_chat_whose_pages_are_neighbours_copies_any() -> None:
    cache = PagedStore(pool(), 256).begin([])
    known: list[int] = []
    for count in (50, 1, 1, 40, *[1] * 100):
        seen = write(cache, [len(known) % 7] * count, known)
        check(seen, known)
        for layer, (keys, values, _) in seen.items():
            assert is_in_place(keys, cache, layer)
            assert is_in_place(values, cache, layer)


def test_pages_of_two_chats_in_turn_are_each_chats_own() -> None:
    store = PagedStore(pool(), 256)
    one, two = store.begin([1] * 20), store.begin([2] * 20)
    known: tuple[list[int], list[int]] = ([], [])
    for _ in range(5):
        for cache, ids, token in ((one, known[0], 1), (two, known[1], 2)):
            check(write(cache, [token] * 20, ids), ids)
    assert len(one.spans(0, 0)) >= 1


def test_an_edited_chat_writes_on_a_copy_and_the_first_version_is_still_there() -> None:
    store = PagedStore(pool(), 256)
    told = list(range(75))
    cache, known = store.begin(told), []
    write(cache, told, known)
    store.settle(cache)
    store.release(cache)
    edited = told[:70] + [99] * 5
    again = store.begin(edited)
    assert again.length == 70
    known = told[:70]
    check(write(again, edited[70:], known), edited)
    store.release(again)
    first = store.begin([*told, 5])
    assert first.length == 75
    check(write(first, [5], list(told)), [*told, 5])


def test_trimmed_tokens_are_replaced() -> None:
    cache = PagedStore(pool(), 256).begin([])
    known: list[int] = []
    write(cache, list(range(60)), known)
    cache.trim(45)
    del known[45:]
    check(write(cache, [7] * 30, known), known)


def test_a_chat_fills_its_context_and_not_a_token_more() -> None:
    cache = PagedStore(pool(pages=4), 4 * PAGE_TOKENS - 5).begin([])
    known: list[int] = []
    write(cache, [1] * (4 * PAGE_TOKENS - 6), known)
    assert not cache.reserve(2)
    check(write(cache, [2], known), known)
    assert not cache.reserve(1)


def test_chats_together_fill_the_pool_and_not_a_page_more() -> None:
    store = PagedStore(pool(pages=4), 4 * PAGE_TOKENS)
    one, two = store.begin([1]), store.begin([2])
    write(one, [1] * 3 * PAGE_TOKENS, [])
    assert not two.reserve(PAGE_TOKENS + 1)
    write(two, [2] * PAGE_TOKENS, [])
    assert not one.reserve(1)
    store.release(two)
    assert one.reserve(1)


def test_the_bytes_are_those_of_the_planes_and_of_what_is_held() -> None:
    store = PagedStore(pool(pages=4, window_pages=3), 4 * PAGE_TOKENS)
    per_token = 2 * HEADS * DIM * 4  # keys and values
    assert store.usage().reserved_bytes == per_token * PAGE_TOKENS * 7
    cache = store.begin([])
    write(cache, [1] * (PAGE_TOKENS + 2), [])
    usage = store.usage()
    assert usage.used_bytes == 2 * (PAGE_TOKENS + 2) * per_token == cache.used_nbytes
    assert usage.waste_bytes == 2 * (PAGE_TOKENS - 2) * per_token
    assert usage.used_tokens == PAGE_TOKENS + 2
    store.release(cache)
    store.forget()
    assert (store.usage().used_bytes, store.usage().waste_bytes) == (0, 0)


@pytest.mark.parametrize("length", [10, 64, 100, 200])
def test_spans_begin_with_the_page_of_the_first_token_seen(length: int) -> None:
    cache = PagedStore(pool(), 256).begin([])
    known: list[int] = []
    for start in range(0, length, 20):
        write(cache, [1] * min(20, length - start), known)
    assert cache.reserve(3)
    assert cache.spans(FULL, 3)[0][0] == 0
    position, token = cache.spans(SLIDING, 3)[0]
    assert position % PAGE_TOKENS == token % PAGE_TOKENS == 0
    assert max(0, length + 1 - WINDOW) - PAGE_TOKENS < position <= max(0, length + 1 - WINDOW)
