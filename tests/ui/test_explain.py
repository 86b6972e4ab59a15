"""The page behind the line that says why: every figure in a table that keys reach, opened and closed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from tests.ui.explain_states import EXPLAIN
from tests.ui.states import SPEED, fill
from ui.explain import ExplainPage
from ui.figure_table import Cell, Column, FigureTable, error_cell
from ui.gauge_values import StepPart
from ui.main_window import MainWindow
from ui.step_bar import StepBar

NBSP = "\u00a0"


@pytest.fixture
def page(qtbot: QtBot) -> ExplainPage:
    made = ExplainPage()
    qtbot.addWidget(made)
    made.resize(700, 600)
    made.set_view(EXPLAIN)
    made.show()
    return made


@pytest.fixture
def window(qtbot: QtBot) -> MainWindow:
    made = MainWindow()
    qtbot.addWidget(made)
    made.show()
    fill(made)
    return made


def texts(table: FigureTable) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table.rows]


def test_a_closed_door_tells_bytes_speed_and_how_much_slower(page: ExplainPage) -> None:
    loaded, wide, _, window = texts(page.doors)
    assert loaded == ["As loaded", f"0.32{NBSP}GB", f"0.12{NBSP}GB", "88", "36", ""]
    assert wide == ["At 16 bits", f"0.47{NBSP}GB", f"0.29{NBSP}GB", "43", "27", "2.0× slower"]
    assert window == ["Without its window", "–", "–", "–", "–", ""]


def test_a_door_that_does_not_fit_says_so_in_words(page: ExplainPage) -> None:
    doors = (EXPLAIN.doors[0], replace(EXPLAIN.doors[1], does_fit=False))
    page.set_view(replace(EXPLAIN, doors=doors))
    assert texts(page.doors)[1][-1] == "does not fit"


def test_a_table_without_rows_gives_its_place_to_a_sentence(page: ExplainPage) -> None:
    assert page.drafts.isVisible()
    page.set_view(replace(EXPLAIN, drafts=(), drafts_words="No drafts were checked.", judged=()))
    assert not page.drafts.isVisible()
    assert not page.judged.isVisible()


def test_an_error_has_a_sign_and_is_amber_above_8_percent() -> None:
    assert [error_cell(e).text for e in (0.024, -0.031, 0.0)] == ["+2.4%", "−3.1%", "0.0%"]
    assert [error_cell(e).color for e in (0.08, -0.081)] == ["text2", "warn"]


def test_arrows_move_along_the_rows_and_a_refresh_leaves_them_there(qtbot: QtBot) -> None:
    table = FigureTable("Speeds", (Column("Chats", is_wide=True), Column("Each")))
    qtbot.addWidget(table)
    table.set_rows([[Cell(str(place)), Cell("9")] for place in range(3)])
    height = table.height()
    table.show()
    table.setFocus()
    qtbot.keyClick(table, Qt.Key.Key_Down)
    qtbot.keyClick(table, Qt.Key.Key_Down)
    row = table.currentIndex().row()
    assert row > 0
    table.set_rows([[Cell(str(place)), Cell("8")] for place in range(3)])
    assert table.currentIndex().row() == row
    table.set_rows([[Cell("0"), Cell("8")]])
    assert table.height() < height
    spoken = table.model().index(0, 1).data(Qt.ItemDataRole.AccessibleTextRole)
    assert spoken == "Each: 8"


def test_the_bar_of_a_step_tells_its_parts_and_leaves_out_what_takes_no_time(qtbot: QtBot) -> None:
    bar = StepBar()
    qtbot.addWidget(bar)
    bar.resize(600, bar.height())
    bar.show()
    assert bar.sentence() == "Not known yet"
    bar.set_parts(
        (StepPart("Weights", 8.9, 96_600_000), StepPart("Arithmetic", 0.0), StepPart("Fixed cost", 1.0))
    )
    assert bar.sentence() == f"Weights 8.9{NBSP}ms for 0.10{NBSP}GB, Fixed cost 1.0{NBSP}ms"
    assert bar.total_ms == pytest.approx(9.9)
    height = bar.height()
    bar.resize(200, height)
    assert bar.height() > height  # the legend breaks into two lines


def test_why_opens_the_page_and_esc_closes_it_before_it_stops_the_answer(
    window: MainWindow, qtbot: QtBot
) -> None:
    window.explaining.requested.connect(lambda: window.explaining.show(EXPLAIN))
    window.set_speed(SPEED)
    window.body.tuning.speed.why.click()
    assert window.explaining.is_shown
    assert not window.body.centre.transcript.isVisible()
    with qtbot.assertNotEmitted(window.stop_requested):
        qtbot.keyClick(window, Qt.Key.Key_Escape)
    assert not window.explaining.is_shown
    assert window.body.centre.transcript.isVisible()
    with qtbot.waitSignal(window.stop_requested):
        qtbot.keyClick(window, Qt.Key.Key_Escape)


def test_what_opened_the_page_closes_it_again(window: MainWindow) -> None:
    window.explaining.requested.connect(lambda: window.explaining.show(EXPLAIN))
    for is_shown in (True, False):
        window.body.tuning.speed.explain_clicked.emit()
        assert window.explaining.is_shown == is_shown


def test_a_message_and_another_chat_bring_the_transcript_back(window: MainWindow) -> None:
    for signal in (window.message_sent, window.chat_selected):
        window.explaining.show(EXPLAIN)
        signal.emit("x")
        assert not window.explaining.is_shown


def test_the_page_has_the_whole_width_where_tuning_lies_over_it(window: MainWindow) -> None:
    window.resize(800, 600)
    window.body.open_tuning()
    window.explaining.show(EXPLAIN)
    assert not window.body.tuning.isVisible()
