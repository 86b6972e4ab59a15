"""Chats of Open WebUI: its export is an array of rows of its table ``chat``.

A row has ``id``, ``title``, ``created_at`` and ``updated_at`` (seconds) and ``chat``, with ``models`` and
``history``: ``messages`` by id and ``currentId``. A message has ``role``, ``content``, ``parentId``,
``timestamp`` (seconds). As in backend/open_webui/models/chats.py and src/lib/utils/index.ts
(convertMessagesToHistory) of github.com/open-webui/ open-webui; older exports have ``chat.messages`` in a
line. What a model thought stands in the text as ``<details type="reasoning">``.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Mapping

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

SOURCE = "Open WebUI"
_REASONING = re.compile(
    r'<details\s+type="reasoning"[^>]*>\s*(?:<summary>.*?</summary>)?(.*?)</details>\s*', re.DOTALL
)
_LONGEST_REASONING = 2_000_000  # characters that are looked at for it


def is_here(value: Mapping[str, object]) -> bool:
    """Whether this is a row of Open WebUI's chats."""
    chat = mapping_of(value.get("chat"))
    return isinstance(chat.get("history"), dict) or isinstance(chat.get("messages"), list)


def read(value: Mapping[str, object]) -> ImportedChat:
    """Raises UnreadableError where nothing is left."""
    left_out: Counter[str] = Counter()
    chat = mapping_of(value.get("chat"))
    history = mapping_of(chat.get("history"))
    messages = mapping_of(history.get("messages"))
    if messages:
        nodes = [_node(key, mapping_of(message), left_out) for key, message in messages.items()]
        active: str | None = text_of(history.get("currentId"))
    else:
        rows = list_of(chat.get("messages"))
        nodes = in_line(_node(str(place), mapping_of(row), left_out) for place, row in enumerate(rows))
        active = nodes[-1].key if nodes else None
    models = [text_of(model) for model in list_of(chat.get("models"))]
    return chat_of_nodes(
        SOURCE,
        text_of(value.get("id")) or text_of(chat.get("id")) or "".join(node.key for node in nodes)[:500],
        text_of(value.get("title")) or text_of(chat.get("title")),
        nodes,
        active=active,
        created_s=seconds_of(value.get("created_at")),
        updated_s=seconds_of(value.get("updated_at")),
        model=models[0] if models else "",
        left_out=left_out,
    )


def _node(key: str, message: Mapping[str, object], left_out: Counter[str]) -> Node:
    left_out[mark("images and files")] += len(list_of(message.get("files")))
    text, thinking = _parted(text_of(message.get("content")))
    parent = message.get("parentId")
    return Node(
        key,
        parent if isinstance(parent, str) else None,
        text_of(message.get("role")),
        text,
        seconds_of(message.get("timestamp")),
        thinking,
        "stopped" if message.get("done") is False and message.get("role") == "assistant" else "done",
    )


def _parted(content: str) -> tuple[str, str]:
    """The answer, and what was thought before it."""
    if '<details type="reasoning"' not in content or len(content) > _LONGEST_REASONING:
        return content, ""
    thoughts = [_unquoted(match) for match in _REASONING.findall(content)]
    return _REASONING.sub("", content).strip(), "\n\n".join(thoughts)


def _unquoted(thought: str) -> str:
    """Without the ``>`` before each line, and the entities."""
    lines = (re.sub(r"^>\s?", "", line) for line in html.unescape(thought).strip().splitlines())
    return "\n".join(lines).strip()
