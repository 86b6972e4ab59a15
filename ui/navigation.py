"""The rows at the foot of the sidebar that open whole pages: the model library and its neighbours."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QFontMetricsF, QPainter, QPaintEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from engine.words import tr
from ui import theme
from ui.controls import IconButton, ThemedButton
from ui.painting import Run, centred_baseline, draw_runs, draw_runs_right

ROW_HEIGHT = 36


class PageRow(ThemedButton):
    """Icon, title and a few words on the right, as "4 models"; checked while its page is shown."""

    def __init__(self, icon: str, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._icon, self._note = icon, ""
        self.setText(title)
        self.setCheckable(True)
        self.setFixedHeight(ROW_HEIGHT)
        self.setMinimumWidth(180)
        self.setAccessibleName(title)
        self.setCursor(Qt.CursorShape.PointingHandCursor)

    @property
    def note(self) -> str:
        """The words on the right."""
        return self._note

    def set_note(self, note: str) -> None:
        """Show other words on the right."""
        self._note = note
        self.setAccessibleDescription(note)
        self.update()

    def nextCheckState(self) -> None:
        """Nothing: whoever shows pages says which is shown."""

    def paintEvent(self, event: QPaintEvent) -> None:
        colors = theme.palette()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if self.isChecked() or self.is_hovered:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colors.bg3)
            painter.drawRoundedRect(QRectF(self.rect()), 8, 8)
        if self.isChecked():
            painter.setBrush(colors.accent)
            painter.drawRoundedRect(QRectF(0, self.height() / 2 - 7, 3, 14), 1.5, 1.5)
        if self.has_ring:
            theme.draw_focus_ring(painter, self.rect(), 8)
        ink = colors.text1 if self.isChecked() or self.is_hovered else colors.text2
        theme.draw_icon(painter, QRectF(11, (self.height() - 16) / 2, 16, 16), self._icon, ink)
        font, small = theme.font("ui", 600 if self.isChecked() else 500), theme.font("small")
        title = Run(self.text(), font, colors.text1)
        end = draw_runs(painter, 37, centred_baseline(font, 0, self.height()), [title])
        if QFontMetricsF(small).horizontalAdvance(self._note) < self.width() - end - 20:
            note = Run(self._note, small, colors.text3)
            draw_runs_right(painter, self.width() - 12, centred_baseline(small, 0, self.height()), [note])

    def sizeHint(self) -> QSize:
        return QSize(216, ROW_HEIGHT)


class Navigation(QWidget):
    """The rows, or with ``is_rail`` their icons alone. ``page_clicked`` carries the key of a page."""

    page_clicked = Signal(str)

    def __init__(self, *, is_rail: bool = False, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._is_rail = is_rail
        self._rows: dict[str, PageRow | IconButton] = {}
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 8, 0, 8)
        self._column.setSpacing(4 if is_rail else 0)
        self.setAccessibleName(tr("Pages"))
        theme.notifier().changed.connect(self.update)

    def add_page(self, key: str, icon: str, title: str, shortcut: str = "") -> None:
        """Offer one more page, below those there are; ``shortcut`` is said in the tooltip."""
        tooltip = f"{title} ({shortcut})" if shortcut else title
        row = IconButton(icon, tooltip, is_checkable=True) if self._is_rail else PageRow(icon, title)
        row.setToolTip(tooltip)
        row.clicked.connect(lambda: self.page_clicked.emit(key))
        self._rows[key] = row
        self._column.addWidget(row)
        if self._is_rail:
            self._column.setAlignment(row, Qt.AlignmentFlag.AlignHCenter)

    def row(self, key: str) -> PageRow | IconButton:
        """The button of a page."""
        return self._rows[key]

    def set_note(self, key: str, note: str) -> None:
        """Words beside a page's title; the rail has no room for them."""
        row = self._rows[key]
        if isinstance(row, PageRow):
            row.set_note(note)

    def set_current(self, key: str) -> None:
        """Mark the page that is shown; empty for none."""
        for name, row in self._rows.items():
            row.setChecked(name == key)

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._rows:
            painter = QPainter(self)
            painter.fillRect(QRectF(0, 0, self.width(), 1), theme.palette().line)
