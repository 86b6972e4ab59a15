"""Work in short pieces, and waiting for other threads in such pieces. Knows nothing of what is worked on.

A generator that waits like this can be dropped at any moment: a read from a disk that hangs cannot be ended,
but nobody has to wait for it. Standard library only.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from typing import TypeVar

POLL_S = 0.03
"""The longest piece of waiting."""

T = TypeVar("T")
Y = TypeVar("Y")


def in_background(work: Callable[[], T], name: str) -> Future[T]:
    """Start ``work`` on a thread called ``name``, which nobody has to wait for."""
    future: Future[T] = Future()
    # A daemon: an executor's threads are waited for when the process ends.
    threading.Thread(target=settle, args=(future, work), name=name, daemon=True).start()
    return future


def settle(future: Future[T], work: Callable[[], T]) -> None:
    """Run ``work`` on this thread; its result, or what it raises, becomes the future's."""
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)
    finally:
        del future, work  # the error has this frame: a circle would keep alive what they hold


def until_done(futures: Sequence[Future[T]], meanwhile: Y) -> Generator[Y, None, list[T]]:
    """Yield ``meanwhile`` every 30 ms until all are done, and return their results; the first error is raised
    as soon as it is there.
    """
    waiting = list(futures)
    del futures
    try:
        while wait(waiting, POLL_S, FIRST_EXCEPTION).not_done:
            for index in range(len(waiting)):
                if waiting[index].done():
                    waiting[index].result()
            yield meanwhile
        return list(map(Future.result, waiting))
    finally:
        waiting.clear()  # no local of this frame may hold an error that has it: see `settle`


def saying(pieces: Generator[object, None, T], word: Y) -> Generator[Y, None, T]:
    """The same pieces, ``word`` for each."""
    try:
        while True:
            try:
                next(pieces)
            except StopIteration as end:
                result: T = end.value
                return result
            yield word
    finally:
        pieces.close()


def drained(pieces: Generator[object, None, T]) -> T:
    """What a generator returns, all its pieces at once."""
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            result: T = end.value
            return result
