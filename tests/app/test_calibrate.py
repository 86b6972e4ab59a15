"""Measuring the machine on the engine thread: when nobody waits for anything else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from pytestqt.qtbot import QtBot

from app.engine_thread import Calibrate, Load, Submit
from engine.calibration import Calibration
from engine.errors import DisturbedError
from engine.events import Calibrated, Calibrating, CalibrationEnded, Failed, Finished, Loaded
from engine.types import GenerateRequest, LoadPlan, Message
from tests.app.test_engine_thread import Harness
from tests.fakes import FakeEngine, make_plan

KNOWN = Calibration(read_gbps=20.0)
REQUEST = GenerateRequest("r", (Message("user", "hi"),))


@pytest.fixture
def harness(qtbot: QtBot) -> Iterator[Harness]:
    fake = FakeEngine()
    fake.calibration = KNOWN
    made = Harness(qtbot, fake)
    yield made
    made.fake.hold_calibration.set()
    assert made.stop(5.0)


def calibrated_plan() -> LoadPlan:
    made = make_plan()
    return replace(made, hardware=replace(made.hardware, calibration=KNOWN))


def count(harness: Harness, kind: type) -> int:
    return sum(isinstance(event, kind) for event in harness.seen)


def test_a_machine_that_was_not_measured_is_measured_behind_the_first_load(harness: Harness) -> None:
    harness.post(Load(make_plan()))
    assert harness.wait_for(Calibrated).calibration == KNOWN
    kinds = [type(event) for event in harness.seen]
    assert kinds.index(Loaded) < kinds.index(Calibrating) < kinds.index(Calibrated)


def test_a_machine_is_measured_once(harness: Harness) -> None:
    harness.post(Load(make_plan()))
    harness.wait_for(Calibrated)
    harness.seen.clear()
    harness.post(Load(make_plan()), Load(make_plan(), 2))
    harness.wait(lambda event: isinstance(event, Loaded) and event.load_id == 2)
    harness.post(Calibrate())
    harness.wait_for(Calibrated)
    assert harness.fake.calibrations == 2  # by the first load, and on request


def test_what_is_known_is_not_measured_unasked(harness: Harness) -> None:
    harness.post(Load(calibrated_plan()))
    harness.wait_for(Loaded)
    harness.post(Submit(REQUEST))
    harness.wait_for(Finished)
    assert harness.fake.calibrations == 0
    harness.post(Calibrate())
    assert harness.wait_for(Calibrated).calibration == KNOWN


def test_an_answer_goes_first_and_the_measurement_begins_anew_behind_it(harness: Harness) -> None:
    harness.fake.hold_calibration.clear()
    harness.post(Load(make_plan()))
    harness.wait_for(Calibrating)
    harness.post(Submit(REQUEST))
    harness.wait_for(CalibrationEnded)
    harness.wait_for(Finished)
    assert count(harness, Calibrated) == 0
    harness.fake.hold_calibration.set()
    harness.wait_for(Calibrated)
    assert harness.fake.calibrations == 2
    kinds = [type(event) for event in harness.seen]
    assert kinds.index(CalibrationEnded) < kinds.index(Finished) < kinds.index(Calibrated)


def test_a_load_goes_first_too(harness: Harness) -> None:
    harness.fake.hold_calibration.clear()
    harness.post(Load(make_plan()))
    harness.wait_for(Calibrating)
    harness.post(Load(make_plan(), 2))
    harness.wait_for(CalibrationEnded)
    harness.wait(lambda event: isinstance(event, Loaded) and event.load_id == 2)
    harness.fake.hold_calibration.set()
    harness.wait_for(Calibrated)


def test_what_fails_is_said_once_and_concerns_no_answer(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> Iterator[Calibrating]:
        yield Calibrating(0.1)
        raise DisturbedError("Other programs use the processor.", "Try again later.")

    monkeypatch.setattr(harness.fake, "calibrate", fail)
    harness.post(Load(make_plan()))
    ended = harness.wait_for(CalibrationEnded)
    assert (ended.message, ended.hint) == ("Other programs use the processor.", "Try again later.")
    harness.post(Submit(REQUEST))
    harness.wait_for(Finished)
    assert count(harness, CalibrationEnded) == 1 and count(harness, Failed) == 0


def test_the_thread_ends_in_the_middle_of_a_measurement(harness: Harness) -> None:
    harness.fake.hold_calibration.clear()
    harness.post(Load(make_plan()))
    harness.wait_for(Calibrating)
    assert harness.thread.stop(5.0)


def test_without_an_engine_nothing_is_measured_and_nothing_breaks(qtbot: QtBot) -> None:
    def none() -> FakeEngine:
        raise RuntimeError("no engine here")

    made = Harness(qtbot, FakeEngine(), none)
    made.post(Calibrate(), Submit(REQUEST))
    made.wait_for(Finished)
    assert count(made, Calibrated) == 0
    assert made.stop(5.0)
