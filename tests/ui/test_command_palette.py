"""Commands: declared once, given by their keys or found by their words."""

from __future__ import annotations

from collections import Counter

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QKeySequence, QShortcut
from pytestqt.qtbot import QtBot

from ui.command_palette import CommandPalette, found
from ui.commands import CHAT, GROUPS, VIEW, Command, give
from ui.gauge_values import SpeedView, WhyView
from ui.main_window import MainWindow
from ui.shortcut_sheet import ShortcutSheet, sections


@pytest.fixture
def window(qtbot: QtBot) -> MainWindow:
    made = MainWindow()
    qtbot.addWidget(made)
    made.resize(1280, 900)
    made.show()
    return made


def test_every_key_of_the_window_is_declared_in_the_table_and_once(window: MainWindow) -> None:
    keys = Counter(QKeySequence(each.keys).toString() for each in window.commands if each.keys)
    assert max(keys.values()) == 1
    made = {each.key().toString() for each in window.findChildren(QShortcut) if each.parent() is window}
    assert made == set(keys)


def test_commands_are_grouped_and_named_once(window: MainWindow) -> None:
    named = [each for each in window.commands if each.is_named]
    assert {each.group for each in window.commands} == set(GROUPS)
    assert len({each.name for each in named}) == len(named)
    for command in window.commands:
        assert isinstance(command.is_enabled(), bool)  # can be asked at any time


def test_what_cannot_be_done_now_is_not_done() -> None:
    done: list[int] = []
    command = Command("x", CHAT, lambda: done.append(1), is_enabled=lambda: bool(done))
    assert not give(command)
    done.append(0)
    assert give(command)
    assert done == [0, 1]


def test_commands_are_found_by_words_of_name_and_group() -> None:
    commands = (
        Command("Export the chat", CHAT, print),
        Command("Chat export off", CHAT, print, is_enabled=lambda: False),
        Command("Hide the sidebar", VIEW, print),
        Command("Silent", VIEW, print, is_named=False),
    )
    assert [each.name for each in found(commands, "EXP chat")] == ["Export the chat", "Chat export off"]
    assert [each.name for each in found(commands, "view")] == ["Hide the sidebar"]
    assert [each.name for each in found(commands, "hide")] == ["Hide the sidebar"]
    assert found(commands, "nothing") == []
    assert "Silent" not in [each.name for each in found(commands, "")]


def test_the_palette_is_used_by_keys_alone(window: MainWindow, qtbot: QtBot) -> None:
    palette, line = window.palette_popup, window.palette_popup.field.line
    window.open_palette()
    assert palette.isVisible()
    assert line.hasFocus()
    qtbot.keyClicks(line, "new chat")
    with qtbot.waitSignal(window.new_chat_requested):
        qtbot.keyClick(line, Qt.Key.Key_Return)
    assert not palette.isVisible()


def test_up_and_down_go_round_and_esc_gives_the_keyboard_back(window: MainWindow, qtbot: QtBot) -> None:
    window.focus_composer()
    palette = window.palette_popup
    window.open_palette()
    count = palette.list.model().rowCount()
    qtbot.keyClick(palette.field.line, Qt.Key.Key_Up)
    assert palette.list.currentIndex().row() == count - 1
    qtbot.keyClick(palette.field.line, Qt.Key.Key_Down)
    assert palette.list.currentIndex().row() == 0
    qtbot.keyClicks(palette.field.line, "zzzz")
    assert palette.list.isHidden() and not palette._none.isHidden()
    qtbot.keyClick(palette.field.line, Qt.Key.Key_Return)  # there is nothing to give
    assert palette.isVisible()
    qtbot.keyClick(palette.field.line, Qt.Key.Key_Escape)
    assert not palette.isVisible()
    assert window.body.centre.composer._edit.hasFocus()


def test_a_click_gives_a_command_and_one_beside_leaves(window: MainWindow, qtbot: QtBot) -> None:
    palette: CommandPalette = window.palette_popup
    window.open_palette()
    qtbot.keyClicks(palette.field.line, "new temporary")
    place = palette.list.visualRect(palette.list.model().index(0, 0)).center()
    with qtbot.waitSignal(palette.given):
        qtbot.mouseClick(palette.list.viewport(), Qt.MouseButton.LeftButton, pos=place)
    window.open_palette()
    qtbot.mouseClick(palette, Qt.MouseButton.LeftButton, pos=QPoint(5, 500))
    assert not palette.isVisible()


def test_the_sheet_lists_every_shortcut(window: MainWindow, qtbot: QtBot) -> None:
    listed = dict(line[::-1] for _, lines in sections(window.commands) for line in lines)
    for command in window.commands:
        if command.keys:
            assert command.name in listed
    assert " or " in listed["Keyboard shortcuts"]
    window.show_shortcuts()
    (sheet,) = window.findChildren(ShortcutSheet)
    qtbot.keyClick(sheet, Qt.Key.Key_F1)
    assert not sheet.isVisible()


def test_the_page_about_the_speed_is_a_command(window: MainWindow, qtbot: QtBot) -> None:
    command = next(each for each in window.commands if each.name == "Why this speed")
    assert not give(command)  # there is nothing to tell yet
    window.set_speed(SpeedView(why=WhyView("Memory-bound", can_explain=True)))
    window.show_library()
    with qtbot.waitSignal(window.explaining.requested):
        assert give(command)
    assert not window.body.page  # it stands in the place of the transcript
