"""What the window is told to show: frozen values made by the controller, standard library only.

Foreign text (names, titles, messages) is always plain text here; ``None`` is unknown and shown as "–".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from engine.fit.preference import READING_TPS


class ModelState(StrEnum):
    """State of the model chip."""

    NO_MODEL = "no-model"
    DOWNLOADING = "downloading"
    LOADING = "loading"
    READY = "ready"
    GENERATING = "generating"
    FAILED = "failed"
    UNLOADED = "unloaded"  # its memory was given back


@dataclass(frozen=True, slots=True)
class ChipView:
    """The model chip: name · precision · context, and the state."""

    state: ModelState
    name: str = ""
    detail: str = ""  # "4-bit · 8k"
    percent: int | None = None
    seconds_left: float | None = None  # said above 5 seconds


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
class WhyView:
    """What limits the speed, a sentence; with ``can_explain`` it opens what there is to say about it."""

    sentence: str = "Not measured yet: the first answer sets the gauges and checks the prediction"
    is_warning: bool = False
    can_explain: bool = False


@dataclass(frozen=True, slots=True)
class SpeedView:
    """The dial and what stands beside it. ``is_live`` is False for the last answer's value.

    What is predicted and the limit are for this moment: context, chats and drafts as they are now.
    """

    decode_tps: float | None = None
    is_live: bool = False
    ttft_s: float | None = None
    prefill_tps: float | None = None
    step_ms: tuple[float, ...] = ()  # new steps since the last view, for the latency line
    is_new_answer: bool = False  # True empties the latency line first
    drafts_accepted: float | None = None  # share of the drafted tokens, 0..1
    drafting_off: str = ""  # why nothing is drafted, a sentence
    together: str = ""  # "2 chats · 61 tok/s together"; empty while at most one answer is being written
    predicted_tps: float | None = None
    limit_tps: float | None = None  # what the memory's read bandwidth allows, with drafts
    is_slower: bool = False  # below 80 % of predicted for three seconds
    reading_tps: tuple[float, float] = READING_TPS  # of a slow and a quick reader of this answer
    read_gbps: float | None = None  # what the steps read
    peak_gbps: float | None = None  # measured read bandwidth of the memory
    why: WhyView = WhyView()


@dataclass(frozen=True, slots=True)
class StepPart:
    """What takes a part of a step; ``nbytes`` are read for it, 0: none."""

    name: str
    ms: float
    nbytes: int = 0


@dataclass(frozen=True, slots=True)
class Door:
    """The model as it would be otherwise, predicted; without figures where that is no question, and then the
    words say why. ``times``: as loaded is so many times as quick.
    """

    title: str
    words: str
    memory_bytes: int | None = None
    read_bytes: int = 0  # of a step, for the chat as it is now
    full_read_bytes: int = 0  # with a full context
    tps: float | None = None
    full_tps: float | None = None
    times: float = 1.0
    does_fit: bool = True


@dataclass(frozen=True, slots=True)
class BatchRow:
    """Predicted speed of several chats answered at once."""

    chats: int
    each_tps: float
    all_tps: float


@dataclass(frozen=True, slots=True)
class DraftRow:
    """Predicted speed with so many tokens guessed in each step."""

    drafted: int
    tokens_per_step: float
    tps: float


@dataclass(frozen=True, slots=True)
class JudgedRow:
    """An answer: what was predicted and what was measured. ``error`` is a fraction of the predicted speed."""

    when: str
    what: str  # "int4 · SmolLM2-135M"
    tokens: int
    chats: int
    predicted_tps: float
    measured_tps: float
    error: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class ExplainView:
    """All that is told behind the line that says why. ``tokens`` of ``context`` are in the chat."""

    model: str
    tokens: int
    context: int
    basis: str  # what the predictions rest on, a sentence
    why: WhyView = WhyView()
    parts: tuple[StepPart, ...] = ()
    doors: tuple[Door, ...] = ()
    batches: tuple[BatchRow, ...] = ()
    drafts: tuple[DraftRow, ...] = ()
    drafts_words: str = ""
    judged: tuple[JudgedRow, ...] = ()  # the newest first
    judged_words: str = ""


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
    kv_waste: int = 0  # of the reserved part: places in pages that are taken, without a token


@dataclass(frozen=True, slots=True)
class ContextView:
    """Context in use: tokens in the cache of the context length that is loaded."""

    used_tokens: int = 0
    context: int = 0
    answers: tuple[int, ...] = ()  # tokens of each answer that is being written, a part of those used


@dataclass(frozen=True, slots=True)
class FormatChoice:
    """One segment of the format control. ``fit``: fits, tight, spills, no, or off: it cannot run here."""

    key: str  # a format of the engine
    label: str  # "File 4.9-bit", "8-bit", "NF4"
    detail: str  # "1.0 GB · 41 tok/s", or why it is off
    fit: str = "fits"
    tooltip: str = ""
    quality: str = ""  # "perplexity +0.4%"; empty where nothing of the model was measured
    quality_tooltip: str = ""  # the same in full, or how to measure it


@dataclass(frozen=True, slots=True)
class OptionChoice:
    """One segment of one line: a KV precision, a way of drafting. ``fit`` as of a format."""

    key: str
    label: str
    fit: str = "fits"
    tooltip: str = ""


@dataclass(frozen=True, slots=True)
class DraftingView:
    """Who may guess tokens. ``in_use`` is what Auto has picked; ``model`` names the draft model, if one is
    chosen, with what it takes.
    """

    choices: tuple[OptionChoice, ...]
    chosen: str
    in_use: str | None = None
    model: str = ""  # "SmolLM2-135M-Instruct · 0.1 GB"
    model_tooltip: str = ""


@dataclass(frozen=True, slots=True)
class GpuLayersView:
    """How the layers are split: ``chosen`` of ``total`` are on the GPU called ``name``."""

    chosen: int
    loaded: int
    total: int
    name: str = ""


@dataclass(frozen=True, slots=True)
class HeatCell:
    """One place of the heatmap: how a format with a context fits, and its predicted speed."""

    context: int
    fit: str  # fits | tight | spills | no
    tps: float | None = None  # tokens a second with the context half full


@dataclass(frozen=True, slots=True)
class HeatRow:
    """A format with all contexts; every row has the same ones."""

    key: str
    label: str
    cells: tuple[HeatCell, ...]


@dataclass(frozen=True, slots=True)
class HeatView:
    """Precision by context. ``chosen`` and ``loaded`` are places: a format and a context."""

    rows: tuple[HeatRow, ...]
    chosen: tuple[str, int]
    loaded: tuple[str, int]


@dataclass(frozen=True, slots=True)
class VerdictView:
    """``kind``: fits, tight, spills or no."""

    kind: str
    title: str  # "Fits · 1.2 GB spare"
    detail: str  # "41 tok/s ±6% · first token 0.3 s"
    quality: str = ""  # "perplexity +0.4%"
    tooltip: str = ""  # the reasons in full


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
    spills_from: int | None = None
    no_fit_from: int | None = None
    verdict: VerdictView | None = None
    apply: str = "hidden"  # hidden | ready | anyway: it does not fit | waiting | reloading
    apply_percent: int | None = None
    reload_s: float | None = None  # how long Apply will take, or what is left of it while reloading
    kv: tuple[OptionChoice, ...] = ()
    chosen_kv: str = ""
    loaded_kv: str = ""
    drafting: DraftingView | None = None
    gpu_layers: GpuLayersView | None = None  # None: no GPU
    heat: HeatView | None = None  # None: not worked out yet
    preference: str = "quality"  # what is recommended: quality | fastest | longest
    recommended: str = ""  # why, a sentence; empty while there is nothing to recommend


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


@dataclass(frozen=True, slots=True)
class ReadingsView:
    """What sensors say, for the status bar. What they do not say is left out."""

    device: str = ""  # "NVIDIA GeForce MX250 · driver 550.120", in place of the processor
    temperature_c: float | None = None
    power_w: float | None = None
    cost: str = ""  # "0.14 kWh/M tok · $0.04"
    cost_tooltip: str = ""  # what is counted
