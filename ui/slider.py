"""What the sliders of the Tuning panel share: the knob, the pointer and the focus ring. Knows no scale."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QSize, Qt
from PySide6.QtGui import QFocusEvent, QMouseEvent, QPainter, QPaintEvent, QPen, QWheelEvent
from PySide6.QtWidgets import QAbstractSlider, QSizePolicy, QWidget

from ui import theme
from ui.gauge import is_keyboard_focus

KNOB = 7.0  # its radius
GROOVE = 5.0  # its height
_LOADED = 3.8


class Slider(QAbstractSlider):
    """Subclasses call ``show_values``, give ``paint``, ``describe`` and ``value_at``, and ``tell`` what the
    user has chosen; what is shown is told to nobody.
    """

    SIZE = QSize(240, 24)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setOrientation(Qt.Orientation.Horizontal)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setFixedHeight(self.SIZE.height())
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._is_showing = False
        self._has_ring = False
        self.valueChanged.connect(self._on_value_changed)
        theme.notifier().changed.connect(self.update)

    def show_values(self, most: int, value: int) -> None:
        """Show a value between 0 and ``most``."""
        self._is_showing = True
        self.setRange(0, most)
        self.setValue(value)
        self._is_showing = False
        self.describe()
        self.update()

    def paint(self, painter: QPainter) -> None:
        """Draw everything but the focus ring; the painter is antialiased."""
        raise NotImplementedError

    def describe(self) -> None:
        """Say the value to assistive technology."""
        raise NotImplementedError

    def tell(self) -> None:
        """The user has chosen the value."""
        raise NotImplementedError

    def value_at(self, x: float) -> int:
        """The value that stands nearest to ``x``."""
        raise NotImplementedError

    def draw_knob(self, painter: QPainter, x: float, y: float) -> None:
        """The knob, brighter under the pointer."""
        colors = theme.palette()
        painter.setPen(QPen(colors.accent_hi if self.underMouse() else colors.accent, 2))
        painter.setBrush(colors.knob)
        painter.drawEllipse(QPointF(x, y), KNOB, KNOB)

    def draw_loaded(self, painter: QPainter, x: float, y: float) -> None:
        """The ring that marks what is loaded."""
        colors = theme.palette()
        painter.setPen(QPen(colors.accent, 2))
        painter.setBrush(colors.bg1)
        painter.drawEllipse(QPointF(x, y), _LOADED, _LOADED)

    def _on_value_changed(self) -> None:
        if self._is_showing:
            return
        self.describe()
        self.update()
        self.tell()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self.paint(painter)
        if self._has_ring and self.hasFocus():
            theme.draw_focus_ring(painter, self.rect(), 6)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self.setSliderDown(True)
            self.setValue(self.value_at(event.position().x()))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self.isSliderDown():
            self.setValue(self.value_at(event.position().x()))

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
        return QSize(self.SIZE)
