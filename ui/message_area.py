"""Messages in one scroll area that reads only what is new.

Knows message values and pieces of them; what the pointer and the keys do is in ``ui.transcript``.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

from PySide6.QtCore import QRectF
from PySide6.QtWidgets import QWidget

from engine.words import tr
from ui.chat_values import MessageView
from ui.message import MessageItems
from ui.piece_area import BUSY_MS, PieceArea, single_shot

_FRAME_MS = 40  # between two looks at new text
_SLICE_S = 0.010


class MessageArea(PieceArea):
    """Shows messages; text comes in by ``append_text``.

    An answer is read in slices: finished pieces are never made again, and the work for new text does not
    depend on how much there is.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr("Chat"))
        self._messages: list[MessageItems] = []
        self._by_id: dict[str, MessageItems] = {}
        self._waiting: dict[str, MessageItems] = {}  # with text to read, the next one last
        self._edited_id = ""
        self._revealed_id = ""  # of the message that stays in view until the user scrolls
        self._timer = single_shot(self, self._on_timer)

    # What is shown

    def show_messages(self, views: Sequence[MessageView]) -> None:
        """Show another chat, from its end; long ones fill up in slices."""
        self.clear()
        for view in views:
            self._add(view)
        self._is_following = True
        self._work(_SLICE_S)

    def append_message(self, view: MessageView) -> None:
        """Add a message at the end; the user's own brings the view back to the end."""
        if view.role == "user":
            self._is_following, self._revealed_id = True, ""
        self._add(view)
        self._work(_SLICE_S)

    def append_text(self, message_id: str, text: str, *, is_thinking: bool = False) -> None:
        """The next part of an answer, or of what the model thinks before it; calls may come as often as they
        like.
        """
        message = self._by_id.get(message_id)
        if message is None or not text:
            return
        if is_thinking and not message.append_thinking(text):
            return
        if not is_thinking:
            message.append(text)
        self._waiting[message_id] = message
        if not self._timer.isActive():
            self._work(_SLICE_S)
            self._timer.start(_FRAME_MS)

    def toggle_thought(self, message_id: str) -> None:
        """Open or close what the model thought before an answer; the row stays where it is."""
        message = self._by_id.get(message_id)
        if message is None or message.thought is None:
            return
        message.toggle_thought()
        with self.holding_still():
            self._refresh(message)
        if self._waiting and not self._timer.isActive():
            self._timer.start(BUSY_MS)

    def toggle_file(self, message_id: str, number: int) -> None:
        """Open or close a text that is attached to a message; its chip stays where it is."""
        message = self._by_id.get(message_id)
        if message is None:
            return
        count = len(message.items)
        with self.holding_still():
            message.toggle_file(number)
            self._replace(message, 0, count)

    def toggle_raw(self, message_id: str) -> None:
        """Show an answer as it came, or formatted again; its beginning stays in view."""
        message = self._by_id.get(message_id)
        if message is None or message.is_open or message.view.role == "user":
            return
        count = len(message.items)
        message.toggle_raw()
        message.items.clear()
        message.refresh()
        self._replace(message, 0, count)
        if message.has_unread:
            self._waiting[message_id] = message
            self._timer.start(BUSY_MS)
        self.reveal(message_id)

    def is_raw(self, message_id: str) -> bool | None:
        """Whether an answer is shown as it came; None where there is no choice."""
        message = self._by_id.get(message_id)
        if message is None or message.is_open or message.view.role == "user":
            return None
        return message.is_raw

    def set_message(self, view: MessageView) -> None:
        """A message changed its state or is complete; one that is not here is left alone."""
        message = self._by_id.get(view.message_id)
        if message is None:
            return
        count = len(message.items)
        if message.set_view(view):
            self._replace(message, 0, count)
        self._refresh(message)
        self._settle()

    def set_left_out(self, message_ids: Collection[str]) -> None:
        """Set back these messages, and no others: the model does not know them any more."""
        for message in self._messages:
            message.set_left_out(message.view.message_id in message_ids)
        self._dirty = 0
        self._settle()

    def reveal(self, message_id: str) -> None:
        """Bring the beginning of a message into view, and keep it there while what is above is being read."""
        if message_id in self._by_id:
            self._is_following, self._revealed_id = False, message_id
            self._settle()

    def _held_piece(self) -> int | None:
        message = self._by_id.get(self._revealed_id)
        return message.start if message is not None else None

    def jump_to_end(self) -> None:
        self._revealed_id = ""
        super().jump_to_end()

    def _on_scrolled(self) -> None:
        if not self._is_settling:
            self._revealed_id = ""
        super()._on_scrolled()

    def set_edited(self, message_id: str) -> None:
        """Outline a message that is being edited; "" for none."""
        self._edited_id = message_id
        self.viewport().update()

    def _edited_rect(self) -> QRectF:
        """Where the message that is edited stands; without a size where there is none."""
        message = self._by_id.get(self._edited_id)
        if message is None or not message.items:
            return QRectF()
        places = range(message.start, message.start + len(message.items))
        whole = QRectF(self.item_rect(places[0]).united(self.item_rect(places[-1])))
        whole.setLeft(whole.right() - max(item.shown_width for item in message.items))
        margin = 0 if message.view.role == "user" else 8
        return whole.adjusted(-margin, -margin, margin, margin)

    def clear(self) -> None:
        """Show nothing."""
        self._edited_id = self._revealed_id = ""
        self._messages.clear()
        self._by_id.clear()
        self._waiting.clear()
        self._laid.clear()
        self.selection.clear()
        self.flow.splice(0, len(self.flow.items), [])
        self._settle()

    def message_text(self, message_id: str) -> str:
        """All text of a message as it came, also what is not shown yet."""
        message = self._by_id.get(message_id)
        return message.text() if message else ""

    def is_answer(self, message_id: str) -> bool:
        """Whether a message was written by the model."""
        message = self._by_id.get(message_id)
        return message is not None and message.view.role != "user"

    def can_go_on(self, message_id: str) -> bool:
        """Whether a message is an unfinished answer that can be continued."""
        message = self._by_id.get(message_id)
        return message is not None and message.can_go_on

    @property
    def is_busy(self) -> bool:
        """Whether text is still waiting to be shown."""
        return bool(self._waiting)

    # Building

    def _add(self, view: MessageView) -> None:
        before = self._messages[-1] if self._messages else None
        if before is not None:
            was_unfinished, before.is_last = before.can_go_on, False
            if was_unfinished:
                self._refresh(before)
        message = MessageItems(view)
        message.start = len(self.flow.items)
        self._messages.append(message)
        self._by_id[view.message_id] = message
        self._waiting[view.message_id] = message
        self._replace(message, 0, 0)

    def _replace(self, message: MessageItems, first: int, count: int) -> None:
        """Pieces of a message from ``first`` on, ``count`` in the column, are now those in its ``items``."""
        start = message.start + first
        new = message.items[first:]
        self.splice(start, count, new, max(0, start - message.has_moved_caret))
        delta = len(new) - count
        if delta and message is not self._messages[-1]:
            for later in self._messages[self._messages.index(message) + 1 :]:
                later.start += delta

    def _refresh(self, message: MessageItems) -> None:
        before = len(message.items)
        first = message.refresh()
        self._replace(message, first, before - first)
        if message.has_unread:
            self._waiting[message.view.message_id] = message
        else:
            self._waiting.pop(message.view.message_id, None)

    def _work(self, budget_s: float) -> None:
        """Read waiting text, newest message first, until the time is over; the timer does the rest."""
        stop_s = time.perf_counter() + budget_s
        while self._waiting:
            self._refresh(next(reversed(self._waiting.values())))
            if time.perf_counter() > stop_s:
                break
        self._settle()
        if self._waiting and not self._timer.isActive():
            self._timer.start(BUSY_MS)

    def _on_timer(self) -> None:
        if self._waiting:
            self._timer.start(_FRAME_MS)
            self._work(_SLICE_S)
            if self._waiting:
                self._timer.start(BUSY_MS)
