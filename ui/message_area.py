"""Messages in one scroll area that reads, lays out and paints only what is new or near the view.

Knows message values and pieces of them; what the pointer and the keys do is in ``ui.transcript``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence

from PySide6.QtCore import QPointF, QRect, QRectF, Qt, QTimer
from PySide6.QtGui import QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QWidget

from ui import theme
from ui.blocks import Item, Look
from ui.column import column
from ui.flow import Flow
from ui.jump_button import JumpButton
from ui.message import MessageItems
from ui.selection import Selection
from ui.values import MessageView

FOLLOW_PX = 48
REVEAL_PX = 48  # that stay above a message that was searched
_FRAME_MS = 40  # between two looks at new text
_BUSY_MS = 5  # between two slices of work that is left
_SLICE_S = 0.010
_NEAR_PX = 240  # laid out above and below the view
_KEEP_LAID = 300  # pieces whose layout is kept


class MessageArea(QAbstractScrollArea):
    """Shows messages; text comes in by ``append_text``.

    An answer is read in slices: finished pieces are never made again, and the work for new text does not
    depend on how much there is.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.flow = Flow()
        self.selection = Selection()
        self._messages: list[MessageItems] = []
        self._by_id: dict[str, MessageItems] = {}
        self._waiting: dict[str, MessageItems] = {}  # with text to read, the next one last
        self._laid: list[Item] = []
        self._edited_id = ""
        self._revealed_id = ""  # of the message that stays in view until the user scrolls
        self._is_following = True
        self._is_settling = False
        self._dirty = 0  # the first piece to paint again
        self._content_bottom = 0  # where the column ended when it was last painted
        self._set_up_widgets()
        self._timer = single_shot(self, self._on_timer)
        self._more_timer = single_shot(self, self.viewport().update)
        theme.notifier().changed.connect(self._on_theme_changed)

    def _set_up_widgets(self) -> None:
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Chat")
        self.viewport().setMouseTracking(True)
        self.viewport().setAutoFillBackground(False)
        self.viewport().setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)  # spares what lies behind
        self.verticalScrollBar().setSingleStep(24)
        self.verticalScrollBar().valueChanged.connect(self._on_scrolled)
        self._jump = JumpButton(self)
        self._jump.clicked.connect(self.jump_to_end)

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
        was_following, self._is_following = self._is_following, False
        self._refresh(message)
        self._settle()
        bar = self.verticalScrollBar()
        self._is_following = was_following and bar.maximum() - bar.value() <= FOLLOW_PX
        self._show_jump()
        if self._waiting and not self._timer.isActive():
            self._timer.start(_BUSY_MS)

    def toggle_file(self, message_id: str, number: int) -> None:
        """Open or close a text that is attached to a message; its chip stays where it is."""
        message = self._by_id.get(message_id)
        if message is None:
            return
        count = len(message.items)
        was_following, self._is_following = self._is_following, False
        message.toggle_file(number)
        self._replace(message, 0, count)
        self._settle()
        bar = self.verticalScrollBar()
        self._is_following = was_following and bar.maximum() - bar.value() <= FOLLOW_PX
        self._show_jump()

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
            self._timer.start(_BUSY_MS)
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

    def _go_to_revealed(self) -> None:
        message = self._by_id.get(self._revealed_id)
        if message is not None:
            self.verticalScrollBar().setValue(max(0, self.flow.top(message.start) - REVEAL_PX))

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
    def is_following(self) -> bool:
        """Whether the view stays at the end while text comes in."""
        return self._is_following

    @property
    def is_busy(self) -> bool:
        """Whether text is still waiting to be shown."""
        return bool(self._waiting)

    def jump_to_end(self) -> None:
        """Go to the end and follow it again."""
        self._is_following, self._revealed_id = True, ""
        self._dirty = 0
        self._settle()

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
        self._dirty = min(self._dirty, max(0, start - message.has_moved_caret))
        new = message.items[first:]
        self.flow.splice(start, count, new)
        self.selection.spliced(start, count, len(new))
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
            self._timer.start(_BUSY_MS)

    def _on_timer(self) -> None:
        if self._waiting:
            self._timer.start(_FRAME_MS)
            self._work(_SLICE_S)
            if self._waiting:
                self._timer.start(_BUSY_MS)

    # Layout

    def _settle(self) -> None:
        """Lay out what is near the view; keep the end, or else the first visible piece, where it is."""
        if self._is_settling:
            return
        self._is_settling = True
        bar = self.verticalScrollBar()
        height = self.viewport().height()
        before = bar.value()
        try:
            for _ in range(6):
                at = self.flow.index_at(bar.value())
                offset = bar.value() - self.flow.top(at)
                top = self.flow.height - height if self._is_following else bar.value()
                changed = self.flow.fit(top - _NEAR_PX, top + height + _NEAR_PX)
                bar.setRange(0, max(0, self.flow.height - height))
                bar.setPageStep(height)
                bar.setValue(bar.maximum() if self._is_following else self.flow.top(at) + offset)
                self._go_to_revealed()
                if changed < 0:
                    break
                self._dirty = min(self._dirty, changed)
            self._let_go()
        finally:
            self._is_settling = False
        self._show_jump()
        self._repaint(is_moved=bar.value() != before)

    def _repaint(self, is_moved: bool) -> None:
        """Paint again what changed: mostly the open end of an answer alone."""
        bar = self.verticalScrollBar()
        if is_moved or self._dirty >= len(self.flow.items):
            self.viewport().update()
        else:
            top = self.item_rect(self._dirty).top() - self.flow.items[self._dirty].gap
            bottom = max(self._content_bottom, self.flow.height) - bar.value()
            self.viewport().update(0, top, self.viewport().width(), bottom - top)
        self._content_bottom = self.flow.height
        self._dirty = len(self.flow.items)

    def _let_go(self) -> None:
        """Drop the layouts of pieces that are far away when there are many."""
        first, last = self.visible_range()
        items = self.flow.items[first:last]
        self._laid.extend(items)
        if len(self._laid) > _KEEP_LAID + 4 * len(items):
            near = {id(item) for item in self.flow.items[max(0, first - 20) : last + 20]}
            for item in self._laid:
                if id(item) not in near:
                    item.release()
            self._laid = list(items)

    def visible_range(self) -> tuple[int, int]:
        """The first visible piece and the one behind the last."""
        top = self.verticalScrollBar().value()
        last = self.flow.index_at(top + self.viewport().height())
        return self.flow.index_at(top), min(len(self.flow.items), last + 1)

    def _show_jump(self) -> None:
        bar = self.verticalScrollBar()
        is_away = not self._is_following and bar.maximum() - bar.value() > FOLLOW_PX
        if is_away:
            left, width = column(self.width())
            size = self._jump.size()
            self._jump.move(left + (width - size.width()) // 2, self.height() - size.height() - 12)
        self._jump.setVisible(is_away)

    def _on_scrolled(self) -> None:
        if self._is_settling:
            return
        bar, self._revealed_id = self.verticalScrollBar(), ""
        self._is_following = bar.maximum() - bar.value() <= FOLLOW_PX
        # Here the end is not pulled back: within 48 px the view stays until new text comes.
        following, self._is_following = self._is_following, False
        self._settle()
        self._is_following = following
        self._show_jump()

    def _on_theme_changed(self) -> None:
        for item in self.flow.items:
            item.restyle()
        self.viewport().update()

    # Painting

    def item_rect(self, index: int) -> QRect:
        """Where a piece stands in the viewport."""
        left, width = column(self.width())
        top = self.flow.top(index) - self.verticalScrollBar().value()
        return QRect(left, top, width, self.flow.items[index].height)

    def _look(self, index: int, item: Item) -> Look:
        return Look(self.selection.part_of(index, item))

    def _paint_bar(self, painter: QPainter, index: int) -> None:
        """The bar beside what the model thought, without a break between its pieces."""
        item = self.flow.items[index]
        above = item.gap if index and self.flow.items[index - 1].is_aside else 0
        painter.fillRect(QRectF(0, -above, 2, item.height + above), theme.palette().track)

    def _paint_over(self, painter: QPainter) -> None:
        """What lies above the messages."""

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.fillRect(event.rect(), theme.palette().bg0)
        first, last = self.visible_range()
        wants_more = False
        for index in range(first, last):
            item, rect = self.flow.items[index], self.item_rect(index)
            if rect.bottom() < event.rect().top():
                continue
            look = self._look(index, item)
            origin = QPointF(rect.topLeft())
            painter.save()
            painter.translate(origin)
            if item.is_aside:
                self._paint_bar(painter, index)
            item.paint(painter, QRectF(event.rect()).translated(-origin), look)
            painter.restore()
            wants_more |= look.wants_more
        self._paint_over(painter)
        if wants_more:
            self._more_timer.start(_BUSY_MS)

    def resizeEvent(self, event: QResizeEvent) -> None:
        at = self.flow.index_at(self.verticalScrollBar().value())
        self.flow.set_width(column(self.width())[1])
        if not self._is_following and self.flow.items:
            self._is_settling = True
            self.verticalScrollBar().setValue(self.flow.top(at))
            self._is_settling = False
        self._settle()


def single_shot(parent: QWidget, slot: Callable[[], object]) -> QTimer:
    """A timer that calls ``slot`` once after each start."""
    timer = QTimer(parent)
    timer.setSingleShot(True)
    timer.timeout.connect(slot)
    return timer
