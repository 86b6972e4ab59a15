"""The search of chats: its field never waits, what was found stands in the list's place."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from ui.chat_list_model import ROW_ROLE
from ui.chat_values import ChatRow, SearchHit, SearchView
from ui.main_window import MainWindow
from ui.search_results import _lines

HITS = (
    SearchHit("a", "Whales", "m1", "… they eat krill and", (), ((11, 16),), 2),
    SearchHit("b", "Krill", "", "", ((0, 5),), (), 0),
)


@pytest.fixture
def window(qtbot: QtBot) -> MainWindow:
    made = MainWindow()
    qtbot.addWidget(made)
    made.resize(1400, 800)
    made.show()
    made.activateWindow()
    made.set_chats([ChatRow("a", "Whales"), ChatRow("b", "Krill")], "a")
    return made


def test_the_key_leads_to_the_field_and_typing_asks(window: MainWindow, qtbot: QtBot) -> None:
    qtbot.keyClick(window, Qt.Key.Key_K, Qt.KeyboardModifier.ControlModifier)
    field = window.body.sidebar.search.field
    assert field.hasFocus()
    asked: list[str] = []
    window.chats.search_changed.connect(asked.append)
    qtbot.keyClicks(field, "kr")
    assert asked == ["k", "kr"]


def test_the_key_opens_a_closed_sidebar(window: MainWindow, qtbot: QtBot) -> None:
    window.body.toggle_sidebar()
    assert window.body.sidebar.is_rail
    qtbot.keyClick(window, Qt.Key.Key_K, Qt.KeyboardModifier.ControlModifier)
    assert not window.body.sidebar.is_rail
    assert window.body.sidebar.search.field.hasFocus()


def test_what_was_found_stands_in_the_lists_place(window: MainWindow) -> None:
    sidebar = window.body.sidebar
    window.chats.set_search(SearchView("krill", HITS))
    assert sidebar.search.results.isVisible()
    assert not sidebar.list.isVisible()
    window.chats.set_search(SearchView("zeppelin"))
    assert sidebar.search._none.text() == 'No chat contains "zeppelin".'
    assert not sidebar.search.results.isVisible()
    window.chats.set_search(None)
    assert sidebar.list.isVisible()
    assert not sidebar.search.isVisible()


def test_keys_go_through_what_was_found_and_open_it(window: MainWindow, qtbot: QtBot) -> None:
    search = window.body.sidebar.search
    search.field.setFocus()
    search.field.setText("krill")
    window.chats.set_search(SearchView("krill", HITS))
    with qtbot.waitSignal(window.chats.hit_chosen) as chosen:
        qtbot.keyClick(search.field, Qt.Key.Key_Return)
    assert chosen.args == ["a", "m1"]
    qtbot.keyClick(search.field, Qt.Key.Key_Down)
    assert search.results.hasFocus()
    qtbot.keyClick(search.results, Qt.Key.Key_Down)
    with qtbot.waitSignal(window.chats.hit_chosen) as chosen:
        qtbot.keyClick(search.results, Qt.Key.Key_Return)
    assert chosen.args == ["b", ""]
    qtbot.keyClick(search.results, Qt.Key.Key_Up)
    qtbot.keyClick(search.results, Qt.Key.Key_Up)
    assert search.field.hasFocus()


def test_escape_clears_the_field_then_leaves_it(window: MainWindow, qtbot: QtBot) -> None:
    field = window.body.sidebar.search.field
    field.setFocus()
    field.setText("krill")
    with qtbot.waitSignal(window.chats.search_changed) as asked:
        qtbot.keyClick(field, Qt.Key.Key_Escape)
    assert asked.args == [""]
    qtbot.keyClick(field, Qt.Key.Key_Escape)
    assert not field.hasFocus()


def test_a_click_opens_what_was_found(window: MainWindow, qtbot: QtBot) -> None:
    window.chats.set_search(SearchView("krill", HITS))
    results = window.body.sidebar.search.results
    at = results.visualRect(results.found.index(1)).center()
    with qtbot.waitSignal(window.chats.hit_chosen) as chosen:
        qtbot.mouseClick(results.viewport(), Qt.MouseButton.LeftButton, pos=at)
    assert chosen.args == ["b", ""]


def test_what_was_found_is_spoken_with_its_count(window: MainWindow) -> None:
    window.chats.set_search(SearchView("krill", HITS))
    model = window.body.sidebar.search.results.found
    spoken = [model.data(model.index(row), Qt.ItemDataRole.AccessibleTextRole) for row in range(2)]
    assert spoken == ["Whales, 2 messages, … they eat krill and", "Krill"]
    assert model.data(model.index(0), ROW_ROLE) == HITS[0]


@pytest.mark.parametrize("width", [40, 120, 192])
def test_a_snippet_takes_two_lines_and_its_marks_go_with_their_words(window: MainWindow, width: int) -> None:
    text = "one two three four five six seven eight nine ten eleven twelve"
    marks = tuple((text.index(word), text.index(word) + len(word)) for word in ("two", "six", "twelve"))
    lines = _lines(SearchHit("a", "T", "m", text, (), marks), width)
    assert 1 <= len(lines) <= 2
    marked = [line[start:end] for line, places in lines for start, end in places]
    assert marked or width < 192  # a narrow one ends before the first
    assert all("two six twelve".find(word.rstrip("…")) >= 0 for word in marked)
