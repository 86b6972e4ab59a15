"""What is done with whole chats: names, pins, folders, deletion, search. Knows the list, not the messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer

from app.chat_list import ChatList
from app.chat_search import words_of
from app.conversation import new_id, shown_title, title_of
from app.store import Folder
from app.store_lane import StoreLane
from app.undo import Undo
from engine.events import Failed
from engine.foreign import one_line
from engine.words import tr
from ui.chat_values import SearchHit, SearchView
from ui.main_window import MainWindow
from ui.values import NoticeView

if TYPE_CHECKING:
    from app.chat_desk import ChatDesk

SEARCH_MS = 120  # after the last key
FOLDER_CHARS = 60


class ChatLibrary(QObject):
    """Owns the list and its search. Every change is shown at once and stored in the background."""

    def __init__(
        self, window: MainWindow, store: StoreLane, chats: ChatDesk, clock: Callable[[], float]
    ) -> None:
        super().__init__()
        self._window = window
        self._store = store
        self._chats = chats
        self._clock = clock
        self.list = ChatList()
        self.undo = Undo(window)
        self._query = ""
        self._search_timer = QTimer(self, singleShot=True, interval=SEARCH_MS)
        self._search_timer.timeout.connect(self._search)
        self._connect()

    def _connect(self) -> None:
        intents = self._window.chats
        intents.pin_requested.connect(self.pin)
        intents.moved.connect(self.move)
        intents.folder_added.connect(self.add_folder)
        intents.folder_renamed.connect(self.rename_folder)
        intents.folder_toggled.connect(self.toggle_folder)
        intents.folder_delete_requested.connect(self.delete_folder)
        intents.search_changed.connect(self.search)
        intents.hit_chosen.connect(self.open_hit)

    def show(self) -> None:
        """Show the list as it is now; folders last, for a new one is given its name where it then stands."""
        rows = self.list.rows(self._chats.answers.chat_ids, self._clock())
        self._window.set_chats(rows, self._chats.current_id)
        self._window.chats.set_folders(self.list.folder_rows())

    def stop(self) -> None:
        """The window closes."""
        self._search_timer.stop()
        self.undo.stop()

    # Chats

    def rename(self, chat_id: str, title: str) -> None:
        title = title_of(title)
        self.list.change(chat_id, title=title)
        self._store.write(chat_id, lambda store: store.rename_chat(chat_id, title))
        self.show()

    def pin(self, chat_id: str) -> None:
        """Pin a chat, or let it go; the shown one where ``chat_id`` is empty."""
        chat = self.list.get(chat_id or self._chats.current_id or "")
        if chat is None:
            return
        pinned_s = self._clock() if chat.pinned_s is None else None
        self.list.change(chat.id, pinned_s=pinned_s)
        self._store.write(chat.id, lambda store: store.pin_chat(chat.id, pinned_s))
        self.show()

    def move(self, chat_id: str, folder_id: str) -> None:
        """Put a chat into a folder; "" takes it out."""
        self._put_into(folder_id or None, chat_id)
        self.show()

    def _put_into(self, folder_id: str | None, chat_id: str) -> None:
        self.list.change(chat_id, folder_id=folder_id)
        self._store.write(chat_id, lambda store: store.move_chat(chat_id, folder_id))

    def delete(self, chat_id: str) -> None:
        """Take a chat away; it can be undone from the notice."""
        chat = self.list.remove(chat_id)
        if chat is None:
            return
        queued_id = self._chats.leave(chat_id)
        self._store.write(chat_id, lambda store: store.delete_chat(chat_id))

        def restore() -> None:
            self.list.put(chat)
            self._store.write(chat_id, lambda store: store.restore_chat(chat_id))
            self._chats.come_back(chat_id, queued_id)

        self.undo.offer(tr("Chat deleted: {title}").format(title=shown_title(chat.title)), restore)

    # Folders

    def add_folder(self, name: str, chat_id: str) -> None:
        """A new folder, with a chat in it unless ``chat_id`` is empty."""
        folder = Folder(new_id(), _folder_name(name), self._clock())
        self.list.put_folder(folder)
        self._store.run(lambda store: store.add_folder(folder))
        if chat_id:
            self._put_into(folder.id, chat_id)
        self.show()

    def rename_folder(self, folder_id: str, name: str) -> None:
        self._change_folder(folder_id, lambda folder: replace(folder, name=_folder_name(name)))

    def toggle_folder(self, folder_id: str) -> None:
        """Show the chats of a folder, or hide them."""
        self._change_folder(folder_id, lambda folder: replace(folder, is_open=not folder.is_open))

    def _change_folder(self, folder_id: str, change: Callable[[Folder], Folder]) -> None:
        folder = self.list.folder(folder_id)
        if folder is not None:
            changed = change(folder)
            self.list.put_folder(changed)
            self._store.run(lambda store: store.change_folder(changed))
            self.show()

    def delete_folder(self, folder_id: str) -> None:
        """Take a folder away; its chats stay. It can be undone from the notice."""
        folder = self.list.remove_folder(folder_id)
        if folder is None:
            return
        chat_ids = self.list.chats_in(folder_id)
        for chat_id in chat_ids:
            self.list.change(chat_id, folder_id=None)
        self._store.run(lambda store: store.delete_folder(folder_id))
        self.show()

        def restore() -> None:
            self.list.put_folder(folder)
            self._store.run(lambda store: store.add_folder(folder))
            for chat_id in chat_ids:
                self._put_into(folder_id, chat_id)
            self.show()

        self.undo.offer(tr("Folder deleted: {name}. Its chats stay.").format(name=folder.name), restore)

    # Search

    def search(self, query: str) -> None:
        """Look for words in all chats, once typing pauses; without words the list comes back."""
        self._query = query
        if words_of(query):
            self._search_timer.start()
        else:
            self._search_timer.stop()
            self._window.chats.set_search(None)

    def _search(self) -> None:
        query = self._query

        def done(hits: tuple[SearchHit, ...]) -> None:
            if query == self._query:
                self._window.chats.set_search(SearchView(query, hits))

        def failed(failure: Failed) -> None:
            self._window.show_notice(NoticeView("error", tr("The search failed."), failure.message))

        self._store.search(lambda reader, is_stale: reader.find(query, is_stale), done, failed)

    def open_hit(self, chat_id: str, message_id: str) -> None:
        """Show a chat that was found, in the branch of the message that was found, and that message."""
        self._chats.select(chat_id)
        if message_id:
            self._chats.reveal(chat_id, message_id)


def _folder_name(name: str) -> str:
    return " ".join(one_line(name).split())[:FOLDER_CHARS] or tr("Folder")
