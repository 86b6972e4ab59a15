"""Reads what can still be read of a damaged chat database. Never writes to it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

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
from app.conversation import Turn
from app.sqlite_pages import Row, table_rows
from engine.words import tr


@dataclass(frozen=True, slots=True)
class Salvaged:
    """What was found, in the order it was written; drafts by chat."""

    chats: tuple[Chat, ...]
    turns: tuple[Turn, ...]
    drafts: dict[str, str]
    folders: tuple[Folder, ...] = ()


_FIRST_TURN_LENGTH = 8  # of a message's row in files of the first version; later ones have 10 and 11 values
_CHAT_LENGTHS = (8, 10, 11)
_DELETED = 7  # the place of ``deleted_s`` in a row of chats; what came with version 3 stands behind it


def salvage(path: Path) -> Salvaged:
    """Chats, turns and drafts outside the damage; deleted chats stay deleted.

    The names and places of the tables are not needed: rows are known by their shape. Turns whose chat cannot
    be read are gathered in a chat of their own. Never raises.
    """
    rows = [row for _, row in sorted(table_rows(path), key=lambda found: found[0])]
    chat_rows = [row for row in rows if _is_chat(row)]
    deleted = {row[0] for row in chat_rows if row[_DELETED] is not None}
    whole = [_filled((*row[:_DELETED], *row[_DELETED + 1 :]), len(CHAT_COLUMNS)) for row in chat_rows]
    chats = {chat.id: chat for chat in readable(chat_of, whole)}
    turn_rows = [_filled(row, len(TURN_COLUMNS)) for row in rows if len(row) >= _FIRST_TURN_LENGTH]
    turns = {turn.id: turn for turn in readable(turn_of, turn_rows) if turn.chat_id not in deleted}
    for turn in turns.values():
        if turn.chat_id not in chats:
            chats[turn.chat_id] = Chat(turn.chat_id, tr("Recovered chat"), turn.created_s, turn.created_s)
    return Salvaged(
        tuple(chat for chat in chats.values() if chat.id not in deleted),
        tuple(turns.values()),
        dict(readable(draft_of, rows)),
        tuple(readable(folder_of, [row for row in rows if len(row) == len(FOLDER_COLUMNS)])),
    )


def _is_chat(row: Row) -> bool:
    """Rows of messages may be as long, but have no number in their third place."""
    return len(row) in _CHAT_LENGTHS and isinstance(row[2], int | float)


def _filled(row: Row, length: int) -> Row:
    """A row of an older version with None for what it lacks; of this one without what is not wanted."""
    return (*row, *[None] * length)[:length]
