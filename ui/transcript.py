"""The chat: what the keys, the menu and controls do with the messages that ``MessageArea`` shows."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPointF, QRect, Qt, Signal
from PySide6.QtGui import (
    QAccessible,
    QAccessibleAnnouncementEvent,
    QContextMenuEvent,
    QFocusEvent,
    QGuiApplication,
    QHelpEvent,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPen,
    QWheelEvent,
)
from PySide6.QtWidgets import QMenu, QToolTip, QWidget

from engine.words import tr
from ui import theme
from ui.attachment_item import TOGGLE_FILE, AttachmentItem
from ui.blocks import LINK, Control, Item, Look
from ui.chat_values import MessageView
from ui.code_block import COPY, CodeItem
from ui.control_focus import ControlFocus, controls_of
from ui.gauge import is_keyboard_focus
from ui.label import key_text, plain_tooltip
from ui.marks import MAKE_ROOM
from ui.message import OPEN_STATES, MessageItems
from ui.message_actions import CONTINUE, COPY_MESSAGE, EDIT, NEXT, PREVIOUS, REGENERATE, shortcut_of
from ui.message_area import MessageArea
from ui.piece_area import single_shot
from ui.table_block import TableItem
from ui.thought import TOGGLE_THOUGHT, ThoughtItem
from ui.transcript_menu import ask_about_link, piece_menu
from ui.transcript_pointer import Pointer

COPIED_MS = 2_000
_SPOKEN_CHARS = 2_000
_PRESS_KEYS = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space)


class Transcript(MessageArea):
    """A chat to read. Signals: ``link_clicked`` once the user agreed to open an address (http, https,
    mailto), ``copied`` with what went to the clipboard, ``continue_clicked``, ``edit_clicked`` and
    ``regenerate_clicked`` with the id of a message, ``branch_clicked`` with that and 1 or -1, and
    ``room_clicked``.

    Up and Down choose a message, Ctrl+C copies the selection or the chosen message, Left and Right move its
    wide blocks sideways. Tab goes through what can be pressed in it, or else in the last one that has such;
    Enter and Space press that, or open what the model thought.
    """

    link_clicked = Signal(str)
    copied = Signal(str)
    continue_clicked = Signal(str)
    edit_clicked = Signal(str)
    regenerate_clicked = Signal(str)
    branch_clicked = Signal(str, int)
    room_clicked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._done: tuple[object, str] = (None, "")
        self._pointer = Pointer(self)
        self._current = -1  # the message chosen with the keys
        self._focus = ControlFocus()  # inside that message
        self._has_ring = False
        self._done_timer = single_shot(self, self._on_copied_over)

    # Copying

    def copy(self, text: str, key: object = None, action: str = "") -> None:
        """Put text on the clipboard; the control that asked for it says so for 2 s."""
        QGuiApplication.clipboard().setText(text)
        self._done = (key, action)
        self._done_timer.start(COPIED_MS)
        self.viewport().update()
        self.copied.emit(text)

    def copy_last_code(self) -> bool:
        """Copy the newest block of code, exactly; False where there is none."""
        for message in reversed(self._messages):
            source = message.last_code()
            if source:
                self.copy(source.text(), source, COPY)
                return True
        return False

    def copy_message(self, message_id: str) -> None:
        """Copy a whole message as it came."""
        self.copy(self.message_text(message_id), message_id, COPY_MESSAGE)

    def selected_text(self) -> str:
        """What is selected, as plain text."""
        return self.selection.text(self.flow.items)

    def select_all(self) -> None:
        """Select the whole chat."""
        self.selection.take_all(self.flow.items)
        self.viewport().update()

    def set_message(self, view: MessageView) -> None:
        before = self._by_id.get(view.message_id)
        was_open = before is not None and before.is_open
        super().set_message(view)
        if was_open and view.status not in OPEN_STATES:
            self._say(tr("Answer finished") if view.status == "done" else tr("Answer ended"))

    def clear(self) -> None:
        self._current = -1
        self._focus.leave()
        self._pointer.owner = ""
        super().clear()

    def _say(self, text: str) -> None:
        QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self, text))

    def _on_copied_over(self) -> None:
        self._done = (None, "")
        self.viewport().update()

    def _look(self, index: int, item: Item) -> Look:
        look = super()._look(index, item)
        if self._done[0] is item.key or self._done[0] == item.key:
            look.done = self._done[1]
        if self._pointer.hover[0] == item.key:
            look.hover = self._pointer.hover[1]
        answers = (m for m in reversed(self._messages) if m.view.role != "user" and not m.is_open)
        last = next((message.view.message_id for message in answers), "")
        current = self._messages[self._current].view.message_id if self._current >= 0 else ""
        look.shows_actions = item.owner in (self._pointer.owner, last, current)
        return look

    # Acting

    def act(self, item: Item, action: str) -> None:
        """Do what a control of a piece stands for."""
        if action.startswith(LINK):
            ask_about_link(self, action.removeprefix(LINK))
        elif action == COPY and isinstance(item, CodeItem):
            self.copy(item.source.text(), item.key, COPY)
        elif action == COPY_MESSAGE:
            self.copy_message(item.owner)
        elif action == TOGGLE_FILE and isinstance(item, AttachmentItem):
            self.toggle_file(item.owner, item.number)
        elif action == TOGGLE_THOUGHT:
            self.toggle_thought(item.owner)
        elif action in (PREVIOUS, NEXT):
            self.branch_clicked.emit(item.owner, 1 if action == NEXT else -1)
        elif action == MAKE_ROOM:
            self.room_clicked.emit()
        elif signal := {EDIT: self.edit_clicked, REGENERATE: self.regenerate_clicked}.get(action):
            signal.emit(item.owner)
        elif action == CONTINUE:
            self.continue_clicked.emit(item.owner)

    def chosen_answer(self) -> str:
        """The id of the answer that is chosen with the keys, "" where none is."""
        chosen = self._chosen
        return chosen.view.message_id if chosen and chosen.view.role != "user" and self.hasFocus() else ""

    def last_answer(self) -> str:
        """The id of the last answer, "" where there is none."""
        answers = (m.view.message_id for m in reversed(self._messages) if m.view.role != "user")
        return next(answers, "")

    def unfinished_answer(self) -> str:
        """The id of the last message where that is an answer that can go on, else ""."""
        last = self.last_answer()
        return last if last and self.can_go_on(last) else ""

    def copy_last_answer(self) -> None:
        """Copy the last answer as it came."""
        self.copy_message(self.last_answer())

    def branching_message(self) -> str:
        """The chosen message if it has branches, else the last that has; "" where none has."""
        chosen = [self._chosen] if self._chosen and self.hasFocus() else []
        found = (m.view for m in (*chosen, *reversed(self._messages)) if m.view.branches > 1)
        return next((view.message_id for view in found), "")

    def make_menu(self, item: Item | None, link: str = "") -> QMenu:
        """The context menu for a piece; without one, for the chat."""
        return piece_menu(self, item, link)

    def _choose(self, number: int) -> None:
        """Choose a message with the keys, show it and tell assistive technology."""
        self._current = max(0, min(len(self._messages) - 1, number))
        self._focus.leave()
        message = self._messages[self._current]
        who = tr("You") if message.view.role == "user" else tr("Answer")
        thought = f"{message.thought.name}. " if message.thought else ""
        figures = ", ".join(filter(None, (message.view.stats, *message.view.details.split("\n"))))
        ending = f". {figures}" if figures and not message.is_open else ""
        spoken = f"{thought}{who}: {message.text()[:_SPOKEN_CHARS]}{ending}"
        self.setAccessibleDescription(spoken)
        self._say(spoken)
        self._bring_into_view(self._message_rect(self._current))

    def _bring_into_view(self, rect: QRect) -> None:
        """Scroll as little as it takes; of what is higher than the view the beginning is shown."""
        bar = self.verticalScrollBar()
        if rect.top() < 0 or rect.height() > self.viewport().height():
            bar.setValue(bar.value() + rect.top() - 12)
        elif rect.bottom() > self.viewport().height():
            bar.setValue(bar.value() + rect.bottom() - self.viewport().height() + 12)
        self.viewport().update()

    @property
    def _chosen(self) -> MessageItems | None:
        return self._messages[self._current] if 0 <= self._current < len(self._messages) else None

    def _chosen_thought(self) -> ThoughtItem | None:
        return self._chosen.thought if self._chosen else None

    def _press(self, item: Item, control: Control) -> None:
        self.act(item, control.action)
        thought = self._chosen_thought()
        if control.action == TOGGLE_THOUGHT and thought:
            self._say(thought.name)

    def _toggle_chosen(self) -> None:
        message = self._messages[self._current]
        self.toggle_thought(message.view.message_id)
        if message.thought:
            self._say(message.thought.name)

    def _message_rect(self, number: int) -> QRect:
        message = self._messages[number]
        if not message.items:
            return QRect()
        first = self.item_rect(message.start)
        return first.united(self.item_rect(message.start + len(message.items) - 1))

    def _push_sideways(self, delta: int) -> None:
        """Move every wide block of the chosen message."""
        if 0 <= self._current < len(self._messages):
            for item in self._messages[self._current].items:
                if isinstance(item, CodeItem | TableItem):
                    item.sideways.scroll_to(item.sideways.offset + delta)
        self.viewport().update()

    def _paint_over(self, painter: QPainter) -> None:
        if edited := self._edited_rect():
            painter.setPen(QPen(theme.palette().accent, 2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(edited, 12, 12)
        if not self.hasFocus():
            return
        if found := self._focus.of(self._chosen):
            item, control = found
            at = self.item_rect(self.flow.items.index(item)).topLeft()
            theme.draw_focus_ring(painter, control.rect.translated(at).adjusted(-2, -2, 2, 2), 8)
        elif self._chosen:
            ring = self._message_rect(self._current).adjusted(-12, -8, 12, 8)
            theme.draw_focus_ring(painter, ring, 8)
        elif self._has_ring:
            theme.draw_focus_ring(painter, self.viewport().rect().adjusted(2, 2, -2, -2), 8)

    # Qt

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton and self.flow.items:
            self._current = -1
            self._focus.leave()
            self._pointer.press(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._pointer.move(event.position())

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        self._pointer.release(event.position())

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        self._pointer.double_click(event.position())

    def wheelEvent(self, event: QWheelEvent) -> None:
        if self._pointer.scroll_aside(event):
            event.accept()
        else:
            super().wheelEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = event.key()
        bar = self.verticalScrollBar()
        if event.matches(QKeySequence.StandardKey.Copy):
            if text := self.selected_text():
                self.copy(text)
            elif self._current >= 0:
                self.copy_message(self._messages[self._current].view.message_id)
        elif event.matches(QKeySequence.StandardKey.SelectAll):
            self.select_all()
        elif key in (Qt.Key.Key_Up, Qt.Key.Key_Down) and self._messages:
            start = self._current if self._current >= 0 else len(self._messages)
            self._choose(start + (1 if key == Qt.Key.Key_Down else -1))
        elif key in _PRESS_KEYS and (found := self._focus.of(self._chosen)):
            self._press(*found)
        elif key in _PRESS_KEYS and self._chosen_thought():
            self._toggle_chosen()
        elif key == Qt.Key.Key_E and self._chosen and not event.modifiers():
            self.edit_clicked.emit(self._chosen.view.message_id)
        elif key in (Qt.Key.Key_Left, Qt.Key.Key_Right):
            self._push_sideways(40 if key == Qt.Key.Key_Right else -40)
        elif key == Qt.Key.Key_Home:
            bar.setValue(0)
        elif key == Qt.Key.Key_End:
            self.jump_to_end()
        elif key in (Qt.Key.Key_PageUp, Qt.Key.Key_PageDown):
            super().keyPressEvent(event)
        else:
            event.ignore()  # the window's shortcuts, and letters that go to the composer

    def focusNextPrevChild(self, is_next: bool) -> bool:
        before = self._current
        if before < 0 and is_next:
            numbers = reversed(range(len(self._messages)))
            self._current = next((n for n in numbers if controls_of(self._messages[n])), -1)
        found = self._focus.move(self._chosen, 1 if is_next else -1) if self._chosen else None
        if found is None:
            self._current = before
            return super().focusNextPrevChild(is_next)
        self.setAccessibleDescription(found[1].name)
        self._say(found[1].name)
        self._bring_into_view(self.item_rect(self.flow.items.index(found[0])))
        return True

    def focusInEvent(self, event: QFocusEvent) -> None:
        self._has_ring = is_keyboard_focus(event, self._has_ring)
        super().focusInEvent(event)
        self.viewport().update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.viewport().update()

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        item, _, link = self._pointer.touch(QPointF(event.pos()))
        at = event.globalPos()
        if event.reason() == QContextMenuEvent.Reason.Keyboard and self._current >= 0:
            item = self._messages[self._current].items[0]
            at = self.viewport().mapToGlobal(self._message_rect(self._current).topLeft())
        self.make_menu(item, link).popup(at)

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            item, action, link = self._pointer.touch(QPointF(event.pos()))
            names = {control.action: control.name for control in item.controls()} if item else {}
            keys = f" ({key_text(shortcut_of(action))})" if shortcut_of(action) else ""
            name = f"{names[action]}{keys}" if action in names else item.tooltip if item else ""
            QToolTip.showText(event.globalPos(), plain_tooltip(link or name), self)
            return True
        if event.type() == QEvent.Type.Leave:
            self._pointer.leave()
        return super().viewportEvent(event)
