"""The words that engine, window and program share: frozen values, standard library only.

Units are in the names: ``_bytes``, ``_s``, ``_ms``, ``_tps`` (tokens per second), ``_bits``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor of a model file. ``shape`` is in torch order (outermost first)."""

    name: str
    shape: tuple[int, ...]
    type: str  # a key of engine.quant.formats.TENSOR_TYPES: "F32", "BF16", "Q4_1", ...
    file: int  # index into ModelSpec.files
    offset: int  # absolute, in bytes
    nbytes: int


@dataclass(frozen=True, slots=True)
class RopeSpec:
    """Rotary position embedding: base and how it is stretched beyond the trained length."""

    theta: float = 10_000.0
    scaling: str = "none"  # none | linear | llama3 | yarn | longrope
    factor: float = 1.0
    low_freq_factor: float = 1.0  # of llama3
    high_freq_factor: float = 4.0
    original_context: int = 8192  # of llama3, yarn and longrope
    beta_fast: float = 32.0  # of yarn: turns in the original context above which nothing is stretched
    beta_slow: float = 1.0  # and below which everything is
    is_truncated: bool = True  # these bounds fall on whole dimensions
    attention_factor: float = 1.0  # of yarn and longrope: multiplies rotated queries and keys
    short_factors: tuple[float, ...] = ()  # of longrope, one a pair; empty: a tensor of the file
    long_factors: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class LayerOptions:
    """What may differ from layer to layer."""

    sliding_window: int | None  # tokens it sees, itself included; None: all
    rope: RopeSpec | None  # None: it does not rotate


@dataclass(frozen=True, slots=True)
class DecoderOptions:
    """Where a dense decoder differs from Llama's, whose options are these defaults."""

    pre_norms: bool = True  # before attention and the feed-forward part
    post_norms: bool = False  # of their outputs, before these are added to the residual
    qk_norm: str = "none"  # none | head: every head by itself | all: all heads of a token together
    biases: tuple[str, ...] = ()  # which products have one: qkv, o, gate_up, down
    activation: str = "silu"  # silu | gelu_tanh
    embedding_scale: float = 1.0
    residual_scale: float = 1.0  # of what a part adds to the residual
    attention_scale: float | None = None  # of queries times keys; None: 1 / √head_dim
    attention_cap: float | None = None  # c: scores become c · tanh(score / c)
    logit_divisor: float = 1.0
    logit_cap: float | None = None
    rotary_dim: int | None = None  # first numbers of a head that are rotated; None: all
    layers: tuple[LayerOptions, ...] = ()  # one each; empty: all as the model's rope and window say


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """What is on disk, from headers alone: no weights are read to make one."""

    path: str
    source: str  # gguf | safetensors
    name: str
    architecture: str  # llama, mistral, ...
    num_layers: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    trained_context: int
    norm_eps: float
    rope: RopeSpec
    tied_embeddings: bool
    sliding_window: int | None
    files: tuple[str, ...]
    tensors: tuple[TensorInfo, ...]
    options: DecoderOptions = DecoderOptions()

    @property
    def layers(self) -> tuple[LayerOptions, ...]:
        """The options of every layer."""
        return self.options.layers or (LayerOptions(self.sliding_window, self.rope),) * self.num_layers

    @property
    def ropes(self) -> tuple[RopeSpec, ...]:
        """The kinds of rotation there are, each once: every one is a table."""
        return tuple(dict.fromkeys(layer.rope for layer in self.layers if layer.rope))

    @property
    def rotary_dim(self) -> int:
        """Numbers of a head that are rotated."""
        return self.options.rotary_dim or self.head_dim

    @property
    def attention_scale(self) -> float:
        """What queries times keys are multiplied with."""
        return self.options.attention_scale or self.head_dim**-0.5

    @property
    def num_params(self) -> int:
        """Number of stored parameters (a tied head counts once)."""
        return sum(math.prod(tensor.shape) for tensor in self.tensors)

    @property
    def weight_bits(self) -> float:
        """Mean bits per stored parameter, scales included."""
        return 8 * sum(t.nbytes for t in self.tensors) / max(1, self.num_params)


@dataclass(frozen=True, slots=True)
class KernelPair:
    """A matrix [rows, cols] in the two homes it could have: which is read quicker has to be measured."""

    native_format: str  # these two are keys of WEIGHT_FORMATS
    stock_format: str
    rows: int
    cols: int
    threads: int


@dataclass(frozen=True, slots=True)
class KernelTimes:
    """Microseconds of one product with one row and of one with four, together."""

    pair: KernelPair
    native_us: float
    stock_us: float


@dataclass(frozen=True, slots=True)
class Hardware:
    """What the machine has. ``None`` is unknown, never zero."""

    cpu_name: str
    physical_cores: int
    ram_total_bytes: int | None
    ram_free_bytes: int | None
    instruction_sets: tuple[str, ...] = ()
    native: str | None = None  # instruction set of the native kernels; None: they are not here
    native_missing: str = ""  # why they are not, a sentence
    kernel_times: tuple[KernelTimes, ...] = ()  # measured here before


@dataclass(frozen=True, slots=True)
class LoadSpec:
    """What the user wants; ``auto`` and ``None`` leave the choice to the plan."""

    path: str
    format: str = "auto"  # auto | file | f32 | bf16
    context: int | None = None
    kv: str = "auto"  # auto | 32 | 16
    device: str = "auto"  # auto | cpu
    threads: int | None = None


@dataclass(frozen=True, slots=True)
class MemoryParts:
    """Bytes by part. ``kv_reserved`` is the whole reservation, used part included."""

    weights: int = 0
    kv_reserved: int = 0
    working: int = 0
    overhead: int = 0

    @property
    def total(self) -> int:
        return self.weights + self.kv_reserved + self.working + self.overhead


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """What will be done. Never edited: a new wish makes a new plan."""

    model: ModelSpec
    wish: LoadSpec
    hardware: Hardware  # free memory includes what a model about to be replaced gives back
    format: str  # file | f32 | bf16
    weight_bits: float  # mean bits per parameter as held in memory
    context: int
    kv_bits: int
    device: str
    threads: int
    prefill_piece: int  # rows of one prefill piece, about 100 ms of work
    bytes: MemoryParts
    verdict: str  # fits | tight | no
    reasons: tuple[str, ...] = ()
    max_sequences: int = 1  # answers that run at once, each with a cache of its own
    kernels: str = "torch"  # torch | native <instruction set>

    @property
    def free_bytes(self) -> int | None:
        """What is free for the model."""
        return self.hardware.ram_free_bytes

    @property
    def is_native(self) -> bool:
        """Whether weights are held for the native kernels rather than for torch's."""
        return self.kernels != "torch"

    @property
    def exceeds_training(self) -> bool:
        """Whether the context is longer than the model was trained for."""
        return self.context > self.model.trained_context


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat."""

    role: str  # system | user | assistant
    content: str


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token is chosen. Temperature 0 is greedy; 0 for ``top_k`` and 1 for ``top_p`` are off."""

    temperature: float = 0.6
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_penalty: float = 1.0
    seed: int | None = None  # None: drawn by the engine and reported


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """One answer to produce."""

    request_id: str
    messages: tuple[Message, ...]
    sampling: SamplingParams = SamplingParams()
    max_tokens: int | None = None  # None: until the context is full
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """``fraction`` 0..1 never goes back; ``phase`` is a short word for the screen.

    ``load_id`` here and below is whatever the caller of the load gave it; the engine itself leaves it 0.
    """

    fraction: float
    phase: str
    load_id: int = 0


@dataclass(frozen=True, slots=True)
class Loaded:
    """The model is ready. ``kernels`` names what runs the linear layers; ``warnings`` are sentences about
    oddities of the file that were worked around.
    """

    plan: LoadPlan
    kernels: str
    seconds: float
    warnings: tuple[str, ...] = ()
    load_id: int = 0


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
    """Text that is final: it is never taken back."""

    request_id: str
    text: str
    kind: str = "answer"


@dataclass(frozen=True, slots=True)
class AnswerStats:
    """Figures of one answer; ``None`` is not measured.

    ``decode_tps`` = tokens after the first / time from first to last token.
    """

    prompt_tokens: int
    reused_tokens: int
    generated_tokens: int
    ttft_s: float | None
    prefill_tps: float | None
    decode_tps: float | None
    seed: int | None
    token_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of one answer, with all its text."""

    request_id: str
    reason: str  # stop | length | context | cancelled | error
    text: str
    stats: AnswerStats


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


Event = (
    LoadProgress
    | Loaded
    | LoadFailed
    | Unloaded
    | Prefilled
    | Chunk
    | Finished
    | Failed
    | StepStats
    | MemoryReport
)
