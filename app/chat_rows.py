"""What a row of the chat database holds, and what a damaged one costs. Knows no files, locks or versions."""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from app.conversation import OPEN_STATUS, Turn

T = TypeVar("T")
CHAT_COLUMNS = (
    *("id", "title", "created_s", "updated_s", "model", "active_id", "decode_tps"),
    *("pinned_s", "folder_id", "options"),
)
TURN_COLUMNS = (
    *("id", "chat_id", "parent_id", "role", "content", "status", "stats", "created_s"),
    *("thinking", "raw"),
)
FOLDER_COLUMNS = ("id", "name", "created_s", "is_open")
_NEEDED = {  # what a row must hold to be shown: texts, numbers
    "chats": (("id", "title"), ("created_s", "updated_s")),
    "messages": (("id", "chat_id", "role", "content", "status"), ("created_s",)),
}


@dataclass(frozen=True, slots=True)
class Chat:
    """A row of the list. ``active_id`` is the last turn of the path that was shown, ``model`` a name.

    Times are seconds since 1970; ``decode_tps`` is the speed of the last answer, None while unknown;
    ``pinned_s`` is None for a chat that is not pinned; ``options`` are settings that it has of its own.
    """

    id: str
    title: str
    created_s: float
    updated_s: float
    model: str = ""
    active_id: str | None = None
    decode_tps: float | None = None
    pinned_s: float | None = None
    folder_id: str | None = None
    options: Mapping[str, object] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Folder:
    """A place for chats in the list. ``is_open`` says whether its chats are shown."""

    id: str
    name: str
    created_s: float
    is_open: bool = True


def chat_of(row: Sequence[object]) -> Chat:
    """The chat in a row of ``CHAT_COLUMNS``. Raises ValueError or TypeError for a damaged one."""
    chat_id, title, created_s, updated_s, model, active_id, decode_tps, pinned_s, folder_id, options = row
    return Chat(
        _text(chat_id),
        _text(title),
        _number(created_s),
        _number(updated_s),
        model if isinstance(model, str) else "",  # this and the rest are dispensable
        active_id if isinstance(active_id, str) else None,
        float(decode_tps) if isinstance(decode_tps, int | float) else None,
        float(pinned_s) if isinstance(pinned_s, int | float) else None,
        folder_id if isinstance(folder_id, str) else None,
        _figures(options),
    )


def turn_of(row: Sequence[object]) -> Turn:
    """The turn in a row of ``TURN_COLUMNS``. Raises ValueError or TypeError for a damaged one."""
    turn_id, chat_id, parent_id, role, content, status, stats, created_s, thinking, raw = row
    return Turn(
        _text(turn_id),
        _text(chat_id),
        None if parent_id is None else _text(parent_id),
        _text(role),
        _text(content),
        _text(status),
        _figures(stats),
        _number(created_s),
        thinking if isinstance(thinking, str) else "",  # this and the next are dispensable
        raw if isinstance(raw, str) else None,
    )


def draft_of(row: Sequence[object]) -> tuple[str, str]:
    """Chat id and text of a draft. Raises ValueError or TypeError for a damaged one."""
    chat_id, content = row
    return _text(chat_id), _text(content)


def folder_of(row: Sequence[object]) -> Folder:
    """The folder in a row of ``FOLDER_COLUMNS``. Raises ValueError or TypeError for a damaged one."""
    folder_id, name, created_s, is_open = row
    return Folder(_text(folder_id), _text(name), _number(created_s), is_open != 0)


def readable(make: Callable[[Sequence[object]], T], rows: Iterable[Sequence[object]]) -> Iterator[T]:
    """What ``make`` makes of the rows; a damaged row costs itself alone."""
    for row in rows:
        with contextlib.suppress(ValueError, TypeError):
            yield make(row)


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
        chat.pinned_s,
        chat.folder_id,
        json.dumps(dict(chat.options)),
    )
    _insert(database, "chats", CHAT_COLUMNS, values)


def insert_turn(database: sqlite3.Connection, turn: Turn, writer: str | None = None) -> None:
    """``writer`` is the window that writes an answer which is not done.

    Raises sqlite3.IntegrityError for an id that is there already and for an unknown chat.
    """
    values = (turn.id, turn.chat_id, turn.parent_id, turn.role, *changing(turn), turn.created_s)
    columns = ("id", "chat_id", "parent_id", "role", *CHANGING_COLUMNS, "created_s")
    _insert(database, "messages", (*columns, "writer"), (*values, writer_of(turn, writer)))


CHANGING_COLUMNS = ("content", "status", "stats", "thinking", "raw")


def changing(turn: Turn) -> tuple[object, ...]:
    """The values of ``CHANGING_COLUMNS``: what an answer that is being written changes."""
    raw = None if turn.raw is None else clean(turn.raw)
    return clean(turn.content), turn.status, json.dumps(dict(turn.stats)), clean(turn.thinking), raw


def writer_of(turn: Turn, writer: str | None) -> str | None:
    """Only an open answer has a writer."""
    return writer if turn.status in OPEN_STATUS else None


def insert_folder(database: sqlite3.Connection, folder: Folder) -> None:
    """Raises sqlite3.IntegrityError for an id that is there already."""
    values = (folder.id, clean(folder.name), folder.created_s, int(folder.is_open))
    _insert(database, "folders", FOLDER_COLUMNS, values)


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
