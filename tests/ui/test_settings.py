"""The settings dialog: found by words, changed by keyboard, wrong values said beside their field."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit, QPlainTextEdit, QWidget
from pytestqt.qtbot import QtBot

from tests.ui.settings_states import AGAIN, GROUPS, IDLE, MOVING, PROMPT, TEXT_SIZE, THEME, THREADS
from ui.settings import SettingsDialog
from ui.settings_controls import Segments, Select
from ui.settings_values import SettingField, SettingGroup, SettingsView


@pytest.fixture
def dialog(qtbot: QtBot) -> SettingsDialog:
    made = SettingsDialog()
    qtbot.addWidget(made)
    made.set_view(SettingsView(GROUPS))
    made.show()
    qtbot.waitExposed(made)
    return made


def shown(dialog: SettingsDialog) -> list[str]:
    return [row.name for row in dialog.rows if row.isVisible()]


def line(dialog: SettingsDialog, name: str) -> QLineEdit:
    found = dialog.row(name).control.target
    assert isinstance(found, QLineEdit)
    return found


def set_field(dialog: SettingsDialog, field: SettingField) -> None:
    dialog.set_view(SettingsView((SettingGroup("Models and memory", "memory-stick", (field,)),)))


def test_it_opens_with_the_first_group_and_the_keyboard_in_the_search(dialog: SettingsDialog) -> None:
    assert shown(dialog) == [THEME.name, TEXT_SIZE.name]
    assert dialog.focusWidget() is dialog.search.line


def test_a_search_goes_over_all_groups(dialog: SettingsDialog, qtbot: QtBot) -> None:
    qtbot.keyClicks(dialog.search.line, "LOADS again")
    assert shown(dialog) == [IDLE.name]
    qtbot.keyClick(dialog.search.line, Qt.Key.Key_Escape)
    assert shown(dialog) == [THEME.name, TEXT_SIZE.name] and dialog.isVisible()
    qtbot.keyClicks(dialog.search.line, "xyzzy")
    assert shown(dialog) == []


def test_a_setting_can_be_found_by_its_name_and_its_choices(dialog: SettingsDialog, qtbot: QtBot) -> None:
    qtbot.keyClicks(dialog.search.line, "unload_after")
    assert shown(dialog) == [IDLE.name]
    dialog.search.set_text("150")
    assert shown(dialog) == [TEXT_SIZE.name]


def test_a_line_is_taken_with_enter_and_once(dialog: SettingsDialog, qtbot: QtBot) -> None:
    dialog.reveal(THREADS.name)
    told: list[tuple[str, str]] = []
    dialog.changed.connect(lambda name, text: told.append((name, text)))
    field = line(dialog, THREADS.name)
    field.selectAll()
    qtbot.keyClicks(field, "8")
    qtbot.keyClick(field, Qt.Key.Key_Return)
    set_field(dialog, replace(THREADS, value="8"))
    dialog.search.line.setFocus()
    assert told == [(THREADS.name, "8")] and dialog.isVisible()


def test_escape_takes_back_what_was_typed_before_it_closes(dialog: SettingsDialog, qtbot: QtBot) -> None:
    dialog.reveal(THREADS.name)
    field = line(dialog, THREADS.name)
    qtbot.keyClicks(field, "99")
    qtbot.keyClick(field, Qt.Key.Key_Escape)
    assert field.text() == THREADS.value and dialog.isVisible()
    qtbot.keyClick(field, Qt.Key.Key_Escape)
    assert not dialog.isVisible()


def test_what_was_not_taken_stays_with_its_error_beside_it(dialog: SettingsDialog, qtbot: QtBot) -> None:
    dialog.reveal(THREADS.name)
    field = line(dialog, THREADS.name)
    field.selectAll()
    qtbot.keyClicks(field, "many")
    qtbot.keyClick(field, Qt.Key.Key_Return)
    set_field(dialog, replace(THREADS, error="many cannot be used."))
    row = dialog.row(THREADS.name)
    assert (field.text(), row.error) == ("many", "many cannot be used.")
    assert field.accessibleDescription() == row.error
    set_field(dialog, replace(THREADS, value="2"))
    assert row.error == ""


def test_an_error_is_gone_when_the_old_value_is_typed_again(dialog: SettingsDialog, qtbot: QtBot) -> None:
    dialog.reveal(THREADS.name)
    field = line(dialog, THREADS.name)
    field.setText("many")
    qtbot.keyClick(field, Qt.Key.Key_Return)
    set_field(dialog, replace(THREADS, error="many cannot be used."))
    field.setText(THREADS.value)
    with qtbot.waitSignal(dialog.changed) as told:
        qtbot.keyClick(field, Qt.Key.Key_Return)
    assert told.args == [THREADS.name, THREADS.value]
    set_field(dialog, THREADS)
    assert dialog.row(THREADS.name).error == "" and field.text() == THREADS.value


def test_a_longer_text_is_taken_when_the_keyboard_goes(dialog: SettingsDialog, qtbot: QtBot) -> None:
    dialog.reveal(PROMPT.name)
    field = dialog.row(PROMPT.name).control.target
    assert isinstance(field, QPlainTextEdit)
    field.setPlainText("one\ntwo")
    with qtbot.waitSignal(dialog.changed) as told:
        dialog.search.line.setFocus()
    assert told.args == [PROMPT.name, "one\ntwo"]


def test_few_choices_stand_side_by_side_and_more_in_a_list(dialog: SettingsDialog, qtbot: QtBot) -> None:
    assert isinstance(dialog.row(THEME.name).control, Segments)
    select = dialog.row(TEXT_SIZE.name).control.target
    assert isinstance(select, Select) and select.currentData() == "125"
    with qtbot.waitSignal(dialog.changed) as told:
        qtbot.keyClick(select, Qt.Key.Key_Down)
    assert told.args == [TEXT_SIZE.name, "150"]
    with qtbot.waitSignal(dialog.changed) as told:
        qtbot.keyClick(dialog.row(THEME.name).control.target, Qt.Key.Key_Right)
    assert told.args == [THEME.name, "light"]


def test_tab_reaches_every_control_that_is_shown(dialog: SettingsDialog, qtbot: QtBot) -> None:
    dialog.reveal(THREADS.name)
    wanted = {row.control.target for row in dialog.rows if row.isVisible()}
    reached: set[QWidget | None] = set()
    for _ in range(40):
        qtbot.keyClick(dialog.focusWidget(), Qt.Key.Key_Tab)
        reached.add(dialog.focusWidget())
    assert wanted <= reached


def test_nothing_changes_and_nothing_closes_while_a_folder_is_moved(
    dialog: SettingsDialog, qtbot: QtBot
) -> None:
    dialog.set_view(SettingsView(GROUPS, MOVING))
    assert not any(row.control.target.isEnabled() for row in dialog.rows)
    dialog.reject()
    dialog.close()
    assert dialog.isVisible()
    with qtbot.waitSignal(dialog.pressed) as told:
        qtbot.mouseClick(dialog.foot.button, Qt.MouseButton.LeftButton)
    assert told.args == [MOVING.key]
    dialog.set_view(SettingsView(GROUPS))
    dialog.reject()
    assert not dialog.isVisible()


def test_the_foot_says_what_counts_later_and_offers_it(dialog: SettingsDialog, qtbot: QtBot) -> None:
    assert not dialog.foot.isVisible()
    dialog.set_view(SettingsView(GROUPS, AGAIN))
    assert dialog.foot.words.text() == AGAIN.words
    with qtbot.waitSignal(dialog.pressed) as told:
        qtbot.keyClick(dialog.foot.button, Qt.Key.Key_Return)
    assert told.args == [AGAIN.key]
