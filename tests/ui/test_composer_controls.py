"""Files dropped on the window or chosen in a dialog, and the popovers of the composer."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from ui.main_window import MainWindow
from ui.window_view import LAB


@pytest.fixture
def window(qtbot: QtBot) -> MainWindow:
    made = MainWindow()
    qtbot.addWidget(made)
    made.resize(1280, 900)
    made.show()
    return made


def test_dropped_texts_go_to_the_message_also_from_another_page(window: MainWindow, qtbot: QtBot) -> None:
    window.toggle_lab()
    assert window.body.page == LAB
    with qtbot.waitSignal(window.composing.attach_requested) as caught:
        window.drop.texts_dropped.emit(["/a.txt", "/b.md"])
    assert caught.args == [["/a.txt", "/b.md"]]
    assert window.body.page == ""


def test_the_dialog_takes_several_files(window: MainWindow, qtbot: QtBot) -> None:
    window.composing.choose_files()
    (dialog,) = window.findChildren(QFileDialog)
    assert dialog.fileMode() == QFileDialog.FileMode.ExistingFiles
    with qtbot.waitSignal(window.composing.attach_requested) as caught:
        dialog.filesSelected.emit(["/a.txt"])
    assert caught.args == [["/a.txt"]]
    dialog.close()


def test_the_popover_opens_at_its_button_and_closes_with_the_same_key(window: MainWindow) -> None:
    window.composing.open_presets()
    popover = window.composing.popover
    assert popover.isVisible()
    assert popover.panel.geometry().right() <= window.width()
    assert popover.panel.geometry().bottom() <= window.height()
    window.composing.open_presets()
    assert not popover.isVisible()
    assert window.body.centre.composer._edit.hasFocus()
