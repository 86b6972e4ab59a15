"""What every import makes of a foreign file: a chat with its tree of turns, bounded, with what was left
out.
"""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from app.conversation import Turn, title_of
from app.store import Chat
from engine.words import tr

MOST_TURNS = 50_000  # of a chat
_NAMESPACE = uuid.UUID("5f0d4f5e-7c1c-4b62-9d0b-6f9d0f3f6a11")  # ids of what is imported are made from it
_LATEST_S = 4_102_444_800.0  # the year 2100: a later time is a mistake
_ROLES = ("user", "assistant", "system")


class UnreadableError(ValueError):
    """A chat or a file that cannot be imported; the words say why."""


@dataclass(frozen=True, slots=True)
class ImportedChat:
    """A chat as it is to be stored. ``left_out`` counts what of it is not here, by what it is."""

    chat: Chat
    turns: tuple[Turn, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)
    folder: str = ""  # the name of the folder it was in


@dataclass(slots=True)
class Node:
    """A message of a foreign tree. ``key`` and ``parent`` are ids of that file."""

    key: str
    parent: str | None
    role: str
    text: str
    created_s: float | None = None
    thinking: str = ""
    status: str = "done"


def chat_of_nodes(
    source: str,
    key: str,
    title: str,
    nodes: Iterable[Node],
    *,
    active: str | None = None,
    created_s: float | None = None,
    updated_s: float | None = None,
    model: str = "",
    left_out: Mapping[str, int] | None = None,
) -> ImportedChat:
    """A chat from messages that name their parents; those without a role that we know are passed over, their
    children hang on what was before. ``active`` is the node whose path was shown.

    The same file gives the same ids, so that it can be imported twice. Raises UnreadableError for a chat
    without a message, and for one with too many. Where the file names no model, the program it comes from
    stands for who answered.
    """
    chat_id = made_id(source, key)
    found = {node.key: node for node in nodes}
    if len(found) > MOST_TURNS:
        raise UnreadableError(tr("it has more than %n message(s)", "", MOST_TURNS))
    now = time.time()
    start_s = created_s if created_s is not None else now
    turns: list[Turn] = []
    ids: dict[str, str] = {}
    for node in _parents_first(found):
        if node.role not in _ROLES:
            continue
        parent = _kept(found, node.parent, but=node.key)
        ids[node.key] = made_id(chat_id, node.key)
        turn = Turn(
            ids[node.key],
            chat_id,
            ids.get(parent or ""),  # where the way up is a circle, it is cut
            node.role,
            node.text,
            node.status,
            {},
            node.created_s if node.created_s is not None else start_s,
            node.thinking,
        )
        turns.append(turn)
    if not any(turn.content.strip() or turn.thinking for turn in turns):
        raise UnreadableError(tr("it has no message with text"))
    leaf = _kept(found, active) if active in found else None
    end_s = updated_s if updated_s is not None else max(turn.created_s for turn in turns)
    first = next((turn.content for turn in turns if turn.role == "user"), "")
    chat = Chat(
        chat_id,
        title_of(title) if title.strip() else title_of(first),
        start_s,
        end_s,
        model or source,
        ids.get(leaf or "", turns[-1].id),
    )
    return ImportedChat(chat, tuple(turns), dict(left_out or {}))


def _parents_first(found: Mapping[str, Node]) -> Iterator[Node]:
    """All nodes in the order given, but none before its parent; a circle is cut where it is entered."""
    done: set[str] = set()
    for key in found:
        chain: list[str] = []
        at: str | None = key
        while at is not None and at in found and at not in done:
            done.add(at)
            chain.append(at)
            at = found[at].parent
        for each in reversed(chain):
            yield found[each]


def _kept(found: Mapping[str, Node], key: str | None, but: str = "") -> str | None:
    """The node itself or the nearest above it that is kept; None where there is none."""
    seen = {but}
    while key is not None and key in found and key not in seen:
        if found[key].role in _ROLES:
            return key
        seen.add(key)
        key = found[key].parent
    return None


def made_id(*parts: str) -> str:
    """The same id for the same parts."""
    return uuid.uuid5(_NAMESPACE, "\x1f".join(parts).encode("utf-8", "replace").decode()).hex


def text_of(value: object) -> str:
    """A text, "" for anything else."""
    return value if isinstance(value, str) else ""


def seconds_of(value: object, unit: float = 1.0) -> float | None:
    """A time in seconds since 1970; ``unit`` is how many of the value's units make a second."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    seconds = float(value) / unit if abs(value) < 1e18 else math.inf
    return seconds if 0 < seconds < _LATEST_S else None


def mapping_of(value: object) -> Mapping[str, object]:
    """A JSON object, an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def list_of(value: object) -> list[object]:
    """A JSON array, an empty one for anything else."""
    return value if isinstance(value, list) else []


def in_line(nodes: Iterable[Node]) -> list[Node]:
    """Messages without parents, each hung on the one before."""
    line: list[Node] = []
    for node in nodes:
        line.append(replace(node, parent=line[-1].key if line else None))
    return line
