"""A line to type into, with an icon before it, in the look of the theme."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QSizePolicy, QWidget

from ui import theme


class _Line(QLineEdit):
    """Esc empties the line; only an empty one gives the key on."""

    focus_changed = Signal()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape and self.text():
            self.clear()
            return
        super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.focus_changed.emit()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.focus_changed.emit()


class Field(QWidget):
    """``typed`` fires with every change, ``entered`` with Enter; a secret is shown as dots."""

    typed = Signal(str)
    entered = Signal(str)

    def __init__(
        self,
        icon: str,
        placeholder: str,
        name: str,
        *,
        is_secret: bool = False,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._icon = icon
        self.line = _Line()
        self.line.setFrame(False)
        self.line.setFont(theme.font("ui", 400))
        self.line.setPlaceholderText(placeholder)
        self.line.setAccessibleName(name)
        self.line.setMaxLength(512)
        if is_secret:
            self.line.setEchoMode(QLineEdit.EchoMode.Password)
        row = QHBoxLayout(self)
        row.setContentsMargins(36, 1, 10, 1)
        row.addWidget(self.line)
        self.setFixedHeight(36)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFocusProxy(self.line)
        self.line.textChanged.connect(self.typed)
        self.line.returnPressed.connect(lambda: self.entered.emit(self.line.text()))
        self.line.focus_changed.connect(self.update)
        theme.notifier().changed.connect(self._dress)
        self._dress()

    def text(self) -> str:
        """What is typed."""
        return self.line.text()

    def set_text(self, text: str) -> None:
        """Put other text in; an unchanged one keeps the cursor."""
        if text != self.line.text():
            self.line.setText(text)

    def _dress(self) -> None:
        ink = theme.palette().text1.name()
        self.line.setStyleSheet(f"QLineEdit {{ color: {ink}; background: transparent; border: none; }}")
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        colors = theme.palette()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        has_focus = self.line.hasFocus()
        width = 2.0 if has_focus else 1.0
        painter.setPen(QPen(colors.accent if has_focus else colors.control, width))
        painter.setBrush(colors.bg2)
        inset = width / 2
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(inset, inset, -inset, -inset), 8, 8)
        theme.draw_icon(painter, QRectF(12, self.height() / 2 - 8, 16, 16), self._icon, colors.text3)

    def sizeHint(self) -> QSize:
        return QSize(280, 36)
