"""How many bytes torch holds at the widest moment of some work, by its own record of what it allocates."""

from __future__ import annotations

from collections.abc import Callable

from torch.profiler import ProfilerActivity, profile, record_function

_WORK = "the work"


def peak_bytes(work: Callable[[], object], before: Callable[[], object] = lambda: None) -> int:
    """Bytes on the processor that ``work`` holds at most, beyond what is there before it. Memory that it
    gives back counts if ``before`` or ``work`` itself allocated it: the size of older memory is not known.
    """
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        before()
        with record_function(_WORK):
            result = work()
    del result
    events = recorded.profiler.kineto_results.events()  # type: ignore[union-attr]  # it has run
    begin = next(event.start_ns() for event in events if event.name() == _WORK)
    moves = sorted((each for each in events if each.name() == "[memory]"), key=lambda each: each.start_ns())
    held = most = 0
    for event in (each for each in moves if each.start_ns() >= begin):
        held += event.nbytes()
        most = max(most, held)
    return most
