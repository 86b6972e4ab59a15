"""What the sidebar, the messages and the composer are told to show: frozen values, standard library only.

Foreign text (names, titles, messages) is always plain text here; ``None`` is unknown and shown as "–".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ChatRow:
    """A row of the sidebar. ``group`` is a heading: Pinned, Today, Yesterday, Earlier, Temporary; a chat that
    is in a folder and not pinned stands under that.
    """

    chat_id: str
    title: str
    detail: str = ""  # "SmolLM2-135M · 90 tok/s"
    group: str = "Today"
    is_writing: bool = False
    is_pinned: bool = False
    folder_id: str = ""
    is_temporary: bool = False


@dataclass(frozen=True, slots=True)
class FolderRow:
    """A folder of the sidebar; its chats are hidden unless ``is_open``."""

    folder_id: str
    name: str
    count: int = 0  # of chats, pinned ones too
    is_open: bool = True


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A chat that was found. Marks are places (start, end) of the words in title and snippet, in order.

    ``message_id`` is the newest message with all the words, "" where only the title has them.
    """

    chat_id: str
    title: str
    message_id: str = ""
    snippet: str = ""
    title_marks: tuple[tuple[int, int], ...] = ()
    marks: tuple[tuple[int, int], ...] = ()
    count: int = 0  # of messages


@dataclass(frozen=True, slots=True)
class SearchView:
    """What a search of the chats gave; ``is_done`` is False while it is still looking."""

    query: str
    hits: tuple[SearchHit, ...] = ()
    is_done: bool = True


@dataclass(frozen=True, slots=True)
class MessageView:
    """A message. ``status``: done, reading, writing, waiting, stopped, failed, length, context or queued.

    One that is waiting is unfinished and stands still; ``stats`` then says what it waits for.
    """

    message_id: str
    role: str  # user | assistant
    text: str
    status: str = "done"
    stats: str = ""  # "128 tokens · 42.1 tok/s · first token 0.21 s"
    note: str = ""  # one sentence for a marker above it, or ""
    thinking: str = ""  # what the model thought before the answer
    thinking_s: float | None = None  # for how long, so far or in all
    left_out: str = ""  # of a question: what the context had no room for in its answer, a sentence
    branch: int = 1  # its place among the messages that could stand here
    branches: int = 1  # how many these are
    details: str = ""  # more figures than ``stats``, in lines: shown when the pointer rests on these


@dataclass(frozen=True, slots=True)
class AttachmentView:
    """A text that goes with the message being written. ``note`` says what of the file it is."""

    name: str
    tokens: int | None = None
    note: str = ""
    is_reading: bool = False


@dataclass(frozen=True, slots=True)
class LengthView:
    """How long an answer may become, and the seconds that takes at the predicted speed; None: any length, and
    unknown. ``choices`` are what else there is.
    """

    tokens: int | None
    seconds: float | None = None
    choices: tuple[tuple[int | None, float | None], ...] = ()


@dataclass(frozen=True, slots=True)
class PresetsView:
    """How the shown chat is answered: ``values`` by the names of settings; those in ``own`` are not what
    every chat has. ``names`` are the saved presets, ``chosen`` the one that counts, "" for none.
    """

    values: Mapping[str, object]
    own: frozenset[str] = frozenset()
    names: tuple[str, ...] = ()
    chosen: str = ""
    errors: Mapping[str, str] = field(default_factory=dict)  # why what was typed was not taken, by name


@dataclass(frozen=True, slots=True)
class CounterView:
    """The composer's counter: this chat with the typed text, of the context."""

    tokens: int | None
    context: int | None
