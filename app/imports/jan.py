"""Chats of Jan: a folder for each, with ``thread.json`` (title, times) and ``messages.jsonl``, a message a
line.

A message has ``id``, ``role``, ``created_at`` (seconds, milliseconds in later versions) and ``content``:
objects of ``type`` "text" or "reasoning" with ``text.value``, others for images and tools. As in
core/src/types/message/ messageEntity.ts and core/src/types/thread/threadEntity.ts of github.com/janhq/jan,
and its docs/docs/specs/threads.md; files of its first versions keep ``messages`` in ``thread.json``
itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from app.imports.shapes import (
    ImportedChat,
    Node,
    chat_of_nodes,
    in_line,
    list_of,
    mapping_of,
    seconds_of,
    text_of,
)
from engine.words import mark

SOURCE = "Jan"
_STATUS = {"stopped": "stopped", "error": "failed", "pending": "failed"}
_MILLISECONDS = 1e11  # a later time in seconds would be the year 5138


def is_message(value: Mapping[str, object]) -> bool:
    """Whether this is a line of ``messages.jsonl``."""
    return "role" in value and isinstance(value.get("content"), list) and "thread_id" in value


def is_here(value: Mapping[str, object]) -> bool:
    """Whether this is a ``thread.json`` that holds its messages."""
    return text_of(value.get("object")) == "thread" and isinstance(value.get("messages"), list)


def read(
    thread: Mapping[str, object], messages: Iterable[Mapping[str, object]] = (), name: str = ""
) -> ImportedChat:
    """``name`` is that of the thread's folder. Raises UnreadableError where nothing is left."""
    left_out: Counter[str] = Counter()
    rows = list(messages) or [mapping_of(each) for each in list_of(thread.get("messages"))]
    nodes = in_line(_node(place, row, left_out) for place, row in enumerate(rows))
    key = text_of(thread.get("id")) or next((text_of(row.get("thread_id")) for row in rows), "") or name
    assistants = list_of(thread.get("assistants"))
    model = mapping_of(mapping_of(assistants[0] if assistants else None).get("model"))
    return chat_of_nodes(
        SOURCE,
        key,
        text_of(thread.get("title")) or text_of(thread.get("summary")),
        nodes,
        active=nodes[-1].key if nodes else None,
        created_s=_time(thread.get("created")),
        updated_s=_time(thread.get("updated")),
        model=text_of(model.get("id")),
        left_out=left_out,
    )


def _node(place: int, row: Mapping[str, object], left_out: Counter[str]) -> Node:
    texts, thoughts = [], []
    for part in list_of(row.get("content")):
        kind = text_of(mapping_of(part).get("type"))
        value = text_of(mapping_of(mapping_of(part).get("text")).get("value"))
        if kind == "reasoning":
            thoughts.append(value)
        elif kind == "text":
            texts.append(value)
        else:
            left_out[mark("images and tools")] += 1
    status = _STATUS.get(text_of(row.get("status")), "done") if row.get("role") == "assistant" else "done"
    key = f"{text_of(row.get('id'))}#{place}"
    text, thinking = "\n\n".join(texts), "\n\n".join(thoughts)
    return Node(key, None, text_of(row.get("role")), text, _time(row.get("created_at")), thinking, status)


def _time(value: object) -> float | None:
    is_milliseconds = isinstance(value, int | float) and value > _MILLISECONDS
    return seconds_of(value, 1000 if is_milliseconds else 1)
