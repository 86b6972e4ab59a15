"""What gives way when a chat no longer fits its context: earlier turns, or the middle, never the answer.

Pure: knows messages and token ids, no caches and no sequences.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import TypeVar

from engine.types import Message

STOP, OLDEST, MIDDLE = "stop", "oldest", "middle"
POLICIES = (STOP, OLDEST, MIDDLE)
_SPARE_PART = 4  # a part of the context is made free at once, so that it is not done for every token
_FIRST_PART, _LAST_PART = 4, 8  # of the context: what the middle lies between

T = TypeVar("T")


def target_length(context: int) -> int:
    """Tokens that may stay when something has to give way."""
    return context - max(1, context // _SPARE_PART)


def turn_starts(messages: Sequence[Message]) -> list[int]:
    """Where the turns begin, each a question with all that came of it; what stands before the first one, a
    system message, belongs to none.
    """
    return [place for place, message in enumerate(messages) if message.role == "user"]


def without_turns(messages: Sequence[Message], count: int) -> tuple[Message, ...]:
    """The messages less the oldest ``count`` turns."""
    starts = turn_starts(messages)
    if not count:
        return tuple(messages)
    return (*messages[: starts[0]], *messages[starts[count] :])


def without_oldest(
    messages: Sequence[Message],
    room: int,
    render: Callable[[tuple[Message, ...]], T],
    size: Callable[[T], int],
) -> tuple[T, int] | None:
    """The chat without as many of its oldest turns as it takes for ``size`` of what ``render`` makes of it to
    be at most ``room``, and how many these are. None where the last question alone is too long.
    """
    most = len(turn_starts(messages)) - 1
    rendered: dict[int, T] = {}

    def fits(count: int) -> bool:
        rendered[count] = render(without_turns(messages, count))
        return size(rendered[count]) <= room

    if most < 1:
        return None
    count = bisect_left(range(1, most + 1), True, key=fits) + 1
    return (rendered[count], count) if count <= most else None


def without_middle(prompt: Sequence[int], length: int, context: int) -> list[int] | None:
    """The ``prompt`` of a chat of ``length`` tokens without its middle, so that the chat fits. None where the
    prompt has no middle that is long enough.
    """
    first = context // _FIRST_PART
    behind = first + length - target_length(context)
    if behind > len(prompt) - context // _LAST_PART:
        return None
    return [*prompt[:first], *prompt[behind:]]
