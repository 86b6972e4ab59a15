"""The slider that splits a model between processor and GPU. Knows no memory: numbers come with the view."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Signal
from PySide6.QtGui import QFontMetricsF, QPainter
from PySide6.QtWidgets import QWidget

from engine.words import tr
from ui import theme
from ui.painting import Run, centred_baseline, draw_meter, draw_runs_right
from ui.slider import GROOVE, KNOB, Slider
from ui.tuning_values import GpuLayersView

_SIDE = KNOB + 3.0  # the knob and the focus ring stay inside


class LayerSlider(Slider):
    """Its value is the number of layers on the GPU; all of them are the right end. ``layers_chosen`` fires
    for the user's choices only. A ring marks what is loaded.
    """

    layers_chosen = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setPageStep(4)
        self._view = GpuLayersView(0, 0, 0)

    def set_view(self, view: GpuLayersView) -> None:
        """Show ``view``; emits nothing. While the knob is dragged, it stays under the pointer."""
        self._view = view
        self.show_values(view.total, self.value() if self.isSliderDown() else view.chosen)

    @property
    def words(self) -> str:
        """What stands behind the groove."""
        return self._words(self.value())

    def _words(self, layers: int) -> str:
        return tr("{layers} of {total}").format(layers=layers, total=self._view.total)

    def describe(self) -> None:
        name = tr("GPU layers {layers} of {total}").format(layers=self.value(), total=self._view.total)
        self.setAccessibleName(name)
        tooltip = tr("Layers; the others stay on the processor. Left and Right")
        if self._view.name:
            tooltip = tr("Layers on {gpu}; the others stay on the processor. Left and Right")
        self.setToolTip(tooltip.format(gpu=self._view.name))

    def tell(self) -> None:
        self.layers_chosen.emit(self.value())

    def _groove(self) -> tuple[float, float]:
        """Left and right end; the widest words decide, so that the groove never moves."""
        metrics = QFontMetricsF(theme.font("small", 600))
        widest = metrics.horizontalAdvance(self._words(self._view.total))
        return _SIDE, max(_SIDE + 20, self.width() - widest - 20)

    def _x(self, layers: int) -> float:
        left, right = self._groove()
        return left + (right - left) * layers / max(1, self._view.total)

    def value_at(self, x: float) -> int:
        left, right = self._groove()
        return round((x - left) / (right - left) * self._view.total)

    def paint(self, painter: QPainter) -> None:
        colors = theme.palette()
        left, right = self._groove()
        middle = self.height() / 2
        groove = QRectF(left, middle - GROOVE / 2, right - left, GROOVE)
        share = self.value() / max(1, self._view.total)
        draw_meter(painter, groove, share, colors.accent, colors.track)
        self.draw_loaded(painter, self._x(self._view.loaded), middle)
        self.draw_knob(painter, self._x(self.value()), middle)
        font = theme.font("small", 600)
        words = [Run(self.words, font, colors.text1)]
        draw_runs_right(painter, self.width() - 2, centred_baseline(font, 0, self.height()), words)
