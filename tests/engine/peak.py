"""How many bytes torch holds at the widest moment of some work, by its own record of what it allocates."""

from __future__ import annotations

from collections.abc import Callable

from torch.profiler import ProfilerActivity, profile


def peak_bytes(work: Callable[[], object]) -> int:
    """Bytes on the processor that ``work`` holds at most, beyond what is there before it."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        result = work()
    del result
    events = recorded.profiler.kineto_results.events()  # type: ignore[union-attr]  # it has run
    moves = [event for event in events if event.name() == "[memory]"]
    held = most = 0
    for event in sorted(moves, key=lambda each: each.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return most
