"""Chats of ChatGPT's data export: ``conversations.json``, an array of conversations.

A conversation has ``title``, ``create_time`` and ``update_time`` (seconds), ``current_node`` and
``mapping``: nodes by id with ``message``, ``parent`` and ``children``. A message has ``author.role``,
``content.content_type`` and ``content.parts`` (texts, or objects for images), ``metadata.model_slug``.
Nodes without a message, hidden ones (``metadata.is_visually_hidden_from_conversation``) and those
addressed to a tool (``recipient`` is not "all") are not part of what was seen. As described in
docs/chatgpt-data-export-format.md of github.com/mitkury/ chatgpt-export-parser; ``thoughts`` as in its
newer exports.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from app.imports.shapes import ImportedChat, Node, chat_of_nodes, list_of, mapping_of, seconds_of, text_of
from engine.words import mark

SOURCE = "ChatGPT"
_TEXTS = ("text", "multimodal_text")
_TOOLS = ("code", "execution_output", "tether_browsing_display", "tether_quote", "system_error")


def is_here(value: Mapping[str, object]) -> bool:
    """Whether this is a conversation of ChatGPT."""
    return isinstance(value.get("mapping"), dict)


def read(value: Mapping[str, object]) -> ImportedChat:
    """Raises UnreadableError where nothing is left."""
    left_out: Counter[str] = Counter()
    mapping = mapping_of(value.get("mapping"))
    nodes, models = [], []
    thoughts: dict[str, str] = {}
    for key, entry in mapping.items():
        node = _node(key, mapping_of(entry), left_out, thoughts)
        nodes.append(node)
        metadata = mapping_of(mapping_of(mapping_of(entry).get("message")).get("metadata"))
        if node.role == "assistant":
            models.append(text_of(metadata.get("model_slug")))
    by_key = {node.key: node for node in nodes}
    for node in nodes:
        if node.role == "assistant":
            node.thinking = _thoughts_above(by_key, node, thoughts)
    return chat_of_nodes(
        SOURCE,
        text_of(value.get("conversation_id")) or text_of(value.get("id")) or "".join(sorted(mapping))[:500],
        text_of(value.get("title")),
        nodes,
        active=text_of(value.get("current_node")) or None,
        created_s=seconds_of(value.get("create_time")),
        updated_s=seconds_of(value.get("update_time")),
        model=next((model for model in reversed(models) if model), ""),
        left_out=left_out,
    )


def _node(key: str, entry: Mapping[str, object], left_out: Counter[str], thoughts: dict[str, str]) -> Node:
    message = mapping_of(entry.get("message"))
    parent = entry.get("parent")
    node = Node(key, parent if isinstance(parent, str) else None, "", "")
    if not message:
        return node
    role = text_of(mapping_of(message.get("author")).get("role"))
    metadata, content = mapping_of(message.get("metadata")), mapping_of(message.get("content"))
    kind = text_of(content.get("content_type")) or "text"
    if kind == "thoughts":
        thoughts[key] = _thoughts(content)
        return node
    is_hidden = metadata.get("is_visually_hidden_from_conversation") is True
    is_for_tool = text_of(message.get("recipient")) not in ("", "all")
    if is_hidden or role == "system":
        return node
    if is_for_tool or role == "tool" or kind in _TOOLS:
        left_out[mark("messages of tools")] += 1
        return node
    if kind not in _TEXTS or role not in ("user", "assistant"):
        return node
    parts = list_of(content.get("parts"))
    left_out[mark("images and files")] += sum(1 for part in parts if isinstance(part, dict))
    node.role, node.created_s = role, seconds_of(message.get("create_time"))
    node.text = "\n\n".join(part for part in parts if isinstance(part, str) and part)
    if not node.text:
        node.role = ""
    return node


def _thoughts(content: Mapping[str, object]) -> str:
    each = (text_of(mapping_of(part).get("content")) for part in list_of(content.get("thoughts")))
    return "\n\n".join(part for part in each if part)


def _thoughts_above(nodes: Mapping[str, Node], node: Node, thoughts: Mapping[str, str]) -> str:
    """What was thought between an answer and the message before it."""
    found: list[str] = []
    at, seen = node.parent, {node.key}
    while at is not None and at in nodes and at not in seen and not nodes[at].role:
        seen.add(at)
        found.append(thoughts.get(at, ""))
        at = nodes[at].parent
    return "\n\n".join(part for part in reversed(found) if part)
