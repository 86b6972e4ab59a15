"""The KV cache of one sequence: what was stored comes back, layer by layer, in place."""

from __future__ import annotations

import pytest
import torch

from engine.kv.cache import ContiguousCache, KVCache, SplitCache

LAYERS, HEADS, DIM, CAPACITY = 2, 3, 4, 8


@pytest.fixture
def cache() -> ContiguousCache:
    return ContiguousCache(LAYERS, HEADS, DIM, CAPACITY, torch.float32)


def rows(count: int, seed: int) -> torch.Tensor:
    return torch.randn(count, HEADS, DIM, generator=torch.Generator().manual_seed(seed))


def append(cache: KVCache, count: int, seed: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Store the same rows as keys, and their negatives as values, in every layer."""
    assert cache.reserve(count)
    stored = [
        cache.append(layer, rows(count, seed + layer), -rows(count, seed + layer), 0) for layer in range(2)
    ]
    cache.advance(range(seed, seed + count))
    return stored


def test_appended_rows_come_back_behind_the_held_ones(cache: ContiguousCache) -> None:
    append(cache, 3, seed=0)
    for layer, (keys, values) in enumerate(append(cache, 2, seed=10)):
        expected = torch.cat((rows(3, layer), rows(2, 10 + layer))).transpose(0, 1)  # [heads, length, dim]
        assert torch.equal(keys, expected)
        assert torch.equal(values, -expected)


def test_the_length_grows_only_when_every_layer_has_the_rows(cache: ContiguousCache) -> None:
    cache.append(0, rows(2, 0), rows(2, 0), 0)
    assert (cache.length, list(cache.ids)) == (0, [])
    cache.advance([7, 8])
    assert (cache.length, list(cache.ids)) == (2, [7, 8])


def test_what_a_window_hides_is_left_out(cache: ContiguousCache) -> None:
    append(cache, 5, seed=0)
    keys, values = cache.append(1, rows(1, 9), -rows(1, 9), 3)
    expected = torch.cat((rows(5, 1)[3:], rows(1, 9))).transpose(0, 1)
    assert torch.equal(keys, expected)
    assert torch.equal(values, -expected)


def test_what_comes_back_is_no_copy(cache: ContiguousCache) -> None:
    keys, values = cache.append(0, rows(2, 0), rows(2, 0), 0)
    again, _ = cache.append(0, rows(2, 1), rows(2, 1), 0)
    assert torch.equal(keys, again)  # the same memory: the second call wrote over the first
    assert keys.data_ptr() == again.data_ptr()
    assert values.untyped_storage().nbytes() == cache.nbytes // 2


def test_tokens_after_a_trim_replace_the_forgotten_ones(cache: ContiguousCache) -> None:
    append(cache, 5, seed=0)
    cache.trim(2)
    assert cache.length == 2
    keys, _ = append(cache, 1, seed=20)[0]
    assert torch.equal(keys, torch.cat((rows(5, 0)[:2], rows(1, 20))).transpose(0, 1))


def test_bytes_are_those_of_the_tensors_and_of_the_tokens_held(cache: ContiguousCache) -> None:
    per_token = 2 * LAYERS * HEADS * DIM * 4
    assert (cache.capacity, cache.nbytes, cache.used_nbytes) == (CAPACITY, CAPACITY * per_token, 0)
    append(cache, 3, seed=0)
    assert cache.used_nbytes == 3 * per_token
    cache.trim(0)
    assert (cache.length, cache.used_nbytes, cache.nbytes) == (0, 0, CAPACITY * per_token)


def test_half_the_bits_take_half_the_bytes(cache: ContiguousCache) -> None:
    half = ContiguousCache(LAYERS, HEADS, DIM, CAPACITY, torch.bfloat16)
    assert 2 * half.nbytes == cache.nbytes
    keys, _ = half.append(1, rows(1, 0), rows(1, 0), 0)
    assert torch.equal(keys, rows(1, 0).transpose(0, 1).bfloat16())


def test_the_whole_capacity_can_be_used_and_no_more(cache: ContiguousCache) -> None:
    append(cache, CAPACITY, seed=0)
    assert not cache.reserve(1)
    with pytest.raises(AssertionError):
        cache.append(0, rows(1, 0), rows(1, 0), 0)
    with pytest.raises(AssertionError):
        cache.trim(CAPACITY + 1)


def test_a_split_cache_is_one_cache_whose_layers_lie_in_parts(cache: ContiguousCache) -> None:
    split = SplitCache([ContiguousCache(1, HEADS, DIM, CAPACITY, torch.float32) for _ in range(LAYERS)])
    for held in (cache, split):
        append(held, 5, seed=0)
        held.trim(2)
    kept = [append(held, 3, seed=30) for held in (cache, split)]
    for layer in range(LAYERS):
        for side in range(2):
            assert torch.equal(kept[0][layer][side], kept[1][layer][side])
            assert torch.equal(cache.layer(layer)[side][:, :5], split.layer(layer)[side][:, :5])
    for name in ("ids", "length", "capacity", "nbytes", "used_nbytes"):
        assert getattr(split, name) == getattr(cache, name)
    split.trim(0)
    assert (split.length, split.used_nbytes) == (0, 0)
