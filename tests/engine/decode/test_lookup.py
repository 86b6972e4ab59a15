"""Drafts from the conversation: what they propose, and that the index forgets what is taken back."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.decode.lookup import CANDIDATES, MAX_MATCH, Draft, Lookup

IDS = st.lists(st.integers(0, 4), max_size=40)


def searched(ids: list[int], max_len: int) -> Draft:
    """The same by plain search through everything: the longest match, the latest of several."""
    best, place = 0, -1
    for end in range(len(ids) - 1):
        length = 0
        while length < min(MAX_MATCH, end + 1) and ids[end - length] == ids[-1 - length]:
            length += 1
        if length and length >= best:
            best, place = length, end
    if not best or max_len <= 0:
        return Draft()
    drafted = list(ids)
    for at in range(place + 1, place + 1 + max_len):
        drafted.append(drafted[at])
    return Draft(tuple(drafted[len(ids) :]), best)


@given(IDS, st.integers(0, 9))
def test_a_draft_is_what_a_search_through_the_whole_chat_finds(ids: list[int], max_len: int) -> None:
    pairs = list(pairwise(ids))
    if pairs and pairs.count(pairs[-1]) > CANDIDATES:
        ids = ids[-CANDIDATES:]
    assert Lookup(ids).draft(max_len) == searched(ids, max_len)


@given(IDS, IDS, st.integers(0, 50))
def test_after_tokens_are_taken_back_all_is_as_if_they_had_never_come(
    ids: list[int], later: list[int], length: int
) -> None:
    lookup = Lookup(ids + later)
    lookup.trim(length)
    fresh = Lookup((ids + later)[:length])
    assert len(lookup) == len(fresh)
    for token in [0, 1, 2, 0, 1, *ids]:
        assert lookup.draft(5) == fresh.draft(5)
        lookup.push(token)
        fresh.push(token)


def test_the_continuation_of_the_last_pair_is_proposed() -> None:  # B068
    assert Lookup([3, 4, 9, 2, 6, 1, 4, 9]).draft(3) == Draft((2, 6, 1), 2)


@pytest.mark.parametrize("ids", [[], [5], [1, 2, 3, 4, 5, 6]])
def test_without_a_repeat_nothing_is_proposed(ids: list[int]) -> None:  # B068
    draft = Lookup(ids).draft(3)
    assert draft == Draft()
    assert draft.kind is None


def test_a_loop_is_continued_beyond_what_was_said_so_far() -> None:  # B068
    assert Lookup([7] * 50).draft(4).ids == (7, 7, 7, 7)
    assert Lookup([9, 1, 2, 3, 1, 2, 3]).draft(7).ids == (1, 2, 3, 1, 2, 3, 1)


def test_of_equal_matches_the_latest_is_taken_and_a_longer_one_before_it() -> None:
    assert Lookup([1, 2, 8, 1, 2, 9, 1, 2]).draft(1).ids == (9,)
    assert Lookup([5, 1, 2, 8, 1, 2, 9, 5, 1, 2]).draft(1).ids == (8,)


def test_a_draft_ends_with_the_token_that_ends_the_answer() -> None:  # B068
    assert Lookup([1, 2, 3, 99, 4, 5, 1, 2], frozenset({99})).draft(6).ids == (3, 99)


@pytest.mark.parametrize("limit", [0, -1, 1, 2])
def test_a_draft_is_never_longer_than_allowed(limit: int) -> None:  # B069
    assert len(Lookup([1, 2, 3, 4, 1, 2]).draft(limit).ids) == max(0, limit)


@pytest.mark.parametrize(
    ("match", "kind"), [(0, None), (1, 1), (2, 2), (3, 3), (7, 3), (MAX_MATCH, MAX_MATCH)]
)
def test_drafts_are_told_apart_by_the_length_of_their_match(match: int, kind: int | None) -> None:
    assert Draft((1,), match).kind == kind


def test_memory_is_some_hundred_bytes_a_token_and_returns_with_them() -> None:
    ids = Random(1).choices(range(3000), k=20_000)
    tracemalloc.start()
    try:
        lookup = Lookup(ids)
        held = tracemalloc.get_traced_memory()[0]
        lookup.trim(0)
        left = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held < 300 * len(ids)
    assert left < held / 2
