"""The speed group of the Tuning panel: dial, metrics, latency, the line that says why. Measures nothing."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from engine.words import mark, tr
from ui import numbers
from ui.dial import Dial
from ui.gauge_values import SpeedView
from ui.latency import LatencyLine
from ui.legend import Legend
from ui.metric import Metric
from ui.why_line import WhyLine

DRAFTS = mark("Of the tokens guessed beforehand, those that were right (speculative decoding)")
BUS = mark("What the steps read from memory, of what was measured that it can give (memory bandwidth)")
FIRST_TOKEN = mark("Time from sending to the first token of the answer")
_CACHED = 1.02  # of the measured peak: more than measuring is off by


class SpeedPanel(QWidget):
    """All that ``SpeedView`` says. Steps of one view are added to the latency line once; ``explain_clicked``
    asks for what stands behind the line that says why.
    """

    explain_clicked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.dial = Dial()
        self.first_token = Metric(tr("First token"), tr(FIRST_TOKEN))
        self.bus = Metric(tr("Memory bus"), tr(BUS))
        self.drafts = Metric(tr("Drafts accepted"), tr(DRAFTS))
        self.legend = Legend()
        self.latency = LatencyLine()
        self.why = WhyLine()
        self.why.clicked.connect(self.explain_clicked)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(self._make_top())
        column.addWidget(self.legend)
        column.addSpacing(2)
        column.addWidget(self.latency)
        column.addWidget(self.why)

    def _make_top(self) -> QHBoxLayout:
        metrics = QVBoxLayout()
        metrics.setContentsMargins(0, 4, 0, 0)
        metrics.setSpacing(6)
        for metric in (self.first_token, self.bus, self.drafts):
            metrics.addWidget(metric)
        metrics.addStretch(1)
        row = QHBoxLayout()
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)  # both keep room for a focus ring
        row.addWidget(self.dial)
        row.addLayout(metrics)
        return row

    def set_view(self, view: SpeedView) -> None:
        """Show ``view``."""
        self.dial.set_view(view)
        self.first_token.set_value(numbers.seconds(view.ttft_s), "s")
        prompt = numbers.tps(view.prefill_tps)
        read = tr("Your message was read at {speed}\u00a0tok/s (prefill)").format(speed=prompt)
        self.first_token.set_reason("" if prompt == numbers.UNKNOWN else read)
        self._show_bus(view)
        accepted = view.drafts_accepted
        self.drafts.set_value(numbers.percent(accepted), share=accepted)
        self.drafts.set_reason(view.drafting_off)
        self.legend.set_view(view)
        self.latency.add_steps(view.step_ms, is_new_answer=view.is_new_answer)
        self.why.set_view(view.why)

    def _show_bus(self, view: SpeedView) -> None:
        """The share of the bandwidth; what is above it comes from the cache, and is no share of it."""
        read, peak = view.read_gbps, view.peak_gbps
        if read is None:
            self.bus.set_value(numbers.UNKNOWN)
            self.bus.set_reason("")
            return
        is_cached = peak is not None and read > _CACHED * peak
        most = numbers.gbps(peak)
        unit = "GB/s" if peak is None else tr("of {bandwidth} GB/s").format(bandwidth=most)
        unit = tr("GB/s · cache") if is_cached else unit
        self.bus.set_value(numbers.gbps(read), unit, None if peak is None else min(1.0, read / peak))
        why = tr(
            "More than the {bandwidth}\u00a0GB/s of memory: the processor's cache holds a part of the weights"
        )
        self.bus.set_reason(why.format(bandwidth=most) if is_cached else "")
