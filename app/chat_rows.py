"""Tables and rows of the chat database. Knows what a row holds; not files, locks or damage."""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from app.conversation import Turn

T = TypeVar("T")
VERSION = 1  # of the tables; PRAGMA user_version
SCHEMA = (
    """CREATE TABLE IF NOT EXISTS chats (
        id TEXT PRIMARY KEY,
        title TEXT NOT NULL,
        created_s REAL NOT NULL,
        updated_s REAL NOT NULL,
        model TEXT NOT NULL DEFAULT '',
        active_id TEXT,
        decode_tps REAL,
        deleted_s REAL
    )""",
    """CREATE TABLE IF NOT EXISTS messages (
        id TEXT PRIMARY KEY,
        chat_id TEXT NOT NULL REFERENCES chats(id) ON DELETE CASCADE,
        parent_id TEXT,
        role TEXT NOT NULL,
        content TEXT NOT NULL,
        status TEXT NOT NULL,
        stats TEXT NOT NULL DEFAULT '{}',
        created_s REAL NOT NULL
    )""",
    """CREATE TABLE IF NOT EXISTS drafts (
        chat_id TEXT PRIMARY KEY,
        content TEXT NOT NULL
    )""",
    "CREATE INDEX IF NOT EXISTS messages_by_chat ON messages(chat_id)",
    "CREATE INDEX IF NOT EXISTS chats_by_time ON chats(updated_s)",
)
CHAT_COLUMNS = ("id", "title", "created_s", "updated_s", "model", "active_id", "decode_tps")
TURN_COLUMNS = ("id", "chat_id", "parent_id", "role", "content", "status", "stats", "created_s")
_TABLES = ("chats", "messages", "drafts")
_LATER_TABLES = ("drafts",)  # a whole file of this version may still lack them
_NEEDED = {  # what a row must hold to be shown: texts, numbers
    "chats": (("id", "title"), ("created_s", "updated_s")),
    "messages": (("id", "chat_id", "role", "content", "status"), ("created_s",)),
}


@dataclass(frozen=True, slots=True)
class Chat:
    """A row of the list. ``active_id`` is the last turn of the path that was shown, ``model`` a name.

    Times are seconds since 1970; ``decode_tps`` is the speed of the last answer, None while unknown.
    """

    id: str
    title: str
    created_s: float
    updated_s: float
    model: str = ""
    active_id: str | None = None
    decode_tps: float | None = None


def chat_of(row: Sequence[object]) -> Chat:
    """The chat in a row of ``CHAT_COLUMNS``. Raises ValueError or TypeError for a damaged one."""
    chat_id, title, created_s, updated_s, model, active_id, decode_tps = row
    return Chat(
        _text(chat_id),
        _text(title),
        _number(created_s),
        _number(updated_s),
        model if isinstance(model, str) else "",  # this and the next two are dispensable
        active_id if isinstance(active_id, str) else None,
        float(decode_tps) if isinstance(decode_tps, int | float) else None,
    )


def turn_of(row: Sequence[object]) -> Turn:
    """The turn in a row of ``TURN_COLUMNS``. Raises ValueError or TypeError for a damaged one."""
    turn_id, chat_id, parent_id, role, content, status, stats, created_s = row
    return Turn(
        _text(turn_id),
        _text(chat_id),
        None if parent_id is None else _text(parent_id),
        _text(role),
        _text(content),
        _text(status),
        _figures(stats),
        _number(created_s),
    )


def draft_of(row: Sequence[object]) -> tuple[str, str]:
    """Chat id and text of a draft. Raises ValueError or TypeError for a damaged one."""
    chat_id, content = row
    return _text(chat_id), _text(content)


def readable(make: Callable[[Sequence[object]], T], rows: Iterable[Sequence[object]]) -> Iterator[T]:
    """What ``make`` makes of the rows; a damaged row costs itself alone."""
    for row in rows:
        with contextlib.suppress(ValueError, TypeError):
            yield make(row)


def has_all_tables(database: sqlite3.Connection) -> bool:
    """Whether nothing of ``SCHEMA`` is left to be made. Raises sqlite3.Error."""
    return all(_columns(database, table) for table in _TABLES)


def tables_fit(database: sqlite3.Connection, version: int) -> bool:
    """Whether the tables of a file of ``version`` have the columns that are read and written here.

    Other tables and columns do no harm. Raises sqlite3.Error.
    """
    with contextlib.closing(sqlite3.connect(":memory:")) as sample:
        for statement in SCHEMA:
            sample.execute(statement)
        wanted = {table: _columns(sample, table) for table in _TABLES}
    for table in _TABLES:
        found = _columns(database, table)
        may_be_missing = version < VERSION or table in _LATER_TABLES
        if not (wanted[table] <= found or (may_be_missing and not found)):
            return False
    return True


def count_unreadable(database: sqlite3.Connection) -> tuple[int, int]:
    """Damaged rows of chats and of messages, which ``chat_of`` and ``turn_of`` refuse."""
    chats, messages = (
        int(database.execute(f"SELECT count(*) FROM {table} WHERE {_refusal(table)}").fetchone()[0])
        for table in ("chats", "messages")
    )
    return chats, messages


def insert_chat(database: sqlite3.Connection, chat: Chat) -> None:
    """Raises sqlite3.IntegrityError for an id that is there already."""
    values = (
        chat.id,
        clean(chat.title),
        chat.created_s,
        chat.updated_s,
        clean(chat.model),
        chat.active_id,
        chat.decode_tps,
    )
    _insert(database, "chats", CHAT_COLUMNS, values)


def insert_turn(database: sqlite3.Connection, turn: Turn) -> None:
    """Raises sqlite3.IntegrityError for an id that is there already and for an unknown chat."""
    values = (
        turn.id,
        turn.chat_id,
        turn.parent_id,
        turn.role,
        clean(turn.content),
        turn.status,
        json.dumps(dict(turn.stats)),
        turn.created_s,
    )
    _insert(database, "messages", TURN_COLUMNS, values)


def clean(text: str) -> str:
    """``text`` as UTF-8 can hold it: half a surrogate pair becomes a question mark."""
    return text.encode("utf-8", "replace").decode()


def decode(data: bytes) -> str:
    """Text of a row; damage in it costs single characters, not the row."""
    return data.decode("utf-8", "replace")


def _insert(
    database: sqlite3.Connection, table: str, columns: Sequence[str], values: Sequence[object]
) -> None:
    places = ", ".join("?" * len(columns))
    database.execute(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})", tuple(values))


def _columns(database: sqlite3.Connection, table: str) -> set[tuple[object, ...]]:
    """Name, type, rules and references of each column; empty without the table."""
    columns = {tuple(row[1:]) for row in database.execute(f"PRAGMA table_info({table})")}
    return columns | set(database.execute(f"PRAGMA foreign_key_list({table})"))


def _refusal(table: str) -> str:
    texts, numbers = _NEEDED[table]
    conditions = [f"typeof({name}) <> 'text'" for name in texts]
    conditions += [f"typeof({name}) NOT IN ('real', 'integer')" for name in numbers]
    if table == "messages":
        conditions.append("typeof(parent_id) NOT IN ('text', 'null')")
    return " OR ".join(conditions)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def _number(value: object) -> float:
    if not isinstance(value, int | float) or math.isnan(value):
        raise TypeError("not a number")
    return float(value)


def _figures(value: object) -> dict[str, object]:
    """Figures are dispensable: unreadable ones are none."""
    try:
        figures = json.loads(_text(value))
    except (ValueError, TypeError, RecursionError):
        return {}
    return figures if isinstance(figures, dict) else {}
