"""Looks now and then whether another window wrote chats, and lets the store tidy up while nobody waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer

from app.conversation import Conversation, Turn
from app.running_answer import turn_view
from app.store import ChatNews
from app.store_lane import StoreLane
from engine.events import Failed
from ui.main_window import MainWindow

if TYPE_CHECKING:
    from app.chat_desk import ChatDesk

LOOK_MS = 2_000
TIDY_MS = 100  # between two pieces of tidying


class StoreWatch(QObject):
    """Works from ``start`` to ``stop``. What this window writes itself is no news."""

    def __init__(self, window: MainWindow, store: StoreLane, chats: ChatDesk) -> None:
        super().__init__()
        self._window = window
        self._store = store
        self._chats = chats
        self._has_missed = False  # news that came while something was being written here
        self._is_tidying = False
        self._timer = QTimer(self, interval=LOOK_MS)
        self._timer.timeout.connect(self.look)
        self._tidy_timer = QTimer(self, singleShot=True, interval=TIDY_MS)
        self._tidy_timer.timeout.connect(self._tidy)

    def start(self) -> None:
        """The database is open."""
        self._timer.start()

    def stop(self) -> None:
        """The window closes."""
        self._timer.stop()
        self._tidy_timer.stop()

    def look(self) -> None:
        """Ask for news; tidy while no answer is being written."""
        is_wanted, number = self._has_missed, self._store.num_jobs
        self._store.visit(
            lambda store: store.news(is_wanted=is_wanted),
            lambda news: self._on_news(news, number),
            self._on_failed,
        )
        if not self._is_tidying and not self._chats.answers.count:
            self._tidy()

    def _tidy(self) -> None:
        self._is_tidying = True
        self._store.visit(lambda store: store.tidy(), self._on_tidied, self._on_failed)

    def _on_tidied(self, has_more: bool) -> None:
        self._is_tidying = False
        if has_more and self._timer.isActive() and not self._chats.answers.count:
            self._tidy_timer.start()

    def _on_failed(self, _: Failed) -> None:
        """The next look may do better; a chat that cannot be written says so itself."""
        self._is_tidying = False

    def _on_news(self, news: ChatNews | None, number: int) -> None:
        if news is None:
            return
        # Jobs that came since may change what the news says: it is asked for again.
        self._has_missed = self._store.num_jobs > number
        if self._has_missed:
            return
        chats = self._chats
        gone = chats.library.list.take(news, chats.is_in_use)
        for chat_id in [each for each in chats.conversations if not chats.is_in_use(each)]:
            if chat_id != chats.current_id:
                del chats.conversations[chat_id]  # read again when it is shown
        current = chats.current_id
        if current in gone:
            chats.show_chat(None)
        elif current is not None and current in chats.conversations and not chats.is_in_use(current):
            self._store.visit(
                lambda store: store.messages(current), lambda turns: self._on_turns(current, turns)
            )
        chats.library.show()

    def _on_turns(self, chat_id: str, turns: tuple[Turn, ...]) -> None:
        """The shown chat as another window left it."""
        chats, before = self._chats, self._chats.current_conversation
        if before is None or chat_id != chats.current_id or chats.is_in_use(chat_id):
            return
        after = Conversation(chat_id, turns, before.active_id)
        if after.turns() == before.turns():
            return
        old = before.path()
        if old and old[-1].id == after.active_id:
            after.select(old[-1].id)  # what was written on in the other window is seen here too
        chats.conversations[chat_id] = after
        new = after.path()
        if [turn.id for turn in new[: len(old)]] != [turn.id for turn in old]:
            chats.show_transcript()
            return
        for place, turn in enumerate(new):
            if place >= len(old):
                self._window.append_message(turn_view(after, turn))
            elif turn != old[place]:
                self._window.set_message(turn_view(after, turn))
