"""Chats of LM Studio: one ``….conversation.json`` each, as its folder ``conversations`` holds them.

A conversation has ``name``, ``createdAt`` (milliseconds), ``lastUsedModel.identifier`` and ``messages``. A
message has ``versions`` and ``currentlySelected``; a version has a ``role`` and is of ``type``
"singleStep" with ``content`` (objects of type "text"), or "multiStep" with ``steps``, of which those of
type "contentBlock" hold ``content``, and with ``style.type`` "thinking" what was thought. The format is
not documented by its makers; as read by script.js of
github.com/YorkieDev/lm-studio-conversation-converter. Versions of a message are branches here: the next
message hangs on the selected one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from app.imports.shapes import ImportedChat, Node, chat_of_nodes, list_of, mapping_of, seconds_of, text_of
from engine.words import mark

SOURCE = "LM Studio"


def is_here(value: Mapping[str, object]) -> bool:
    """Whether this is a conversation of LM Studio."""
    messages = list_of(value.get("messages"))
    first = mapping_of(messages[0]) if messages else {}
    return "versions" in first or (not messages and "lastUsedModel" in value and "name" in value)


def read(value: Mapping[str, object], name: str = "") -> ImportedChat:
    """``name`` is the file's, which stands for an id. Raises UnreadableError where nothing is left."""
    left_out: Counter[str] = Counter()
    nodes: list[Node] = []
    selected: str | None = None
    for place, message in enumerate(list_of(value.get("messages"))):
        versions = list_of(mapping_of(message).get("versions"))
        chosen = mapping_of(message).get("currentlySelected")
        at = chosen if isinstance(chosen, int) and 0 <= chosen < len(versions) else len(versions) - 1
        for number, version in enumerate(versions):
            nodes.append(_node(f"{place}.{number}", selected, mapping_of(version), left_out))
        selected = f"{place}.{at}" if versions else selected
    created_s = seconds_of(value.get("createdAt"), 1000)
    title = text_of(value.get("name"))
    return chat_of_nodes(
        SOURCE,
        f"{name or title}\x1f{value.get('createdAt')}",
        title,
        nodes,
        active=selected,
        created_s=created_s,
        updated_s=seconds_of(value.get("userLastMessagedAt"), 1000),
        model=text_of(mapping_of(value.get("lastUsedModel")).get("identifier")),
        left_out=left_out,
    )


def _node(key: str, parent: str | None, version: Mapping[str, object], left_out: Counter[str]) -> Node:
    texts: list[str] = []
    thoughts: list[str] = []
    for step in _steps(version):
        kind = text_of(mapping_of(step.get("style")).get("type"))
        (thoughts if kind == "thinking" else texts).extend(_texts(step, left_out))
    role = text_of(version.get("role"))
    return Node(key, parent, role, "".join(texts), None, "".join(thoughts).strip())


def _steps(version: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    if text_of(version.get("type")) != "multiStep":
        yield version
        return
    for step in list_of(version.get("steps")):
        if text_of(mapping_of(step).get("type")) == "contentBlock":
            yield mapping_of(step)


def _texts(step: Mapping[str, object], left_out: Counter[str]) -> Iterator[str]:
    content = step.get("content")
    if isinstance(content, str):
        yield content
    for part in list_of(content):
        entry = mapping_of(part)
        if text_of(entry.get("type")) == "text":
            if entry.get("isStructural") is not True:  # the tags around a thought
                yield text_of(entry.get("text"))
        else:
            left_out[mark("images and files")] += 1
