"""The line above the composer: that a message is being edited, or that the chat is temporary."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QWidget

from engine.words import mark, tr
from ui.controls import Button
from ui.label import Icon, Label

EDITING = mark("Editing your message: it is asked anew, the old one stays beside it")
EDITING_ANSWER = mark("Editing the answer: the old one stays beside it")
TEMPORARY = mark("Temporary chat: nothing of it is stored, it ends with the program")


class EditBar(QWidget):
    """Hidden unless there is something to say. ``cancelled`` takes an edit back."""

    cancelled = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._is_editing = self._is_answer = self._is_temporary = False
        self.setAccessibleName(tr("About this message"))
        self._icon = Icon("pencil", "text2", 16)
        self._text = Label("", "small", "text2", elide=True)
        self._cancel = Button(tr("Cancel"), None, "ghost", is_small=True)
        self._cancel.setToolTip(tr("Leave the message as it is (Esc)"))
        self._cancel.clicked.connect(lambda _=False: self.cancelled.emit())
        row = QHBoxLayout(self)
        row.setContentsMargins(4, 0, 0, 0)
        row.setSpacing(8)
        row.addWidget(self._icon, 0, Qt.AlignmentFlag.AlignVCenter)
        row.addWidget(self._text, 1)
        row.addWidget(self._cancel)
        self._show()

    @property
    def is_editing(self) -> bool:
        """Whether a message is being edited."""
        return self._is_editing

    def set_editing(self, is_editing: bool, *, is_answer: bool = False) -> None:
        """Say that the composer holds a message that is already there."""
        self._is_editing, self._is_answer = is_editing, is_answer
        self._show()

    def set_temporary(self, is_temporary: bool) -> None:
        """Say that nothing of this chat is stored."""
        self._is_temporary = is_temporary
        self._show()

    def _show(self) -> None:
        if self._is_editing:
            self._icon.set_icon("pencil", "accent")
            self._text.setText(tr(EDITING_ANSWER if self._is_answer else EDITING))
        else:
            self._icon.set_icon("timer", "text2")
            self._text.setText(tr(TEMPORARY))
        self._cancel.setVisible(self._is_editing)
        self.setVisible(self._is_editing or self._is_temporary)
