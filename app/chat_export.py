"""Chats as files for people and for other programs: Markdown of what is shown, JSON of everything."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime

from app.conversation import Conversation, Turn
from app.store import Chat

FORMAT, VERSION = "decodeck-chats", 1
_NAMES = {"user": "You", "assistant": "Answer", "system": "Instructions"}


def markdown(chat: Chat, conversation: Conversation) -> str:
    """The shown path as Markdown; messages stand as they were written."""
    when = _date(chat.created_s)
    about = " · ".join(part for part in (chat.model, when) if part)
    parts = [f"# {' '.join(chat.title.split()) or 'Chat'}", *([about] if about else [])]
    for turn in conversation.path():
        parts.append(f"## {_NAMES.get(turn.role, turn.role)}")
        if turn.thinking.strip():
            quoted = "\n".join(f"> {line}".rstrip() for line in turn.thinking.strip().splitlines())
            parts.append(f"> **Thinking**\n>\n{quoted}")
        if turn.content.strip():
            parts.append(turn.content.strip("\n"))
    return "\n\n".join(parts) + "\n"


def as_json(
    chats: Iterable[tuple[Chat, Sequence[Turn]]], folders: Mapping[str, str], exported_s: float
) -> str:
    """All of the chats, branches too; ``folders`` are names by id. Written to be imported again."""
    whole = {
        "format": FORMAT,
        "version": VERSION,
        "exported_s": exported_s,
        "chats": [_chat(chat, turns, folders) for chat, turns in chats],
    }
    return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"


def _chat(chat: Chat, turns: Sequence[Turn], folders: Mapping[str, str]) -> dict[str, object]:
    values = asdict(chat)
    values["folder"] = folders.get(values.pop("folder_id") or "", "")
    values["messages"] = [_turn(turn) for turn in turns]
    return values


def _turn(turn: Turn) -> dict[str, object]:
    return {
        "id": turn.id,
        "parent_id": turn.parent_id,
        "role": turn.role,
        "content": turn.content,
        "status": turn.status,
        "stats": dict(turn.stats),
        "created_s": turn.created_s,
        "thinking": turn.thinking,
        "raw": turn.raw,
    }


def _date(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M")
    except (OverflowError, OSError, ValueError):
        return ""
