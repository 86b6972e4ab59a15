"""The tables of the chat database, in every version there was. Knows no rows, files, locks or damage."""

from __future__ import annotations

import contextlib
import sqlite3

VERSION = 4  # of the tables; PRAGMA user_version
SCHEMA = (
    """CREATE TABLE IF NOT EXISTS chats (
        id TEXT PRIMARY KEY,
        title TEXT NOT NULL,
        created_s REAL NOT NULL,
        updated_s REAL NOT NULL,
        model TEXT NOT NULL DEFAULT '',
        active_id TEXT,
        decode_tps REAL,
        deleted_s REAL,
        pinned_s REAL,
        folder_id TEXT,
        options TEXT NOT NULL DEFAULT '{}'
    )""",
    """CREATE TABLE IF NOT EXISTS messages (
        id TEXT PRIMARY KEY,
        chat_id TEXT NOT NULL REFERENCES chats(id) ON DELETE CASCADE,
        parent_id TEXT,
        role TEXT NOT NULL,
        content TEXT NOT NULL,
        status TEXT NOT NULL,
        stats TEXT NOT NULL DEFAULT '{}',
        created_s REAL NOT NULL,
        thinking TEXT NOT NULL DEFAULT '',
        raw TEXT,
        writer TEXT
    )""",
    """CREATE TABLE IF NOT EXISTS drafts (
        chat_id TEXT PRIMARY KEY,
        content TEXT NOT NULL
    )""",
    """CREATE TABLE IF NOT EXISTS folders (
        id TEXT PRIMARY KEY,
        name TEXT NOT NULL,
        created_s REAL NOT NULL,
        is_open INTEGER NOT NULL DEFAULT 1
    )""",
    "CREATE INDEX IF NOT EXISTS messages_by_chat ON messages(chat_id)",
    "CREATE INDEX IF NOT EXISTS messages_open ON messages(status) WHERE status IN ('reading', 'writing')",
    "CREATE INDEX IF NOT EXISTS chats_by_time ON chats(updated_s)",
)
# What came with a later version than the first: version, table, column and its rules. Version 2 kept replies
# in parts; version 3 has folders, pins and who is writing an answer; version 4 what a chat has of its own.
_LATER_COLUMNS = (
    (2, "messages", "thinking", "TEXT NOT NULL DEFAULT ''"),
    (2, "messages", "raw", "TEXT"),
    (3, "messages", "writer", "TEXT"),
    (3, "chats", "pinned_s", "REAL"),
    (3, "chats", "folder_id", "TEXT"),
    (4, "chats", "options", "TEXT NOT NULL DEFAULT '{}'"),
)
_TABLES = ("chats", "messages", "drafts", "folders")
_LATER_TABLES = ("drafts", "folders")  # without them a file is whole: they are made anew


def make_tables(database: sqlite3.Connection) -> None:
    """Make tables and columns where they are missing. Raises sqlite3.Error."""
    for table in _TABLES:
        there = column_names(database, table)
        for _version, of_table, column, rules in _LATER_COLUMNS:
            if there and of_table == table and column not in there:
                database.execute(f"ALTER TABLE {table} ADD COLUMN {column} {rules}")
    for statement in SCHEMA:
        database.execute(statement)


def has_all_tables(database: sqlite3.Connection) -> bool:
    """Whether nothing of ``SCHEMA`` is left to be made. Raises sqlite3.Error."""
    return all(_columns(database, table) for table in _TABLES)


def column_names(database: sqlite3.Connection, table: str) -> frozenset[str]:
    """Raises sqlite3.Error."""
    return frozenset(str(row[1]) for row in database.execute(f"PRAGMA table_info({table})"))


def tables_fit(database: sqlite3.Connection, version: int) -> bool:
    """Whether the tables of a file of ``version`` have the columns that such a file must have.

    Other tables and columns do no harm. Raises sqlite3.Error.
    """
    later = {(table, column) for since, table, column, _ in _LATER_COLUMNS if since > version}
    with contextlib.closing(sqlite3.connect(":memory:")) as sample:
        for statement in SCHEMA:
            sample.execute(statement)
        wanted = {
            table: {column for column in _columns(sample, table) if (table, column[0]) not in later}
            for table in _TABLES
        }
    for table in _TABLES:
        found = _columns(database, table)
        may_be_missing = version == 0 or table in _LATER_TABLES
        if not (wanted[table] <= found or (may_be_missing and not found)):
            return False
    return True


def _columns(database: sqlite3.Connection, table: str) -> set[tuple[object, ...]]:
    """Name, type, rules and references of each column; empty without the table."""
    columns = {tuple(row[1:]) for row in database.execute(f"PRAGMA table_info({table})")}
    return columns | set(database.execute(f"PRAGMA foreign_key_list({table})"))
