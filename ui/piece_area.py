"""Pieces of messages in one scroll area that lays out and paints only what is near the view.

Knows pieces alone; whose they are and how they come to be is in ``ui.message_area``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from PySide6.QtCore import QPointF, QRect, QRectF, Qt, QTimer
from PySide6.QtGui import QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QWidget

from ui import theme
from ui.blocks import Item, Look
from ui.column import column
from ui.flow import Flow
from ui.jump_button import JumpButton
from ui.selection import Selection

FOLLOW_PX = 48
REVEAL_PX = 48  # that stay above a piece that is held
BUSY_MS = 5  # between two slices of work that is left
_NEAR_PX = 240  # laid out above and below the view
_KEEP_LAID = 300  # pieces whose layout is kept


class PieceArea(QAbstractScrollArea):
    """A column of pieces, in ``flow``. It follows its end, or keeps what is in view where it is."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.flow = Flow()
        self.selection = Selection()
        self._laid: list[Item] = []
        self._is_following = True
        self._is_settling = False
        self._dirty = 0  # the first piece to paint again
        self._content_bottom = 0  # where the column ended when it was last painted
        self._set_up_widgets()
        self._more_timer = single_shot(self, self.viewport().update)
        theme.notifier().changed.connect(self._on_theme_changed)

    def _set_up_widgets(self) -> None:
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.viewport().setMouseTracking(True)
        self.viewport().setAutoFillBackground(False)
        self.viewport().setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)  # spares what lies behind
        self.verticalScrollBar().setSingleStep(24)
        self.verticalScrollBar().valueChanged.connect(self._on_scrolled)
        self._jump = JumpButton(self)
        self._jump.clicked.connect(self.jump_to_end)

    @property
    def is_following(self) -> bool:
        """Whether the view stays at the end while text comes in."""
        return self._is_following

    def jump_to_end(self) -> None:
        """Go to the end and follow it again."""
        self._is_following = True
        self._dirty = 0
        self._settle()

    @property
    def _is_near_end(self) -> bool:
        bar = self.verticalScrollBar()
        return bar.maximum() - bar.value() <= FOLLOW_PX

    @contextmanager
    def holding_still(self) -> Iterator[None]:
        """While pieces change, what is in view stays; an end that is still near is followed again."""
        self._is_following = False
        yield
        self._settle()
        self._is_following = self._is_near_end and self._held_piece() is None
        self._show_jump()

    def splice(self, start: int, count: int, new: Sequence[Item], first_changed: int) -> None:
        """Put other pieces in the place of ``count``; what is from ``first_changed`` on is painted again."""
        self._dirty = min(self._dirty, first_changed)
        self.flow.splice(start, count, new)
        self.selection.spliced(start, count, len(new))

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
                if (held := self._held_piece()) is not None:
                    bar.setValue(max(0, self.flow.top(held) - REVEAL_PX))
                if changed < 0:
                    break
                self._dirty = min(self._dirty, changed)
            self._let_go()
        finally:
            self._is_settling = False
        self._show_jump()
        self._repaint(is_moved=bar.value() != before)

    def _held_piece(self) -> int | None:
        """The piece that stays near the top of the view, whatever happens above it."""
        return None

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
        is_away = not self._is_following and not self._is_near_end
        if is_away:
            left, width = column(self.width())
            size = self._jump.size()
            self._jump.move(left + (width - size.width()) // 2, self.height() - size.height() - 12)
        self._jump.setVisible(is_away)

    def _on_scrolled(self) -> None:
        if self._is_settling:
            return
        is_near = self._is_near_end
        self._is_following = False  # an end that is near does not pull the view: it waits for new text
        self._settle()
        self._is_following = is_near
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
            self._more_timer.start(BUSY_MS)

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
