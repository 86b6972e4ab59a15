"""The pill "Jump to latest" that floats over the transcript while the view is not at the end."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QEnterEvent, QFontMetrics, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QAbstractButton, QWidget

from engine.words import tr
from ui import theme


class JumpButton(QAbstractButton):
    """Goes back to the end of the chat; signal ``clicked``."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setText(tr("Jump to latest"))
        self.setAccessibleName(tr("Jump to latest"))
        self.setToolTip(tr("Jump to latest (End)"))
        self.setFont(theme.font("ui", 600))
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)  # it hides when pressed and must not lose the keyboard
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.resize(self.sizeHint())
        theme.notifier().changed.connect(self.update)
        self.hide()

    def sizeHint(self) -> QSize:
        return QSize(QFontMetrics(self.font()).horizontalAdvance(self.text()) + 50, 32)

    def enterEvent(self, event: QEnterEvent) -> None:
        self.update()
        super().enterEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        colors = theme.palette()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        box = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        painter.setPen(QPen(colors.control, 1))
        painter.setBrush(colors.bg3 if self.underMouse() else colors.bg2)
        painter.drawRoundedRect(box, 16, 16)
        theme.draw_icon(painter, QRectF(13, 8, 16, 16), "arrow-down", colors.text1)
        painter.setPen(colors.text1)
        painter.setFont(self.font())
        painter.drawText(box.adjusted(36, 0, 0, 0), int(Qt.AlignmentFlag.AlignVCenter), self.text())
        if self.hasFocus():
            theme.draw_focus_ring(painter, self.rect(), 16)
