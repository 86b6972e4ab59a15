"""The chip that says how long the next answer may become and takes; it offers other lengths."""

from __future__ import annotations

from math import ceil

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QAction, QActionGroup, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QMenu, QSizePolicy, QWidget

from engine.words import tr
from ui import numbers, theme
from ui.chat_values import LengthView
from ui.controls import ThemedButton
from ui.painting import Run, centred_baseline, draw_runs, runs_width

_HEIGHT, _PAD_X, _ICON, _GAP = 28, 10, 14, 6
_MINUTE_S, _LONG_S = 60, 90


def about(seconds: float) -> str:
    """ "≈ 12 s", "≈ 3 min"; under a second there is nothing to wait for: "≈ 1 s"."""
    if seconds < _LONG_S:
        return f"≈ {max(1, round(seconds))}{numbers.NBSP}s"
    return f"≈ {numbers.count(round(seconds / _MINUTE_S))}{numbers.NBSP}min"


def spoken(seconds: float) -> str:
    """The same in words: "about 12 seconds"."""
    if seconds < _LONG_S:
        return tr("about %n second(s)", "", max(1, round(seconds)))
    return tr("about %n minute(s)", "", round(seconds / _MINUTE_S))


def length_words(tokens: int | None) -> str:
    """ "512 tokens", "No limit"."""
    return tr("No limit") if tokens is None else tr("%n token(s)", "", tokens)


class LengthChip(ThemedButton):
    """``chosen`` carries a number of tokens, or None for answers of any length."""

    chosen = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._view = LengthView(None)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)  # a press leaves the keyboard to the composer
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.clicked.connect(self.open_menu)
        self.set_view(self._view)

    def set_view(self, view: LengthView) -> None:
        """Show another length."""
        self._view = view
        length = tr("any length") if view.tokens is None else length_words(view.tokens)
        if view.seconds is None:
            self.setAccessibleName(tr("Longest answer {length}").format(length=length))
            self.setToolTip(tr("How long the answer may become"))
        else:
            words = tr("Longest answer {length}, {time}")
            self.setAccessibleName(words.format(length=length, time=spoken(view.seconds)))
            self.setToolTip(tr("How long the answer may become, and the time at the predicted speed"))
        self.updateGeometry()
        self.update()

    def open_menu(self) -> QMenu:
        """Offer the lengths, each with its time."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.setAccessibleName(tr("Longest answer"))
        group = QActionGroup(menu)
        for tokens, seconds in self._view.choices:
            time = "" if seconds is None else f"   {about(seconds)}"
            action = QAction(f"{length_words(tokens)}{time}", group)
            action.setCheckable(True)
            action.setChecked(tokens == self._view.tokens)
            action.triggered.connect(lambda _=False, tokens=tokens: self.chosen.emit(tokens))
            menu.addAction(action)
            if action.isChecked():
                menu.setActiveAction(action)
        place = self.mapToGlobal(self.rect().topLeft())
        place.setY(place.y() - menu.sizeHint().height() - 4)
        menu.popup(place)
        return menu

    def _runs(self) -> list[Run]:
        color = theme.palette().text2
        words = length_words(self._view.tokens)
        if self._view.seconds is not None:
            words = f"{words} {about(self._view.seconds)}"
        return [Run(words, theme.font("small", 600), color)]

    def sizeHint(self) -> QSize:
        return QSize(ceil(runs_width(self._runs())) + _ICON + _GAP + 2 * _PAD_X, _HEIGHT)

    def paintEvent(self, event: QPaintEvent) -> None:
        colors = theme.palette()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(colors.border, 1))
        painter.setBrush(colors.bg3 if self.is_hovered or self.isDown() else colors.bg2)
        box = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        painter.drawRoundedRect(box, _HEIGHT / 2, _HEIGHT / 2)
        runs = self._runs()
        icon = QRectF(_PAD_X, (_HEIGHT - _ICON) / 2, _ICON, _ICON)
        theme.draw_icon(painter, icon, "timer", colors.text2)
        draw_runs(painter, icon.right() + _GAP, centred_baseline(runs[0].font, 0, _HEIGHT), runs)
        if self.has_ring:
            theme.draw_focus_ring(painter, self.rect(), _HEIGHT / 2)
