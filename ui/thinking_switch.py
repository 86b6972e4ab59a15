"""The chip in the composer that says whether the model thinks before it answers, and switches it."""

from __future__ import annotations

from math import ceil

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.words import tr
from ui import theme
from ui.controls import ThemedButton
from ui.painting import Run, centred_baseline, draw_runs, runs_width

_HEIGHT = 28
_PAD_X = 10
_ICON = 14
_GAP = 6


class ThinkingSwitch(ThemedButton):
    """Checked while the model thinks. ``clicked`` comes from the user alone."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setCheckable(True)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)  # a press leaves the keyboard to the composer
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setAccessibleName(tr("Thinking"))
        self.toggled.connect(self._on_toggled)
        self._on_toggled()

    def _on_toggled(self) -> None:
        tooltip = tr("The model answers at once. Press to change")
        if self.isChecked():
            tooltip = tr("The model thinks before it answers. Press to change")
        self.setToolTip(tooltip)
        self.updateGeometry()
        self.update()

    def _runs(self) -> list[Run]:
        colors = theme.palette()
        color = colors.accent if self.isChecked() else colors.text2
        words = tr("Thinking")
        state = tr("on", "thinking") if self.isChecked() else tr("off", "thinking")
        return [
            Run(f"{words} ", theme.font("small", 600), color),
            Run(state, theme.font("small", 400), color),
        ]

    def sizeHint(self) -> QSize:
        return QSize(ceil(runs_width(self._runs())) + _ICON + _GAP + 2 * _PAD_X, _HEIGHT)

    def paintEvent(self, event: QPaintEvent) -> None:
        colors = theme.palette()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        box = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        is_on = self.isChecked()
        painter.setPen(QPen(colors.accent if is_on else colors.border, 1))
        ground = colors.accent_soft if is_on else colors.bg3 if self.is_hovered else colors.bg2
        painter.setBrush(ground)
        painter.drawRoundedRect(box, _HEIGHT / 2, _HEIGHT / 2)
        runs = self._runs()
        icon = QRectF(_PAD_X, (_HEIGHT - _ICON) / 2, _ICON, _ICON)
        theme.draw_icon(painter, icon, "lightbulb", runs[0].color)
        draw_runs(painter, icon.right() + _GAP, centred_baseline(runs[0].font, 0, _HEIGHT), runs)
        if self.has_ring:
            theme.draw_focus_ring(painter, self.rect(), _HEIGHT / 2)
