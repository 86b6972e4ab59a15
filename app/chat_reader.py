"""Reads chats out of an open database; a row that does not decode costs itself alone. Never writes."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from app import chat_search
from app.atomic_file import StorageError
from app.chat_file import DAMAGE, FAILURES, code_of, link, sentence
from app.chat_rows import (
    CHAT_COLUMNS,
    FOLDER_COLUMNS,
    TURN_COLUMNS,
    Chat,
    Folder,
    chat_of,
    draft_of,
    folder_of,
    readable,
    turn_of,
)
from app.chat_tables import column_names
from app.conversation import ELSEWHERE, OPEN_STATUS, Turn
from ui.chat_values import SearchHit

T = TypeVar("T")


def read_only_place(path: Path, option: str = "mode=ro") -> str:
    """The address by which SQLite opens ``path`` without writing."""
    return f"{path.absolute().as_uri()}?{option}"


class ChatReader:
    """``is_open`` says whether a window still writes an answer; ``on_damage`` is told of damage that is met.

    With ``is_foreign`` the file is of another version: what its tables lack is read as missing. Every method
    may raise StorageError.
    """

    def __init__(
        self,
        database: sqlite3.Connection,
        is_open: Callable[[str | None], bool] = lambda _: False,
        on_damage: Callable[[], None] = lambda: None,
        *,
        is_foreign: bool = False,
    ) -> None:
        self._db = database
        self._is_open = is_open
        self._on_damage = on_damage
        self._is_foreign = is_foreign

    @classmethod
    def at(cls, place: str, is_open: Callable[[str | None], bool], *, is_foreign: bool) -> ChatReader:
        """A reader with a connection of its own; for another thread than the writer's."""
        return cls(link(place, is_uri=True), is_open, is_foreign=is_foreign)

    def list_chats(self) -> tuple[Chat, ...]:
        """All chats, the last used first; without those whose rows are damaged."""
        sql = "FROM chats WHERE deleted_s IS NULL ORDER BY updated_s DESC, rowid DESC"
        return self._read("chats", CHAT_COLUMNS, chat_of, sql)

    def folders(self) -> tuple[Folder, ...]:
        """All folders, the oldest first."""
        try:
            return self._read("folders", FOLDER_COLUMNS, folder_of, "FROM folders ORDER BY created_s, rowid")
        except StorageError:
            if self._is_foreign:
                return ()  # a file from before there were folders
            raise

    def messages(self, chat_id: str) -> tuple[Turn, ...]:
        """All turns of a chat, branches too, in the order they were written; without damaged ones.

        An open answer is written in another window, or was cut off by the end of the program and has failed.
        """

        def turn(row: Sequence[object]) -> Turn:
            made = turn_of(row[:-1])
            if made.status in OPEN_STATUS:
                writer = row[-1] if isinstance(row[-1], str) else None
                return replace(made, status=ELSEWHERE if self._is_open(writer) else "failed")
            return made

        columns = (*TURN_COLUMNS, "writer")
        return self._read(
            "messages", columns, turn, "FROM messages WHERE chat_id = ? ORDER BY rowid", chat_id
        )

    def queued_chats(self) -> tuple[str, ...]:
        """Chats in which a message waits for a model."""
        sql = (
            "FROM messages JOIN chats ON chats.id = chat_id"
            " WHERE status = 'queued' AND deleted_s IS NULL GROUP BY chat_id"
        )
        return self._read("messages", ("chat_id",), lambda row: str(row[0]), sql)

    def drafts(self) -> dict[str, str]:
        """Texts that were typed and not sent, by chat; "" is the chat that has not begun."""
        try:
            return dict(self._read("drafts", ("chat_id", "content"), draft_of, "FROM drafts"))
        except StorageError:
            if self._is_foreign:
                return {}  # another version may keep them elsewhere; the chats can be read all the same
            raise

    def find(self, query: str, is_stale: Callable[[], bool] = lambda: False) -> tuple[SearchHit, ...]:
        """Chats that have all the words of ``query``."""
        with self.guarded():
            return chat_search.find(self._db, query, is_stale)

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(sqlite3.Error):
            self._db.close()

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        """Says SQLite's errors for a person."""
        try:
            yield
        except FAILURES as error:
            if code_of(error) in DAMAGE:
                self._on_damage()
            raise StorageError(*sentence(error)) from error

    def _read(
        self,
        table: str,
        columns: Sequence[str],
        make: Callable[[Sequence[object]], T],
        sql: str,
        *values: object,
    ) -> tuple[T, ...]:
        with self.guarded():
            if self._is_foreign:
                there = column_names(self._db, table)
                columns = [column if column in there else f"NULL AS {column}" for column in columns]
            return tuple(readable(make, self._db.execute(f"SELECT {', '.join(columns)} {sql}", values)))
