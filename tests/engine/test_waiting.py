"""Waiting in pieces: results, the first error at once, and nothing kept alive by an error."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Generator

import pytest

from engine.waiting import drained, in_background, saying, until_done


class Thing:
    """Something that a frame of an error could hold."""


def test_results_come_in_order_and_meanwhile_it_yields() -> None:
    go = threading.Event()
    futures = [
        in_background(lambda number=number: go.wait(20) and number, "test-work") for number in range(3)
    ]
    waiting = until_done(futures, "wait")
    assert [next(waiting), next(waiting)] == ["wait", "wait"]
    go.set()
    assert drained(waiting) == [0, 1, 2]


def test_what_is_done_already_needs_no_piece() -> None:
    future = in_background(lambda: 5, "test-work")
    assert future.result(20) == 5
    with pytest.raises(StopIteration) as end:
        next(until_done([future], None))
    assert end.value.value == [5]
    assert drained(until_done([], None)) == []


def test_an_error_ends_the_wait_though_others_go_on() -> None:
    go = threading.Event()

    def fail() -> None:
        raise OSError("no disk")

    futures = [in_background(lambda: go.wait(20), "test-work"), in_background(fail, "test-work")]
    with pytest.raises(OSError, match="no disk"):
        drained(until_done(futures, None))
    go.set()


def test_a_wait_can_be_dropped_and_its_thread_is_a_daemon() -> None:
    go = threading.Event()
    waiting = until_done([in_background(lambda: go.wait(20), "test-dropped")], None)
    next(waiting)
    waiting.close()
    [left] = [thread for thread in threading.enumerate() if thread.name == "test-dropped"]
    assert left.daemon
    go.set()
    left.join(20)
    assert not left.is_alive()


def test_an_error_keeps_alive_nothing_that_its_frames_held() -> None:
    gc.collect()
    gc.disable()
    try:
        alive = caught()
        assert [ref() for ref in alive] == [None, None]
    finally:
        gc.enable()


def caught() -> list[weakref.ref[Thing]]:
    """What an error was raised beside, on either thread, once the error is gone."""
    alive: list[weakref.ref[Thing]] = []

    def fail() -> None:
        held = Thing()
        alive.append(weakref.ref(held))
        raise ValueError("oops")

    def wait() -> Generator[None, None, list[None]]:
        held = Thing()
        alive.append(weakref.ref(held))
        return (yield from until_done([in_background(fail, "test-work")], None))

    try:
        drained(wait())
    except ValueError:
        pass
    else:
        raise AssertionError("the error comes through")
    for thread in threading.enumerate():
        if thread.name == "test-work":
            thread.join(20)
    return alive


def test_pieces_are_said_in_another_word_and_closed_with_the_generator() -> None:
    closed: list[bool] = []

    def work() -> Generator[int, None, str]:
        try:
            yield 1
            yield 2
            return "done"
        finally:
            closed.append(True)

    said: list[str] = []

    def collect() -> Generator[str, None, str]:
        return (yield from saying(work(), "piece"))

    pieces = collect()
    for word in pieces:
        said.append(word)
    assert (said, closed) == (["piece", "piece"], [True])
    assert drained(saying(work(), None)) == "done"
    dropped = saying(work(), None)
    next(dropped)
    dropped.close()
    assert closed == [True] * 3
