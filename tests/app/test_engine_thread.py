"""The engine thread: commands in, events out, and nothing ends it but Quit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from app.engine_thread import Cancel, CancelLoad, Command, EngineThread, Load, Submit, Unload
from engine.errors import MemoryLimitError, ModelFileError
from engine.types import (
    Chunk,
    Event,
    Failed,
    Finished,
    GenerateRequest,
    Loaded,
    LoadFailed,
    LoadProgress,
    MemoryReport,
    Message,
    Unloaded,
)
from tests.fakes import FakeEngine, make_plan

REQUEST = GenerateRequest("r", (Message("user", "hi"),))


class Harness:
    """A running thread, the events it has sent, and a way to wait for one."""

    def __init__(self, qtbot: QtBot, fake: FakeEngine) -> None:
        self.fake = fake
        self.seen: list[Event] = []
        self.signals = 0
        self._qtbot = qtbot
        self.thread = EngineThread(lambda: fake)
        self.thread.events.connect(self._on_events)
        self.thread.start()

    def _on_events(self, events: tuple[Event, ...]) -> None:
        self.signals += 1
        self.seen += events

    def post(self, *commands: Command) -> None:
        for command in commands:
            self.thread.post(command)

    def wait(self, is_it: Callable[[Any], bool]) -> Any:
        self._qtbot.waitUntil(lambda: any(is_it(event) for event in self.seen), timeout=5000)
        return next(event for event in self.seen if is_it(event))

    def wait_for(self, kind: type) -> Any:
        return self.wait(lambda event: isinstance(event, kind))


@pytest.fixture
def harness(qtbot: QtBot) -> Iterator[Harness]:
    made = Harness(qtbot, FakeEngine())
    yield made
    made.fake.hold.set()
    made.fake.hold_load.set()
    assert made.thread.stop(5.0)


def test_load_then_answer(harness: Harness) -> None:
    harness.post(Load(make_plan()), Submit(REQUEST))
    harness.wait_for(Loaded)
    failed = harness.wait_for(Failed)  # submitted while loading: refused in words
    assert failed.kind == "busy"
    harness.seen.clear()
    harness.post(Submit(REQUEST))
    end = harness.wait_for(Finished)
    assert end.text == "Hello there."
    assert "".join(e.text for e in harness.seen if isinstance(e, Chunk)) == end.text


def test_the_engine_runs_on_its_own_thread(harness: Harness) -> None:
    harness.post(Load(make_plan()))
    harness.wait_for(Loaded)
    assert harness.fake.threads == {"engine"}


def test_a_refused_request_ends_too(harness: Harness) -> None:
    harness.post(Submit(REQUEST))
    harness.wait_for(Failed)
    assert harness.wait_for(Finished).reason == "error"


def test_a_failed_load_is_told_and_the_next_one_works(harness: Harness) -> None:
    harness.fake.fail_load = ModelFileError("The file is short.", "Download it again.")
    harness.post(Load(make_plan()))
    failed = harness.wait_for(LoadFailed)
    assert (failed.kind, failed.message, failed.hint) == (
        "model-file",
        "The file is short.",
        "Download it again.",
    )
    harness.post(Load(make_plan()))
    harness.wait_for(Loaded)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (MemoryLimitError("There is not enough memory."), "memory"),
        (ZeroDivisionError("oops"), "bug"),
    ],
)
def test_an_exception_in_a_step_ends_the_answers_and_the_thread_lives(
    harness: Harness, error: Exception, kind: str
) -> None:
    harness.post(Load(make_plan()))
    harness.wait_for(Loaded)
    harness.fake.hold.clear()
    harness.post(Submit(REQUEST))
    harness.wait_for(Chunk)
    harness.fake.fail_step = error
    harness.fake.hold.set()
    failed = harness.wait_for(Failed)
    assert failed.kind == kind
    assert ("Traceback" in failed.details) == (kind == "bug")
    assert harness.wait_for(Finished).reason == "error"
    harness.seen.clear()
    harness.post(Submit(REQUEST))
    assert harness.wait_for(Finished).reason == "stop"


def test_cancel_ends_a_running_answer_with_its_text(harness: Harness) -> None:  # B077
    harness.post(Load(make_plan()))
    harness.wait_for(Loaded)
    harness.fake.hold.clear()
    harness.post(Submit(REQUEST))
    harness.wait_for(Chunk)
    harness.post(Cancel("r"), Cancel("r"))
    end = harness.wait_for(Finished)
    assert (end.reason, end.text) == ("cancelled", "Hello")
    assert harness.fake.cancelled == ["r"]


def test_a_load_can_be_cancelled(harness: Harness) -> None:  # B077
    harness.fake.hold_load.clear()
    harness.post(Load(make_plan()))
    harness.wait_for(LoadProgress)
    harness.post(CancelLoad())
    harness.wait_for(Unloaded)
    assert not any(isinstance(event, Loaded) for event in harness.seen)


def test_unload_says_so(harness: Harness) -> None:
    harness.post(Load(make_plan()))
    harness.wait_for(Loaded)
    harness.post(Unload())
    harness.wait_for(Unloaded)
    harness.wait(lambda event: isinstance(event, MemoryReport) and event.weights_bytes == 0)


def test_stop_ends_the_thread_while_it_loads_or_answers(qtbot: QtBot) -> None:  # B078
    for busy_with in ("load", "answer"):
        made = Harness(qtbot, FakeEngine())
        if busy_with == "load":
            made.fake.hold_load.clear()
            made.post(Load(make_plan()))
            made.wait_for(LoadProgress)
        else:
            made.fake.hold.clear()
            made.post(Load(make_plan()))
            made.wait_for(Loaded)
            made.post(Submit(REQUEST))
            made.wait_for(Chunk)
        assert made.thread.stop(2.0)


def test_a_long_answer_makes_few_signals(qtbot: QtBot) -> None:
    made = Harness(qtbot, FakeEngine(tuple("x" for _ in range(2000))))
    made.post(Load(make_plan()))
    made.wait_for(Loaded)
    made.signals = 0
    made.post(Submit(REQUEST))
    end = made.wait_for(Finished)
    assert end.stats.generated_tokens == 2000
    assert made.signals < 200
    assert made.thread.stop(2.0)
