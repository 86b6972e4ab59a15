"""The list of keyboard shortcuts, made from the table of commands."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QDialog, QFrame, QGridLayout, QHBoxLayout, QScrollArea, QVBoxLayout, QWidget

from engine.words import mark, tr
from ui import theme
from ui.commands import GROUPS, LOCAL_KEYS, Command
from ui.controls import Button
from ui.label import Label, key_text

_WIDTH, _HEIGHT = 640, 560
ELSEWHERE = mark("While a part has the keyboard")


def sections(commands: Sequence[Command]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Titles, each with what its keys do: (keys, what). Two keys of one command stand in one line."""
    made: list[tuple[str, list[tuple[str, str]]]] = []
    for group in GROUPS:
        lines: dict[str, str] = {}
        for command in commands:
            if command.group == group and command.keys:
                keys = key_text(command.keys)
                before = lines.get(command.name)
                both = tr("{keys} or {other_keys}").format(keys=before, other_keys=keys)
                lines[command.name] = both if before else keys
        made.append((tr(group), [(keys, name) for name, keys in lines.items()]))
    local = [(key_text(each.keys), f"{tr(each.does)} ({tr(each.where)})") for each in LOCAL_KEYS]
    return [*made, (tr(ELSEWHERE), local)]


class ShortcutSheet(QDialog):
    """All shortcuts; F1 or Esc closes it again."""

    def __init__(self, commands: Sequence[Command], parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(tr("Keyboard shortcuts"))
        self.setAccessibleName(tr("Keyboard shortcuts"))
        self.resize(min(_WIDTH, parent.width() - 48), min(_HEIGHT, parent.height() - 48))
        content = QWidget()
        grid = QGridLayout(content)
        grid.setContentsMargins(24, 16, 24, 16)
        grid.setHorizontalSpacing(24)
        grid.setVerticalSpacing(4)
        grid.setColumnStretch(1, 1)
        row = 0
        for title, lines in sections(commands):
            if row:
                grid.setRowMinimumHeight(row, 12)
                row += 1
            grid.addWidget(Label(title, "title"), row, 0, 1, 2)
            for keys, name in lines:
                row += 1
                key = Label(keys, "small", "text1", 600)
                key.setAccessibleName(f"{keys}: {name}")
                grid.addWidget(key, row, 0)
                grid.addWidget(Label(name, "ui", "text2", 400, wrap=True), row, 1)
            row += 1
        grid.setRowStretch(row, 1)
        scroll = QScrollArea()
        scroll.setWidget(content)
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.viewport().setAutoFillBackground(False)
        content.setAutoFillBackground(False)
        close = Button(tr("Close"), None, "primary")
        close.clicked.connect(self.close)
        foot = QHBoxLayout()
        foot.setContentsMargins(24, 8, 24, 16)
        foot.addStretch(1)
        foot.addWidget(close)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(scroll, 1)
        column.addLayout(foot)
        scroll.setAccessibleName(tr("Keyboard shortcuts"))
        scroll.setFocus(Qt.FocusReason.PopupFocusReason)  # the arrows scroll, Esc closes

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_F1:
            self.close()
            return
        super().keyPressEvent(event)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        QPainter(self).fillRect(self.rect(), theme.palette().bg2)
