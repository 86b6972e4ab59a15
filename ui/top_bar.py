"""The bar above the transcript: model chip, menu and the button of Tuning. Knows no panel; it emits."""

from __future__ import annotations

from PySide6.QtCore import QElapsedTimer, QRectF, Qt, Signal
from PySide6.QtGui import QAction, QActionGroup, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QMenu, QWidget

from ui import numbers, theme
from ui.chip import ModelChip
from ui.controls import IconButton
from ui.label import key_text
from ui.values import ChipView, SpeedView

HEIGHT = 48
DIGITS_MS = 250  # the digits change at most four times a second
THEMES = (("system", "System"), ("light", "Light"), ("dark", "Dark"))


class TuningButton(IconButton):
    """Opens and closes Tuning. With Tuning closed, the speed takes the icon's place once there is one."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("gauge", f"Tuning ({key_text('Ctrl+T')})", is_checkable=True, parent=parent)
        self._figure = ""
        self._since_change = QElapsedTimer()
        self.toggled.connect(self._show_words)

    def set_speed(self, view: SpeedView) -> None:
        """Take the newest speed; while an answer is written the digits change at most four times a second."""
        if view.is_live and self._since_change.isValid() and self._since_change.elapsed() < DIGITS_MS:
            return
        figure = "" if view.decode_tps is None else numbers.tps(view.decode_tps)
        if figure != self._figure:
            self._figure = figure
            self._since_change.restart()
            self.setAccessibleDescription(f"{figure} tokens per second" if figure else "")
            self._show_words()

    def _show_words(self) -> None:
        is_shown = self._figure and not self.isChecked()
        self.set_words(f"{self._figure}{numbers.NBSP}tok/s" if is_shown else "")


class TopBar(QWidget):
    """Chip on the left, menu and Tuning on the right. ``theme_chosen`` carries system, light or dark."""

    chip_clicked = Signal()
    tuning_clicked = Signal()
    theme_chosen = Signal(str)
    file_requested = Signal()
    folder_requested = Signal()
    models_folder_requested = Signal()
    about_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFixedHeight(HEIGHT)
        self.setAccessibleName("Model and view")
        self.chip = ModelChip()
        self.chip.clicked.connect(self.chip_clicked)
        self.tuning = TuningButton()
        self.tuning.clicked.connect(self.tuning_clicked)
        self.menu = self._make_menu()
        self._more = IconButton("ellipsis", "More")
        self._more.clicked.connect(self._open_menu)
        row = self._row = QHBoxLayout(self)
        row.setContentsMargins(24, 0, 12, 1)
        row.setSpacing(4)
        row.addWidget(self.chip)
        row.addStretch(1)
        row.addWidget(self._more)
        row.addWidget(self.tuning)
        theme.notifier().changed.connect(self.update)

    def set_chip(self, view: ChipView) -> None:
        """Show the model and its state."""
        self.chip.set_view(view)

    def set_tuning_open(self, is_open: bool) -> None:
        """Show whether Tuning is open."""
        self.tuning.setChecked(is_open)

    def set_margin(self, left: int) -> None:
        """Distance of the chip from the left edge."""
        self._row.setContentsMargins(left, 0, 12, 1)

    def focus_region(self) -> None:
        """Give the keyboard to the chip."""
        self.chip.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _make_menu(self) -> QMenu:
        menu = QMenu(self)
        themes = self.themes = menu.addMenu("Theme")
        group = QActionGroup(themes)
        for key, label in THEMES:
            action = QAction(label, group)
            action.setCheckable(True)
            action.setData(key)
            action.triggered.connect(lambda _=False, key=key: self.theme_chosen.emit(key))
            themes.addAction(action)
        themes.aboutToShow.connect(lambda: _check(group, theme.notifier().choice))
        menu.addSeparator()
        for label, signal in (
            ("Choose a model file…", self.file_requested),
            ("Choose a model folder…", self.folder_requested),
            ("Show models folder", self.models_folder_requested),
        ):
            menu.addAction(label).triggered.connect(lambda _=False, signal=signal: signal.emit())
        menu.addSeparator()
        menu.addAction("About Decodeck").triggered.connect(lambda _=False: self.about_requested.emit())
        return menu

    def _open_menu(self) -> None:
        corner = self._more.mapToGlobal(self._more.rect().bottomRight())
        corner.setX(corner.x() - self.menu.sizeHint().width())
        self.menu.popup(corner)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(QRectF(0, self.height() - 1, self.width(), 1), theme.palette().line)


def _check(group: QActionGroup, key: str) -> None:
    for action in group.actions():
        action.setChecked(action.data() == key)
