"""Where the tokens of one sequence are in the planes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import NamedTuple

from engine.kv.pages import NO_PAGE


class Span(NamedTuple):
    """Neighbouring tokens of a plane, to be read in place."""

    start: int
    num_tokens: int


class BlockTable:
    """The pages of one kind that one sequence holds, by page index: index i holds its tokens i · page_size
    and following. Pages before ``first`` have fallen out of the kind's window.
    """

    __slots__ = ("_base", "_breaks", "_page_size", "_pages", "first")

    def __init__(self, page_size: int, first: int, pages: list[int]) -> None:
        self.first = first
        self._base = first
        self._page_size = page_size
        self._pages: list[int] = []
        self._breaks: list[int] = []  # indices whose page is no neighbour of the one before
        self.extend(pages)

    @property
    def end(self) -> int:
        """The index after the last page."""
        return self._base + len(self._pages)

    @property
    def last(self) -> int:
        """The last page, or NO_PAGE."""
        return self._pages[-1] if self._pages else NO_PAGE

    def page(self, index: int) -> int:
        """The page at ``index``."""
        assert self.first <= index < self.end, (
            "pages that fell out of the window are no longer this sequence's"
        )
        return self._pages[index - self._base]

    def extend(self, pages: list[int]) -> None:
        """Go on with ``pages``."""
        for page in pages:
            if not self._pages or page != self._pages[-1] + 1:
                self._breaks.append(self.end)
            self._pages.append(page)

    def cut(self, end: int) -> None:
        """Keep the pages before index ``end``."""
        del self._pages[max(0, end - self._base) :]
        del self._breaks[bisect_left(self._breaks, self.end) :]

    def replace(self, index: int, page: int) -> None:
        """Put ``page`` at ``index``."""
        pages, at = self._pages, index - self._base
        pages[at] = page
        for changed in (at, at + 1):
            if changed >= len(pages):
                continue
            is_break = changed == 0 or pages[changed] != pages[changed - 1] + 1
            place = bisect_left(self._breaks, self._base + changed)
            was_break = place < len(self._breaks) and self._breaks[place] == self._base + changed
            if is_break and not was_break:
                self._breaks.insert(place, self._base + changed)
            elif was_break and not is_break:
                del self._breaks[place]

    def spans(self, start: int, stop: int) -> list[Span]:
        """Where the sequence's tokens start … stop − 1 are, in as few spans as there can be."""
        size = self._page_size
        assert self.first * size <= start <= stop <= self.end * size
        spans: list[Span] = []
        run = bisect_right(self._breaks, start // size)
        while start < stop:
            run_end = self._breaks[run] * size if run < len(self._breaks) else stop
            upto = min(stop, run_end)
            page = self._pages[start // size - self._base]
            spans.append(Span(page * size + start % size, upto - start))
            start, run = upto, run + 1
        return spans
