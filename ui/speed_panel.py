"""The speed group of the Tuning panel: dial, first token, prompt speed, latency. Measures nothing itself."""

from __future__ import annotations

import math

from PySide6.QtCore import QPointF, QRectF, QSize
from PySide6.QtGui import QPainter, QPaintEvent, QTextCharFormat, QTextLayout
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QVBoxLayout, QWidget

from ui import numbers, theme
from ui.dial import Dial
from ui.gauge import Gauge
from ui.latency import LatencyLine
from ui.painting import Run, draw_runs, with_alpha
from ui.values import SpeedView

NOT_MEASURED = "Not measured yet: the first answer sets the gauges"
_WHY_LEFT, _WHY_LINE, _WHY_MARGIN = Gauge.SIDE + 24.0, 20.0, 4.0


class Metric(Gauge):
    """A label over a value with its unit; unknown is a dash without one."""

    def __init__(self, label: str, tooltip: str, parent: QWidget | None = None) -> None:
        super().__init__(label, parent)
        self.setToolTip(tooltip)
        self.setFixedHeight(36)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._label = label
        self._value = numbers.UNKNOWN
        self._unit = ""

    @property
    def words(self) -> str:
        """Value and unit as they are shown."""
        return self._value if self._value == numbers.UNKNOWN else f"{self._value}{numbers.NBSP}{self._unit}"

    def set_value(self, value: str, unit: str) -> None:
        """Show ``value``, already rounded, with the next tick of the clock."""
        if (value, unit) != (self._value, self._unit):
            self._value, self._unit = value, unit
            self.mark_changed()

    def sentence(self) -> str:
        return "not known yet" if self._value == numbers.UNKNOWN else self.words

    def paint(self, painter: QPainter) -> None:
        colors = theme.palette()
        draw_runs(painter, 0, 12, [Run(self._label, theme.font("micro"), colors.text2)])
        runs = [Run(self._value, theme.font("title"), colors.text1)]
        if self._value != numbers.UNKNOWN:
            runs.append(Run(f" {self._unit}", theme.font("small", 500), colors.text2))
        draw_runs(painter, 0, 30, runs)

    def sizeHint(self) -> QSize:
        return QSize(117 + 2 * self.SIDE, 36)


class Legend(QWidget):
    """What the grey wedge of the dial means."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFixedHeight(18)
        self.setToolTip("People read about 4 to 8 tokens per second")
        theme.notifier().changed.connect(self.update)

    def paintEvent(self, event: QPaintEvent) -> None:
        colors = theme.palette()
        painter = QPainter(self)
        painter.fillRect(QRectF(Gauge.SIDE, 5, 10, 8), with_alpha(colors.text3, 0.4))
        runs = [
            Run("reading ", theme.font("micro"), colors.text2),
            Run("4–8", theme.font("micro", 600), colors.text1 if theme.is_dark() else colors.text2),
        ]
        draw_runs(painter, Gauge.SIDE + 16, 13, runs)


class SpeedPanel(QWidget):
    """All that ``SpeedView`` says. Steps of one view are added to the latency line once."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.dial = Dial()
        self.first_token = Metric("First token", "Time from sending to the first token of the answer")
        self.prompt_speed = Metric("Prompt speed", "How fast your message is read (prefill)")
        self.latency = LatencyLine()
        self._why = WhyLine(NOT_MEASURED)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(self._make_top())
        column.addWidget(Legend())
        column.addSpacing(2)
        column.addWidget(self.latency)
        column.addWidget(self._why)

    def _make_top(self) -> QHBoxLayout:
        metrics = QVBoxLayout()
        metrics.setContentsMargins(0, 8, 0, 0)
        metrics.setSpacing(12)
        metrics.addWidget(self.first_token)
        metrics.addWidget(self.prompt_speed)
        metrics.addStretch(1)
        row = QHBoxLayout()
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)  # both keep room for a focus ring
        row.addWidget(self.dial)
        row.addLayout(metrics)
        return row

    @property
    def is_unmeasured(self) -> bool:
        """Whether the line that nothing was measured yet is shown."""
        return not self._why.isHidden()

    def set_view(self, view: SpeedView) -> None:
        """Show ``view``."""
        self.dial.set_view(view)
        self.first_token.set_value(numbers.seconds(view.ttft_s), "s")
        self.prompt_speed.set_value(numbers.tps(view.prefill_tps), "tok/s")
        self.latency.add_steps(view.step_ms, is_new_answer=view.is_new_answer)
        measured = (view.decode_tps, view.ttft_s, view.prefill_tps)
        if any(value is not None and math.isfinite(value) for value in measured):
            self._why.hide()


class WhyLine(QWidget):
    """One sentence with an icon; what stands before its colon is bold."""

    def __init__(self, sentence: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._sentence = sentence
        self.setAccessibleName(sentence)
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        theme.notifier().changed.connect(self.update)

    def _lay_out(self, width: float) -> QTextLayout:
        layout = QTextLayout(self._sentence, theme.font("small"))
        colors = theme.palette()
        head, tail = QTextLayout.FormatRange(), QTextLayout.FormatRange()
        head.start, head.length = 0, self._sentence.find(":") + 1
        tail.start, tail.length = head.length, len(self._sentence) - head.length
        for part, weight, color in ((head, 600, colors.text1), (tail, 400, colors.text2)):
            part_format = QTextCharFormat()
            part_format.setFont(theme.font("small", weight))
            part_format.setForeground(color)
            part.format = part_format
        layout.setFormats([head, tail])
        layout.beginLayout()
        top = 0.0
        while (line := layout.createLine()).isValid():
            line.setLineWidth(max(width - _WHY_LEFT - Gauge.SIDE, 1.0))
            line.setPosition(QPointF(0, top + (_WHY_LINE - line.height()) / 2))
            top += _WHY_LINE
        layout.endLayout()
        return layout

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        theme.draw_icon(painter, QRectF(Gauge.SIDE, _WHY_MARGIN + 2, 16, 16), "info", theme.palette().accent)
        self._lay_out(self.width()).draw(painter, QPointF(_WHY_LEFT, _WHY_MARGIN))

    def sizeHint(self) -> QSize:
        return QSize(340, self.heightForWidth(340))

    def heightForWidth(self, width: int) -> int:
        return round(self._lay_out(width).lineCount() * _WHY_LINE + 2 * _WHY_MARGIN)
