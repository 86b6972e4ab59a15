"""Chats of this program's own export, ``app.chat_export``: whole trees, with everything that is stored of
them.
"""

from __future__ import annotations

from collections.abc import Mapping

from app.chat_export import FORMAT, VERSION
from app.conversation import Turn
from app.imports.shapes import (
    MOST_TURNS,
    ImportedChat,
    UnreadableError,
    list_of,
    mapping_of,
    seconds_of,
    text_of,
)
from app.presets import checked
from app.store import Chat
from engine.words import mark, tr

SOURCE = "Decodeck"
_ROLES = ("user", "assistant", "system")
_STATUS = {each: each for each in ("done", "stopped", "failed", "length", "context")}
_STATUS |= dict.fromkeys(("reading", "writing", "elsewhere"), "failed")  # it was not ended where it came from


def is_file(value: Mapping[str, object]) -> bool:
    """Whether this is a whole file of ours. Raises UnreadableError for one of a newer version."""
    if value.get("format") != FORMAT:
        return False
    if value.get("version") != VERSION:
        raise UnreadableError(tr("it was written by a newer version of this program"))
    return True


def read(value: Mapping[str, object]) -> ImportedChat:
    """A chat with the ids it had. Raises UnreadableError for one that is damaged."""
    chat_id, title = text_of(value.get("id")), text_of(value.get("title"))
    rows = [mapping_of(row) for row in list_of(value.get("messages"))]
    turns = [turn for row in rows if (turn := _turn(chat_id, row)) is not None]
    if not chat_id or not turns:
        raise UnreadableError(tr("it has no message that can be read"))
    if len(turns) > MOST_TURNS:
        raise UnreadableError(tr("it has more than %n message(s)", "", MOST_TURNS))
    tps = value.get("decode_tps")
    created_s = seconds_of(value.get("created_s")) or turns[0].created_s
    chat = Chat(
        chat_id,
        title,
        created_s,
        seconds_of(value.get("updated_s")) or created_s,
        text_of(value.get("model")),
        text_of(value.get("active_id")) or None,
        float(tps) if isinstance(tps, int | float) else None,
        seconds_of(value.get("pinned_s")),
        options=checked(value.get("options")),
    )
    damaged = len(rows) - len(turns)
    left_out = {mark("damaged messages"): damaged} if damaged else {}
    return ImportedChat(chat, tuple(turns), left_out, text_of(value.get("folder")))


def _turn(chat_id: str, row: Mapping[str, object]) -> Turn | None:
    turn_id, role, content = (text_of(row.get(name)) for name in ("id", "role", "content"))
    created_s = seconds_of(row.get("created_s"))
    if not turn_id or role not in _ROLES or created_s is None or not isinstance(row.get("content"), str):
        return None
    parent, raw = row.get("parent_id"), row.get("raw")
    return Turn(
        turn_id,
        chat_id,
        parent if isinstance(parent, str) else None,
        role,
        content,
        _STATUS.get(text_of(row.get("status")), "done"),
        mapping_of(row.get("stats")),
        created_s,
        text_of(row.get("thinking")),
        raw if isinstance(raw, str) else None,
    )
