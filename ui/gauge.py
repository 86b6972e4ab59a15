"""What all gauges share: repaint on the one clock, one accessible sentence a second, the focus ring."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QFocusEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from ui import theme

_DESCRIBE_TICKS = 1000 // theme.CLOCK_MS  # a screen reader is told once a second at most


def is_keyboard_focus(event: QFocusEvent, was: bool) -> bool:
    """Whether the focus ring is to be shown after ``event``; ``was`` holds when a window only came back."""
    reason = event.reason()
    if reason in {Qt.FocusReason.ActiveWindowFocusReason, Qt.FocusReason.PopupFocusReason}:
        return was
    keyboard = {
        Qt.FocusReason.TabFocusReason,
        Qt.FocusReason.BacktabFocusReason,
        Qt.FocusReason.ShortcutFocusReason,
    }
    return reason in keyboard


class Gauge(QWidget):
    """A painted value. Subclasses keep their view, call ``mark_changed``, give ``paint`` and ``sentence``.

    ``SIDE`` pixels on the left and right stay free for the focus ring; ``paint`` draws from 0 to ``span``.
    """

    SIDE = 6

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(name)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self._is_changed = False
        self._has_ring = False
        self._ticks = _DESCRIBE_TICKS
        self._clock = theme.clock()
        self._clock.timeout.connect(self._on_clock_tick)
        self._clock.wake()
        theme.notifier().changed.connect(self._on_theme_changed)

    @property
    def span(self) -> int:
        """The width there is to paint on."""
        return self.width() - 2 * self.SIDE

    def mark_changed(self) -> None:
        """Repaint at the next tick of the clock."""
        self._is_changed = True
        self._clock.wake()

    def show_now(self) -> None:
        """Repaint without waiting for the clock; for what happens once, as the end of an answer."""
        self._is_changed = False
        self._clock.wake()  # the spoken sentence follows
        self.update()

    def paint(self, painter: QPainter) -> None:
        """Draw the gauge; the painter is antialiased."""
        raise NotImplementedError

    def sentence(self) -> str:
        """All values in words."""
        raise NotImplementedError

    def forget_pixmaps(self) -> None:
        """Drop what was drawn with other colours."""

    def _on_theme_changed(self) -> None:
        self.forget_pixmaps()
        self.update()

    def _on_clock_tick(self) -> None:
        self._ticks += 1
        if self._is_changed:
            self._is_changed = False
            self.update()
        if self._ticks >= _DESCRIBE_TICKS:
            self._ticks = 0
            sentence = self.sentence()
            if sentence != self.accessibleDescription():
                self.setAccessibleDescription(sentence)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.translate(self.SIDE, 0)
        self.paint(painter)
        if self._has_ring:
            painter.resetTransform()
            theme.draw_focus_ring(painter, self.rect(), 6)

    def focusInEvent(self, event: QFocusEvent) -> None:
        self._has_ring = is_keyboard_focus(event, self._has_ring)
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        if event.reason() != Qt.FocusReason.ActiveWindowFocusReason:
            self._has_ring = False
        self.update()
