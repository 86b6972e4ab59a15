"""The composer: what is typed and attached, its counter, the button that sends or stops. Knows no chat."""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QMouseEvent, QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.words import mark, tr
from ui import theme
from ui.attachment_chip import AttachmentRow
from ui.attachment_text import compose, parse
from ui.chat_values import CounterView, LengthView
from ui.composer_files import ComposerFiles
from ui.composer_length import LengthChip
from ui.composer_parts import Counter, HintRow, SendButton
from ui.controls import IconButton
from ui.message_edit import MessageEdit
from ui.painting import with_alpha
from ui.thinking_switch import ThinkingSwitch

BOX_MIN, BOX_MAX = 96, 240
_PAD_X, _PAD_TOP, _PAD_BOTTOM = 16, 10, 12  # a line of 22 px has its letters low
_ROW_PX = 32
_HINT_GAP = 8
_CHIPS_LEFT, _CHIPS_GAP = 12, 8
_LEAST_EDIT = 44  # px of typed text, however many chips there are
_ASIDE = mark("Drop a GGUF file, model folder or text file anywhere")


class Composer(QWidget):
    """Signals: ``submitted`` with the message, which has then left the field (Undo brings back what was
    typed); ``stop_clicked``; ``text_changed`` with all that is typed; ``thinking_chosen`` when the user
    switches it; ``attach_clicked``; ``length_chosen``; ``files_changed`` when attached texts came or went.

    Typing is always possible. Sending waits for a message that is whole and fits the context.
    """

    submitted = Signal(str)
    stop_clicked = Signal()
    text_changed = Signal(str)
    thinking_chosen = Signal(bool)
    attach_clicked = Signal()
    files_changed = Signal()
    length_chosen = Signal(object)
    recall_requested = Signal()  # Up in the empty field: the message that waits comes back

    def __init__(self, parent: QWidget | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(parent)
        self._is_generating = False
        self._verb = tr("send", "what a key does")
        self._edit = MessageEdit(self)
        self._counter = Counter(self)
        self._hints = HintRow(self)
        self._button = SendButton(self, clock)
        self._thinking = ThinkingSwitch(self)
        self._thinking.hide()
        self._clip = IconButton("paperclip", tr("Attach files (Ctrl+U)"), parent=self)
        self._clip.setFocusPolicy(Qt.FocusPolicy.TabFocus)  # a press leaves the keyboard to the field
        self._length = LengthChip(self)
        self._length.chosen.connect(self.length_chosen)
        self.files = ComposerFiles(AttachmentRow(self))
        self.setFocusProxy(self._edit)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.set_placeholder(tr("Write a message"))
        self._edit.textChanged.connect(self._on_text_changed)
        self._edit.text_height_changed.connect(self._on_height_changed)
        self._edit.enter_pressed.connect(self.submit)
        self._edit.recall_pressed.connect(self.recall_requested)
        self._edit.focus_changed.connect(self.update)
        self._button.clicked.connect(self._on_button_clicked)
        self._thinking.clicked.connect(self._on_thinking_clicked)
        self._clip.clicked.connect(self.attach_clicked)
        self.files.changed.connect(self._on_files_changed)
        # the chip that is gone held the keyboard
        self.files.row.removed.connect(lambda _: self._edit.setFocus(Qt.FocusReason.OtherFocusReason))
        self.files.shown.connect(self._on_height_changed)
        self.setTabOrder(self.files.row, self._edit)
        theme.notifier().changed.connect(self.update)
        self._update_state()

    def text(self) -> str:
        """What is typed."""
        return self._edit.text()

    def set_text(self, text: str) -> None:
        """Put text in the place of what is there; the caret goes behind it."""
        if text != self.text():
            self._edit.replace_text(text)

    def content(self) -> str:
        """The whole message: what is attached and what is typed."""
        return compose(self.files.files, self.text())

    def set_content(self, content: str) -> None:
        """Put a message in the place of what is there."""
        files, typed = parse(content)
        self.set_text(typed)
        self.files.set_files(files)

    def take_content(self) -> str:
        """The message; the field is empty afterwards."""
        content = self.content()
        self.set_content("")
        return content

    def submit(self) -> None:
        """Send what is typed, if it can be sent; else it stays."""
        if self._button_can_send():
            content = self.take_content()
            self._button.guard()
            self.submitted.emit(content)

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

    def set_length(self, view: LengthView) -> None:
        """How long the next answer may become."""
        self._length.set_view(view)
        self._place()

    def open_length(self) -> None:
        """Offer other lengths."""
        self._length.open_menu()

    def set_thinking(self, is_on: bool | None) -> None:
        """Whether the model thinks before it answers; None where it cannot be told."""
        self._thinking.setVisible(is_on is not None)
        self._thinking.setChecked(bool(is_on))
        self._place()

    def insert(self, text: str) -> None:
        """Type text at the caret and take the keyboard."""
        self._edit.textCursor().insertText(text)
        self._edit.setFocus(Qt.FocusReason.OtherFocusReason)

    def _button_can_send(self) -> bool:
        is_whole = not self.files.reading
        return not self._counter.excess and is_whole and self._has_any

    @property
    def _has_any(self) -> bool:
        return bool(self.text().strip() or self.files.files)

    def _update_state(self) -> None:
        excess = self._counter.excess if self._has_any else 0  # an empty field cannot be shortened
        self._button.set_stop(self._is_generating)
        self._button.setEnabled(self._is_generating or self._button_can_send())
        sentence = ""
        if excess:
            sentence = tr("%n token(s) too long. Shorten it or raise the context length.", "", excess)
        self._hints.set_error(sentence)
        verb = tr("queue", "what a key does") if self._is_generating else self._verb
        hints = [(tr("Enter", "a key"), verb), (tr("Shift Enter"), tr("new line", "what a key does"))]
        if self._is_generating:
            hints.append((tr("Esc"), tr("stop", "what a key does")))
        self._hints.set_hints(hints, tr(_ASIDE))

    def _on_text_changed(self) -> None:
        self._update_state()
        self.text_changed.emit(self.text())

    def _on_files_changed(self) -> None:
        self._update_state()
        self.files_changed.emit()

    def _on_thinking_clicked(self, is_on: bool) -> None:
        self._place()
        self.thinking_chosen.emit(is_on)

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
        chips = self._chips_height
        around = _PAD_TOP + 8 + _ROW_PX + _PAD_BOTTOM + chips
        needed = around + self._edit.text_height()
        return max(BOX_MIN + chips, min(max(BOX_MAX, around + _LEAST_EDIT), needed))

    @property
    def _chips_height(self) -> int:
        """Of the attached files with the gap below them; 0 without any."""
        height = self.files.row.height_for(self.width() - 2 * _CHIPS_LEFT)
        return height + _CHIPS_GAP if height else 0

    def _place(self) -> None:
        box, width = self.box_height, self.width()
        row = box - _PAD_BOTTOM - _ROW_PX
        chips = self._chips_height
        top = _PAD_TOP + chips
        self.files.row.setGeometry(_CHIPS_LEFT, 12, width - 2 * _CHIPS_LEFT, max(0, chips - _CHIPS_GAP))
        self._edit.setGeometry(_PAD_X, top, max(40, width - _PAD_X - 6), row - top - 6)
        self._button.move(width - 12 - _ROW_PX, row)
        self._clip.move(8, row)
        size = self._counter.sizeHint()
        counter_left = width - 12 - _ROW_PX - 16 - size.width()
        self._counter.setGeometry(counter_left, row, size.width(), _ROW_PX)
        self._place_chips(row, counter_left)
        self._hints.setGeometry(0, box + _HINT_GAP, width, self._hints.height())
        self.update()

    def _place_chips(self, row: int, right: int) -> None:
        """Length and thinking; where there is no room for both, the length goes: it is a command too."""
        left = 48
        thinking = 0 if self._thinking.isHidden() else self._thinking.sizeHint().width() + 6
        has_room = left + self._length.sizeHint().width() + thinking < right
        self._length.setVisible(has_room)
        for chip in (self._length, self._thinking) if has_room else (self._thinking,):
            size = chip.sizeHint()
            chip.setGeometry(left, row + (_ROW_PX - size.height()) // 2, size.width(), size.height())
            left += size.width() + 6

    def sizeHint(self) -> QSize:
        return QSize(560, self.box_height + _HINT_GAP + self._hints.height())

    def minimumSizeHint(self) -> QSize:
        return QSize(240, self.sizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        if self.files.row.chips and self.height() != self.sizeHint().height():
            self._on_height_changed()  # the chips take another number of lines
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
