"""One figure under its name, with a bar where it is a share of something. Measures nothing."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.words import tr
from ui import numbers, theme
from ui.gauge import Gauge
from ui.painting import Run, draw_runs

_BAR_TOP, _BAR = 33.5, 2.5


class Metric(Gauge):
    """A label over a value with its unit, and a bar where it is a share; unknown is a dash without either."""

    def __init__(self, label: str, tooltip: str, parent: QWidget | None = None) -> None:
        super().__init__(label, parent)
        self.setToolTip(tooltip)
        self.setFixedHeight(36)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._label = label
        self._value = numbers.UNKNOWN
        self._unit = ""
        self.share: float | None = None  # of the bar, 0 to 1; None: there is none
        self._tooltip, self._reason = tooltip, ""

    @property
    def words(self) -> str:
        """Value and unit as they are shown."""
        has_unit = self._unit and self._value != numbers.UNKNOWN
        return f"{self._value}{numbers.NBSP}{self._unit}" if has_unit else self._value

    def set_value(self, value: str, unit: str = "", share: float | None = None) -> None:
        """Show ``value``, already rounded, with the next tick of the clock."""
        if (value, unit, share) != (self._value, self._unit, self.share):
            self._value, self._unit, self.share = value, unit, share
            self.mark_changed()

    def set_reason(self, reason: str) -> None:
        """Say beside what the value means why it is what it is, a sentence."""
        if reason != self._reason:
            self._reason = reason
            self.setToolTip(f"{self._tooltip}. {reason}" if reason else self._tooltip)
            self.mark_changed()

    def sentence(self) -> str:
        words = tr("not known yet") if self._value == numbers.UNKNOWN else self.words
        return f"{words}. {self._reason}" if self._reason else words

    def paint(self, painter: QPainter) -> None:
        colors = theme.palette()
        draw_runs(painter, 0, 12, [Run(self._label, theme.font("micro"), colors.text2)])
        runs = [Run(self._value, theme.font("title"), colors.text1)]
        if self._value != numbers.UNKNOWN:
            runs.append(Run(f" {self._unit}", theme.font("small", 500), colors.text2))
        draw_runs(painter, 0, 30 if self.share is None else 28, runs)
        if self.share is not None:
            painter.fillRect(QRectF(0, _BAR_TOP, self.span, _BAR), colors.track)
            painter.fillRect(QRectF(0, _BAR_TOP, self.span * min(self.share, 1.0), _BAR), colors.accent)

    def sizeHint(self) -> QSize:
        return QSize(117 + 2 * self.SIDE, 36)
