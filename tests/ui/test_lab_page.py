"""The Lab's page: it opens and closes with keys, one button runs and stops, typed prices leave as text."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog
from pytestqt.qtbot import QtBot

from tests.ui.lab_states import COST, EMPTY_COST, MEASURED, PREDICTED
from ui.lab_page import LabPage
from ui.lab_values import LabView, RunningView
from ui.label import Label
from ui.main_window import MainWindow
from ui.window_view import LAB, LAB_KEYS


@pytest.fixture
def window(qtbot: QtBot) -> MainWindow:
    made = MainWindow()
    qtbot.addWidget(made)
    made.resize(1280, 900)
    made.show()
    qtbot.waitExposed(made)
    return made


@pytest.fixture
def page(window: MainWindow) -> LabPage:
    window.lab.set_view(MEASURED)
    window.lab.set_cost(COST)
    window.body.show_page(LAB)
    return window.lab


def test_keys_open_it_and_esc_brings_the_chat_back(window: MainWindow, qtbot: QtBot) -> None:
    window.lab.set_view(MEASURED)
    QTest.keySequence(window, LAB_KEYS)
    assert window.body.page == LAB
    qtbot.waitUntil(lambda: QApplication.focusWidget() is window.lab.chart)
    QTest.keyClick(window.lab.chart, Qt.Key.Key_Escape)
    assert window.body.page == ""
    assert window.body.centre.isVisible() and not window.lab.isVisible()


@pytest.mark.parametrize("signal", ["new_chat_clicked", "chat_selected"])
def test_a_chat_takes_the_page_s_place(window: MainWindow, page: LabPage, signal: str) -> None:
    args = ("1",) if signal == "chat_selected" else ()
    getattr(window.body.sidebar, signal).emit(*args)
    assert window.body.page == ""


def test_typing_in_the_lab_does_not_reach_the_composer(window: MainWindow, page: LabPage) -> None:
    QTest.keyClicks(page.chart, "abc")
    assert window.composer_text() == ""


def test_one_button_runs_and_stops(page: LabPage) -> None:
    seen: list[str] = []
    page.run_clicked.connect(lambda: seen.append("run"))
    page.stop_clicked.connect(lambda: seen.append("stop"))
    assert page.bar.run.text() == "Run again"
    page.bar.run.click()
    page.set_view(replace(MEASURED, can_run=False, running=RunningView(0.3, "Batch 8 of 16 · 20 s left")))
    assert page.bar.run.text() == "Stop"
    page.bar.run.click()
    page.set_view(replace(MEASURED, can_run=False))
    page.bar.run.click()
    assert seen == ["run", "stop"]


def test_progress_moves_without_anything_else_being_shown_anew(page: LabPage) -> None:
    page.set_view(replace(MEASURED, running=RunningView(0.3, "Batch 4")))
    page.set_running(RunningView(0.5, "Batch 8", "19.2 tok/s each"))
    assert page.running == RunningView(0.5, "Batch 8", "19.2 tok/s each")
    assert page.chart.view == MEASURED.chart


def test_chart_and_table_choose_the_same_point(page: LabPage) -> None:
    QTest.keyClick(page.chart, Qt.Key.Key_Right)
    QTest.keyClick(page.chart, Qt.Key.Key_Right)
    assert page.table.currentIndex().row() == 1
    page.table.setFocus()
    QTest.keyClick(page.table, Qt.Key.Key_Down)
    assert page.chart.chosen_dot is not None and page.chart.chosen_dot.x == 4


def test_what_is_not_there_takes_no_room(page: LabPage) -> None:
    page.set_view(PREDICTED)
    assert page.chart.isVisible() and not page.table.isVisible()
    assert not page.bar.csv.isEnabled() and not page.bar.png.isEnabled()
    page.set_view(LabView())
    assert not page.chart.isVisible()
    assert not page.bar.run.isEnabled()


def test_the_axis_is_the_user_s(page: LabPage) -> None:
    seen: list[str] = []
    page.axis_chosen.connect(seen.append)
    page.axes.segments[1].click()
    assert seen == ["tokens"]


@pytest.mark.parametrize("kind", ["csv", "png"])
def test_a_file_is_asked_for_in_a_dialog(page: LabPage, kind: str) -> None:
    seen: list[tuple[str, str]] = []
    page.export_wanted.connect(lambda *args: seen.append(args))
    (page.bar.csv if kind == "csv" else page.bar.png).click()
    [dialog] = page.findChildren(QFileDialog)
    assert dialog.acceptMode() == QFileDialog.AcceptMode.AcceptSave
    assert dialog.defaultSuffix() == kind
    dialog.fileSelected.emit(f"/tmp/x.{kind}")
    dialog.reject()
    assert seen == [(kind, f"/tmp/x.{kind}")]


def test_a_picture_has_the_chart_at_twice_its_size(page: LabPage) -> None:
    image = page.picture()
    assert image.width() == 2 * page.chart.parentWidget().width()
    colors = {
        image.pixelColor(x, y).name() for x in range(0, image.width(), 3) for y in range(0, image.height(), 3)
    }
    assert len(colors) > 10


def test_typed_figures_leave_once_and_stay_while_others_come(page: LabPage) -> None:
    seen: list[tuple[str, str]] = []
    page.cost_typed.connect(lambda *args: seen.append(args))
    field = page.cost.field("power_watts")
    field.setFocus()
    field.selectAll()
    QTest.keyClicks(field, "80")
    page.set_cost(EMPTY_COST)  # comes while the user is typing
    assert field.text() == "80"
    QTest.keyClick(field, Qt.Key.Key_Return)
    page.chart.setFocus()
    assert seen == [("power_watts", "80")]
    page.set_cost(COST)
    assert field.text() == "65"


def test_a_figure_that_was_not_taken_stays_with_the_reason_below_it(page: LabPage) -> None:
    field = page.cost.field("power_watts")
    field.setText("much")
    field.editingFinished.emit()
    wrong = [
        replace(each, error="It must be a number.") if each.key == "power_watts" else each
        for each in COST.fields
    ]
    page.set_cost(replace(COST, fields=tuple(wrong)))
    assert (field.text(), page.cost.error("power_watts")) == ("much", "It must be a number.")
    field.setText("65")
    field.editingFinished.emit()
    page.set_cost(COST)
    assert (field.text(), page.cost.error("power_watts")) == ("65", "")


def test_another_currency_stands_beside_the_fields_at_once(page: LabPage) -> None:
    fields = [replace(each, unit=each.unit.replace("$", "CHF")) for each in COST.fields]
    page.set_cost(replace(COST, fields=tuple(fields)))
    shown = {label.text() for label in page.cost.findChildren(Label)}
    assert {each.unit for each in fields} <= shown
    assert page.cost.field("electricity_price").accessibleName().endswith("CHF per kWh")


@pytest.mark.parametrize("width", [800, 1024, 1440])
def test_it_fits_every_width(qtbot: QtBot, window: MainWindow, page: LabPage, width: int) -> None:
    window.resize(width, 700)
    qtbot.waitUntil(lambda: page.table.width() <= page.width())
    assert page.bar.run.geometry().right() < page.width()
    assert page.scroll_bar.maximum() > 0


def test_f6_goes_between_page_and_sidebar(window: MainWindow, page: LabPage) -> None:
    page.chart.setFocus()
    QTest.keyClick(window, Qt.Key.Key_F6)
    focus = QApplication.focusWidget()
    assert focus is not None and window.body.sidebar.isAncestorOf(focus)
    QTest.keyClick(window, Qt.Key.Key_F6)
    focus = QApplication.focusWidget()
    assert focus is not None and page.isAncestorOf(focus)
