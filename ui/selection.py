"""The selected text of a transcript: two ends, each a piece and a position in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ui.blocks import Item
from ui.text_units import units

_END = 1 << 30  # behind the text of any piece
_WORD = re.compile(r"\w+")


class Selection:
    """Survives that pieces behind or around it are made again while an answer grows."""

    def __init__(self) -> None:
        self._anchor = (0, 0)
        self._head = (0, 0)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is selected."""
        return self._anchor == self._head

    def clear(self) -> None:
        """Select nothing."""
        self._anchor = self._head = (0, 0)

    def begin(self, index: int, position: int) -> None:
        """Start at a point."""
        self._anchor = self._head = (index, position)

    def extend(self, index: int, position: int) -> None:
        """Move the other end."""
        self._head = (index, position)

    def take_word(self, index: int, position: int, item: Item) -> None:
        """Select the word around a position."""
        text = item.text(0, item.length)[-item.length :] if item.length else ""
        self.begin(index, position)
        for word in _WORD.finditer(text):
            start, end = units(text[: word.start()]), units(text[: word.end()])
            if start <= position <= end:
                self._anchor, self._head = (index, start), (index, end)
                return

    def take_all(self, items: Sequence[Item]) -> None:
        """Select everything."""
        self._anchor, self._head = (0, 0), (max(0, len(items) - 1), _END)

    def take_item(self, index: int, item: Item) -> None:
        """Select a whole piece."""
        self._anchor, self._head = (index, 0), (index, item.length)

    def spliced(self, start: int, count: int, added: int) -> None:
        """``count`` pieces from ``start`` on became ``added`` others."""
        self._anchor = _moved(self._anchor, start, count, added)
        self._head = _moved(self._head, start, count, added)

    def part_of(self, index: int, item: Item) -> tuple[int, int] | None:
        """The selected positions of a piece."""
        low, high = sorted((self._anchor, self._head))
        if low == high or not low[0] <= index <= high[0]:
            return None
        start = low[1] if index == low[0] else 0
        end = min(high[1] if index == high[0] else item.length, item.length)
        return (start, end) if start < end else None

    def text(self, items: Sequence[Item]) -> str:
        """All that is selected, as plain text."""
        return self._joined(items, lambda item, start, end: item.text(start, end))

    def markdown(self, items: Sequence[Item]) -> str:
        """All that is selected, as Markdown."""
        return self._joined(items, lambda item, start, end: item.markdown(start, end))

    def _joined(self, items: Sequence[Item], read: Callable[[Item, int, int], str]) -> str:
        low, high = sorted((self._anchor, self._head))
        parts: list[str] = []
        for index in range(low[0], min(high[0] + 1, len(items))):
            part = self.part_of(index, items[index])
            if part:
                lead = "" if not parts else "\n" if items[index].gap <= 4 else "\n\n"
                parts.append(lead + read(items[index], *part))
        return "".join(parts)


def _moved(end: tuple[int, int], start: int, count: int, added: int) -> tuple[int, int]:
    index, position = end
    if index >= start + count:
        return index + added - count, position
    if index >= start + added:
        return max(0, start + added - 1), _END
    return end
