"""The chats on the disk, in SQLite: safe against crashes, full disks, damage and a second window.

Knows the file and its troubles; not the window. One Store belongs to the thread that opened it.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from app.atomic_file import StorageError, disk_sentence, set_aside
from app.chat_rows import (
    CHAT_COLUMNS,
    SCHEMA,
    TURN_COLUMNS,
    VERSION,
    Chat,
    chat_of,
    clean,
    decode,
    insert_chat,
    insert_turn,
    turn_of,
)
from app.conversation import Turn, new_id
from app.salvage import salvage

__all__ = ["Chat", "Store"]

T = TypeVar("T")
UNDO_S = 60.0  # a deleted chat can be had back for at least this long
_BUSY_S = 5.0
_CHECK_UP_TO_BYTES = 64_000_000  # damage in larger files shows when it is read
_SENTENCES = {
    sqlite3.SQLITE_FULL: ("The disk is full: the chat could not be saved.", "Free some space."),
    sqlite3.SQLITE_READONLY: ("The file of chats is read-only.", "Check who owns it."),
    sqlite3.SQLITE_CANTOPEN: ("The file of chats cannot be opened.", "Check who owns its folder."),
    sqlite3.SQLITE_PERM: ("The file of chats cannot be opened.", "Check who owns it."),
    sqlite3.SQLITE_BUSY: ("Another program holds the file of chats.", "Close it and try again."),
    sqlite3.SQLITE_IOERR: ("The disk reports an error at the file of chats.", "Check the disk."),
    sqlite3.SQLITE_CORRUPT: ("The file of chats is damaged.", "It is repaired at the next start."),
}


class _DamagedError(sqlite3.DatabaseError):
    sqlite_errorcode = sqlite3.SQLITE_CORRUPT


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
        self._db = self._open()
        self._db.text_factory = decode
        if self.read_only_reason is None:
            with contextlib.suppress(StorageError):  # a full disk is no reason not to start
                self._remove_deleted()

    def list_chats(self) -> tuple[Chat, ...]:
        """All chats, the last used first."""
        sql = (
            f"SELECT {', '.join(CHAT_COLUMNS)} FROM chats WHERE deleted_s IS NULL"
            " ORDER BY updated_s DESC, rowid DESC"
        )
        return self._read(chat_of, sql)

    def messages(self, chat_id: str) -> tuple[Turn, ...]:
        """All turns of a chat, branches too, in the order they were written."""
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
        """Undo ``delete_chat``."""
        self._write("UPDATE chats SET deleted_s = NULL WHERE id = ?", chat_id)

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

    def drafts(self) -> dict[str, str]:
        """Texts that were typed and not sent, by chat; "" is the chat that has not begun."""
        rows = self._read(lambda row: (str(row[0]), str(row[1])), "SELECT chat_id, content FROM drafts")
        return dict(rows)

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
        try:
            with self._guarded():
                return tuple(make(row) for row in self._db.execute(sql, values))
        except (ValueError, TypeError) as error:  # a row that no version of this program wrote
            raise StorageError(*_SENTENCES[sqlite3.SQLITE_CORRUPT]) from error

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
        except sqlite3.Error as error:
            raise StorageError(*_sentence(error)) from error

    def _open(self) -> sqlite3.Connection:
        """Open for writing, else for reading, else in memory: the program starts in every case."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            return self._connect()
        except sqlite3.Error as error:
            if _code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                return self._replace_damaged()
            return self._open_without_writing(_sentence(error)[0])
        except OSError as error:
            return self._open_in_memory(disk_sentence(error, self.path)[0])

    def _connect(self) -> sqlite3.Connection:
        database = sqlite3.connect(self.path, timeout=_BUSY_S, isolation_level=None)
        try:
            version = _version(database)
            if version <= VERSION:
                _check(database, self.path)
                _prepare(database)
                return database
        except BaseException:
            database.close()
            raise
        database.close()
        self.read_only_reason = (
            "These chats were written by a newer version of this program: they can be read, not changed."
        )
        return self._connect_read_only()

    def _connect_read_only(self) -> sqlite3.Connection:
        uri = f"{self.path.absolute().as_uri()}?mode=ro"
        return sqlite3.connect(uri, timeout=_BUSY_S, isolation_level=None, uri=True)

    def _open_without_writing(self, reason: str) -> sqlite3.Connection:
        with contextlib.suppress(sqlite3.Error):
            database = self._connect_read_only()
            try:
                database.execute("SELECT count(*) FROM chats").fetchone()
            except sqlite3.Error:
                database.close()
                raise
            self.read_only_reason = f"{reason} Chats can be read, not changed."
            return database
        return self._open_in_memory(reason)

    def _open_in_memory(self, reason: str) -> sqlite3.Connection:
        self.notice = f"{reason} New chats are kept only until the program ends."
        database = sqlite3.connect(":memory:", isolation_level=None)
        _prepare(database)
        return database

    def _replace_damaged(self) -> sqlite3.Connection:
        """Set the damaged file aside and begin a new one with whatever can be read of it."""
        try:
            aside = set_aside(self.path)
            for suffix in ("-wal", "-shm"):
                beside = self.path.with_name(self.path.name + suffix)
                if beside.exists():
                    os.replace(beside, aside.with_name(aside.name + suffix))
            chats, turns = salvage(aside)
            database = self._connect()
            try:
                _fill(database, chats, turns)
            except BaseException:
                database.close()
                raise
        except (OSError, sqlite3.Error):
            return self._open_in_memory("The file of chats is damaged and could not be replaced.")
        self.notice = (
            f'The file of chats was damaged. It was set aside as "{aside.name}"; '
            f"{len(chats)} chats with {len(turns)} messages could be read and are here."
        )
        return database


def _fill(database: sqlite3.Connection, chats: Iterable[Chat], turns: Iterable[Turn]) -> None:
    """Write chats and turns into an empty file, all or none."""
    database.execute("BEGIN IMMEDIATE")
    for chat in chats:
        insert_chat(database, chat)
    for turn in turns:
        insert_turn(database, turn)
    database.execute("COMMIT")


def _version(database: sqlite3.Connection) -> int:
    return int(database.execute("PRAGMA user_version").fetchone()[0])


def _check(database: sqlite3.Connection, path: Path) -> None:
    """Raises sqlite3.DatabaseError for a damaged file."""
    if path.stat().st_size <= _CHECK_UP_TO_BYTES:
        found = database.execute("PRAGMA quick_check(1)").fetchone()
        if found is None or found[0] != "ok":
            raise _DamagedError("quick_check")


def _prepare(database: sqlite3.Connection) -> None:
    """Set the connection up and make the tables where they are missing."""
    _use_wal(database)
    for pragma in ("synchronous = FULL", "foreign_keys = ON", "secure_delete = ON"):
        database.execute(f"PRAGMA {pragma}")
    if _version(database) == VERSION:
        return
    database.execute("BEGIN IMMEDIATE")
    for statement in SCHEMA:
        database.execute(statement)
    database.execute(f"PRAGMA user_version = {VERSION}")
    database.execute("COMMIT")


def _use_wal(database: sqlite3.Connection) -> None:
    """Two programs that start at once may meet here, and SQLite does not wait by itself at this one place."""
    for is_last in (*[False] * 100, True):
        try:
            database.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if is_last or _code(error) != sqlite3.SQLITE_BUSY:
                raise
            time.sleep(0.02)


def _code(error: sqlite3.Error) -> int:
    """SQLite's primary result code."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _sentence(error: sqlite3.Error) -> tuple[str, str]:
    general = (f"The file of chats could not be used: {error}.", "")
    code = _code(error)
    return _SENTENCES.get(sqlite3.SQLITE_CORRUPT if code == sqlite3.SQLITE_NOTADB else code, general)
