"""What the gauges are told to show, and what is told behind their line that says why: frozen values.

``None`` is unknown and shown as "–".
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.fit.preference import READING_TPS
from engine.words import tr


@dataclass(frozen=True, slots=True)
class WhyView:
    """What limits the speed, a sentence; with ``can_explain`` it opens what there is to say about it."""

    sentence: str = field(
        default_factory=lambda: tr(
            "Not measured yet: the first answer sets the gauges and checks the prediction"
        )
    )
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
    why: WhyView = field(default_factory=WhyView)


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
    why: WhyView = field(default_factory=WhyView)
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
