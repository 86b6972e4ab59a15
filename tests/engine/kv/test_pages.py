"""Where pages lie: sequences stay together, nothing is wasted for it; tables name places in few spans."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.kv.block_table import BlockTable
from engine.kv.pages import NO_PAGE, PageAllocator


def free(allocator: PageAllocator, *pages: int) -> None:
    for page in pages:
        allocator.release(page)
        allocator.free(page)


def test_a_sequence_goes_on_behind_its_last_page() -> None:
    allocator = PageAllocator(8)
    first = allocator.allocate(2)
    assert first + allocator.allocate(3, after=first[-1]) == [0, 1, 2, 3, 4]


def test_two_growing_sequences_do_not_interleave() -> None:
    allocator = PageAllocator(16)
    one, two = allocator.allocate(1), allocator.allocate(1)
    for _ in range(7):
        one += allocator.allocate(1, after=one[-1])
        two += allocator.allocate(1, after=two[-1])
    assert one == list(range(one[0], one[0] + 8))
    assert two == list(range(two[0], two[0] + 8))


def test_a_new_sequence_starts_where_all_that_is_expected_of_it_fits() -> None:
    allocator = PageAllocator(16)
    allocator.allocate(2)
    assert allocator.allocate(1, expected=12) == [4]


def test_a_new_sequence_starts_at_the_start_of_a_hole_that_nobody_grows_into() -> None:
    allocator = PageAllocator(8)
    pages = allocator.allocate(8)
    free(allocator, *pages[3:7])
    assert allocator.allocate(2) == [3, 4]
    free(allocator, 3, 4)
    allocator.end_at(2)  # the sequence before the hole was cut there
    assert allocator.allocate(1) == [5]


@settings(deadline=None)
@given(st.sets(st.integers(0, 15), min_size=1), st.integers(0, 15))
def test_every_free_page_can_be_had_however_scattered(holes: set[int], after: int) -> None:
    allocator = PageAllocator(16)
    allocator.allocate(16)
    free(allocator, *holes)
    pages = allocator.allocate(len(holes), after=NO_PAGE if after in holes else after)
    assert set(pages) == holes
    assert allocator.num_free == 0


def test_a_page_is_idle_without_readers_and_free_only_when_given_back() -> None:
    allocator = PageAllocator(3)
    [page] = allocator.allocate(1)
    allocator.acquire(page)
    assert not allocator.release(page)
    assert (allocator.num_used, allocator.num_idle, allocator.num_free) == (1, 0, 2)
    with pytest.raises(AssertionError):
        allocator.free(page)
    assert allocator.release(page)
    assert (allocator.num_used, allocator.num_idle, allocator.num_free) == (0, 1, 2)
    assert allocator.num_available == 3
    allocator.acquire(page)
    assert allocator.num_used == 1
    free(allocator, page)
    assert allocator.num_free == 3


@settings(deadline=None)
@given(st.data(), st.integers(1, 9), st.integers(0, 3), st.integers(1, 4))
def test_spans_are_the_places_of_the_tokens_in_order_and_never_neighbours(
    data: st.DataObject, num_pages: int, first: int, size: int
) -> None:
    """Whatever was replaced and cut before."""
    pages = list(range(num_pages))
    table = BlockTable(size, first, pages[:1])
    table.extend(pages[1:])
    for _ in range(data.draw(st.integers(0, 6))):
        at = data.draw(st.integers(0, len(pages) - 1))
        pages[at] = data.draw(st.sampled_from(sorted(set(range(11)) - set(pages))))
        table.replace(first + at, pages[at])
        if data.draw(st.booleans()):
            keep = data.draw(st.integers(1, len(pages)))
            table.cut(first + keep)
            del pages[keep:]
    places = [page * size + at for page in pages for at in range(size)]
    start = data.draw(st.integers(0, len(places)))
    stop = data.draw(st.integers(start, len(places)))
    spans = table.spans(first * size + start, first * size + stop)
    assert [span.start + at for span in spans for at in range(span.num_tokens)] == places[start:stop]
    assert all(a.start + a.num_tokens != b.start for a, b in pairwise(spans))
    assert table.last == pages[-1]
    assert [table.page(first + at) for at in range(len(pages))] == pages
