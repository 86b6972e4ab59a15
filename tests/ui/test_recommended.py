"""The button for what is recommended: Alt+R, a reason, and a menu of what to prefer."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from ui.recommended import PREFERENCES, Recommended

WHY = "The most exact weights that fit."


@pytest.fixture
def button(qtbot: QtBot) -> Recommended:
    widget = Recommended()
    qtbot.addWidget(widget)
    widget.set_view("quality", WHY)
    with qtbot.waitExposed(widget):
        widget.show()
    widget.activateWindow()
    return widget


def test_it_is_pressed_by_pointer_and_by_alt_r(qtbot: QtBot, button: Recommended) -> None:
    told: list[bool] = []
    button.clicked.connect(lambda: told.append(True))
    qtbot.mouseClick(button.button, Qt.MouseButton.LeftButton)
    qtbot.keyClick(button.window(), Qt.Key.Key_R, Qt.KeyboardModifier.AltModifier)
    assert len(told) == 2
    assert button.button.accessibleName() == "Use recommended settings"
    assert WHY in button.button.toolTip()


def test_pressed_where_all_is_set_it_says_so_until_something_else_is_chosen(
    qtbot: QtBot, button: Recommended
) -> None:
    width = button.sizeHint().width()
    qtbot.mouseClick(button.button, Qt.MouseButton.LeftButton)
    assert button.button.text() == "Recommended"
    button.set_view("quality", WHY, is_set=True)
    assert button.button.text() == "Recommended"  # it was not asked
    with qtbot.waitSignal(button.clicked):
        qtbot.mouseClick(button.button, Qt.MouseButton.LeftButton)
    button.set_view("quality", WHY, is_set=True)
    assert (button.button.text(), button.sizeHint().width()) == ("Already set", width)
    button.set_view("quality", WHY)
    assert button.button.text() == "Recommended"


def test_without_a_reason_there_is_nothing_to_recommend(qtbot: QtBot, button: Recommended) -> None:
    button.set_view("quality", "")
    with qtbot.assertNotEmitted(button.clicked):
        qtbot.mouseClick(button.button, Qt.MouseButton.LeftButton)
        qtbot.keyClick(button.window(), Qt.Key.Key_R, Qt.KeyboardModifier.AltModifier)
    assert button.chooser.isEnabled()


@pytest.mark.parametrize("preference", list(PREFERENCES))
def test_the_menu_shows_and_changes_what_is_preferred(
    qtbot: QtBot, button: Recommended, preference: str
) -> None:
    button.set_view(preference, WHY)
    checked = [action.text() for action in button.menu.actions() if action.isChecked()]
    assert checked == [PREFERENCES[preference]]
    assert PREFERENCES[preference] in button.chooser.accessibleName()
    action = next(each for each in button.menu.actions() if each.data() == preference)
    with qtbot.waitSignal(button.preference_chosen) as told:
        action.trigger()
    assert told.args == [preference]


def test_the_menu_opens_from_its_part(qtbot: QtBot, button: Recommended) -> None:
    qtbot.mouseClick(button.chooser, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(button.menu.isVisible)
    button.menu.close()
