"""Reads what can still be read of a damaged chat database. Never writes to it."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from app.chat_rows import CHAT_COLUMNS, TURN_COLUMNS, Chat, chat_of, decode, turn_of
from app.conversation import Turn

_NO_ROW = (ValueError, TypeError)


def salvage(path: Path) -> tuple[list[Chat], list[Turn]]:
    """Chats and turns outside the damage, in the order they were written; deleted chats stay deleted.

    Turns whose chat cannot be read are gathered in a chat of their own. Never raises.
    """
    chats: dict[str, Chat] = {}
    deleted: set[object] = set()
    for row in _readable_rows(path, "chats", (*CHAT_COLUMNS, "deleted_s")):
        if row[-1] is not None:
            deleted.add(row[0])
            continue
        with contextlib.suppress(*_NO_ROW):
            chat = chat_of(row[:-1])
            chats[chat.id] = chat
    turns: dict[str, Turn] = {}
    for row in _readable_rows(path, "messages", TURN_COLUMNS):
        with contextlib.suppress(*_NO_ROW):
            turn = turn_of(row)
            if turn.chat_id not in deleted:
                turns[turn.id] = turn
    for turn in turns.values():
        if turn.chat_id not in chats:
            chats[turn.chat_id] = Chat(turn.chat_id, "Recovered chat", turn.created_s, turn.created_s)
    return list(chats.values()), list(turns.values())


def _readable_rows(path: Path, table: str, columns: Sequence[str]) -> list[tuple[object, ...]]:
    """Reads from both ends until the damage stops it: so what lies before and behind it is found."""
    rows: dict[int, tuple[object, ...]] = {}
    for order in ("ASC", "DESC"):
        with contextlib.suppress(sqlite3.Error):
            database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
            database.text_factory = decode
            with contextlib.closing(database):
                query = f"SELECT rowid, {', '.join(columns)} FROM {table} ORDER BY rowid {order}"
                for row in database.execute(query):
                    rows[row[0]] = row[1:]
    return [rows[rowid] for rowid in sorted(rows)]
