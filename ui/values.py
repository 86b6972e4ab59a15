"""What the window is told to show: frozen values made by the controller, standard library only.

Foreign text (names, titles, messages) is always plain text here; ``None`` is unknown and shown as "–".
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ModelState(StrEnum):
    """State of the model chip."""

    NO_MODEL = "no-model"
    DOWNLOADING = "downloading"
    LOADING = "loading"
    READY = "ready"
    GENERATING = "generating"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ChipView:
    """The model chip: name · precision · context, and the state."""

    state: ModelState
    name: str = ""
    detail: str = ""  # "4-bit · 8k"
    percent: int | None = None


@dataclass(frozen=True, slots=True)
class ChatRow:
    """A row of the sidebar. ``group`` is a heading: Today, Yesterday, Earlier."""

    chat_id: str
    title: str
    detail: str = ""  # "SmolLM2-135M · 90 tok/s"
    group: str = "Today"
    is_writing: bool = False


@dataclass(frozen=True, slots=True)
class MessageView:
    """A message. ``status``: done, reading, writing, stopped, failed, length, context or queued."""

    message_id: str
    role: str  # user | assistant
    text: str
    status: str = "done"
    stats: str = ""  # "128 tokens · 42.1 tok/s · first token 0.21 s"
    note: str = ""  # one sentence for a marker above it, or ""


@dataclass(frozen=True, slots=True)
class DownloadView:
    """The starter's card. ``state``: offered, starting, running, checking, paused, failed, done."""

    state: str
    done_bytes: int = 0
    total_bytes: int = 0
    rate_bps: float | None = None  # bytes per second
    seconds_left: float | None = None
    message: str = ""  # the sentence of a failure, or while starting: why it starts again


@dataclass(frozen=True, slots=True)
class MachineView:
    """This computer, in two lines."""

    title: str
    detail: str


@dataclass(frozen=True, slots=True)
class ModelRow:
    """A row of the model picker; one that cannot run has its ``reason``."""

    path: str
    name: str
    detail: str = ""
    reason: str = ""
    is_loaded: bool = False


@dataclass(frozen=True, slots=True)
class SpeedView:
    """The dial and what stands beside it. ``is_live`` is False for the last answer's value."""

    decode_tps: float | None = None
    is_live: bool = False
    ttft_s: float | None = None
    prefill_tps: float | None = None
    step_ms: tuple[float, ...] = ()  # new steps since the last view, for the latency line
    is_new_answer: bool = False  # True empties the latency line first


@dataclass(frozen=True, slots=True)
class MemoryView:
    """The memory bar, in bytes; parts add up to ``total``. ``pending`` is what loading would add."""

    label: str = "RAM"
    total: int | None = None
    weights: int = 0
    kv_used: int = 0
    kv_reserved: int = 0  # without the used part
    working: int = 0
    other: int = 0
    free: int = 0
    pending: int = 0


@dataclass(frozen=True, slots=True)
class ContextView:
    """Context in use: tokens in the cache of the context length that is loaded."""

    used_tokens: int = 0
    context: int = 0


@dataclass(frozen=True, slots=True)
class FormatChoice:
    """One segment of the format control. ``fit``: fits, tight or no."""

    key: str  # file | bf16 | f32
    label: str  # "4-bit", "16-bit", "32-bit"
    detail: str  # "0.11 GB"
    fit: str = "fits"
    tooltip: str = ""


@dataclass(frozen=True, slots=True)
class VerdictView:
    """``kind``: fits, tight or no."""

    kind: str
    title: str  # "Fits · 1.2 GB spare"
    detail: str


@dataclass(frozen=True, slots=True)
class TuningView:
    """The settings of the dock: what is loaded, what is chosen, and what it would cost."""

    formats: tuple[FormatChoice, ...]
    chosen_format: str
    loaded_format: str
    context_stops: tuple[int, ...]  # ascending, powers of two and the trained limit
    chosen_context: int
    loaded_context: int
    trained_context: int
    tight_from: int | None = None  # first context that is tight, if any stop is
    no_fit_from: int | None = None
    verdict: VerdictView | None = None
    apply: str = "hidden"  # hidden | ready | waiting | reloading
    apply_percent: int | None = None
    reload_s: float | None = None  # how long Apply will take, or what is left of it while reloading


@dataclass(frozen=True, slots=True)
class NoticeAction:
    """A button of the failure bar; ``key`` comes back in ``notice_action``."""

    key: str
    label: str


@dataclass(frozen=True, slots=True)
class NoticeView:
    """The non-modal bar. ``kind``: error, warning, info."""

    kind: str
    title: str
    text: str = ""
    actions: tuple[NoticeAction, ...] = ()
    details: str = ""  # behind "Details", plain text that can be copied
    key: str = ""  # by which it alone can be taken away again


@dataclass(frozen=True, slots=True)
class CounterView:
    """The composer's counter: this chat with the typed text, of the context."""

    tokens: int | None
    context: int | None


@dataclass(frozen=True, slots=True)
class StatusView:
    """The status bar: device on the left, privacy on the right."""

    device: str
    facts: tuple[str, ...] = ()
    privacy: str = "Nothing leaves this computer"
    tooltip: str = ""  # what there is no room for in a line
