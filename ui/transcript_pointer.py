"""What the pointer does in the transcript: it hovers, selects, presses and moves wide blocks sideways."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QMouseEvent, QWheelEvent
from PySide6.QtWidgets import QApplication

from ui.blocks import Item
from ui.code_block import BAR, CodeItem
from ui.sideways import Sideways
from ui.table_block import TableItem
from ui.transcript_menu import ask_about_link

if TYPE_CHECKING:
    from ui.transcript import Transcript


class Pointer:
    """Points are those of the viewport. ``hover`` is the control under the pointer, by the key of its piece
    and its action; ``owner`` is the message there.
    """

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._selection = transcript.selection
        self.hover: tuple[object, str] = (None, "")
        self.owner = ""
        self._pressed: tuple[object, str] = (None, "")
        self._pressed_link = ""
        self._is_selecting = False
        self._drag: tuple[Sideways, float, int] | None = None
        self._double_click_s = 0.0

    def touch(self, at: QPointF) -> tuple[Item | None, str, str]:
        """The piece under a point, its control there, and the address there."""
        found = self._find(at)
        if found is None or not 0 <= found[2].y() < found[1].height:
            return None, "", ""
        return found[1], found[1].action_at(found[2]), found[1].link_at(found[2])

    def press(self, event: QMouseEvent) -> None:
        """The left button goes down."""
        found = self._find(event.position())
        if found is None:
            return
        index, item, point = found
        touched, action, self._pressed_link = self.touch(event.position())
        if touched and action == BAR and isinstance(touched, CodeItem | TableItem):
            self._drag = (touched.sideways, event.position().x(), touched.sideways.offset)
        elif touched and action:
            self._pressed = (touched.key, action)
        elif time.monotonic() - self._double_click_s < QApplication.doubleClickInterval() / 1000:
            self._selection.take_item(index, item)
        else:
            self._is_selecting = True
            if event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
                self._selection.extend(index, item.hit(point))
            else:
                self._selection.begin(index, item.hit(point))
        self._update()

    def move(self, at: QPointF) -> None:
        """It moves, with the button down or not."""
        if self._drag:
            sideways, start, offset = self._drag
            sideways.scroll_to(offset + (at.x() - start) * sideways.drag_ratio())
            self._update()
        elif self._is_selecting:
            self._scroll_past(at.y())
            found = self._find(at)
            if found:
                self._selection.extend(found[0], found[1].hit(found[2]))
            self._update()
        else:
            self._set_hover(at)

    def release(self, at: QPointF) -> None:
        """The button goes up: what it went down on is pressed."""
        item, action, link = self.touch(at)
        pressed, self._pressed = self._pressed, (None, "")
        if item and action and pressed == (item.key, action):
            self._transcript.act(item, action)
        elif link and link == self._pressed_link and self._selection.is_empty and self._is_selecting:
            ask_about_link(self._transcript, link)
        self._drag, self._is_selecting, self._pressed_link = None, False, ""

    def double_click(self, at: QPointF) -> None:
        """Select a word; a third press soon after takes the whole piece."""
        found = self._find(at)
        if found and not self.touch(at)[1]:
            self._selection.take_word(found[0], found[1].hit(found[2]), found[1])
            self._double_click_s = time.monotonic()
            self._update()

    def scroll_aside(self, event: QWheelEvent) -> bool:
        """Move a wide block under the pointer sideways; False where the wheel does not mean that."""
        delta = event.pixelDelta() if not event.pixelDelta().isNull() else event.angleDelta() / 2
        is_shifted = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
        aside = delta.y() or delta.x() if is_shifted else delta.x()
        is_aside = is_shifted or abs(delta.x()) > abs(delta.y())
        item = self.touch(event.position())[0]
        if not (isinstance(item, CodeItem | TableItem) and item.sideways.most and is_aside):
            return False
        if item.sideways.scroll_to(item.sideways.offset - aside):
            self._update()
        return True

    def leave(self) -> None:
        """It is over nothing."""
        self.hover, self.owner = (None, ""), ""
        self._update()

    def _find(self, at: QPointF) -> tuple[int, Item, QPointF] | None:
        """The piece nearest to a point, and the point inside it."""
        flow = self._transcript.flow
        if not flow.items:
            return None
        index = flow.index_at(at.y() + self._transcript.verticalScrollBar().value())
        return index, flow.items[index], at - QPointF(self._transcript.item_rect(index).topLeft())

    def _set_hover(self, at: QPointF) -> None:
        item, action, link = self.touch(at)
        found = self._find(at)
        shape = Qt.CursorShape.ArrowCursor
        if (action and action != BAR) or link:
            shape = Qt.CursorShape.PointingHandCursor
        elif item and found and not action and item.length and item.is_text_at(found[2]):
            shape = Qt.CursorShape.IBeamCursor
        self._transcript.viewport().setCursor(shape)
        owner = found[1].owner if found else ""
        hover = (item.key if item and action else None, action)
        if (hover, owner) != (self.hover, self.owner):
            self.hover, self.owner = hover, owner
            self._update()

    def _scroll_past(self, y: float) -> None:
        """Selecting beyond the edge of the view moves it."""
        bar = self._transcript.verticalScrollBar()
        over = min(0.0, y) + max(0.0, y - self._transcript.viewport().height())
        bar.setValue(bar.value() + round(over))

    def _update(self) -> None:
        self._transcript.viewport().update()
