"""Joins the engine's events so that the window gets few signals: at most 15 a second, the first token at
once, the end always. Knows event types, no threads and no Qt.

Each signal wakes the GUI thread, which takes a core from the decode step for as long as it paints: on two
cores 30 a second cost about a tenth of the speed, 15 about half of that.

Tokens of accepted drafts come several at once. They are not spread out further: to delay them by an interval
at most, as a reader would not mind, is to show them with one signal, which is what joining does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from engine.events import (
    Calibrating,
    Chunk,
    Event,
    Finished,
    LoadProgress,
    Measuring,
    MemoryReport,
    Prefilled,
    StepStats,
)

INTERVAL_S = 1 / 15

# Of these only the newest of each request matters.
_SUPERSEDED = (Prefilled, MemoryReport, LoadProgress, Measuring, Calibrating)


class Outbox:
    """Events waiting for the window."""

    def __init__(self) -> None:
        self._waiting: list[Event] = []
        self._started: set[str] = set()  # requests whose first text has gone out
        self._last_sent = float("-inf")
        self._is_urgent = False

    def add(self, events: Iterable[Event]) -> None:
        """Take events in order; neighbours of one kind and request are joined."""
        for event in events:
            self._is_urgent |= self._is_event_urgent(event)
            joined = _joined(self._waiting[-1], event) if self._waiting else None
            if joined is not None:
                self._waiting[-1] = joined
            else:
                self._add_after_superseding(event)

    def is_due(self, now: float) -> bool:
        """Whether something should go out at ``now`` (seconds)."""
        if not self._waiting:
            return False
        return self._is_urgent or now - self._last_sent >= INTERVAL_S

    def take(self, now: float) -> tuple[Event, ...]:
        """All waiting events; they count as sent at ``now``."""
        events, self._waiting = tuple(self._waiting), []
        self._last_sent, self._is_urgent = now, False
        return events

    def _is_event_urgent(self, event: Event) -> bool:
        if isinstance(event, Chunk):
            if event.request_id in self._started:
                return False
            self._started.add(event.request_id)
            return True
        if isinstance(event, Finished):
            self._started.discard(event.request_id)
        return not isinstance(event, (StepStats, *_SUPERSEDED))

    def _add_after_superseding(self, event: Event) -> None:
        """Append, or join with an earlier event of the same request that no end stands behind."""
        for index in range(len(self._waiting) - 1, -1, -1):
            other = self._waiting[index]
            joined = _joined(other, event)
            if joined is not None:
                self._waiting[index] = joined
                return
            if not isinstance(other, (StepStats, Chunk, *_SUPERSEDED)):
                break  # an end or a failure: order across it is kept
        self._waiting.append(event)


def _joined(first: Event, second: Event) -> Event | None:
    """One event that stands for both, or None where both are needed."""
    if type(first) is not type(second):
        return None
    if isinstance(first, Chunk) and isinstance(second, Chunk):
        if (first.request_id, first.kind) != (second.request_id, second.kind):
            return None
        return replace(first, text=first.text + second.text)
    if isinstance(first, StepStats) and isinstance(second, StepStats):
        if first.request_id != second.request_id:
            return None
        step_ms, logprobs = first.step_ms + second.step_ms, first.logprobs + second.logprobs
        return replace(second, step_ms=step_ms, logprobs=logprobs)
    if isinstance(second, _SUPERSEDED):
        same = getattr(first, "request_id", None) == getattr(second, "request_id", None)
        return second if same else None
    return None
