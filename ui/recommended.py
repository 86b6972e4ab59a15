"""The button that sets what is recommended, with the menu of what to prefer. Knows no plan."""

from __future__ import annotations

from math import ceil

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QAccessible,
    QAccessibleAnnouncementEvent,
    QAction,
    QActionGroup,
    QKeySequence,
    QPainter,
    QPaintEvent,
    QPen,
    QShortcut,
)
from PySide6.QtWidgets import QHBoxLayout, QMenu, QSizePolicy, QWidget

from engine.words import mark, tr
from ui import theme
from ui.controls import ThemedButton
from ui.label import key_text, plain_tooltip
from ui.painting import Run, centred_baseline, draw_runs, runs_width

PREFERENCES = {
    "quality": mark("Best quality"),
    "fastest": mark("Fastest"),
    "longest": mark("Longest context"),
}
_TOOLTIPS = {
    "quality": mark("What is recommended: best quality"),
    "fastest": mark("What is recommended: fastest"),
    "longest": mark("What is recommended: longest context"),
}
_KEYS = "Alt+R"
_HEIGHT, _RADIUS = 32, 8.0
_ICON, _ICON_GAP, _PADDING = 16, 7, 9
_MENU_WIDTH = 22


class Recommended(QWidget):
    """``clicked`` asks for the best fitting values, ``preference_chosen`` says what is best: quality, fastest
    or longest. Pressed where all is set as recommended, it says so until something else is set.
    """

    clicked = Signal()
    preference_chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self._is_set = False
        self.button = _Part("target", tr("Recommended"), tr("Already set"))
        self.button.setAccessibleName(tr("Use recommended settings"))
        self.chooser = _Part("chevron-down")
        self.menu = QMenu(self)
        self._group = QActionGroup(self.menu)
        for key, label in PREFERENCES.items():
            self._add_preference(key, tr(label))
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        row.addWidget(self.button)
        row.addWidget(self.chooser)
        self.button.clicked.connect(self._on_clicked)
        self.chooser.clicked.connect(self.open_menu)
        shortcut = QShortcut(QKeySequence(_KEYS), self)
        shortcut.activated.connect(self.button.click)
        self.set_view("quality", "")
        theme.notifier().changed.connect(self.update)

    def set_view(self, preference: str, why: str, *, is_set: bool = False) -> None:
        """Show what is preferred and ``why`` that leads to what is recommended; off without a reason.

        ``is_set`` says that nothing else is chosen now.
        """
        self._is_set = is_set
        if not is_set:
            self.button.show_words(0)
        for action in self._group.actions():
            action.setChecked(action.data() == preference)
        self.button.setEnabled(bool(why))
        words = tr("Sets the recommended values ({keys}); nothing is loaded before Apply.")
        self.button.setToolTip(plain_tooltip(words.format(keys=key_text(_KEYS)), why))
        name = tr("Recommend: {preference}. Press to change")
        self.chooser.setAccessibleName(name.format(preference=tr(PREFERENCES[preference])))
        self.chooser.setToolTip(tr(_TOOLTIPS[preference]))

    def _on_clicked(self) -> None:
        if self._is_set:
            self.button.show_words(1)
            spoken = QAccessibleAnnouncementEvent(self.button, self.button.text())
            QAccessible.updateAccessibility(spoken)
        self.clicked.emit()

    def open_menu(self) -> None:
        """Open the menu above the button, where there is room."""
        corner = self.mapToGlobal(self.rect().topLeft())
        corner.setY(corner.y() - self.menu.sizeHint().height() - 4)
        self.menu.popup(corner)

    def _add_preference(self, key: str, label: str) -> None:
        action = QAction(label, self._group)
        action.setCheckable(True)
        action.setData(key)
        action.triggered.connect(lambda: self.preference_chosen.emit(key))
        self.menu.addAction(action)

    def paintEvent(self, event: QPaintEvent) -> None:
        colors = theme.palette()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        box = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        painter.setPen(QPen(colors.border, 1))
        painter.setBrush(colors.bg2)
        painter.drawRoundedRect(box, _RADIUS, _RADIUS)
        painter.fillRect(QRectF(self.chooser.x(), 8, 1, _HEIGHT - 16), colors.border)


class _Part(ThemedButton):
    """Words with an icon, or an icon alone, as wide as the longest of the words it may show; the whole paints
    the ground of both.
    """

    def __init__(self, icon: str, *texts: str) -> None:
        super().__init__()
        self._icon_name = icon
        self._texts = texts
        if texts:
            self.show_words(0)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def show_words(self, number: int) -> None:
        """Show these of its words."""
        self.setText(self._texts[number])

    def _run(self, text: str) -> Run:
        colors = theme.palette()
        return Run(text, theme.font("ui", 600), colors.text1 if self.isEnabled() else colors.text3)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if self.is_hovered or (self.isDown() and self.isEnabled()):
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(theme.palette().bg3)
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(2, 2, -2, -2), _RADIUS - 2, _RADIUS - 2)
        run = self._run(self.text())
        size = _ICON if self.text() else 14
        left = float(_PADDING) if self.text() else (self.width() - size) / 2
        place = QRectF(left, (self.height() - size) / 2, size, size)
        theme.draw_icon(painter, place, self._icon_name, run.color)
        if self.text():
            draw_runs(painter, left + size + _ICON_GAP, centred_baseline(run.font, 0, self.height()), [run])
        if self.has_ring:
            theme.draw_focus_ring(painter, self.rect(), _RADIUS)

    def sizeHint(self) -> QSize:
        if not self.text():
            return QSize(_MENU_WIDTH, _HEIGHT)
        widest = max(runs_width([self._run(text)]) for text in self._texts)
        return QSize(ceil(widest) + 2 * _PADDING + _ICON + _ICON_GAP - 2, _HEIGHT)

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()
