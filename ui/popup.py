"""What the popups over the window share: what closes them, and the keyboard that stays inside."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject, QRect, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QWidget

from ui.card import Card


class Popup(QWidget):
    """``panel`` over the whole window. A click beside the panel, Esc or another size of the window closes it,
    and ``closed`` fires once for that.

    Subclasses fill the panel, give it its place, and name the ``stops`` of Tab.
    """

    closed = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._window = parent
        self._anchor = QRect()
        self.panel = Card(is_popup=True, parent=self)
        parent.installEventFilter(self)
        self.hide()

    def open_under(self, anchor: QRect) -> None:
        """Open below ``anchor``, in coordinates of the parent."""
        self._anchor = anchor
        self.setGeometry(self._window.rect())
        self.place()
        self.show()
        self.raise_()
        self.focus_region()

    def close_popup(self) -> None:
        """Close it without a choice."""
        if self.isVisible():
            self.hide()
            self.closed.emit()

    def place(self) -> None:
        """Give the panel its place, by the anchor and the size of the window."""
        raise NotImplementedError

    def focus_region(self) -> None:
        """Give the keyboard to what is used first."""
        raise NotImplementedError

    def stops(self) -> Sequence[QWidget]:
        """Where Tab goes round; without any it stays where it is."""
        return ()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched is self._window and event.type() == QEvent.Type.Resize:
            self.close_popup()
        return super().eventFilter(watched, event)

    def event(self, event: QEvent) -> bool:
        is_key = isinstance(event, QKeyEvent) and event.key() == Qt.Key.Key_Escape
        if is_key and event.type() == QEvent.Type.ShortcutOverride:
            event.accept()  # Esc closes what is on top before it does anything else in the window
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.close_popup()
            return
        event.accept()  # the composer behind the popup gets no letters

    def mousePressEvent(self, event: QMouseEvent) -> None:
        inside = self.panel.geometry().adjusted(Card.SHADOW, Card.SHADOW, -Card.SHADOW, -Card.SHADOW)
        if not inside.contains(event.position().toPoint()):
            self.close_popup()

    def focusNextPrevChild(self, is_next: bool) -> bool:
        stops = [stop for stop in self.stops() if stop.isVisibleTo(self) and stop.isEnabled()]
        if stops:
            held = next((at for at, stop in enumerate(stops) if stop.hasFocus()), -1)
            reason = Qt.FocusReason.TabFocusReason if is_next else Qt.FocusReason.BacktabFocusReason
            stops[(held + (1 if is_next else -1)) % len(stops)].setFocus(reason)
        return True
