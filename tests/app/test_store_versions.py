"""Files of chats from older and newer versions of the program, and what each keeps of a reply."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app import chat_opening
from app.atomic_file import StorageError
from app.chat_tables import VERSION
from app.conversation import Turn
from app.salvage import salvage
from app.store import Store

FIRST_VERSION = (  # the tables as they were before replies were kept in parts
    """CREATE TABLE chats (id TEXT PRIMARY KEY, title TEXT NOT NULL, created_s REAL NOT NULL,
        updated_s REAL NOT NULL, model TEXT NOT NULL DEFAULT '', active_id TEXT, decode_tps REAL,
        deleted_s REAL)""",
    """CREATE TABLE messages (id TEXT PRIMARY KEY,
        chat_id TEXT NOT NULL REFERENCES chats(id) ON DELETE CASCADE, parent_id TEXT, role TEXT NOT NULL,
        content TEXT NOT NULL, status TEXT NOT NULL, stats TEXT NOT NULL DEFAULT '{}',
        created_s REAL NOT NULL)""",
    "CREATE TABLE drafts (chat_id TEXT PRIMARY KEY, content TEXT NOT NULL)",
    "CREATE INDEX messages_by_chat ON messages(chat_id)",
    "CREATE INDEX chats_by_time ON chats(updated_s)",
    "INSERT INTO chats VALUES ('c', 'Old chat', 1.0, 2.0, 'SmolLM2', 'b', 42.5, NULL)",
    "INSERT INTO messages VALUES ('a', 'c', NULL, 'user', 'hi', 'done', '{}', 1.0)",
    "INSERT INTO messages VALUES ('b', 'c', 'a', 'assistant', 'Hello', 'done', '{\"tokens\": 1}', 2.0)",
    "INSERT INTO drafts VALUES ('c', 'unsent')",
    "PRAGMA user_version = 1",
)
OLD = (
    Turn("a", "c", None, "user", "hi", "done", {}, 1.0),
    Turn("b", "c", "a", "assistant", "Hello", "done", {"tokens": 1}, 2.0),
)
NEW = Turn("d", "c", "b", "assistant", "Answer.", "done", {}, 3.0, "plan it", "<think>plan it</think>Answer.")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chats.db"


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Store]:
    with contextlib.closing(Store(path, lambda: 1000.0)) as store:
        yield store


def write_first_version(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        for statement in FIRST_VERSION:
            database.execute(statement)


def version_of(path: Path) -> int:
    with contextlib.closing(sqlite3.connect(path)) as database:
        return int(database.execute("PRAGMA user_version").fetchone()[0])


def test_a_reply_is_kept_in_its_parts_and_whole(path: Path) -> None:  # B021
    with opened(path) as store:
        store.create_chat("t", "c")
        store.add_message(replace(NEW, content="", thinking="", raw=None))
        assert store.messages("c") == (replace(NEW, content="", thinking="", raw=None),)
        store.update_message(NEW)
    with opened(path) as store:
        assert store.messages("c") == (NEW,)


def test_a_file_of_the_first_version_opens_whole_and_takes_new_replies(path: Path) -> None:
    write_first_version(path)
    with opened(path) as store:
        assert (store.notice, store.read_only_reason) == (None, None)
        assert [chat.title for chat in store.list_chats()] == ["Old chat"]
        assert store.messages("c") == OLD
        assert store.drafts() == {"c": "unsent"}
        store.add_message(NEW)
    assert version_of(path) == VERSION == 4
    with opened(path) as store:
        assert store.messages("c") == (*OLD, NEW)
        assert store.notice is None


def test_two_programs_may_bring_a_file_up_to_date_at_once(path: Path) -> None:
    write_first_version(path)
    with opened(path) as first, opened(path) as second:
        first.add_message(NEW)
        assert second.messages("c") == (*OLD, NEW)


def test_columns_that_came_before_their_version_number_do_no_harm(path: Path) -> None:
    write_first_version(path)
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("ALTER TABLE messages ADD COLUMN thinking TEXT NOT NULL DEFAULT ''")
    with opened(path) as store:
        assert store.messages("c") == OLD
        assert store.notice is None


def test_a_file_of_the_first_version_that_cannot_be_written_is_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_first_version(path)
    before = path.read_bytes()

    def refuse(database: sqlite3.Connection) -> None:
        database.execute("PRAGMA query_only = ON")
        database.execute("CREATE TABLE x(y)")

    monkeypatch.setattr(chat_opening, "prepare", refuse)
    with opened(path) as store:
        assert "read-only" in (store.read_only_reason or "")
        assert store.messages("c") == OLD
        with pytest.raises(StorageError):
            store.add_message(NEW)
    assert path.read_bytes() == before


def test_a_newer_file_is_read_and_left_as_it_is(path: Path) -> None:
    write_first_version(path)
    with opened(path) as store:
        store.add_message(NEW)
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("ALTER TABLE messages ADD COLUMN later TEXT")
        database.execute(f"PRAGMA user_version = {VERSION + 1}")
    with opened(path) as store:
        assert "newer version" in (store.read_only_reason or "")
        assert store.messages("c") == (*OLD, NEW)
        with pytest.raises(StorageError, match="newer version"):
            store.update_message(NEW)


def test_a_file_whose_columns_are_missing_for_its_version_is_damaged(path: Path) -> None:
    write_first_version(path)
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 2")
    with opened(path) as store:
        assert "1 chat with 2 messages could be read" in (store.notice or "")
        assert store.messages("c") == OLD


def test_rows_of_both_versions_are_salvaged(path: Path) -> None:
    write_first_version(path)
    with opened(path) as store:
        store.add_message(NEW)
    found = salvage(path)
    assert found.turns == (*OLD, NEW)
    assert [chat.title for chat in found.chats] == ["Old chat"]


def test_damage_in_what_is_dispensable_costs_no_message(path: Path) -> None:
    with opened(path) as store:
        store.create_chat("t", "c")
        store.add_message(NEW)
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE messages SET thinking = x'00', raw = 7.5")
    with opened(path) as store:
        assert store.messages("c") == (replace(NEW, thinking="", raw="7.5"),)
        assert store.notice is None
