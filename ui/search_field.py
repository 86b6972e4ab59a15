"""The field that searches chats, with its key; it never waits for what is found."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QPainter, QPaintEvent, QPalette, QPen
from PySide6.QtWidgets import QLineEdit, QSizePolicy, QWidget

from engine.words import tr
from ui import theme
from ui.label import key_text

HEIGHT = 32
_ICON, _LEFT = 16, 34
_CENTER = int(Qt.AlignmentFlag.AlignVCenter)


class SearchField(QLineEdit):
    """``down_pressed`` and ``enter_pressed`` go to what was found, ``escaped`` leaves the field once it is
    empty: the first Esc clears it.
    """

    down_pressed = Signal()
    enter_pressed = Signal()
    escaped = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._hint = key_text("Ctrl+K").replace("+", " ")
        self.setFrame(False)
        self.setFixedHeight(HEIGHT)
        self.setMaxLength(200)
        self.setFont(theme.font("ui", 400))
        self.setTextMargins(_LEFT - 2, 0, 30, 0)
        self.setAccessibleName(tr("Search chats"))
        self.setToolTip(tr("Search titles and messages ({keys})").format(keys=key_text("Ctrl+K")))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.notifier().changed.connect(self._on_theme_changed)
        self._on_theme_changed()

    def _on_theme_changed(self) -> None:
        colors = theme.palette()
        palette = QPalette(self.palette())
        palette.setColor(QPalette.ColorRole.Base, Qt.GlobalColor.transparent)
        palette.setColor(QPalette.ColorRole.Text, colors.text1)
        self.setPalette(palette)
        self.setStyleSheet("QLineEdit { background: transparent; border: none; padding: 0; }")
        self.update()

    def event(self, event: QEvent) -> bool:
        """Esc is this field's while it has text, before the window's shortcut takes it."""
        is_key = isinstance(event, QKeyEvent) and event.key() == Qt.Key.Key_Escape
        if is_key and event.type() == QEvent.Type.ShortcutOverride:
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = event.key()
        if key == Qt.Key.Key_Escape:
            if self.text():
                self.clear()
            else:
                self.escaped.emit()
        elif key == Qt.Key.Key_Down:
            self.down_pressed.emit()
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.enter_pressed.emit()
        else:
            super().keyPressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        colors = theme.palette()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        box = QRectF(self.rect())
        has_focus = self.hasFocus()
        painter.setPen(QPen(colors.accent if has_focus else colors.border, 2 if has_focus else 1))
        painter.setBrush(colors.bg2)
        inset = 1.0 if has_focus else 0.5
        painter.drawRoundedRect(box.adjusted(inset, inset, -inset, -inset), 8, 8)
        theme.draw_icon(painter, QRectF(11, (HEIGHT - _ICON) / 2, _ICON, _ICON), "search", colors.text3)
        if not self.text():
            painter.setPen(colors.text3)
            painter.setFont(self.font())
            painter.drawText(box.adjusted(_LEFT, 0, -60, 0), _CENTER, tr("Search chats"))
            painter.setFont(theme.font("micro", 600))
            right = int(Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight)
            painter.drawText(box.adjusted(0, 0, -12, 0), right, self._hint)
        painter.end()
        super().paintEvent(event)

    def sizeHint(self) -> QSize:
        return QSize(216, HEIGHT)
