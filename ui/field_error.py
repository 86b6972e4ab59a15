"""What is wrong with a field, in place: a mark and a sentence below it, hidden while all is right."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QWidget

from ui.label import Icon, Label


class FieldError(QWidget):
    """The sentence below a field; ``label`` names the field to a screen reader."""

    def __init__(self, label: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._label = label
        self._text = Label("", "small", "bad", 500, wrap=True)
        policy = self._text.sizePolicy()  # wraps in the room there is, and asks for none
        policy.setHorizontalPolicy(QSizePolicy.Policy.Ignored)
        self._text.setSizePolicy(policy)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 2, 0, 0)
        row.setSpacing(6)
        row.addWidget(Icon("circle-alert", "bad", 14), 0, Qt.AlignmentFlag.AlignTop)
        row.addWidget(self._text, 1)
        self.hide()

    @property
    def text(self) -> str:
        """The sentence that is shown, "" for none."""
        return self._text.text()

    def set_text(self, text: str) -> None:
        """Show a sentence, or none; a new one is said to a screen reader."""
        if text and text != self.text and QAccessible.isActive():
            QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self, f"{self._label}: {text}"))
        self._text.setText(text)
        self.setVisible(bool(text))
