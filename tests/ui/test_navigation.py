"""The rows that open pages: which is marked, what they say, and that a page takes the chat's place."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from ui.main_window import MainWindow
from ui.navigation import Navigation, PageRow
from ui.window_view import LAB, LIBRARY


@pytest.fixture
def navigation(qtbot: QtBot) -> Navigation:
    navigation = Navigation()
    qtbot.addWidget(navigation)
    navigation.resize(216, 100)
    navigation.add_page("a", "library", "First", "Ctrl+1")
    navigation.add_page("b", "cpu", "Second")
    navigation.show()
    return navigation


def test_a_row_carries_its_key_and_marks_nothing_by_itself(navigation: Navigation, qtbot: QtBot) -> None:
    with qtbot.waitSignal(navigation.page_clicked) as clicked:
        qtbot.keyClick(navigation.row("b"), Qt.Key.Key_Return)
    assert clicked.args == ["b"] and not navigation.row("b").isChecked()
    navigation.set_current("b")
    assert navigation.row("b").isChecked() and not navigation.row("a").isChecked()


def test_a_note_is_said_too(navigation: Navigation) -> None:
    navigation.set_note("a", "4 models")
    row = navigation.row("a")
    assert isinstance(row, PageRow) and row.note == "4 models"
    assert row.accessibleDescription() == "4 models" and "Ctrl+1" in row.toolTip()
    navigation.grab()


@pytest.fixture
def window(qtbot: QtBot) -> MainWindow:
    window = MainWindow()
    qtbot.addWidget(window)
    window.resize(1440, 900)
    window.show()
    return window


def test_a_page_takes_the_place_of_the_chat_and_gives_it_back(window: MainWindow, qtbot: QtBot) -> None:
    body = window.body
    window.show_library()
    assert window.library.isVisible() and not body.centre.isVisible() and not body.tuning.isVisible()
    assert body.sidebar.navigation.row(LIBRARY).isChecked()
    body.show_page(LAB)
    assert window.lab.isVisible() and not window.library.isVisible()
    qtbot.keyClick(window, Qt.Key.Key_Escape)
    assert body.centre.isVisible() and body.tuning.isVisible() and body.page == ""


def test_a_new_chat_and_the_same_row_again_bring_the_chat_back(window: MainWindow) -> None:
    body = window.body
    for leave in (body.sidebar.new_chat_clicked.emit, lambda: body.sidebar.page_clicked.emit(LIBRARY)):
        window.show_library()
        leave()
        assert body.page == "" and body.centre.isVisible()


def test_the_picker_leads_to_the_library(window: MainWindow) -> None:
    window.open_picker()
    window.picker.library_requested.emit()
    assert window.body.page == LIBRARY and window.picker.isHidden()


def test_the_rail_has_the_pages_as_icons(window: MainWindow) -> None:
    window.resize(1024, 700)
    row = window.body.sidebar.rail_navigation.row(LIBRARY)
    assert row.isVisible() and row.accessibleName() == "Model library"
    row.click()
    assert window.body.page == LIBRARY
