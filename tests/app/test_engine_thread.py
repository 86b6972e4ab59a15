"""The engine thread: commands in, events out, and nothing ends it but Quit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from PySide6.QtCore import QCoreApplication
from pytestqt.qtbot import QtBot

from app.engine_thread import (
    Cancel,
    CancelLoad,
    Command,
    EngineThread,
    Load,
    Measure,
    StopMeasuring,
    Submit,
    Unload,
)
from engine.errors import MemoryLimitError, ModelFileError
from engine.events import (
    Chunk,
    Event,
    Failed,
    Finished,
    Loaded,
    LoadFailed,
    LoadProgress,
    Measured,
    MeasureEnded,
    MemoryReport,
    Unloaded,
)
from engine.types import CopiesPoint, GenerateRequest, MeasureWish, Message
from tests.fakes import FakeEngine, make_plan

REQUEST = GenerateRequest("r", (Message("user", "hi"),))
WISH = MeasureWish((CopiesPoint(1, 64), CopiesPoint(2, 64)))


class Harness:
    """A running thread, the events it has sent, and a way to wait for one."""

    def __init__(
        self, qtbot: QtBot, fake: FakeEngine, factory: Callable[[], FakeEngine] | None = None
    ) -> None:
        self.fake = fake
        self.seen: list[Event] = []
        self.signals = 0
        self._qtbot = qtbot
        self.thread = EngineThread(factory or (lambda: fake))
        self.thread.events.connect(self._on_events)
        self.thread.start()

    def _on_events(self, events: tuple[Event, ...]) -> None:
        self.signals += 1
        self.seen += events

    def stop(self, timeout_s: float) -> bool:
        """End the thread; what it has still said is heard first, and nothing comes after."""
        is_ended = self.thread.stop(timeout_s)
        QCoreApplication.sendPostedEvents()
        self.thread.events.disconnect(self._on_events)
        return is_ended

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
    assert made.stop(5.0)


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


class Slow:
    """A library that takes its time to be imported."""

    def __init__(self, fake: FakeEngine) -> None:
        self.fake = fake
        self.is_there = threading.Event()
        self.threads: list[str] = []

    def __call__(self) -> FakeEngine:
        self.threads.append(threading.current_thread().name)
        assert self.is_there.wait(20)
        return self.fake


@pytest.fixture
def slow(qtbot: QtBot) -> Iterator[tuple[Harness, Slow]]:
    library = Slow(FakeEngine())
    made = Harness(qtbot, library.fake, library)
    yield made, library
    library.is_there.set()
    assert made.stop(5.0)


def test_a_load_is_cancelled_while_the_engine_is_still_being_made(
    slow: tuple[Harness, Slow],
) -> None:  # B077
    harness, library = slow
    harness.post(Load(make_plan(), 7))
    assert harness.wait_for(LoadProgress) == LoadProgress(0.0, "engine", 7)
    harness.post(CancelLoad())
    assert harness.wait_for(Unloaded) == Unloaded(7)
    assert not library.is_there.is_set()
    library.is_there.set()
    harness.wait_for(MemoryReport)
    assert library.fake.loads == []
    assert library.threads == ["engine-import"]


def test_a_load_waits_for_the_engine_and_everything_else_is_as_without_a_model(
    slow: tuple[Harness, Slow],
) -> None:
    harness, library = slow
    harness.post(Submit(REQUEST), Cancel("r"), Unload())
    assert harness.wait_for(Failed).kind == "busy"
    assert harness.wait_for(Finished).reason == "error"
    harness.post(Load(make_plan()))
    harness.wait_for(LoadProgress)
    library.is_there.set()
    harness.wait_for(Loaded)
    harness.seen.clear()
    harness.post(Submit(REQUEST))
    assert harness.wait_for(Finished).reason == "stop"
    assert library.fake.threads == {"engine"}


def test_the_thread_ends_while_the_engine_is_being_made(qtbot: QtBot) -> None:  # B078
    library = Slow(FakeEngine())
    made = Harness(qtbot, library.fake, library)
    made.post(Load(make_plan()))
    made.wait_for(LoadProgress)
    assert made.stop(5.0)
    library.is_there.set()


def test_an_engine_that_cannot_be_made_answers_every_wish_with_the_reason(qtbot: QtBot) -> None:
    def make() -> FakeEngine:
        raise ImportError("libtorch.so: no such file")

    made = Harness(qtbot, FakeEngine(), make)
    made.post(Load(make_plan()))
    assert "libtorch.so: no such file" in made.wait_for(LoadFailed).message
    made.post(Submit(REQUEST))
    assert "could not start" in made.wait_for(Failed).message
    assert made.stop(5.0)


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
        assert made.stop(2.0)


def test_a_long_answer_makes_few_signals(qtbot: QtBot) -> None:
    made = Harness(qtbot, FakeEngine(tuple("x" for _ in range(2000))))
    made.post(Load(make_plan()))
    made.wait_for(Loaded)
    made.signals = 0
    made.post(Submit(REQUEST))
    end = made.wait_for(Finished)
    assert end.stats.generated_tokens == 2000
    assert made.signals < 200
    assert made.stop(2.0)


def ready(harness: Harness) -> None:
    harness.post(Load(make_plan()))
    harness.wait_for(Loaded)


def test_a_run_of_measurements_tells_each_point_and_its_end(harness: Harness) -> None:
    ready(harness)
    harness.post(Measure(WISH, 5))
    assert harness.wait_for(MeasureEnded) == MeasureEnded(5, "done")
    found = [event for event in harness.seen if isinstance(event, Measured)]
    assert [each.point for each in found] == list(WISH.points)
    assert {each.run_id for each in found} == {5}


@pytest.mark.parametrize("command", [StopMeasuring(), Submit(REQUEST), Load(make_plan()), Unload()])
def test_whoever_needs_the_engine_ends_a_run(harness: Harness, command: Command) -> None:
    ready(harness)
    harness.fake.hold_measure.clear()
    harness.post(Measure(WISH, 1))
    harness.wait_for(Measured)
    harness.seen.clear()
    harness.post(command)
    assert harness.wait_for(MeasureEnded) == MeasureEnded(1, "stopped")
    ends: dict[type[object], type] = {Submit: Finished, Load: Loaded, Unload: Unloaded}
    if type(command) in ends:
        harness.wait_for(ends[type(command)])


def test_a_new_run_takes_the_place_of_the_one_before(harness: Harness) -> None:
    ready(harness)
    harness.fake.hold_measure.clear()
    harness.post(Measure(WISH, 1))
    harness.wait_for(Measured)
    harness.post(Measure(WISH, 2))
    harness.fake.hold_measure.set()
    harness.wait(lambda event: event == MeasureEnded(1, "stopped"))
    harness.wait(lambda event: event == MeasureEnded(2, "done"))


def test_a_run_that_cannot_be_says_why_and_the_thread_lives(harness: Harness) -> None:
    harness.post(Measure(WISH, 3))
    ended = harness.wait_for(MeasureEnded)
    assert (ended.run_id, ended.reason, ended.message) == (3, "failed", "No model is loaded.")
    ready(harness)
    harness.post(Measure(WISH, 4))
    harness.wait(lambda event: event == MeasureEnded(4, "done"))


def test_before_the_engine_is_there_a_run_says_why(slow: tuple[Harness, Slow]) -> None:
    harness, _ = slow
    harness.post(Measure(WISH, 1))
    assert harness.wait_for(MeasureEnded).reason == "failed"


def test_the_thread_ends_while_it_measures(qtbot: QtBot) -> None:  # B078
    made = Harness(qtbot, FakeEngine())
    made.fake.hold_measure.clear()
    ready(made)
    made.post(Measure(WISH, 1))
    made.wait_for(Measured)
    assert made.stop(2.0)
