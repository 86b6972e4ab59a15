"""Buttons: keys, roles and names; the ring is for the keyboard only."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QAbstractButton, QApplication, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from tests.ui.test_palette import contrast
from ui import theme
from ui.controls import ROLES, Button, IconButton


def shown(qtbot: QtBot, *widgets: QWidget) -> QWidget:
    page = QWidget()
    column = QVBoxLayout(page)
    for widget in widgets:
        column.addWidget(widget)
    qtbot.addWidget(page)
    with qtbot.waitExposed(page):
        page.show()
    page.activateWindow()
    return page


def pixels(widget: QWidget) -> list[QColor]:
    image = widget.grab().toImage()
    return [image.pixelColor(x, y) for x in range(4, image.width() - 4) for y in range(4, image.height() - 4)]


@pytest.mark.parametrize("key", [Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space])
@pytest.mark.parametrize("make", [lambda: Button("Go"), lambda: IconButton("plus", "New chat (Ctrl+N)")])
def test_enter_and_space_press_a_button(
    qtbot: QtBot, key: Qt.Key, make: Callable[[], QAbstractButton]
) -> None:
    button = make()
    page = shown(qtbot, button)
    assert button.window() is page
    with qtbot.waitSignal(button.clicked):
        qtbot.keyClick(button, key)


def test_a_disabled_button_does_nothing(qtbot: QtBot) -> None:
    button = Button("Go")
    button.setEnabled(False)
    page = shown(qtbot, button)
    assert button.window() is page
    with qtbot.assertNotEmitted(button.clicked):
        qtbot.keyClick(button, Qt.Key.Key_Return)
        qtbot.mouseClick(button, Qt.MouseButton.LeftButton)


def test_the_ring_is_shown_to_the_keyboard_and_not_to_the_mouse(qtbot: QtBot) -> None:
    button = Button("Go")
    page = shown(qtbot, button)
    assert button.window() is page
    button.setFocus(Qt.FocusReason.MouseFocusReason)
    assert not button.has_ring
    button.clearFocus()
    button.setFocus(Qt.FocusReason.TabFocusReason)
    qtbot.waitUntil(button.hasFocus)
    assert button.has_ring


def test_an_icon_button_is_named_without_its_shortcut(qtbot: QtBot) -> None:
    button = IconButton("panel-right", "Close Tuning (Ctrl+T)")
    qtbot.addWidget(button)
    assert button.accessibleName() == "Close Tuning"
    assert button.toolTip() == "Close Tuning (Ctrl+T)"


def test_words_can_take_the_place_of_an_icon(qtbot: QtBot) -> None:
    button = IconButton("gauge", "Tuning (Ctrl+T)")
    qtbot.addWidget(button)
    before = button.sizeHint()
    button.set_words("142.1")
    assert button.sizeHint().width() > before.width()
    button.set_words("")
    assert button.sizeHint() == before


def test_an_unknown_role_is_refused(qapp: QApplication) -> None:
    with pytest.raises(ValueError, match="loud"):
        Button("Go", role="loud")


@pytest.mark.parametrize("choice", ["dark", "light"])
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("is_enabled", [True, False])
def test_a_button_can_be_read_in_both_themes(
    qtbot: QtBot, qapp: QApplication, choice: str, role: str, is_enabled: bool
) -> None:
    theme.apply(qapp, choice)
    button = Button("WWWWWW", None, role)
    button.setEnabled(is_enabled)
    page = shown(qtbot, button)
    assert button.window() is page
    seen = pixels(button)
    ground = max({pixel.name() for pixel in seen}, key=[pixel.name() for pixel in seen].count)
    assert max(contrast(pixel, QColor(ground)) for pixel in seen) >= 4.4  # edges of letters are blended


def test_words_always_fit_their_button(qtbot: QtBot) -> None:
    button = Button("Continue with 8k context", "check", "primary")
    qtbot.addWidget(button)
    before = button.sizeHint().width()
    button.set_detail("(reload 2 s)")
    assert button.sizeHint().width() > before
    assert button.minimumSizeHint() == button.sizeHint()


def test_progress_fills_the_button_from_the_left(qtbot: QtBot) -> None:
    button = Button("", None, "primary")
    qtbot.addWidget(button)
    button.resize(200, 32)
    button.setEnabled(False)
    button.set_progress(0.5)
    image = button.grab().toImage()
    assert image.pixelColor(30, 16) != image.pixelColor(170, 16)
    assert image.pixelColor(170, 16) == theme.palette().bg3
