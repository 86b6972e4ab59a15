"""How much time and memory one rendering of a foreign template may use, and the counting of it.

Knows Python values and their sizes; does not know Jinja, messages or models.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, ValuesView
from dataclasses import dataclass, replace
from typing import Any

from engine.words import number, tr

_SLOT_BYTES = 40  # one list slot and a small value in it
_ENTRY_BYTES = 100  # one dict entry
_ITERATOR_BYTES = 1024  # a generator, the one around it, and their frames
_OPAQUE_BYTES = 400  # a namespace, a range, a cycler ...
# What is printed, compared and hashed with all that it holds. Namespaces are not: they print as their name.
_CONTAINERS = (list, tuple, dict, set, frozenset, KeysView, ValuesView, ItemsView)


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one rendering. They are far above what published templates need (under 5 ms, 50 kB)."""

    seconds: float = 2.0
    text_bytes: int = 4 << 20  # one value, and the whole result
    total_bytes: int = 64 << 20  # everything made during one rendering, living or not
    items: int = 200_000  # of one value, nested ones included
    depth: int = 64  # nesting of values, and of calls
    int_bits: int = 4096
    small_number: int = 10_000  # widths and counts that a filter takes
    source_chars: int = 128 << 10
    source_tokens: int = 16_000

    def for_input(self, input_bytes: int, num_messages: int) -> Limits:
        """The same limits for a long chat: they grow with what the user wrote, which no file controls."""
        grown = input_bytes * (32 + num_messages // 2)
        return replace(
            self,
            text_bytes=self.text_bytes + 8 * input_bytes,
            total_bytes=self.total_bytes + min(grown, 192 << 20),
        )


class LimitExceededError(BaseException):
    """A template went over a limit. Not an Exception, so that no handler inside Jinja swallows it."""


class Allowance:
    """Counts one rendering against its limits; every method raises LimitExceededError when one is passed."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self._clock = clock
        self._end_s = clock() + limits.seconds
        self._left_bytes = limits.total_bytes
        self._depth = 0

    def tick(self) -> None:
        """Check the deadline; called wherever a template can come by again and again."""
        if self._clock() > self._end_s:
            said = tr("it ran longer than {seconds} seconds")
            raise LimitExceededError(said.format(seconds=number(self.limits.seconds)))

    def charge(self, num_bytes: int) -> None:
        """Count memory that was just taken or is about to be."""
        self._left_bytes -= num_bytes
        if self._left_bytes < 0:
            raise LimitExceededError(tr("it uses too much memory"))

    def enter(self) -> None:
        """One call deeper."""
        self._depth += 1
        if self._depth > self.limits.depth:
            raise LimitExceededError(tr("its calls are nested too deeply"))

    def leave(self) -> None:
        """Back from a call."""
        self._depth -= 1

    def expect_text(self, num_chars: int) -> None:
        """Refuse a text before it is made."""
        if num_chars > self.limits.text_bytes:
            raise LimitExceededError(tr("it builds a text that is too long"))

    def expect_items(self, count: int) -> None:
        """Refuse a list, or a walk over one, before it is made."""
        if count > self.limits.items:
            raise LimitExceededError(tr("it builds a list that is too long"))

    def expect_number(self, value: object, limit: int | None = None) -> None:
        """Refuse a width or count that is out of all proportion; other types pass."""
        if isinstance(value, int) and abs(value) > (limit or self.limits.small_number):
            raise LimitExceededError(tr("it uses a number that is too large"))

    def admit(self, value: Any) -> Any:
        """Take a new value in: counted, and bounded in every way in which it can be used later.

        A container is weighed with all it holds, each time a part occurs: otherwise `[x, x]` nested forty
        times would be small here, and endless once it is printed, compared or hashed, which Python does in
        one uninterruptible go. Iterators come back wrapped: each item costs a tick.
        """
        self.tick()
        if value is None or isinstance(value, bool | float):
            return value
        if isinstance(value, str):
            self._admit_text(value)
        elif isinstance(value, int):
            self.check_int(value)
        elif isinstance(value, _CONTAINERS):
            self.charge(64 + len(value) * (_ENTRY_BYTES if isinstance(value, dict) else _SLOT_BYTES))
            self.weigh(value)
        elif isinstance(value, Iterator):
            self.charge(_ITERATOR_BYTES)
            return self.bounded(value)
        else:
            self.charge(_OPAQUE_BYTES)
        return value

    def _admit_text(self, text: str) -> None:
        num_bytes = sys.getsizeof(text)
        self.expect_text(num_bytes)
        self.charge(num_bytes)

    def check_int(self, value: int) -> None:
        """Refuse an integer of thousands of digits."""
        if value.bit_length() > self.limits.int_bits:
            raise LimitExceededError(tr("it computes a number that is too large"))

    def weigh(self, value: object) -> tuple[int, int, int]:
        """(items, text bytes, depth) of all that `value` holds, a part that occurs twice counted twice."""
        items = text_bytes = deepest = 0
        stack: list[tuple[object, int]] = [(value, 0)]
        while stack:
            item, depth = stack.pop()
            items += 1
            if isinstance(item, str):
                text_bytes += sys.getsizeof(item)
                self.expect_text(text_bytes)
                continue
            if not isinstance(item, _CONTAINERS):
                continue
            deepest = max(deepest, depth + 1)
            if depth >= self.limits.depth:
                raise LimitExceededError(tr("it nests values too deeply"))
            self.expect_items(items + len(stack) + len(item))
            if isinstance(item, dict):
                stack.extend((key, depth + 1) for key in item)
                stack.extend((entry, depth + 1) for entry in item.values())
            else:
                stack.extend((entry, depth + 1) for entry in item)
        return items, text_bytes, deepest

    def text_of(self, value: object) -> str:
        """`str(value)`, after all that it holds was weighed."""
        if isinstance(value, str):
            return value
        self.weigh(value)
        text: str = self.admit(str(value))
        return text

    def bounded(self, values: Iterable[Any]) -> Iterator[Any]:
        """The same values; each costs a tick and is weighed where it holds others."""
        for count, item in enumerate(values):
            self.tick()
            self.expect_items(count + 1)
            if isinstance(item, _CONTAINERS):
                self.weigh(item)
            yield item
