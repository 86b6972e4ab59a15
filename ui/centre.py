"""The middle of the window: top bar, transcript or welcome, notice, composer, all in one column of text."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QKeyEvent, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QStackedWidget, QVBoxLayout, QWidget

from engine.words import tr
from ui import theme
from ui.column import column
from ui.composer import Composer
from ui.edit_bar import EditBar
from ui.explain import ExplainPage
from ui.first_start import FirstStart
from ui.notice import NoticeBar
from ui.top_bar import TopBar
from ui.transcript import Transcript


class Centre(QWidget):
    """Stacks the parts and keeps them in line. Enter in an empty composer starts the starter's download."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.top_bar = TopBar()
        self.transcript = Transcript()
        self.first_start = FirstStart()
        self.explain = ExplainPage()
        self.notice = NoticeBar()
        self.edit_bar = EditBar()
        self.composer = Composer()
        self.is_starter_offered = False  # where there is no welcome
        self._stack = QStackedWidget()
        self._stack.addWidget(self.transcript)
        self._stack.addWidget(self.first_start)
        self._stack.addWidget(self.explain)
        self._foot = QVBoxLayout()
        self._foot.setSpacing(8)
        self._foot.addWidget(self.notice)
        self._foot.addWidget(self.edit_bar)
        self._foot.addWidget(self.composer)
        stacked = QVBoxLayout(self)
        stacked.setContentsMargins(0, 0, 0, 0)
        stacked.setSpacing(0)
        stacked.addWidget(self.top_bar)
        stacked.addWidget(self._stack, 1)
        stacked.addLayout(self._foot)
        field = self.composer.focusProxy() or self.composer
        field.installEventFilter(self)
        theme.notifier().changed.connect(self.update)

    @property
    def is_first_start(self) -> bool:
        """Whether the welcome stands in the transcript's place."""
        return self._stack.currentWidget() is self.first_start

    def show_first_start(self, is_shown: bool) -> None:
        """Show the welcome or the transcript."""
        if is_shown or not self.is_explaining:
            self._stack.setCurrentWidget(self.first_start if is_shown else self.transcript)
        self.composer.set_placeholder(tr("Write your first message") if is_shown else tr("Write a message"))
        self.composer.set_enter_verb(tr("send when ready") if is_shown else tr("send", "what a key does"))

    @property
    def is_explaining(self) -> bool:
        """Whether the page about the speed stands in the transcript's place."""
        return self._stack.currentWidget() is self.explain

    def show_explain(self, is_shown: bool) -> None:
        """Show the page about the speed, or the transcript again."""
        if is_shown or self.is_explaining:
            self._stack.setCurrentWidget(self.explain if is_shown else self.transcript)

    def focus_region(self) -> None:
        """Give the keyboard to the transcript, or to the welcome's first button."""
        if self.is_first_start:
            self.first_start.focus_region()
        elif self.is_explaining:
            self.explain.focus_region()
        else:
            self.transcript.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _place_column(self) -> None:
        left, width = column(self.width())
        self._foot.setContentsMargins(left, 8, max(0, self.width() - left - width), 8)
        self.first_start.set_column(left, width)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        is_offered = self.is_first_start or self.is_starter_offered
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress and is_offered:
            is_enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and not event.modifiers()
            if is_enter and not self.composer.content().strip():
                return self.first_start.start()
        return super().eventFilter(watched, event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._place_column()

    def paintEvent(self, event: QPaintEvent) -> None:
        QPainter(self).fillRect(self.rect(), theme.palette().bg0)
