"""The composer: what is typed, its counter and the button that sends or stops. Knows no model and no chat."""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QMouseEvent, QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from ui import numbers, theme
from ui.composer_parts import Counter, HintRow, SendButton
from ui.message_edit import MessageEdit
from ui.painting import with_alpha
from ui.values import CounterView

BOX_MIN, BOX_MAX = 96, 240
_PAD_X, _PAD_TOP, _PAD_BOTTOM = 16, 10, 12  # a line of 22 px has its letters low
_ROW_PX = 32
_HINT_GAP = 8
_ASIDE = "Drop a GGUF file or model folder anywhere"


class Composer(QWidget):
    """Signals: ``submitted`` with the text, which has then left the field (Undo brings it back);
    ``stop_clicked``; ``text_changed`` with all that is typed.

    Typing is always possible. Sending waits for text that fits the context.
    """

    submitted = Signal(str)
    stop_clicked = Signal()
    text_changed = Signal(str)
    recall_requested = Signal()  # Up in the empty field: the message that waits comes back

    def __init__(self, parent: QWidget | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(parent)
        self._is_generating = False
        self._verb = "send"
        self._edit = MessageEdit(self)
        self._counter = Counter(self)
        self._hints = HintRow(self)
        self._button = SendButton(self, clock)
        self.setFocusProxy(self._edit)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.set_placeholder("Write a message")
        self._edit.textChanged.connect(self._on_text_changed)
        self._edit.text_height_changed.connect(self._on_height_changed)
        self._edit.enter_pressed.connect(self.submit)
        self._edit.recall_pressed.connect(self.recall_requested)
        self._edit.focus_changed.connect(self.update)
        self._button.clicked.connect(self._on_button_clicked)
        theme.notifier().changed.connect(self.update)
        self._update_state()

    def text(self) -> str:
        """What is typed."""
        return self._edit.text()

    def set_text(self, text: str) -> None:
        """Put text in the place of what is there; the caret goes behind it."""
        if text != self.text():
            self._edit.replace_text(text)

    def take_text(self) -> str:
        """What is typed; the field is empty afterwards."""
        text = self.text()
        self.set_text("")
        return text

    def submit(self) -> None:
        """Send what is typed, if it can be sent; else it stays."""
        if self._button_can_send():
            text = self.take_text()
            self._button.guard()
            self.submitted.emit(text)

    def set_generating(self, is_generating: bool) -> None:
        """While an answer is written the button stops it."""
        self._is_generating = is_generating
        self._update_state()

    def set_enter_verb(self, verb: str) -> None:
        """What Enter does while nothing is generated: "send", "send when ready"."""
        self._verb = verb
        self._update_state()

    def set_placeholder(self, text: str) -> None:
        """What stands in the empty field."""
        self._edit.setPlaceholderText(text)
        self._edit.viewport().update()

    def set_counter(self, view: CounterView) -> None:
        """Tokens of the chat with what is typed; too many turn sending off."""
        self._counter.set_view(view)
        self._update_state()
        self._place()

    def insert(self, text: str) -> None:
        """Type text at the caret and take the keyboard."""
        self._edit.textCursor().insertText(text)
        self._edit.setFocus(Qt.FocusReason.OtherFocusReason)

    def _button_can_send(self) -> bool:
        return not self._counter.excess and bool(self.text().strip())

    def _update_state(self) -> None:
        excess = self._counter.excess if self.text().strip() else 0  # an empty field cannot be shortened
        self._button.set_stop(self._is_generating)
        self._button.setEnabled(self._is_generating or self._button_can_send())
        sentence = ""
        if excess:
            too_long = f"{numbers.count(excess)} {'token' if excess == 1 else 'tokens'} too long."
            sentence = f"{too_long} Shorten it or raise the context length."
        self._hints.set_error(sentence)
        hints = [("Enter", "queue" if self._is_generating else self._verb), ("Shift Enter", "new line")]
        if self._is_generating:
            hints.append(("Esc", "stop"))
        self._hints.set_hints(hints, _ASIDE)

    def _on_text_changed(self) -> None:
        self._update_state()
        self.text_changed.emit(self.text())

    def _on_button_clicked(self) -> None:
        if self._button.is_stop:
            self.stop_clicked.emit()
        else:
            self.submit()

    def _on_height_changed(self) -> None:
        self.setFixedHeight(self.sizeHint().height())
        self._place()

    # Layout and painting

    @property
    def box_height(self) -> int:
        """Height of the field with its frame, from 96 to 240."""
        needed = _PAD_TOP + self._edit.text_height() + 8 + _ROW_PX + _PAD_BOTTOM
        return max(BOX_MIN, min(BOX_MAX, needed))

    def _place(self) -> None:
        box, width = self.box_height, self.width()
        row = box - _PAD_BOTTOM - _ROW_PX
        self._edit.setGeometry(_PAD_X, _PAD_TOP, max(40, width - _PAD_X - 6), row - _PAD_TOP - 6)
        self._button.move(width - 12 - _ROW_PX, row)
        size = self._counter.sizeHint()
        self._counter.setGeometry(width - 12 - _ROW_PX - 16 - size.width(), row, size.width(), _ROW_PX)
        self._hints.setGeometry(0, box + _HINT_GAP, width, self._hints.height())
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(560, self.box_height + _HINT_GAP + self._hints.height())

    def minimumSizeHint(self) -> QSize:
        return QSize(240, self.sizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._place()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._edit.setFocus(Qt.FocusReason.MouseFocusReason)

    def paintEvent(self, event: QPaintEvent) -> None:
        colors = theme.palette()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        box = QRectF(0, 0, self.width(), self.box_height)
        if colors.shadow.alpha():
            painter.setPen(Qt.PenStyle.NoPen)
            for spread in (6, 4, 2):
                painter.setBrush(with_alpha(colors.shadow, colors.shadow.alphaF() / 3))
                painter.drawRoundedRect(box.adjusted(0, 6, 0, spread), 12, 12)
        has_focus = self._edit.hasFocus()
        inset = 1.0 if has_focus else 0.5
        painter.setPen(QPen(colors.accent, 2) if has_focus else QPen(colors.control, 1))
        painter.setBrush(colors.bg2)
        painter.drawRoundedRect(box.adjusted(inset, inset, -inset, -inset), 12, 12)
