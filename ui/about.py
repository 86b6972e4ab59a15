"""The About dialog: versions and the licences of what is shipped. Imports none of the libraries it names."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files

from PySide6.QtCore import Qt, qVersion
from PySide6.QtWidgets import (
    QDialog,
    QGridLayout,
    QHBoxLayout,
    QPlainTextEdit,
    QVBoxLayout,
    QWidget,
)

from ui import theme
from ui.controls import Button
from ui.label import Label

_PACKAGES = (("PyTorch", "torch"), ("PySide6", "PySide6-Essentials"), ("Tokenizers", "tokenizers"))


def read_versions() -> tuple[tuple[str, str], ...]:
    """Names and versions of the program and what it stands on; what is not installed is left out."""
    rows = [("Decodeck", _version("decodeck") or "from source"), ("Python", platform.python_version())]
    rows.append(("Qt", str(qVersion())))
    rows += [(label, found) for label, name in _PACKAGES if (found := _version(name))]
    return tuple(rows)


def read_licences() -> tuple[tuple[str, str], ...]:
    """Name and text of every licence in the assets, by name."""
    folder = files("assets").joinpath("licences")
    found = [entry for entry in folder.iterdir() if entry.name.endswith(".txt")] if folder.is_dir() else []
    pairs = [(entry.name.removesuffix(".txt"), entry.read_text("utf-8")) for entry in found]
    return tuple(sorted(pairs))


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


class AboutDialog(QDialog):
    """Versions above, licence texts below."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("About Decodeck")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(560, 520)
        column = QVBoxLayout(self)
        column.setContentsMargins(24, 20, 24, 20)
        column.setSpacing(12)
        column.addWidget(Label("Decodeck", "title-l"))
        text = "Chat with models on this computer. Licensed under Apache-2.0."
        column.addWidget(Label(text, "ui", "text2", 400, wrap=True))
        column.addLayout(self._make_versions())
        column.addSpacing(4)
        column.addWidget(Label("Licences of fonts and icons", "ui", "text1", 600))
        column.addWidget(self._make_licences(), 1)
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

    def _make_licences(self) -> QPlainTextEdit:
        view = QPlainTextEdit()
        view.setReadOnly(True)
        view.setTabChangesFocus(True)
        view.setAccessibleName("Licences")
        view.setFont(theme.font("small"))
        colors = theme.palette()
        view.setStyleSheet(
            f"QPlainTextEdit {{ background: {colors.bg0.name()}; color: {colors.text2.name()};"
            f" border: 1px solid {colors.border.name()}; border-radius: 6px; padding: 6px; }}"
        )
        view.setPlainText("\n\n\n".join(f"{name}\n\n{text.strip()}" for name, text in read_licences()))
        return view

    def _make_buttons(self) -> QHBoxLayout:
        row = QHBoxLayout()
        row.addStretch(1)
        close = Button("Close", None, "secondary")
        close.clicked.connect(self.close)
        row.addWidget(close)
        return row
