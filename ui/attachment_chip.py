"""The chips above the typed text: attached texts by name and cost, each with its way out. Know no files."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from PySide6.QtCore import QPoint, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QFontMetricsF, QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from engine.words import tr
from ui import theme
from ui.chat_values import AttachmentView
from ui.controls import ThemedButton
from ui.label import plain_tooltip
from ui.painting import Run, centred_baseline, draw_runs, runs_width

CHIP_PX, GAP = 28, 6
MOST_WIDTH = 400
_LEAST_WIDTH = 120
_PAD, _ICON, _CROSS = 8, 16, 28
_REMOVE_KEYS = (Qt.Key.Key_Delete, Qt.Key.Key_Backspace)


def cost_words(view: AttachmentView) -> str:
    """ "1,204 tokens", "reading…", and what of the file it is."""
    if view.is_reading:
        return tr("reading…")
    cost = ""
    if view.tokens is not None:
        cost = tr("%n\u00a0token(s)", "", view.tokens)
    return " · ".join(part for part in (cost, view.note) if part)


class AttachmentChip(ThemedButton):
    """One attached text. The cross removes it, so do Enter, Space, Del and Backspace; ``clicked`` says so."""

    def __init__(self, view: AttachmentView, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._view = view
        self.set_view(view)

    def set_view(self, view: AttachmentView) -> None:
        """Show another cost."""
        self._view = view
        cost = cost_words(view)
        words = tr("{name}, {cost}. Press to remove") if cost else tr("{name}. Press to remove")
        self.setAccessibleName(words.format(name=view.name, cost=cost))
        self.setToolTip(plain_tooltip(f"{view.name} · {cost}" if cost else view.name, tr("Remove (Del)")))
        self.update()

    def _runs(self, width: float | None = None) -> list[Run]:
        """Name and cost; the name is elided where ``width`` is short."""
        colors, cost = theme.palette(), cost_words(self._view)
        tail = [Run(f" · {cost}", theme.font("small", 400), colors.text2)] if cost else []
        font, name = theme.font("small", 600), self._view.name
        if width is not None:
            room = max(72.0, width - runs_width(tail))
            name = QFontMetricsF(font).elidedText(name, Qt.TextElideMode.ElideMiddle, room)
        return [Run(name, font, colors.text1), *tail]

    def hitButton(self, pos: QPoint) -> bool:
        return self.rect().contains(pos) and pos.x() >= self.width() - _CROSS

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in _REMOVE_KEYS:
            self.click()
            return
        super().keyPressEvent(event)

    def sizeHint(self) -> QSize:
        width = ceil(runs_width(self._runs())) + 2 * _PAD + _ICON + 6 + _CROSS
        return QSize(min(MOST_WIDTH, width), CHIP_PX)

    def minimumSizeHint(self) -> QSize:
        return QSize(min(_LEAST_WIDTH, self.sizeHint().width()), CHIP_PX)

    def paintEvent(self, event: QPaintEvent) -> None:
        colors = theme.palette()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(colors.bg3)
        painter.drawRoundedRect(QRectF(self.rect()), 6, 6)
        top = (CHIP_PX - _ICON) / 2
        theme.draw_icon(painter, QRectF(_PAD, top, _ICON, _ICON), "file-text", colors.text2)
        left = _PAD + _ICON + 6
        runs = self._runs(self.width() - left - _CROSS)
        painter.save()
        painter.setClipRect(QRectF(left, 0, self.width() - left - _CROSS + 2, CHIP_PX))
        draw_runs(painter, left, centred_baseline(runs[0].font, 0, CHIP_PX), runs)
        painter.restore()
        cross = QRectF(self.width() - _CROSS + 7, (CHIP_PX - 14) / 2, 14, 14)
        theme.draw_icon(painter, cross, "x", colors.text1 if self.is_hovered else colors.text2)
        if self.has_ring:
            theme.draw_focus_ring(painter, self.rect(), 6)


class AttachmentRow(QWidget):
    """The chips, in as many lines as they need. ``removed`` carries the place of one in the order."""

    removed = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.chips: list[AttachmentChip] = []
        self.setAccessibleName(tr("Attached files"))
        self.hide()

    def set_views(self, views: Sequence[AttachmentView]) -> None:
        """Show these; chips that stay keep the keyboard."""
        for chip in self.chips[len(views) :]:
            chip.hide()
            chip.deleteLater()
        del self.chips[len(views) :]
        for at, view in enumerate(views):
            if at < len(self.chips):
                self.chips[at].set_view(view)
            else:
                self._add(view)
        self.setVisible(bool(views))
        self.height_for(self.width())

    def _add(self, view: AttachmentView) -> None:
        chip = AttachmentChip(view, self)
        chip.clicked.connect(lambda _=False: self.removed.emit(self.chips.index(chip)))
        self.chips.append(chip)
        chip.show()

    def height_for(self, width: int) -> int:
        """Place the chips in lines of ``width`` and say how high they are; 0 without chips."""
        left = top = 0
        for chip in self.chips:
            wanted = min(chip.sizeHint().width(), max(1, width))
            if left and left + wanted > width:
                left, top = 0, top + CHIP_PX + GAP
            chip.setGeometry(left, top, wanted, CHIP_PX)
            left += wanted + GAP
        return top + CHIP_PX if self.chips else 0
