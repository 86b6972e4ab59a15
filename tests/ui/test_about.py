"""The About dialog: versions without importing what they name, and every shipped licence."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from pytestqt.qtbot import QtBot

from ui.about import AboutDialog, licence_names, read_licence, read_versions

ROOT = Path(__file__).resolve().parents[2]


def test_versions_name_the_program_and_do_not_import_the_libraries() -> None:
    had_torch = "torch" in sys.modules
    assert {"Decodeck", "Python", "Qt"} <= {name for name, _ in read_versions()}
    assert ("torch" in sys.modules) is had_torch


def test_every_shipped_font_and_icon_set_has_its_licence() -> None:
    names = " ".join(licence_names())
    assert all(part in names for part in ("Inter", "JetBrains", "Lucide"))


def test_every_library_that_the_program_needs_has_its_licence() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {re.sub(r"[-_.]+", "-", Requirement(line).name).lower() for line in project["dependencies"]}
    assert {f"python-{name}" for name in needed} <= set(licence_names())


def test_every_licence_is_shown_in_full(qtbot: QtBot) -> None:
    dialog = AboutDialog()
    qtbot.addWidget(dialog)
    listed = [dialog.licences.itemData(row) for row in range(dialog.licences.count())]
    assert tuple(listed) == licence_names()
    for row, name in enumerate(listed):
        dialog.licences.setCurrentIndex(row)
        assert dialog.text.toPlainText() == read_licence(name).strip()
        assert len(read_licence(name)) > 400
