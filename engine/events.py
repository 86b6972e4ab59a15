"""What the engine tells of: loads, answers, memory. Frozen values, standard library only.

Units are in the names, as in `engine.types`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.calibration import Calibration
from engine.capabilities import CAN_ALL, Capabilities
from engine.machine import Gpu
from engine.types import NO_BYTES, CopiesPoint, LoadPlan, MemoryParts


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """``fraction`` 0..1 never goes back; ``phase`` is a short word; ``remaining_s`` is None while nobody
    knows it.

    ``load_id`` here and below is whatever the caller of the load gave it; the engine itself leaves it 0.
    """

    fraction: float
    phase: str
    load_id: int = 0
    remaining_s: float | None = None

    @property
    def percent(self) -> int:
        """0..100, rounded down."""
        return int(100 * self.fraction)


@dataclass(frozen=True, slots=True)
class Loaded:
    """The model is ready. ``kernels`` names what runs the linear layers; ``warnings`` are sentences about
    oddities of the file that were worked around. ``thinking`` is what the template does by itself where it
    can switch thinking: on or off; "" where it has no switch. ``capabilities`` are those of its runner.
    ``no_draft`` says why the draft model that was wished for is not used; the warnings have it too.
    """

    plan: LoadPlan
    kernels: str
    seconds: float
    warnings: tuple[str, ...] = ()
    load_id: int = 0
    thinking: str = ""
    capabilities: Capabilities = CAN_ALL
    no_draft: str = ""


@dataclass(frozen=True, slots=True)
class LoadFailed:
    """The load did not work; no model is in memory."""

    load_id: int
    kind: str
    message: str
    hint: str = ""
    details: str = ""


@dataclass(frozen=True, slots=True)
class Unloaded:
    """No model is in memory any more."""

    load_id: int = 0


@dataclass(frozen=True, slots=True)
class Prefilled:
    """Progress of reading the prompt. ``notes`` say what was changed to fit the template."""

    request_id: str
    prompt_tokens: int
    reused_tokens: int
    done_tokens: int  # of the prompt, reused ones included
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Chunk:
    """Text that is final: it is never taken back. All of a kind together are that part of the reply, without
    the tags by which the model parts it.
    """

    request_id: str
    text: str
    kind: str = "answer"  # thinking | answer | tool: a call of a tool, where the request has tools


@dataclass(frozen=True, slots=True)
class ContextShifted:
    """The chat no longer fitted its context, and a part of it was left out for this answer: so many of its
    oldest turns, or, where these are 0, the middle.
    """

    request_id: str
    dropped_turns: int
    dropped_tokens: int


@dataclass(frozen=True, slots=True)
class Paused:
    """The answer waits: others need the room that its keys and values took. It goes on where it was."""

    request_id: str


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token and the natural logarithm of its probability; ``text`` is "" for control tokens, and has U+FFFD
    for half a character.
    """

    id: int
    text: str
    logprob: float


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """One token of an answer and the likeliest in its place, best first: as the model had them, before bias,
    penalties, temperature, filters or a schema.
    """

    chosen: TokenLogprob
    top: tuple[TokenLogprob, ...]


@dataclass(frozen=True, slots=True)
class AnswerStats:
    """Figures of one answer; ``None`` is not measured.

    ``decode_tps`` = tokens after the first / time from first to last token. ``logprobs`` has one entry for
    each of ``token_ids`` where the request asked for them.
    """

    prompt_tokens: int
    reused_tokens: int
    generated_tokens: int
    ttft_s: float | None
    prefill_tps: float | None
    decode_tps: float | None
    seed: int | None
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprobs, ...] = ()
    drafted_tokens: int = 0  # guessed beforehand and checked several at a time,
    accepted_tokens: int = 0  # and of these, those that stood


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of one reply, with its parts and with all that the model wrote."""

    request_id: str
    reason: str  # stop | length | context | cancelled | error
    text: str  # the answer alone
    stats: AnswerStats
    thinking: str = ""
    tool: str = ""  # calls of tools, as the model writes them
    raw: str = ""  # the whole reply with its tags


@dataclass(frozen=True, slots=True)
class Failed:
    """Something did not work. ``request_id`` is None where no answer is concerned."""

    request_id: str | None
    kind: str  # EngineError.kind, or "bug"
    message: str
    hint: str = ""
    details: str = ""


@dataclass(frozen=True, slots=True)
class StepStats:
    """Live figures of one running answer."""

    request_id: str
    generated_tokens: int
    decode_tps: float | None  # since the first token
    recent_tps: float | None  # over about the last second
    ttft_s: float | None
    step_ms: tuple[float, ...] = ()  # durations of the steps since the last StepStats
    logprobs: tuple[TokenLogprobs, ...] = ()  # of the tokens since then, where the request asked for them
    drafted_tokens: int = 0  # checked so far
    accepted_tokens: int = 0  # of these, those that stood
    drafting_off: str = ""  # why nothing is drafted at the moment, a sentence


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """What the engine holds, measured on the tensors themselves, and the machine around it."""

    weights_bytes: int
    kv_reserved_bytes: int
    kv_used_bytes: int
    working_bytes: int
    overhead_bytes: int
    rss_bytes: int
    ram_total_bytes: int | None
    ram_free_bytes: int | None
    kv_used_tokens: int
    on_gpus: MemoryParts = NO_BYTES  # what of weights, cache and working memory is not in RAM
    gpus: tuple[Gpu, ...] = ()
    kv_waste_bytes: int = 0  # of pages that are taken, places without a token
    kv_answer_tokens: tuple[int, ...] = ()  # of the used ones, those of each answer that is being written

    @property
    def in_ram(self) -> MemoryReport:
        """The same of what is in the processor's memory alone."""
        away, reserved = self.on_gpus, self.kv_reserved_bytes
        return replace(
            self,
            weights_bytes=max(0, self.weights_bytes - away.weights),
            kv_reserved_bytes=max(0, reserved - away.kv_reserved),
            kv_used_bytes=self.kv_used_bytes * max(0, reserved - away.kv_reserved) // max(1, reserved),
            working_bytes=max(0, self.working_bytes - away.working),
            on_gpus=NO_BYTES,
        )


@dataclass(frozen=True, slots=True)
class Measuring:
    """How far a point of a MeasureWish is: the ``fraction`` of its phase. ``step_s`` is the mean of the steps
    so far, of all copies together.

    ``run_id`` here and below is whatever the caller of the run gave it; the engine itself leaves it 0.
    """

    index: int  # of the point in the wish
    point: CopiesPoint
    phase: str  # reading | decoding
    fraction: float
    step_s: float | None = None
    run_id: int = 0


@dataclass(frozen=True, slots=True)
class Measured:
    """One point. Where it ``failed`` this says why, and nothing was measured."""

    index: int
    point: CopiesPoint
    step_s: float | None = None  # seconds of one step of all copies, the median of the repeats
    ttft_s: float | None = None  # until the last of the copies, asked for at once, has its first token
    memory_bytes: int | None = None  # weights, working memory, and the tokens of these copies
    failed: str = ""
    run_id: int = 0


@dataclass(frozen=True, slots=True)
class MeasureEnded:
    """The end of a run. ``reason``: done | stopped | failed, and then why."""

    run_id: int
    reason: str
    message: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Calibrating:
    """This machine's speed is being measured; ``fraction`` 0..1 of it is done."""

    fraction: float


@dataclass(frozen=True, slots=True)
class Calibrated:
    """What is known of this machine's speed now: it was measured, or an answer has corrected it."""

    calibration: Calibration


@dataclass(frozen=True, slots=True)
class CalibrationEnded:
    """Nothing was measured: an answer or a load went first (and it begins anew behind that), or it failed,
    for which there is a ``message``.
    """

    message: str = ""
    hint: str = ""


Event = (
    LoadProgress
    | Loaded
    | LoadFailed
    | Unloaded
    | Prefilled
    | ContextShifted
    | Paused
    | Chunk
    | Finished
    | Failed
    | StepStats
    | MemoryReport
    | Measuring
    | Measured
    | MeasureEnded
    | Calibrating
    | Calibrated
    | CalibrationEnded
)
