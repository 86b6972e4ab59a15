"""The slider that splits a model between processor and GPU. Knows no memory: numbers come with the view."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QFocusEvent, QFontMetricsF, QMouseEvent, QPainter, QPaintEvent, QPen, QWheelEvent
from PySide6.QtWidgets import QAbstractSlider, QSizePolicy, QWidget

from ui import theme
from ui.gauge import is_keyboard_focus
from ui.painting import Run, centred_baseline, draw_meter, draw_runs_right
from ui.values import GpuLayersView

_HEIGHT = 24
_KNOB = 7.0
_GROOVE = 5.0
_SIDE = _KNOB + 3.0  # the knob and the focus ring stay inside


class LayerSlider(QAbstractSlider):
    """Its value is the number of layers on the GPU; all of them are the right end. ``layers_chosen`` fires
    for the user's choices only. A ring marks what is loaded.
    """

    layers_chosen = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setOrientation(Qt.Orientation.Horizontal)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setFixedHeight(_HEIGHT)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setPageStep(4)
        self._view = GpuLayersView(0, 0, 0)
        self._is_showing = False
        self._has_ring = False
        self.valueChanged.connect(self._on_value_changed)
        theme.notifier().changed.connect(self.update)

    def set_view(self, view: GpuLayersView) -> None:
        """Show ``view``; emits nothing. While the knob is dragged, it stays under the pointer."""
        self._is_showing = True
        self._view = view
        self.setRange(0, view.total)
        if not self.isSliderDown():
            self.setValue(view.chosen)
        self._is_showing = False
        self._describe()
        self.update()

    @property
    def words(self) -> str:
        """What stands behind the groove."""
        return f"{self.value()} of {self._view.total}"

    def _describe(self) -> None:
        self.setAccessibleName(f"GPU layers {self.words}")
        where = f" on {self._view.name}" if self._view.name else ""
        self.setToolTip(f"Layers{where}; the others stay on the processor. Left and Right")

    def _on_value_changed(self) -> None:
        if self._is_showing:
            return
        self._describe()
        self.update()
        self.layers_chosen.emit(self.value())

    def _groove(self) -> tuple[float, float]:
        """Left and right end; the widest words decide, so that the groove never moves."""
        metrics = QFontMetricsF(theme.font("small", 600))
        widest = metrics.horizontalAdvance(f"{self._view.total} of {self._view.total}")
        return _SIDE, max(_SIDE + 20, self.width() - widest - 20)

    def _x(self, layers: int) -> float:
        left, right = self._groove()
        return left + (right - left) * layers / max(1, self._view.total)

    def _layers_at(self, x: float) -> int:
        left, right = self._groove()
        return round((x - left) / (right - left) * self._view.total)

    def paintEvent(self, event: QPaintEvent) -> None:
        colors = theme.palette()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        left, right = self._groove()
        middle = _HEIGHT / 2
        groove = QRectF(left, middle - _GROOVE / 2, right - left, _GROOVE)
        share = self.value() / max(1, self._view.total)
        draw_meter(painter, groove, share, colors.accent, colors.track)
        painter.setPen(QPen(colors.accent, 2))
        painter.setBrush(colors.bg1)
        painter.drawEllipse(QPointF(self._x(self._view.loaded), middle), 3.8, 3.8)
        painter.setPen(QPen(colors.accent_hi if self.underMouse() else colors.accent, 2))
        painter.setBrush(colors.knob)
        painter.drawEllipse(QPointF(self._x(self.value()), middle), _KNOB, _KNOB)
        font = theme.font("small", 600)
        words = [Run(self.words, font, colors.text1)]
        draw_runs_right(painter, self.width() - 2, centred_baseline(font, 0, _HEIGHT), words)
        if self._has_ring and self.hasFocus():
            theme.draw_focus_ring(painter, self.rect(), 6)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self.setSliderDown(True)
            self.setValue(self._layers_at(event.position().x()))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self.isSliderDown():
            self.setValue(self._layers_at(event.position().x()))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        self.setSliderDown(False)

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()  # the wheel scrolls the panel, it does not change a setting on the way

    def focusInEvent(self, event: QFocusEvent) -> None:
        self._has_ring = is_keyboard_focus(event, self._has_ring)
        super().focusInEvent(event)
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(240, _HEIGHT)
