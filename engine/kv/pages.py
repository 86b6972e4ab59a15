"""Pages of one plane: which are taken, who reads them, where the next one goes.

A plane holds the keys or values of all layers of one kind; page p of it is the tokens p · page_size and
following. Knows no token ids and no tensors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

NO_PAGE = -1


@dataclass(frozen=True, slots=True)
class PageKind:
    """Layers that share a plane. ``window``: tokens one sees, itself included; None: all."""

    num_pages: int
    window: int | None = None

    def first_needed(self, length: int) -> int:
        """The first token that has to be held to go on behind ``length`` tokens. The last one always is, even
        with a window of one token: a sequence goes on only behind a page that it holds.
        """
        return 0 if self.window is None else max(0, length + 1 - max(2, self.window))


class CopyTokens(NamedTuple):
    """An order to whoever owns the tensors: copy ``num_tokens`` tokens of every layer of ``kind`` (its
    position among the pool's kinds) within its plane.
    """

    kind: int
    from_token: int
    to_token: int
    num_tokens: int


class PageAllocator:
    """Hands out the pages of one plane. A taken page is in use while it has readers and idle when it has
    none.

    Any free page will do; neighbours only save spans. A sequence therefore goes on right behind its last
    page, and a new one starts in the largest hole: at its start, or in its middle where the sequence before
    the hole would grow into it.
    """

    def __init__(self, num_pages: int) -> None:
        assert num_pages > 0
        self.num_pages = num_pages
        self.num_free = num_pages
        self.num_idle = 0
        self._readers = [0] * num_pages
        self._taken = bytearray(num_pages)
        self._ends = bytearray(num_pages)  # pages behind which a sequence would go on

    @property
    def num_used(self) -> int:
        """Pages with a reader."""
        return self.num_pages - self.num_free - self.num_idle

    @property
    def num_available(self) -> int:
        """Pages that are free or could be made so."""
        return self.num_free + self.num_idle

    def readers(self, page: int) -> int:
        """Number of sequences that hold ``page``."""
        return self._readers[page]

    def is_taken(self, page: int) -> bool:
        """Whether ``page`` holds something, read or idle."""
        return bool(self._taken[page])

    def allocate(self, count: int, after: int = NO_PAGE, expected: int = 0) -> list[int]:
        """``count`` pages with one reader each, behind the page ``after`` where that is free; ``expected`` is
        how many the sequence will ask for in all, now and soon.
        """
        assert count <= self.num_free, "room is made before pages are asked for"
        pages: list[int] = []
        for done in range(count):
            page = self._next(after, max(count, expected) - done)
            self._taken[page] = self._readers[page] = 1
            if after != NO_PAGE:
                self._ends[after] = 0
            self._ends[page] = 1
            pages.append(page)
            after = page
        self.num_free -= count
        return pages

    def acquire(self, page: int) -> None:
        """One reader more."""
        assert self._taken[page]
        self.num_idle -= not self._readers[page]
        self._readers[page] += 1

    def release(self, page: int) -> bool:
        """One reader fewer; whether that was the last and the page is idle now."""
        assert self._readers[page] > 0
        self._readers[page] -= 1
        self.num_idle += not self._readers[page]
        return not self._readers[page]

    def free(self, page: int) -> None:
        """Give an idle page back."""
        assert self._taken[page] and not self._readers[page], "a page in use is never given away"
        self._taken[page] = self._ends[page] = 0
        self.num_idle -= 1
        self.num_free += 1

    def end_at(self, page: int) -> None:
        """Note that a sequence that was longer goes on behind ``page`` now."""
        self._ends[page] = 1

    def _next(self, after: int, needed: int) -> int:
        if after != NO_PAGE and after + 1 < self.num_pages and not self._taken[after + 1]:
            return after + 1
        start, end = self._largest_hole()
        if start > 0 and self._ends[start - 1]:
            return max(start, min((start + end) // 2, end - needed))
        return start

    def _largest_hole(self) -> tuple[int, int]:
        """Bounds of the largest run of free pages, the first of several."""
        best = (0, 0)
        start = self._taken.find(0)
        while start >= 0:
            end = self._taken.find(1, start)
            if end < 0:
                end = self.num_pages
            if end - start > best[1] - best[0]:
                best = (start, end)
            start = self._taken.find(0, end)
        return best
