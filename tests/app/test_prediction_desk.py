"""Predicted and measured through the whole program: kept after every answer, drift, measuring, the page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app import paths, prediction_record
from app.prediction_desk import MEASURE_AGAIN, judged_row
from app.prediction_record import Judged
from engine.calibration import Calibration
from tests.app.program import Desk
from tests.app.test_prediction_record import ROW
from tests.fakes import FakeEngine

WORDS = tuple(f" word{count}" for count in range(40))


@pytest.fixture
def desk(qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    made = Desk(qtbot, qapp, monkeypatch, FakeEngine(WORDS))
    yield made
    made.stop()


def kept(desk: Desk) -> tuple[Judged, ...]:
    """What is on the disk, once what was to be written is."""
    done: list[tuple[Judged, ...]] = []
    read = prediction_record.read
    desk.program.io.submit(read, paths.predictions_file(), on_done=done.append, lane="predictions")
    desk.wait(lambda: bool(done))
    return done[0]


def test_every_answer_is_kept_with_what_was_predicted_of_it(desk: Desk) -> None:
    desk.start_ready()
    assert desk.speed.predicted_tps is not None
    desk.send("How are you?")
    desk.wait_for_answer()
    [row] = kept(desk)
    assert row.model == "tiny"
    assert row.measured_tps == 50.0
    assert row.predicted_tps > 0
    assert row.tokens == 20 + len(WORDS)
    assert desk.program.controller.predictions.rows == (row,)


def test_the_rows_of_an_earlier_run_come_first(desk: Desk) -> None:
    prediction_record.write(paths.predictions_file(), [ROW])
    desk.start_ready()
    desk.wait(lambda: desk.program.controller.predictions.rows == (ROW,))
    desk.send("How are you?")
    desk.wait_for_answer()
    assert kept(desk)[0] == ROW
    assert len(kept(desk)) == 2


def drifted(desk: Desk, basis: str = "measured") -> None:
    """Three answers that are 30 % below what was predicted."""
    for _ in range(3):
        row = replace(ROW, when_s=2000.0, measured_tps=70.0, basis=basis)
        desk.program.controller.chats.answers.gauge.judged.emit(row)


def test_a_drift_offers_to_measure_again_and_only_once_in_a_while(desk: Desk) -> None:
    desk.start_ready()
    drifted(desk)
    assert desk.notice is not None
    assert desk.notice.title == "Answers are 30% slower than predicted."
    assert [action.label for action in desk.notice.actions] == ["Measure again"]
    desk.window.clear_notice()
    drifted(desk)
    assert desk.notice is None
    drifted(desk)
    assert desk.notice is not None


def test_where_nothing_was_measured_yet_measuring_is_no_second_time(desk: Desk) -> None:
    desk.start_ready()
    drifted(desk, basis="default")
    assert desk.notice is not None
    assert desk.notice.text.startswith("This computer was not measured yet.")
    assert [action.label for action in desk.notice.actions] == ["Measure"]


def test_measuring_again_is_said_to_go_on_and_what_came_of_it(desk: Desk) -> None:
    desk.start_ready()
    desk.fake.calibration = Calibration(11.4, when=3000.0)
    desk.fake.hold_calibration.clear()
    drifted(desk)
    desk.window.notice_action.emit(MEASURE_AGAIN)
    assert desk.notice is not None
    assert desk.notice.title == "This computer is being measured."
    desk.fake.hold_calibration.set()
    desk.wait(lambda: desk.notice is not None and desk.notice.title == "This computer was measured.")
    assert "11\u00a0GB/s" in desk.notice.text
    assert desk.speed.peak_gbps == 11.4
    desk.window.clear_notice()
    drifted(desk)  # from before it was measured
    assert desk.notice is None


def test_why_opens_a_page_of_the_loaded_model_that_follows_it(desk: Desk) -> None:
    desk.start_ready()
    page = desk.window.body.centre.explain
    desk.window.body.tuning.speed.why.click()
    assert desk.window.explaining.is_shown
    assert page.doors.rows[0][0].text == "As loaded"
    assert not page.judged.isVisible()
    desk.window.explaining.close()
    desk.send("How are you?")
    desk.wait_for_answer()
    desk.window.body.tuning.speed.why.click()
    [row] = page.judged.rows
    assert (row[1].text, row[4].text) == ("file · tiny", "50.0")


def test_without_a_model_there_is_nothing_to_explain(desk: Desk) -> None:
    desk.start(None)
    desk.wait(lambda: desk.is_first_start is True)
    assert not desk.window.body.tuning.speed.why.isEnabled()
    desk.window.explaining.requested.emit()
    assert not desk.window.explaining.is_shown


def test_an_answer_of_today_has_its_time_and_an_older_one_its_day() -> None:
    now = ROW.when_s
    assert judged_row(ROW, now).when.startswith("today ")
    assert not judged_row(ROW, now + 3 * 86400).when.startswith("today")
    assert judged_row(replace(ROW, cause="cores"), now).note == "Another program used the cores."
