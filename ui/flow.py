"""Where each piece of a transcript stands: heights added up, only behind what changed. Paints nothing."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from ui.blocks import Item

TOP_PX = 24
BOTTOM_PX = 24


class Flow:
    """A column of pieces. ``top`` and ``index_at`` cost nothing for pieces that did not move."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.width = 0
        self._tops: list[int] = []  # exact for the first ones; those behind a change are missing

    def set_width(self, width: int) -> None:
        """Every height becomes a guess."""
        if width != self.width:
            self.width = width
            for item in self.items:
                item.guess(width)
            self._tops.clear()

    def splice(self, start: int, count: int, new: Sequence[Item]) -> None:
        """Put ``new`` in the place of ``count`` pieces from ``start`` on."""
        for item in new:
            item.guess(self.width)
        self.items[start : start + count] = new
        self.moved(start)

    def moved(self, index: int) -> None:
        """The height of a piece changed."""
        del self._tops[index:]

    def top(self, index: int) -> int:
        """Where a piece begins, below its gap; for the number of pieces: where the next one would."""
        while len(self._tops) <= min(index, len(self.items) - 1):
            number = len(self._tops)
            end = self._tops[-1] + self.items[number - 1].height if number else TOP_PX - self.items[0].gap
            self._tops.append(end + self.items[number].gap)
        if index < len(self.items):
            return self._tops[index]
        return self._tops[-1] + self.items[-1].height if self.items else TOP_PX

    @property
    def height(self) -> int:
        """Of the whole column, with the space above and below."""
        return self.top(len(self.items)) + BOTTOM_PX

    def index_at(self, y: float) -> int:
        """The last piece that begins at or above ``y``; 0 where there is none."""
        self.top(len(self.items))
        return max(0, bisect_right(self._tops, y) - 1)

    def fit(self, top: float, bottom: float) -> int:
        """Lay out the pieces between two heights; the first that changed its height, or -1."""
        first_changed = -1
        for index in range(self.index_at(top), len(self.items)):
            if self._tops[index] > bottom:
                break
            if self.items[index].fit(self.width) and first_changed < 0:
                first_changed = index
        if first_changed >= 0:
            self.moved(first_changed + 1)
        return first_changed
