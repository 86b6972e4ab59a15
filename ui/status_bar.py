"""The line at the bottom: device, its heat and power on the left, cost and privacy on the right."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QFontMetricsF, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.words import tr
from ui import numbers, theme
from ui.label import plain_tooltip
from ui.numbers import NBSP
from ui.painting import Run, centred_baseline, draw_runs, runs_width
from ui.values import ReadingsView, StatusView

_HEIGHT = 24
_SIDE = 14.0
_GAP = 20.0
_ICON = 12.0
_ICON_ROOM = _ICON + 8


@dataclass(frozen=True, slots=True)
class _Part:
    """A few words, maybe behind an icon; ``spoken`` says them without signs."""

    text: str
    icon: str = ""
    spoken: str = ""
    is_bold: bool = True

    @property
    def run(self) -> Run:
        return Run(self.text, theme.font("micro", 600 if self.is_bold else None), theme.palette().text2)

    @property
    def width(self) -> float:
        return runs_width([self.run]) + (_ICON_ROOM if self.icon else 0.0)


class StatusBar(QWidget):
    """Parts without data are left out. Where room is short the last facts go first, then the cost, then the
    device is elided; privacy stays.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._view = StatusView(device="")
        self._readings = ReadingsView()
        self.setFixedHeight(_HEIGHT)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.notifier().changed.connect(self.update)

    def set_view(self, view: StatusView) -> None:
        """Show ``view``."""
        if view != self._view:
            self._view = view
            self._describe()

    def set_readings(self, readings: ReadingsView) -> None:
        """Show what sensors say beside it."""
        if readings != self._readings:
            self._readings = readings
            self._describe()

    @property
    def _device(self) -> str:
        return self._readings.device or self._view.device

    def _describe(self) -> None:
        tooltips = self._view.tooltip, self._readings.cost_tooltip
        spoken = [part.spoken or part.text for part in (*self._left(), *self._right())]
        self.setAccessibleName(". ".join(word for word in (self._device, *spoken) if word))
        self.setAccessibleDescription(" ".join(each for each in tooltips if each))
        self.setToolTip(plain_tooltip(*tooltips))
        self.update()

    def _left(self) -> list[_Part]:
        """What follows the device."""
        view, parts = self._readings, []
        if view.temperature_c is not None:
            degrees = numbers.decimal(view.temperature_c, 0)
            spoken = tr("{degrees} degrees Celsius").format(degrees=degrees)
            parts.append(_Part(f"{degrees}{NBSP}°C", "thermometer", spoken))
        if view.power_w is not None:
            watts = numbers.decimal(view.power_w, 1 if view.power_w < 9.95 else 0)
            parts.append(_Part(f"{watts}{NBSP}W", "zap", tr("{watts} watts").format(watts=watts)))
        return [*parts, *(_Part(fact) for fact in self._view.facts)]

    def _right(self) -> list[_Part]:
        """Cost and privacy."""
        cost, words = self._readings.cost, self._view.privacy
        costs = [_Part(cost)] if cost else []
        privacy = [_Part(words, "lock", is_bold=False)] if words else []
        return costs + privacy

    def facts_that_fit(self) -> tuple[str, ...]:
        """Texts of the parts there is room for between the device and what stands on the right."""
        return tuple(part.text for part in self._fitting_left())

    def _fitting_left(self) -> list[_Part]:
        room = self._room(self._fitting_right()) - _GAP - self._device_width()
        shown: list[_Part] = []
        for part in self._left():
            room -= _GAP + part.width
            if room < 0:
                break
            shown.append(part)
        return shown

    def _fitting_right(self) -> list[_Part]:
        """All of it, or privacy alone where the device would be cut off."""
        parts = self._right()
        if len(parts) > 1 and self._room(parts) - _GAP < self._device_width():
            return parts[1:]
        return parts

    def _room(self, right: list[_Part]) -> float:
        """What is left of the line beside the parts on the right."""
        return self.width() - 2 * _SIDE - sum(part.width + _GAP for part in right) + (_GAP if right else 0)

    def _device_runs(self) -> list[Run]:
        """The device's name in bold, what follows the first " · " in normal weight."""
        colors = theme.palette()
        name, dot, rest = self._device.partition(" · ")
        return [
            Run(name, theme.font("micro", 600), colors.text2),
            Run(dot + rest, theme.font("micro"), colors.text3),
        ]

    def _device_width(self) -> float:
        return _ICON_ROOM + runs_width(self._device_runs()) if self._device else 0.0

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
        right = self._fitting_right()
        if self._device:
            _draw_icon(painter, _SIDE, "cpu")
            room = self._room(right) - _GAP - _ICON_ROOM
            x = draw_runs(painter, _SIDE + _ICON_ROOM, baseline, self._fitted_device(room))
            for part in self._fitting_left():
                x = _draw_part(painter, x + _GAP, baseline, part)
        x = self.width() - _SIDE - sum(part.width for part in right) - _GAP * max(0, len(right) - 1)
        for part in right:
            x = _draw_part(painter, x, baseline, part) + _GAP

    def sizeHint(self) -> QSize:
        return QSize(640, _HEIGHT)

    def minimumSizeHint(self) -> QSize:
        return QSize(200, _HEIGHT)


def _draw_part(painter: QPainter, x: float, baseline: float, part: _Part) -> float:
    """Draw a part from ``x``; the x where it ends."""
    if part.icon:
        _draw_icon(painter, x, part.icon)
        x += _ICON_ROOM
    return draw_runs(painter, x, baseline, [part.run])


def _draw_icon(painter: QPainter, left: float, name: str) -> None:
    box = QRectF(left, (_HEIGHT - _ICON) / 2 + 0.5, _ICON, _ICON)
    theme.draw_icon(painter, box, name, theme.palette().text3)
