"""The chats on the disk, in SQLite: safe against crashes, full disks, damage and a second window.

Knows what is written and when it is final; not the window. One Store belongs to the thread that opened it.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from app.atomic_file import StorageError
from app.chat_file import DAMAGE, FAILURES, code_of, sentence
from app.chat_index import INDEX_DAMAGED, forget_some, has_waiting, index_some, make_index
from app.chat_opening import OpenedChats, open_chats, open_in_memory
from app.chat_reader import ChatReader
from app.chat_rows import (
    CHANGING_COLUMNS,
    Chat,
    Folder,
    changing,
    clean,
    insert_chat,
    insert_folder,
    insert_turn,
    writer_of,
)
from app.conversation import Turn, new_id
from app.writers import Writers
from engine.words import tr
from ui.chat_values import SearchHit

__all__ = ["Chat", "ChatNews", "Folder", "Store"]

UNDO_S = 60.0  # a deleted chat can be had back for at least this long
_INDEX_CHARS = 60_000  # in one transaction: some tens of milliseconds
_CHANGES = ", ".join(f"{column} = ?" for column in CHANGING_COLUMNS)


@dataclass(frozen=True, slots=True)
class ChatNews:
    """The list as it is on the disk after another window has written."""

    chats: tuple[Chat, ...]
    folders: tuple[Folder, ...]


class Store:
    """The database of chats at ``path``; without a path they are in memory alone, and end with the program.

    ``notice`` is a sentence for the user about what was found at the start, or None. With
    ``read_only_reason`` nothing can be written. Every method may raise StorageError; what was on the disk
    before is then still there. Several programs may have the same file open.
    """

    def __init__(self, path: Path | None, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._marker = path.with_name(path.name + "-damaged") if path else None  # left for the next start
        opened = open_chats(path, self._marker) if path and self._marker else open_in_memory()
        self._opened: OpenedChats = opened
        self._db = opened.database
        self.notice = opened.notice
        self.read_only_reason = opened.read_only_reason
        is_shared = path is not None and opened.place is not None and opened.read_only_reason is None
        self.writers = Writers(path) if path and is_shared else None
        self._reader = self._read_with(self._db)
        self._seen_version = self._data_version()
        self._unwritten: dict[str, Chat] = {}  # chats of this window that there was no room for, by id
        self._forgets = 0  # calls that have rewritten the index since chats were removed for good; 0 for none
        if self.read_only_reason is None:
            with contextlib.suppress(StorageError):  # a full disk is no reason not to start
                self._close_cut_off()
                self._remove_deleted()

    def _read_with(self, database: sqlite3.Connection) -> ChatReader:
        is_foreign = self.read_only_reason is not None
        return ChatReader(database, self._is_open, self._mark_damage, is_foreign=is_foreign)

    @property
    def unsaved_reason(self) -> str | None:
        """Why nothing that is new stays beyond the program's end, though it should; None where it does."""
        is_lost = self._marker is not None and self._opened.place is None
        return self.read_only_reason or (self.notice if is_lost else None)

    @property
    def place(self) -> str | None:
        """Where ``reader_at`` finds the chats; None for those in memory."""
        return self._opened.place

    def reader_at(self, place: str) -> ChatReader:
        """A reader for another thread, to be called there."""
        return ChatReader.at(place, self._is_open, is_foreign=self.read_only_reason is not None)

    # Reading

    def list_chats(self) -> tuple[Chat, ...]:
        """All chats, the last used first; without those whose rows are damaged."""
        return self._reader.list_chats()

    def folders(self) -> tuple[Folder, ...]:
        """All folders, the oldest first."""
        return self._reader.folders()

    def messages(self, chat_id: str) -> tuple[Turn, ...]:
        """All turns of a chat, branches too, in the order they were written; without damaged ones."""
        return self._reader.messages(chat_id)

    def queued_chats(self) -> tuple[str, ...]:
        """Chats in which a message waits for a model."""
        return self._reader.queued_chats()

    def drafts(self) -> dict[str, str]:
        """Texts that were typed and not sent, by chat; "" is the chat that has not begun."""
        return self._reader.drafts()

    def find(self, query: str, is_stale: Callable[[], bool] = lambda: False) -> tuple[SearchHit, ...]:
        """Chats that have all the words of ``query``."""
        return self._reader.find(query, is_stale)

    def news(self, *, is_wanted: bool = False) -> ChatNews | None:
        """The list, if another window has written since the last call or ``is_wanted``; else None."""
        version = self._data_version()
        if version == self._seen_version and not is_wanted:
            return None
        news = ChatNews(self.list_chats(), self.folders())
        self._seen_version = version
        return news

    # Chats

    def create_chat(self, title: str, chat_id: str | None = None, model: str = "") -> Chat:
        """A new chat without messages; ``chat_id`` where the caller has made one already."""
        now = self._clock()
        chat = Chat(chat_id or new_id(), title, now, now, model)
        self._unwritten[chat.id] = chat
        with self._writing():
            insert_chat(self._db, chat)
        del self._unwritten[chat.id]
        return chat

    def rename_chat(self, chat_id: str, title: str) -> None:
        """Its place in the list stays."""
        self._write("UPDATE chats SET title = ? WHERE id = ?", clean(title), chat_id)

    def describe_chat(self, chat_id: str, model: str, decode_tps: float | None) -> None:
        """Keep which model answered last in this chat, and how fast."""
        sql = "UPDATE chats SET model = ?, decode_tps = ? WHERE id = ?"
        self._write(sql, clean(model), decode_tps, chat_id)

    def select_branch(self, chat_id: str, active_id: str | None) -> None:
        """Keep which path through the tree is shown."""
        self._write("UPDATE chats SET active_id = ? WHERE id = ?", active_id, chat_id)

    def pin_chat(self, chat_id: str, pinned_s: float | None) -> None:
        """Pin a chat at a time, or None to let it go."""
        self._write("UPDATE chats SET pinned_s = ? WHERE id = ?", pinned_s, chat_id)

    def move_chat(self, chat_id: str, folder_id: str | None) -> None:
        """Put a chat into a folder, or None to take it out."""
        self._write("UPDATE chats SET folder_id = ? WHERE id = ?", folder_id, chat_id)

    def set_options(self, chat_id: str, options: Mapping[str, object]) -> None:
        """Keep what a chat has of its own."""
        self._write("UPDATE chats SET options = ? WHERE id = ?", json.dumps(dict(options)), chat_id)

    def delete_chat(self, chat_id: str) -> None:
        """Take a chat out of the list; its rows go for good at a start more than ``UNDO_S`` later."""
        self._write("UPDATE chats SET deleted_s = ? WHERE id = ?", self._clock(), chat_id)

    def restore_chat(self, chat_id: str) -> None:
        """Undo ``delete_chat``. Raises StorageError where the chat is gone for good."""
        with self._writing():
            sql = "UPDATE chats SET deleted_s = NULL WHERE id = ?"
            is_here = self._db.execute(sql, (chat_id,)).rowcount > 0 or self._insert_unwritten(chat_id)
        if not is_here:
            raise StorageError(tr("This chat was removed for good by another window."))

    def keep_chat(self, chat: Chat, turns: Iterable[Turn]) -> None:
        """Write all of a chat of this window, after single writes of it have failed."""
        with self._writing():
            if not self._db.execute("SELECT 1 FROM chats WHERE id = ?", (chat.id,)).fetchone():
                insert_chat(self._db, chat)
            for turn in turns:
                if self._update(turn) == 0:
                    insert_turn(self._db, turn, self._writer)
            self._db.execute(
                "UPDATE chats SET updated_s = max(updated_s, ?), active_id = ?, title = ?, model = ?,"
                " decode_tps = ?, pinned_s = ?, folder_id = ?, options = ?, deleted_s = NULL WHERE id = ?",
                (
                    *(chat.updated_s, chat.active_id, clean(chat.title), clean(chat.model), chat.decode_tps),
                    *(chat.pinned_s, chat.folder_id, json.dumps(dict(chat.options)), chat.id),
                ),
            )
        self._unwritten.pop(chat.id, None)

    def import_chat(self, chat: Chat, turns: Iterable[Turn]) -> int | None:
        """Add a chat from elsewhere, or the turns that are new of one that is here; all of it or nothing.

        Nothing that is here is overwritten. Returns how many turns were added, None where the chat was here
        and had them all. A deleted chat comes back.
        """
        with self._writing():
            is_new = self._db.execute(
                "UPDATE chats SET deleted_s = NULL, updated_s = max(updated_s, ?) WHERE id = ?",
                (chat.updated_s, chat.id),
            )
            if is_here := is_new.rowcount > 0:
                there = "SELECT id FROM messages WHERE chat_id = ?"
                known = {row[0] for row in self._db.execute(there, (chat.id,))}
                turns = [turn for turn in turns if turn.id not in known]
            else:
                insert_chat(self._db, chat)
            count = 0
            for turn in turns:
                insert_turn(self._db, turn)
                count += 1
        return None if is_here and not count else count

    # Folders

    def add_folder(self, folder: Folder) -> None:
        """A new folder; one that is here already stays as it is."""
        with self._writing(), contextlib.suppress(sqlite3.IntegrityError):
            insert_folder(self._db, folder)

    def change_folder(self, folder: Folder) -> None:
        """Keep a folder's name, and whether it is open."""
        values = clean(folder.name), int(folder.is_open), folder.id
        self._write("UPDATE folders SET name = ?, is_open = ? WHERE id = ?", *values)

    def delete_folder(self, folder_id: str) -> None:
        """The chats in it stay, without a folder."""
        with self._writing():
            self._db.execute("UPDATE chats SET folder_id = NULL WHERE folder_id = ?", (folder_id,))
            self._db.execute("DELETE FROM folders WHERE id = ?", (folder_id,))

    # Messages

    def add_message(self, turn: Turn) -> None:
        """Write a new turn and make it the end of the shown path; a deleted chat comes back by it.

        Raises StorageError where the chat is gone for good.
        """
        with self._writing():
            sql = (
                "UPDATE chats SET updated_s = max(updated_s, ?), active_id = ?, deleted_s = NULL WHERE id = ?"
            )
            values = turn.created_s, turn.id, turn.chat_id
            if self._db.execute(sql, values).rowcount == 0:
                if not self._insert_unwritten(turn.chat_id):
                    words = tr("This chat was deleted in another window.")
                    raise StorageError(words, tr("Begin a new chat."))
                self._db.execute(sql, values)
            insert_turn(self._db, turn, self._writer)
        self._unwritten.pop(turn.chat_id, None)

    def update_message(self, turn: Turn) -> bool:
        """Write texts, status and figures of a turn; False where the turn is gone with its chat."""
        with self._writing():
            return self._update(turn) > 0

    def continue_message(self, turn: Turn) -> bool:
        """Take an unfinished answer as being written here; False where another window has it, or had it."""
        with self._writing():
            sql = "SELECT content, thinking, writer FROM messages WHERE id = ?"
            row = self._db.execute(sql, (turn.id,)).fetchone()
            if row is None or row[:2] != (clean(turn.content), clean(turn.thinking)) or self._is_open(row[2]):
                return False
            return self._update(turn) > 0

    def claim_queued(self, turn_id: str) -> bool:
        """Take a waiting message as sent; False where it waits no more: another window was first."""
        return (
            self._write("UPDATE messages SET status = 'done' WHERE id = ? AND status = 'queued'", turn_id) > 0
        )

    def save_draft(self, chat_id: str, text: str) -> None:
        """Keep what is typed in a chat; an empty text forgets it."""
        if text:
            self._write("INSERT OR REPLACE INTO drafts VALUES (?, ?)", chat_id, clean(text))
        else:
            self._write("DELETE FROM drafts WHERE chat_id = ?", chat_id)

    # Housekeeping

    def tidy(self) -> bool:
        """A small piece of what can wait: entries of the index; whether there is more."""
        if self.read_only_reason is not None or not self._has_untidy():
            return False
        with self._writing():
            if self._forgets:
                has_more = forget_some(self._db, is_first=self._forgets == 1)
                self._forgets = self._forgets + 1 if has_more else 0
                return True
            return index_some(self._db, _INDEX_CHARS)

    def _has_untidy(self) -> bool:
        """Whether there is something to tidy: without it nobody else is kept from writing."""
        if self._forgets:
            return True
        with self._reader.guarded():
            return has_waiting(self._db)

    def close(self) -> None:
        """Close the file. Every message was written when it came; nothing is left to do."""
        self._reader.close()
        if self.writers is not None:
            self.writers.close()

    @property
    def _writer(self) -> str | None:
        return self.writers.id if self.writers else None

    def _is_open(self, writer: str | None) -> bool:
        return self.writers is not None and self.writers.is_open(writer)

    def _data_version(self) -> int:
        with contextlib.suppress(sqlite3.Error):
            return int(self._db.execute("PRAGMA data_version").fetchone()[0])
        return 0

    def _insert_unwritten(self, chat_id: str) -> bool:
        """Write the row of a chat that there was no room for when it began; False where there is none."""
        chat = self._unwritten.get(chat_id)
        if chat is not None:
            insert_chat(self._db, chat)
        return chat is not None

    def _update(self, turn: Turn) -> int:
        values = (*changing(turn), writer_of(turn, self._writer), turn.id)
        return self._db.execute(f"UPDATE messages SET {_CHANGES}, writer = ? WHERE id = ?", values).rowcount

    def _close_cut_off(self) -> None:
        """Answers of windows that are gone have failed: nobody writes them any more."""
        with self._writing():
            sql = "SELECT id, writer FROM messages WHERE status IN ('reading', 'writing')"
            cut_off = [(row[0],) for row in self._db.execute(sql) if not self._is_open(row[1])]
            sql = "UPDATE messages SET status = 'failed', writer = NULL WHERE id = ?"
            self._db.executemany(sql, cut_off)

    def _remove_deleted(self) -> None:
        """For good, but not what another window may still want to have back, or is writing."""
        removed = self._write(
            "DELETE FROM chats WHERE deleted_s < ? AND NOT EXISTS (SELECT 1 FROM messages"
            " WHERE chat_id = chats.id AND status IN ('reading', 'writing'))",
            self._clock() - UNDO_S,
        )
        self._forgets = int(removed > 0)

    def _write(self, sql: str, *values: object) -> int:
        """One statement in its own transaction; returns the number of rows it changed."""
        with self._writing():
            return self._db.execute(sql, values).rowcount

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """All of the block is on the disk at its end, or none of it."""
        if self.read_only_reason is not None:
            raise StorageError(self.read_only_reason)
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
                raise
        except FAILURES as error:
            if getattr(error, "sqlite_errorcode", 0) == INDEX_DAMAGED:
                self._mend_index()
            elif code_of(error) in DAMAGE:
                self._mark_damage()
            raise StorageError(*sentence(error)) from error

    def _mend_index(self) -> None:
        """Begin the index anew, so that the next write goes through."""
        with contextlib.suppress(sqlite3.Error):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                make_index(self._db)
                self._db.execute("COMMIT")
            except BaseException:
                self._db.execute("ROLLBACK")
                raise

    def _mark_damage(self) -> None:
        if self.read_only_reason is None and self._marker is not None:
            with contextlib.suppress(OSError):
                self._marker.touch()
