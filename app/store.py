"""The chats on the disk, in SQLite: safe against crashes, full disks, damage and a second window.

Knows the file and its troubles; not the window. One Store belongs to the thread that opened it.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from app.atomic_file import StorageError, disk_sentence, set_aside
from app.chat_file import (
    DAMAGE,
    FAILURES,
    LARGEST_VERSION,
    DamagedError,
    check,
    code_of,
    link,
    prepare,
    require_writable,
    sentence,
    shows_damage,
    version_of,
)
from app.chat_rows import (
    CHAT_COLUMNS,
    TURN_COLUMNS,
    VERSION,
    Chat,
    chat_of,
    clean,
    count_unreadable,
    draft_of,
    insert_chat,
    insert_turn,
    readable,
    turn_of,
)
from app.conversation import Turn, new_id
from app.salvage import Salvaged, salvage

__all__ = ["Chat", "Store"]

T = TypeVar("T")
UNDO_S = 60.0  # a deleted chat can be had back for at least this long


class Store:
    """The database of chats at ``path``.

    ``notice`` is a sentence for the user about what was found at the start, or None. With
    ``read_only_reason`` nothing can be written. Every method may raise StorageError; what was on the disk
    before is then still there. Several programs may have the same file open.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self.notice: str | None = None
        self.read_only_reason: str | None = None
        self._clock = clock
        self._marker = path.with_name(path.name + "-damaged")  # left for the next start
        self._db = self._open()
        if self.read_only_reason is None:
            with contextlib.suppress(StorageError):  # a full disk is no reason not to start
                self._remove_deleted()

    def list_chats(self) -> tuple[Chat, ...]:
        """All chats, the last used first; without those whose rows are damaged."""
        sql = (
            f"SELECT {', '.join(CHAT_COLUMNS)} FROM chats WHERE deleted_s IS NULL"
            " ORDER BY updated_s DESC, rowid DESC"
        )
        return self._read(chat_of, sql)

    def messages(self, chat_id: str) -> tuple[Turn, ...]:
        """All turns of a chat, branches too, in the order they were written; without damaged ones."""
        sql = f"SELECT {', '.join(TURN_COLUMNS)} FROM messages WHERE chat_id = ? ORDER BY rowid"
        return self._read(turn_of, sql, chat_id)

    def create_chat(self, title: str, chat_id: str | None = None, model: str = "") -> Chat:
        """A new chat without messages; ``chat_id`` where the caller has made one already."""
        now = self._clock()
        chat = Chat(chat_id or new_id(), title, now, now, model)
        with self._writing():
            insert_chat(self._db, chat)
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

    def delete_chat(self, chat_id: str) -> None:
        """Take a chat out of the list; its rows go for good at a start more than ``UNDO_S`` later."""
        self._write("UPDATE chats SET deleted_s = ? WHERE id = ?", self._clock(), chat_id)

    def restore_chat(self, chat_id: str) -> None:
        """Undo ``delete_chat``. Raises StorageError where the chat is gone for good."""
        if self._write("UPDATE chats SET deleted_s = NULL WHERE id = ?", chat_id) == 0:
            raise StorageError("This chat was removed for good by another window.")

    def add_message(self, turn: Turn) -> None:
        """Write a new turn and make it the end of the shown path; a deleted chat comes back by it.

        Raises StorageError where the chat is gone for good.
        """
        with self._writing():
            touched = self._db.execute(
                "UPDATE chats SET updated_s = max(updated_s, ?), active_id = ?, deleted_s = NULL"
                " WHERE id = ?",
                (turn.created_s, turn.id, turn.chat_id),
            )
            if touched.rowcount == 0:
                raise StorageError("This chat was deleted in another window.", "Begin a new chat.")
            insert_turn(self._db, turn)

    def update_message(self, turn: Turn) -> bool:
        """Write text, status and figures of a turn; False where the turn is gone with its chat."""
        sql = "UPDATE messages SET content = ?, status = ?, stats = ? WHERE id = ?"
        figures = json.dumps(dict(turn.stats))
        return self._write(sql, clean(turn.content), turn.status, figures, turn.id) > 0

    def queued_chats(self) -> tuple[str, ...]:
        """Chats in which a message waits for a model."""
        return self._read(
            lambda row: str(row[0]),
            "SELECT DISTINCT chat_id FROM messages JOIN chats ON chats.id = chat_id"
            " WHERE status = 'queued' AND deleted_s IS NULL",
        )

    def claim_queued(self, turn_id: str) -> bool:
        """Take a waiting message as sent; False where it waits no more: another window was first."""
        return (
            self._write("UPDATE messages SET status = 'done' WHERE id = ? AND status = 'queued'", turn_id) > 0
        )

    def drafts(self) -> dict[str, str]:
        """Texts that were typed and not sent, by chat; "" is the chat that has not begun."""
        try:
            return dict(self._read(draft_of, "SELECT chat_id, content FROM drafts"))
        except StorageError:
            if self.read_only_reason is None:
                raise
            return {}  # another version may keep them elsewhere; the chats can be read all the same

    def save_draft(self, chat_id: str, text: str) -> None:
        """Keep what is typed in a chat; an empty text forgets it."""
        if text:
            self._write("INSERT OR REPLACE INTO drafts VALUES (?, ?)", chat_id, clean(text))
        else:
            self._write("DELETE FROM drafts WHERE chat_id = ?", chat_id)

    def close(self) -> None:
        """Close the file. Every message was written when it came; nothing is left to do."""
        with contextlib.suppress(sqlite3.Error):
            self._db.close()

    def _remove_deleted(self) -> None:
        """For good, but not what another window may still want to have back."""
        self._write("DELETE FROM chats WHERE deleted_s < ?", self._clock() - UNDO_S)

    def _read(self, make: Callable[[Sequence[object]], T], sql: str, *values: object) -> tuple[T, ...]:
        with self._guarded():
            return tuple(readable(make, self._db.execute(sql, values)))

    def _write(self, sql: str, *values: object) -> int:
        """One statement in its own transaction; returns the number of rows it changed."""
        with self._writing():
            return self._db.execute(sql, values).rowcount

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """All of the block is on the disk at its end, or none of it."""
        if self.read_only_reason is not None:
            raise StorageError(self.read_only_reason)
        with self._guarded():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except FAILURES as error:
            if code_of(error) in DAMAGE and self.read_only_reason is None:
                with contextlib.suppress(OSError):
                    self._marker.touch()
            raise StorageError(*sentence(error)) from error

    def _open(self) -> sqlite3.Connection:
        """Open for writing, else for reading, else in memory: the program starts in every case."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.path.exists() and not self.path.is_file():
                return self._open_in_memory(f"{self.path} is not a file.")
            if self._is_marked():
                return self._replace_damaged()
            return self._connect()
        except FAILURES as error:
            if shows_damage(error, self.path):
                return self._replace_damaged()
            return self._open_without_writing(error)
        except OSError as error:
            return self._open_in_memory(disk_sentence(error, self.path)[0])

    def _connect(self) -> sqlite3.Connection:
        database = link(str(self.path))
        try:
            version = version_of(database)
            if version > LARGEST_VERSION:
                raise DamagedError("user_version")
            if version <= VERSION:
                is_checked = check(database, self.path, version)
                prepare(database)
                require_writable(database)
                self.notice = _rows_sentence(*count_unreadable(database)) if is_checked else None
                return database
        except BaseException:
            database.close()
            raise
        database.close()
        self.read_only_reason = (
            "These chats were written by a newer version of this program: they can be read, not changed."
        )
        return self._link_read_only("mode=ro")

    def _link_read_only(self, option: str) -> sqlite3.Connection:
        return link(f"{self.path.absolute().as_uri()}?{option}", is_uri=True)

    def _open_without_writing(self, error: Exception) -> sqlite3.Connection:
        """In a read-only folder SQLite needs ``immutable``: it then makes no log there, and reads none."""
        code, reason = code_of(error), sentence(error)[0]
        options = ("mode=ro",) if code == sqlite3.SQLITE_BUSY else ("mode=ro", "immutable=1")
        for option in options:
            with contextlib.suppress(*FAILURES):
                database = self._link_read_only(option)
                try:
                    database.execute("SELECT count(*) FROM chats").fetchone()
                except BaseException:
                    database.close()
                    raise
                if code == sqlite3.SQLITE_CANTOPEN:
                    reason = "The folder of the chats is read-only."
                self.read_only_reason = f"{reason} Chats can be read, not changed."
                log = self.path.with_name(self.path.name + "-wal")
                if option == "immutable=1" and log.exists() and log.stat().st_size:
                    self.read_only_reason += " The newest messages may be missing."
                return database
        return self._open_in_memory(reason, salvage(self.path))

    def _open_in_memory(self, reason: str, saved: Salvaged | None = None) -> sqlite3.Connection:
        self.notice = f"{reason} What is new is kept only until the program ends."
        database = link(":memory:")
        prepare(database)
        if saved is not None:
            with contextlib.suppress(sqlite3.Error):
                _fill(database, saved)
        return database

    def _replace_damaged(self) -> sqlite3.Connection:
        """Set the damaged file aside and begin a new one with whatever can be read of it."""
        saved = salvage(self.path)
        try:
            aside = set_aside(self.path)
            for suffix in ("-wal", "-shm", "-journal"):
                beside = self.path.with_name(self.path.name + suffix)
                if beside.exists():
                    os.replace(beside, aside.with_name(aside.name + suffix))
            database = self._connect()
            try:
                _fill(database, saved)
            except BaseException:
                database.close()
                raise
        except (OSError, *FAILURES):
            return self._open_in_memory("The file of chats is damaged and could not be replaced.", saved)
        self.notice = (
            f'The file of chats was damaged. It was set aside as "{aside.name}"; {_saved_sentence(saved)}'
        )
        return database

    def _is_marked(self) -> bool:
        """Whether damage was met when the file was last in use: not every check finds it. Forgets it."""
        if not self._marker.exists():
            return False
        with contextlib.suppress(OSError):
            self._marker.unlink()
        return self.path.exists()


def _fill(database: sqlite3.Connection, saved: Salvaged) -> None:
    """Write what was salvaged; a row that does not fit costs itself alone. Raises sqlite3.Error."""
    database.execute("BEGIN IMMEDIATE")
    for chat in saved.chats:
        with contextlib.suppress(sqlite3.IntegrityError):
            insert_chat(database, chat)
    for turn in saved.turns:
        with contextlib.suppress(sqlite3.IntegrityError):
            insert_turn(database, turn)
    database.executemany("INSERT OR REPLACE INTO drafts VALUES (?, ?)", saved.drafts.items())
    database.execute("COMMIT")


def _saved_sentence(saved: Salvaged) -> str:
    if not saved.chats:
        return "no chat in it could be read."
    chats, turns = _counted(len(saved.chats), "chat"), _counted(len(saved.turns), "message")
    return f"{chats} with {turns} could be read and are here."


def _rows_sentence(num_chats: int, num_turns: int) -> str | None:
    found = ((num_chats, "chat"), (num_turns, "message"))
    lost = " and ".join(_counted(number, word) for number, word in found if number)
    return f"The file of chats is damaged in places: {lost} in it cannot be shown." if lost else None


def _counted(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
