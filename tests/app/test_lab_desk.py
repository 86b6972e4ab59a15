"""The Batch lab behind its page: a run from the button to the kept result, and everything that ends one."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app import lab_desk, lab_record, paths
from app.lab_desk import LabDesk
from app.lab_record import SWEEP
from tests.app.program import Desk
from tests.fakes import FakeEngine
from ui.lab_page import LabPage
from ui.lab_values import LabView
from ui.window_view import LAB


class Lab:
    """The program with the Lab open, and what its page was told to show."""

    def __init__(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        self.desk = desk
        self.page: LabPage = desk.window.lab
        self.view = LabView()
        self.views: list[LabView] = []
        show = self.page.set_view

        def both(view: LabView) -> None:
            show(view)
            self.view = view
            self.views.append(view)

        monkeypatch.setattr(self.page, "set_view", both)

    @property
    def lab(self) -> LabDesk:
        return self.desk.program.controller.lab

    def open(self) -> None:
        self.desk.window.body.show_page(LAB)

    def run(self) -> None:
        """Press the button and wait for the end."""
        self.page.run_clicked.emit()
        self.wait_for_end()

    def wait_for_end(self) -> None:
        self.desk.wait(lambda: not self.lab.is_running)

    def wait_for_points(self, count: int = 1) -> None:
        self.desk.wait(lambda: self.view.running is not None and len(self.view.table.rows) >= count)


@pytest.fixture
def fake() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def lab(qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch, fake: FakeEngine) -> Iterator[Lab]:
    monkeypatch.setattr(lab_desk, "fingerprint", lambda spec: f"content of {spec.path}")
    desk = Desk(qtbot, qapp, monkeypatch, fake)
    made = Lab(desk, monkeypatch)
    desk.start_ready()
    made.open()
    yield made
    fake.hold_measure.set()
    assert desk.stop()


def test_before_a_run_it_shows_what_is_predicted(lab: Lab) -> None:
    assert lab.view.can_run
    assert not lab.view.can_export
    assert lab.view.chart is not None
    assert all(line.predicted and not line.measured for line in lab.view.chart.lines)
    assert lab.view.run_detail.startswith("(about ")


def test_a_run_is_shown_kept_and_shown_again(lab: Lab, fake: FakeEngine) -> None:
    lab.run()
    assert [row.x for row in lab.view.table.rows] == [1, 2, 4, 8, 16]
    assert lab.view.can_run and lab.view.can_export
    assert lab.view.run == "Run again"
    assert lab.view.findings
    lab.lab.refresh()
    lab.desk.wait(lambda: paths.lab_file().exists())
    plan = lab.desk.program.controller.models.known_plan
    assert plan is not None
    kept = lab_record.read(paths.lab_file(), lab_record.key_of(plan, f"content of {plan.model.path}"))
    run = kept.run(SWEEP)
    assert run is not None
    assert [point.point for point in run.points] == list(fake.wishes[0].points)
    lab.desk.window.model_chosen.emit("/models/other.gguf")
    lab.desk.wait(lambda: lab.view.run == "Run")  # of that one nothing was measured
    lab.desk.window.model_chosen.emit(plan.model.path)
    lab.desk.wait(lambda: lab.view.run == "Run again")
    assert [row.x for row in lab.view.table.rows] == [1, 2, 4, 8, 16]


def test_the_context_axis_shows_the_other_points_of_the_same_run(lab: Lab) -> None:
    lab.run()
    lab.page.axis_chosen.emit("tokens")
    assert lab.view.chart is not None
    assert lab.view.chart.title == "Speed by context"
    assert {row.x for row in lab.view.table.rows} >= {64, 512, 2048}


def test_progress_is_told_while_it_runs(lab: Lab, fake: FakeEngine) -> None:
    fake.hold_measure.clear()
    lab.page.run_clicked.emit()
    lab.wait_for_points(0)
    lab.desk.wait(lambda: lab.page.running is not None and "left" in lab.page.running.words)
    assert lab.page.running is not None and lab.page.running.words.startswith("Batch ")
    assert not lab.view.can_export
    fake.hold_measure.set()
    lab.wait_for_end()
    assert lab.view.running is None


def test_stop_keeps_what_was_measured(lab: Lab, fake: FakeEngine) -> None:
    lab.page.axis_chosen.emit("tokens")
    fake.hold_measure.clear()
    lab.page.run_clicked.emit()
    lab.wait_for_points()
    lab.page.stop_clicked.emit()
    lab.wait_for_end()
    assert lab.view.note.startswith("Stopped at batch ")
    assert lab.view.note.endswith("results so far are kept.")
    assert len(lab.view.table.rows) == 1


def test_points_that_failed_are_said_and_not_joined(lab: Lab, fake: FakeEngine) -> None:
    fake.no_room_from = 8
    lab.run()
    assert lab.view.is_warning
    assert lab.view.note.startswith("2 of ")
    assert "points failed. Another cache needs 2.00 GB" in lab.view.note
    assert lab.view.chart is not None
    assert [dot.y is None for dot in lab.view.chart.lines[0].measured] == [False] * 3 + [True] * 2


def test_nothing_runs_while_an_answer_is_written(lab: Lab, fake: FakeEngine) -> None:
    fake.hold.clear()
    lab.desk.send("hello")
    lab.desk.wait(lambda: lab.desk.is_generating)
    lab.desk.wait(lambda: not lab.view.can_run)
    assert lab.view.note == "An answer is being written. The lab can run when it is done."
    lab.page.run_clicked.emit()
    assert not lab.lab.is_running
    fake.hold.set()
    lab.desk.wait_for_answer()
    lab.desk.wait(lambda: lab.view.can_run)
    assert fake.wishes == []


def test_a_message_that_comes_meanwhile_ends_the_run_and_is_answered(lab: Lab, fake: FakeEngine) -> None:
    fake.hold_measure.clear()
    lab.page.run_clicked.emit()
    lab.desk.wait(lambda: bool(fake.wishes))
    lab.desk.send("hello")
    assert lab.desk.wait_for_answer().text == "Hello there."
    lab.wait_for_end()
    assert "Stopped" in lab.view.note


def test_a_load_ends_the_run(lab: Lab, fake: FakeEngine) -> None:
    fake.hold_measure.clear()
    lab.page.run_clicked.emit()
    lab.desk.wait(lambda: bool(fake.wishes))
    lab.desk.window.model_chosen.emit("/models/other.gguf")
    lab.wait_for_end()
    lab.desk.wait(lambda: lab.view.can_run)


def test_a_chat_runs_in_copies_up_to_its_last_question(lab: Lab, fake: FakeEngine) -> None:
    lab.page.axis_chosen.emit("chat")
    assert not lab.view.can_run
    assert lab.view.note.startswith("Open a chat")
    lab.desk.send("first")
    lab.desk.wait_for_answer()
    lab.desk.wait(lambda: lab.view.can_run)
    assert lab.view.run == "Run this chat"
    lab.run()
    [wish] = fake.wishes
    assert [message.role for message in wish.messages] == ["user"]
    assert wish.messages[0].content == "first"
    assert [row.x for row in lab.view.table.rows] == [1, 2, 4, 8]
    assert lab.lab.one_copy() is None  # a chat's own length is no yardstick
    lab.page.axis_chosen.emit("copies")
    assert lab.view.table.rows == ()


def test_without_a_model_there_is_nothing_to_run(
    qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(qtbot, qapp, monkeypatch, FakeEngine())
    made = Lab(desk, monkeypatch)
    desk.start(None)
    desk.wait(lambda: desk.is_first_start is True)
    made.open()
    assert made.view.chart is None
    made.page.run_clicked.emit()
    assert not made.lab.is_running
    assert desk.stop()


def test_a_table_and_a_picture_are_written(lab: Lab, tmp_path: Path) -> None:
    lab.run()
    lab.page.export_wanted.emit("csv", str(tmp_path / "out"))
    lab.desk.wait(lambda: lab.view.note == "Saved as out.csv.")
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {int(row["copies"]) for row in rows} == {1, 2, 4, 8, 16}
    for row in rows:
        assert float(row["total_tps"]) == pytest.approx(float(row["each_tps"]) * int(row["copies"]))
    lab.page.export_wanted.emit("png", str(tmp_path / "chart.png"))
    lab.desk.wait(lambda: lab.view.note == "Saved as chart.png.")
    image = QImage(str(tmp_path / "chart.png"))
    assert image.width() > 600 and image.height() > 400


@pytest.mark.parametrize("kind", ["csv", "png"])
def test_a_file_that_cannot_be_written_is_a_sentence(lab: Lab, tmp_path: Path, kind: str) -> None:
    lab.run()
    (tmp_path / "file").write_text("")
    lab.page.export_wanted.emit(kind, str(tmp_path / "file" / f"x.{kind}"))
    lab.desk.wait(lambda: lab.view.is_warning)
    assert "cannot be written" in lab.view.note


def test_leaving_the_page_brings_the_chat_back_and_the_run_goes_on(lab: Lab, fake: FakeEngine) -> None:
    fake.hold_measure.clear()
    lab.page.run_clicked.emit()
    lab.desk.wait(lambda: bool(fake.wishes))
    lab.desk.window.escape()
    assert lab.desk.window.body.page == ""
    assert lab.lab.is_running
    row = lab.desk.window.body.sidebar.navigation.row(LAB)
    assert row.accessibleDescription() == "running"
    fake.hold_measure.set()
    lab.wait_for_end()
    assert row.accessibleDescription() == ""
    lab.open()
    assert len(lab.view.table.rows) == 5
