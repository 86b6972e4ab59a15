"""Every dialog for files and names: it opens, and what is chosen in it leaves as the window's own signal."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import SignalInstance
from PySide6.QtWidgets import QFileDialog, QInputDialog
from pytestqt.qtbot import QtBot

from ui.main_window import MainWindow
from ui.settings_controls import FolderControl

PATH = "/a/b.json"
# what opens the dialog, the signal that carries the choice, and what it carries
Case = tuple[Callable[[MainWindow], object], Callable[[MainWindow], SignalInstance], list[object]]
FILE_DIALOGS: dict[str, Case] = {
    "model file": (lambda w: w.choose_file(), lambda w: w.model_chosen, [PATH]),
    "model folder": (lambda w: w.choose_folder(), lambda w: w.model_chosen, [PATH]),
    "folder of models": (
        lambda w: w.library.add_folder.clicked.emit(),
        lambda w: w.library.folder_chosen,
        [PATH],
    ),
    "a chat out": (
        lambda w: w.chats.choose_export("", "md"),
        lambda w: w.chats.export_requested,
        ["", "md", PATH],
    ),
    "chats in": (lambda w: w.chats.choose_import(), lambda w: w.chats.import_requested, [[PATH]]),
    "preset in": (
        lambda w: w.composing.choose_preset_import(),
        lambda w: w.composing.presets_imported,
        [PATH],
    ),
    "preset out": (
        lambda w: w.composing.choose_preset_export(),
        lambda w: w.composing.preset_exported,
        [PATH],
    ),
    "attached": (lambda w: w.composing.choose_files(), lambda w: w.composing.attach_requested, [[PATH]]),
    "chart": (lambda w: w.lab.ask_path("png"), lambda w: w.lab.export_wanted, ["png", PATH]),
    "table": (lambda w: w.lab.ask_path("csv"), lambda w: w.lab.export_wanted, ["csv", PATH]),
}


@pytest.fixture
def window(qtbot: QtBot) -> MainWindow:
    made = MainWindow()
    qtbot.addWidget(made)
    made.resize(1280, 900)
    made.show()
    return made


@pytest.mark.parametrize("name", FILE_DIALOGS)
def test_what_is_chosen_leaves_as_a_signal(window: MainWindow, qtbot: QtBot, name: str) -> None:
    ask, signal, carried = FILE_DIALOGS[name]
    ask(window)
    [dialog] = window.findChildren(QFileDialog)
    with qtbot.waitSignal(signal(window)) as caught:
        if dialog.fileMode() == QFileDialog.FileMode.ExistingFiles:
            dialog.filesSelected.emit([PATH])
        else:
            dialog.fileSelected.emit(PATH)
    assert caught.args == carried
    dialog.close()


def test_another_place_for_a_folder_leaves_as_a_change(qtbot: QtBot) -> None:
    control = FolderControl("Chats")
    qtbot.addWidget(control)
    control.ask()
    [dialog] = control.findChildren(QFileDialog)
    with qtbot.waitSignal(control.changed) as caught:
        dialog.fileSelected.emit(PATH)
    assert caught.args == [PATH]
    dialog.close()


def test_the_name_of_a_preset_is_asked_for_below_a_whole_title(window: MainWindow, qtbot: QtBot) -> None:
    window.composing.choose_preset_name()
    [dialog] = window.findChildren(QInputDialog)
    title = dialog.fontMetrics().horizontalAdvance(dialog.windowTitle())
    assert dialog.width() >= title + 200  # the system's buttons stand beside it
    with qtbot.waitSignal(window.composing.preset_saved) as caught:
        dialog.textValueSelected.emit("Terse")
    assert caught.args == ["Terse"]
    dialog.close()
