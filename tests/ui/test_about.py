"""The About dialog: versions without importing what they name, and every shipped licence."""

from __future__ import annotations

import sys

from PySide6.QtWidgets import QPlainTextEdit
from pytestqt.qtbot import QtBot

from ui.about import AboutDialog, read_licences, read_versions


def test_versions_name_the_program_and_do_not_import_the_libraries() -> None:
    had_torch = "torch" in sys.modules
    assert {"Decodeck", "Python", "Qt"} <= {name for name, _ in read_versions()}
    assert ("torch" in sys.modules) is had_torch


def test_every_shipped_font_and_icon_set_has_its_licence() -> None:
    names = " ".join(name for name, _ in read_licences())
    assert all(part in names for part in ("Inter", "JetBrains", "Lucide"))


def test_every_licence_is_shown_in_full(qtbot: QtBot) -> None:
    dialog = AboutDialog()
    qtbot.addWidget(dialog)
    shown = dialog.findChild(QPlainTextEdit)
    assert isinstance(shown, QPlainTextEdit)
    for _, licence in read_licences():
        assert licence.strip() in shown.toPlainText()
