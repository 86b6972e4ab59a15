"""What was deleted last, and the offer to have it back, which stands as long as the store surely keeps it."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer

from app.store import UNDO_S
from engine.words import tr
from ui.main_window import MainWindow
from ui.values import NoticeAction, NoticeView

UNDO = "undo-delete"
UNDO_MS = int(1000 * UNDO_S)


class Undo(QObject):
    """Holds one way back."""

    def __init__(self, window: MainWindow) -> None:
        super().__init__()
        self._window = window
        self._way_back: Callable[[], None] | None = None
        self._timer = QTimer(self, singleShot=True, interval=UNDO_MS)
        self._timer.timeout.connect(self.forget)
        window.chats.undo_requested.connect(self.undo)

    def offer(self, title: str, way_back: Callable[[], None]) -> None:
        """Say what was done, in place of what was said before, and that it can be undone."""
        self._way_back = way_back
        undo = NoticeAction(UNDO, tr("Undo"))
        self._window.show_notice(NoticeView("info", title, "", (undo,), key=UNDO, is_kept=True))
        self._window.chats.can_undo = True
        self._timer.start()

    def undo(self) -> None:
        """Go back, unless the offer has ended."""
        way_back = self._way_back
        self.forget()
        if way_back is not None:
            way_back()

    def stop(self) -> None:
        """The window closes: the offer ends with it."""
        self._timer.stop()

    def forget(self) -> None:
        """End the offer."""
        if self._way_back is not None:
            self._way_back = None
            self._window.chats.can_undo = False
            self._window.clear_notice(UNDO)
