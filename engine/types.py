"""The words that engine, window and program share: frozen values, standard library only.

Units are in the names: ``_bytes``, ``_s``, ``_ms``, ``_tps`` (tokens per second), ``_bits``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.capabilities import CAN_ALL, Capabilities, GenericOptions
from engine.machine import Hardware


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
    generic: GenericOptions | None = None  # None: the lean decoder runs it

    def __hash__(self) -> int:
        """Of a few fields: a plan looks much up by the model, and hundreds of tensors take their time."""
        return hash((self.path, self.architecture, self.num_layers, self.vocab_size, len(self.tensors)))

    @property
    def runner(self) -> str:
        """Who runs the model: lean | generic."""
        return "lean" if self.generic is None else "generic"

    @property
    def capabilities(self) -> Capabilities:
        """What its runner will be able to do, as far as the header tells."""
        return CAN_ALL if self.generic is None else self.generic.capabilities

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
class LoadSpec:
    """What the user wants; ``auto`` and ``None`` leave the choice to the plan."""

    path: str
    format: str = "auto"  # auto | file | f32 | bf16 | f16 | int8 | int4 | nf4 | llm-int8 | 32 | 16 | 8 | 4
    context: int | None = None
    kv: str = "auto"  # auto | 32 | 16 | 8 | 4
    device: str = "auto"  # auto | cpu | cuda:0, mps, ...: a Gpu's own word
    threads: int | None = None
    gpu_layers: int | None = None  # on the GPU; None: as many as fit
    draft: str = ""  # path of a smaller model with the same vocabulary that guesses tokens; "": none
    anyway: bool = False  # load although the plan says that it does not fit


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


NO_BYTES = MemoryParts()


@dataclass(frozen=True, slots=True)
class DeviceShare:
    """What one device has of a model: consecutive layers, and the bytes it takes there."""

    device: str  # cpu, or a Gpu's word
    name: str
    layers: int
    bytes: MemoryParts
    free_bytes: int | None  # for the model

    @property
    def needed_bytes(self) -> int:
        """What the model takes of what is free. The runtime is in the processor's memory already."""
        return self.bytes.total - (self.bytes.overhead if self.device == "cpu" else 0)

    @property
    def spare_bytes(self) -> int | None:
        """What stays free; below 0 it is short."""
        return None if self.free_bytes is None else self.free_bytes - self.needed_bytes


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """What will be done. Never edited: a new wish makes a new plan."""

    model: ModelSpec
    wish: LoadSpec
    hardware: Hardware  # free memory includes what a model about to be replaced gives back
    format: str  # one of engine.fit.choices.FORMATS
    weight_bits: float  # mean bits per parameter as held in memory
    context: int
    kv_bits: int  # of values, and of keys unless ``key_bits`` says otherwise
    device: str  # where the last layers run, and the logits are: cpu, or a Gpu's word
    threads: int
    prefill_piece: int  # rows of one prefill piece, about 100 ms of work
    bytes: MemoryParts
    verdict: str  # fits | tight | spills: layers stay on the processor that a GPU had no room for | no
    reasons: tuple[str, ...] = ()  # the first about memory, the others about what is done all the same
    max_sequences: int = 1  # answers that run at once
    kernels: str = "torch"  # of the layers on the processor: torch | native <instruction set>
    devices: tuple[DeviceShare, ...] = ()  # in the order of the layers; the processor always has a share
    disk_layers: int = 0  # the last ones, read anew for every pass; of models that transformers runs
    key_bits: int | None = None
    draft: LoadPlan | None = None  # of the draft model; what it takes is part of the bytes above
    spilled: float = 0.0  # of the weights, the part that lies in slower memory than was meant for it
    slowdown: float = 1.0  # how many times longer a step takes for that

    @property
    def free_bytes(self) -> int | None:
        """What is free for the model, on all devices that it takes."""
        free = [share.free_bytes for share in self.devices]
        return None if None in free else sum(each for each in free if each is not None)

    @property
    def spare_bytes(self) -> int | None:
        """What stays free on the device that has least to spare."""
        spare = [share.spare_bytes for share in self.devices]
        return None if None in spare else min(each for each in spare if each is not None)

    @property
    def gpu_layers(self) -> int:
        """Layers that are not on the processor."""
        return sum(share.layers for share in self.devices if share.device != "cpu")

    @property
    def ram_bytes(self) -> MemoryParts:
        """The processor's part of ``bytes``."""
        return next(share.bytes for share in self.devices if share.device == "cpu")

    @property
    def is_native(self) -> bool:
        """Whether weights are held for the native kernels rather than for torch's."""
        return self.kernels != "torch"

    @property
    def exceeds_training(self) -> bool:
        """Whether the context is longer than the model was trained for."""
        return self.context > self.model.trained_context


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool that a model asked for; ``arguments`` is JSON, as the model wrote it."""

    name: str
    arguments: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat. ``thinking`` is what an assistant thought before its answer."""

    role: str  # system | user | assistant | tool
    content: str
    thinking: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    name: str = ""  # of the tool whose result this is
    tool_call_id: str = ""


@dataclass(frozen=True, slots=True)
class TemplateOptions:
    """What a chat template is told besides the messages."""

    thinking: bool | None = None  # None: as the template has it by itself
    tools: str = ""  # a JSON list of tools as their functions' schemas
    variables: str = ""  # a JSON object: reasoning_effort, documents, date_string, ...
    is_plain: bool = False  # no template: the texts alone, for a model to continue


NO_OPTIONS = TemplateOptions()


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token is chosen. Temperature 0 is greedy; 0 for ``top_k`` and 1 for ``top_p`` are off.

    ``logprobs`` changes nothing of that: so many of the likeliest tokens are told beside each one chosen.
    """

    temperature: float = 0.6
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_penalty: float = 1.0
    seed: int | None = None  # None: drawn by the engine and reported
    presence_penalty: float = 0.0  # taken once from the logit of every token that the answer has
    frequency_penalty: float = 0.0  # and as often as it has it
    logit_bias: tuple[tuple[int, float], ...] = ()  # token ids, each once, and what is added to their logits
    logprobs: int = 0  # 0: none


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """One answer to produce."""

    request_id: str
    messages: tuple[Message, ...]
    sampling: SamplingParams = SamplingParams()
    max_tokens: int | None = None  # None: until the context is full
    stop: tuple[str, ...] = ()
    template: TemplateOptions = NO_OPTIONS
    when_full: str = "oldest"  # of the context: stop | oldest: turns go first | middle: first and last stay
    speculate: str = "auto"  # off | ngram: drafts from the chat itself | draft: by a draft model | auto
    continues: bool = False  # the last message, an assistant's, is unfinished: the answer is what comes next
    json_schema: str = ""  # the answer is JSON of this schema, an object's text
    regex: str = ""  # or matches this as a whole


@dataclass(frozen=True, slots=True)
class CopiesPoint:
    """So many copies of one chat at once; each holds so many tokens before it writes."""

    copies: int
    tokens: int


@dataclass(frozen=True, slots=True)
class MeasureWish:
    """Speeds to measure. The points are best in the order of their tokens: what was read stays read.

    Each point is ``repeats`` times ``steps`` greedy steps from the same tokens. With ``messages`` the copies
    read that chat, whatever tokens the points name; else random tokens.
    """

    points: tuple[CopiesPoint, ...]
    steps: int = 32
    repeats: int = 3
    messages: tuple[Message, ...] = ()
    template: TemplateOptions = NO_OPTIONS
