"""The line at the bottom: the device on the left, privacy on the right. All of it comes in words."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QFontMetricsF, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from ui import theme
from ui.label import plain_tooltip
from ui.painting import Run, centred_baseline, draw_runs, runs_width
from ui.values import StatusView

_HEIGHT = 24
_SIDE = 14.0
_GAP = 20.0
_ICON = 12.0


class StatusBar(QWidget):
    """Where room is short, the last facts are left out, then the device is elided; privacy stays."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._view = StatusView(device="")
        self.setFixedHeight(_HEIGHT)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.notifier().changed.connect(self.update)

    def set_view(self, view: StatusView) -> None:
        """Show ``view``."""
        self._view = view
        words = (view.device, *view.facts, view.privacy)
        self.setAccessibleName(". ".join(word for word in words if word))
        self.setAccessibleDescription(view.tooltip)
        self.setToolTip(plain_tooltip(view.tooltip))
        self.update()

    def facts_that_fit(self) -> tuple[str, ...]:
        """The facts there is room for beside device and privacy."""
        room = self.width() - 2 * _SIDE - self._privacy_width() - _GAP - self._device_width()
        shown: list[str] = []
        for fact in self._view.facts:
            room -= _GAP + runs_width([self._fact_run(fact)])
            if room < 0:
                break
            shown.append(fact)
        return tuple(shown)

    def _fact_run(self, fact: str) -> Run:
        return Run(fact, theme.font("micro", 600), theme.palette().text2)

    def _privacy_run(self) -> Run:
        return Run(self._view.privacy, theme.font("micro"), theme.palette().text2)

    def _privacy_width(self) -> float:
        return _ICON + 8 + runs_width([self._privacy_run()]) if self._view.privacy else 0.0

    def _device_runs(self) -> list[Run]:
        """The device's name in bold, what follows the first " · " in normal weight."""
        colors = theme.palette()
        name, dot, rest = self._view.device.partition(" · ")
        return [
            Run(name, theme.font("micro", 600), colors.text2),
            Run(dot + rest, theme.font("micro"), colors.text3),
        ]

    def _device_width(self) -> float:
        return _ICON + 8 + runs_width(self._device_runs()) if self._view.device else 0.0

    def _fitted_device(self, room: float) -> list[Run]:
        runs = self._device_runs()
        if runs_width(runs) <= room:
            return runs
        name = runs[0]
        text = QFontMetricsF(name.font).elidedText(name.text, Qt.TextElideMode.ElideRight, max(room, 0.0))
        return [Run(text, name.font, name.color)]

    def paintEvent(self, event: QPaintEvent) -> None:
        colors = theme.palette()
        painter = QPainter(self)
        painter.fillRect(self.rect(), colors.bg1)
        painter.fillRect(QRectF(0, 0, self.width(), 1), colors.line)
        baseline = centred_baseline(theme.font("micro"), 1, _HEIGHT - 1)
        privacy = self._privacy_width()
        if self._view.device:
            _draw_icon(painter, _SIDE, "cpu")
            room = self.width() - 2 * _SIDE - privacy - _GAP - _ICON - 8
            x = draw_runs(painter, _SIDE + _ICON + 8, baseline, self._fitted_device(room))
            for fact in self.facts_that_fit():
                x = draw_runs(painter, x + _GAP, baseline, [self._fact_run(fact)])
        if self._view.privacy:
            left = self.width() - _SIDE - privacy
            _draw_icon(painter, left, "lock")
            draw_runs(painter, left + _ICON + 8, baseline, [self._privacy_run()])

    def sizeHint(self) -> QSize:
        return QSize(640, _HEIGHT)

    def minimumSizeHint(self) -> QSize:
        return QSize(200, _HEIGHT)


def _draw_icon(painter: QPainter, left: float, name: str) -> None:
    box = QRectF(left, (_HEIGHT - _ICON) / 2 + 0.5, _ICON, _ICON)
    theme.draw_icon(painter, box, name, theme.palette().text3)
