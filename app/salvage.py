"""Reads what can still be read of a damaged chat database. Never writes to it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from app.chat_rows import CHAT_COLUMNS, Chat, chat_of, draft_of, readable, turn_of
from app.conversation import Turn
from app.sqlite_pages import Row, table_rows


@dataclass(frozen=True, slots=True)
class Salvaged:
    """What was found, in the order it was written; drafts by chat."""

    chats: tuple[Chat, ...]
    turns: tuple[Turn, ...]
    drafts: dict[str, str]


def salvage(path: Path) -> Salvaged:
    """Chats, turns and drafts outside the damage; deleted chats stay deleted.

    The names and places of the tables are not needed: rows are known by their shape. Turns whose chat cannot
    be read are gathered in a chat of their own. Never raises.
    """
    rows = [row for _, row in sorted(table_rows(path), key=lambda found: found[0])]
    chat_rows = [row for row in rows if _is_chat(row)]
    deleted = {row[0] for row in chat_rows if row[-1] is not None}
    chats = {chat.id: chat for chat in readable(chat_of, [row[:-1] for row in chat_rows])}
    turns = {turn.id: turn for turn in readable(turn_of, rows) if turn.chat_id not in deleted}
    for turn in turns.values():
        if turn.chat_id not in chats:
            chats[turn.chat_id] = Chat(turn.chat_id, "Recovered chat", turn.created_s, turn.created_s)
    return Salvaged(
        tuple(chat for chat in chats.values() if chat.id not in deleted),
        tuple(turns.values()),
        dict(readable(draft_of, rows)),
    )


def _is_chat(row: Row) -> bool:
    """Rows of messages are as long, but have no number in their third place."""
    return len(row) == len(CHAT_COLUMNS) + 1 and isinstance(row[2], int | float)
