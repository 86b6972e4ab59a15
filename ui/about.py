"""The About dialog: versions and the licences of what is shipped. Imports none of the libraries it names."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files

from PySide6.QtCore import QSize, Qt, qVersion
from PySide6.QtWidgets import (
    QDialog,
    QGridLayout,
    QHBoxLayout,
    QPlainTextEdit,
    QVBoxLayout,
    QWidget,
)

from engine.words import tr
from ui import theme
from ui.controls import Button
from ui.label import Label
from ui.settings_controls import Select

_SIZE = QSize(560, 520)
# How files begin that packaging/licences.py makes, and those of a built folder for what is the system's.
_COLLECTED = ("python", "standard", "system")
_PACKAGES = (("PyTorch", "torch"), ("PySide6", "PySide6-Essentials"), ("Tokenizers", "tokenizers"))


def read_versions() -> tuple[tuple[str, str], ...]:
    """Names and versions of the program and what it stands on; what is not installed is left out."""
    rows = [("Decodeck", _version("decodeck") or tr("from source")), ("Python", platform.python_version())]
    rows.append(("Qt", str(qVersion())))
    rows += [(label, found) for label, name in _PACKAGES if (found := _version(name))]
    return tuple(rows)


def licence_names() -> tuple[str, ...]:
    """What there is a licence of: fonts and icons first, then libraries, then the standard texts."""
    folder = files("assets").joinpath("licences")
    found = [entry.name.removesuffix(".txt") for entry in folder.iterdir() if entry.name.endswith(".txt")]
    return tuple(sorted(found, key=lambda name: (name.split("-")[0] in _COLLECTED, name.casefold())))


def read_licence(name: str) -> str:
    """The text of a licence, one of ``licence_names``."""
    return files("assets").joinpath("licences", f"{name}.txt").read_text("utf-8")


def licence_label(name: str) -> str:
    """What a licence is listed as."""
    kind, _, rest = name.partition("-")
    if kind == "standard":
        return tr("{name} (text of the licence)").format(name=rest)
    return rest if kind in _COLLECTED else name


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


class AboutDialog(QDialog):
    """Versions above, below them the licence that is chosen."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("About Decodeck"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(_SIZE if parent is None else _SIZE.boundedTo(parent.window().size()))
        column = QVBoxLayout(self)
        column.setContentsMargins(24, 20, 24, 20)
        column.setSpacing(12)
        column.addWidget(Label("Decodeck", "title-l"))
        text = tr("Chat with models on this computer. Licensed under Apache-2.0.")
        column.addWidget(Label(text, "ui", "text2", 400, wrap=True))
        column.addLayout(self._make_versions())
        column.addSpacing(4)
        column.addWidget(Label(tr("Licences of what it stands on"), "ui", "text1", 600))
        self.licences = Select(tr("Licence of"))
        for name in licence_names():
            self.licences.addItem(licence_label(name), name)
        self.text = self._make_text()
        self.licences.currentIndexChanged.connect(self._show_licence)
        column.addWidget(self.licences)
        column.addWidget(self.text, 1)
        self._show_licence()
        column.addLayout(self._make_buttons())

    def _make_versions(self) -> QGridLayout:
        grid = QGridLayout()
        grid.setHorizontalSpacing(16)
        grid.setVerticalSpacing(2)
        for row, (name, number) in enumerate(read_versions()):
            grid.addWidget(Label(name, "ui", "text3"), row, 0)
            grid.addWidget(Label(number, "ui", "text1"), row, 1)
        grid.setColumnStretch(1, 1)
        return grid

    def _make_text(self) -> QPlainTextEdit:
        view = QPlainTextEdit()
        view.setReadOnly(True)
        view.setTabChangesFocus(True)
        view.setAccessibleName(tr("Text of the licence"))
        view.setFont(theme.font("small"))
        colors = theme.palette()
        view.setStyleSheet(
            f"QPlainTextEdit {{ background: {colors.bg0.name()}; color: {colors.text2.name()};"
            f" border: 1px solid {colors.border.name()}; border-radius: 6px; padding: 6px; }}"
        )
        return view

    def _show_licence(self) -> None:
        self.text.setPlainText(read_licence(self.licences.currentData()).strip())

    def _make_buttons(self) -> QHBoxLayout:
        row = QHBoxLayout()
        row.addStretch(1)
        close = Button(tr("Close"), None, "secondary")
        close.clicked.connect(self.close)
        row.addWidget(close)
        return row
