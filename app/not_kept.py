"""What cannot be kept on the disk, said in one notice for as long as that is so. Knows no file."""

from __future__ import annotations

from dataclasses import dataclass

from engine.events import Failed
from engine.words import tr
from ui.main_window import MainWindow
from ui.values import NoticeView

NOT_KEPT = "not-kept"
CHATS, SETTINGS, LIBRARY = "chats", "settings", "library"
_ORDER = (CHATS, SETTINGS, LIBRARY)  # what matters most first


@dataclass(frozen=True, slots=True)
class _Loss:
    """``title`` is a sentence about what is not kept, ``text`` why, and what can be done."""

    title: str
    text: str
    details: str = ""


class NotKept:
    """``say`` what could not be written, and ``take_back`` when it is written again."""

    def __init__(self, window: MainWindow) -> None:
        self._window = window
        self._losses: dict[str, _Loss] = {}

    def say(self, what: str, title: str, failed: Failed) -> None:
        """``what`` is not on the disk; the notice stands until it is."""
        loss = _Loss(title, f"{failed.message} {failed.hint}".strip(), failed.details)
        if self._losses.get(what) != loss:
            self._losses[what] = loss
            self._show()

    def say_settings(self, failed: Failed) -> None:
        """The settings are not on the disk."""
        self.say(SETTINGS, tr("The settings could not be saved."), failed)

    def take_back(self, what: str) -> None:
        """``what`` is on the disk as it is here."""
        if self._losses.pop(what, None) is not None:
            self._show()

    def _show(self) -> None:
        losses = [self._losses[what] for what in _ORDER if what in self._losses]
        if not losses:
            self._window.clear_notice(NOT_KEPT)
            return
        first, others = losses[0], losses[1:]
        text = " ".join((first.text, *(each.title for each in others)))
        kind = "error" if CHATS in self._losses else "warning"
        details = "\n\n".join(each.details for each in losses if each.details)
        view = NoticeView(kind, first.title, text, (), details, NOT_KEPT, is_lasting=True)
        self._window.show_notice(view)
