"""The one arithmetic of memory: weights as held, KV cache, working memory. Standard library only.

Advisor, loader, allocator and gauges all call it; nothing else computes these bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

from engine.models.families import GROUPS, tensor_names, tensor_shapes
from engine.quant.formats import NATIVE_FORMATS, WEIGHT_FORMATS, held_nbytes
from engine.types import ModelSpec, TensorInfo

_INT4_TYPES = ("Q4_0", "Q4_1")
_NATIVE_COLS, _NATIVE_HEAD = 32, 16  # what the native kernels need columns and head sizes to be multiples of
_KV_TENSORS = 2  # keys and values
_ACTIVATION_BYTES = 4
_VECTOR_BYTES = 4
_ROTATION_BYTES = 8
_NATIVE_INPUT_BYTES = 8  # of dk_linear's scratch for one input: 7.1


@dataclass(frozen=True, slots=True)
class HeldMatrix:
    """One matrix of the running model: file tensors ``words`` stacked by rows and held in one format."""

    words: tuple[str, ...]  # the decoder's own names
    held: str  # a key of WEIGHT_FORMATS
    rows: int
    cols: int

    @property
    def nbytes(self) -> int:
        return held_nbytes(self.held, self.rows, self.cols)


def kernels(spec: ModelSpec, native: str | None) -> str:
    """Which kernels run the model on a machine whose native ones are of the instruction set ``native``, or
    which has none: "native <instruction set>" or "torch". A model has all its matrices for one of the two.
    """
    cols = (spec.hidden_size, spec.intermediate_size, spec.num_heads * spec.head_dim)
    fits = spec.head_dim % _NATIVE_HEAD == 0 and all(size % _NATIVE_COLS == 0 for size in cols)
    return f"native {native}" if native and fits else "torch"


def held_format(tensor: TensorInfo, format: str, is_native: bool = False) -> str:
    """How a matrix of the file is held when the model is loaded as ``format`` (file, f32, bf16).

    With ``file``, the native kernels keep every quantized type they have a format for, torch's only 4-bit
    blocks without super-blocks; everything else is held at 16 bits.
    """
    if format == "f32":
        return "f32"
    if format == "file" and is_native:
        return NATIVE_FORMATS.get(tensor.type, "bf16")
    return "int4g32" if format == "file" and tensor.type in _INT4_TYPES else "bf16"


def held_matrices(spec: ModelSpec, format: str, is_native: bool = False) -> list[HeldMatrix]:
    """All matrices of the model in the order in which they are loaded: embedding, layers, head.

    torch's kernels want few large products: tensors that are multiplied with the same input are stacked where
    their formats agree, and the embedding, whose rows are looked up, is held at 16 bits at least. The native
    ones take every tensor by itself in its own format. A tied head is the embedding's matrix.
    """
    names, by_name = tensor_names(spec), {tensor.name: tensor for tensor in spec.tensors}
    tensors = {word: by_name[name] for word, name in names.items()}
    stacks = [
        tuple(f"layers.{index}.{kind}" for kind in kinds)
        for index in range(spec.num_layers)
        for kinds in GROUPS.values()
    ]
    stacks += [("head",)] if "head" in tensors else []
    if is_native:
        words = ["embedding", *chain.from_iterable(stacks)]
        return [_matrix((word,), held_format(tensors[word], format, True), tensors) for word in words]
    matrices = [_matrix(("embedding",), "f32" if format == "f32" else "bf16", tensors)]
    for stack in stacks:
        matrices += _stack(stack, tensors, format)
    return matrices


def _stack(words: tuple[str, ...], tensors: dict[str, TensorInfo], format: str) -> list[HeldMatrix]:
    formats = [held_format(tensors[word], format) for word in words]
    if len(set(formats)) > 1:
        return [_matrix((word,), held, tensors) for word, held in zip(words, formats, strict=True)]
    return [_matrix(words, formats[0], tensors)]


def _matrix(words: tuple[str, ...], held: str, tensors: dict[str, TensorInfo]) -> HeldMatrix:
    rows = sum(tensors[word].shape[0] for word in words)
    return HeldMatrix(words, held, rows, tensors[words[0]].shape[1])


@lru_cache(maxsize=32)  # a slider asks for the same model again and again
def weight_bytes(spec: ModelSpec, format: str, is_native: bool = False) -> int:
    """Bytes of all weights as held: matrices with their scales and padding, norms and biases in float32."""
    vectors = sum(shape[0] for word, shape in _held_shapes(spec).items() if len(shape) == 1)
    matrices = sum(matrix.nbytes for matrix in held_matrices(spec, format, is_native))
    return vectors * _VECTOR_BYTES + matrices


def _held_shapes(spec: ModelSpec) -> dict[str, tuple[int, ...]]:
    """Words and shapes of what stays in memory: factors of a rotation are in its table."""
    shapes = tensor_shapes(spec)
    return {word: shapes[word] for word in tensor_names(spec) if not word.startswith("rope_")}


def weight_bits(spec: ModelSpec, format: str, is_native: bool = False) -> float:
    """Mean bits per parameter as held, scales included."""
    return 8 * weight_bytes(spec, format, is_native) / max(1, spec.num_params)


@lru_cache(maxsize=32)
def layer_bits(spec: ModelSpec, format: str, is_native: bool = False) -> int:
    """Bits (without scales) that hold most of the layers' parameters: 4, 5, 6, 8, 16 or 32."""
    counts: dict[int, int] = {}
    for matrix in held_matrices(spec, format, is_native)[1:]:
        bits = WEIGHT_FORMATS[matrix.held].element_bits
        counts[bits] = counts.get(bits, 0) + matrix.rows * matrix.cols
    return max(counts, key=lambda bits: counts[bits], default=16)


def kv_bytes(spec: ModelSpec, tokens: int, kv_bits: int) -> int:
    """Bytes of ``tokens`` tokens in all layers: each 2 · layers · kv heads · head size · bits / 8.

    The contiguous cache keeps every token of a sliding-window layer too.
    """
    per_token = _KV_TENSORS * spec.num_layers * spec.num_kv_heads * spec.head_dim
    return per_token * tokens * kv_bits // 8


def working_bytes(spec: ModelSpec, context: int, piece: int, is_native: bool = False) -> int:
    """Bytes of tables and activations: the rotary tables, and the widest moment of one prefill piece.

    That is the residual, the gated activation with both its inputs, a mask over the context for each kind of
    layer, one row of logits; or the attention scores' block, which is small beside them. Native products keep
    their inputs in 8 bits too.
    """
    tables = len(spec.ropes) * context * (spec.rotary_dim // 2) * _ROTATION_BYTES
    groups, windows = spec.num_heads // spec.num_kv_heads, {layer.sliding_window for layer in spec.layers}
    seen = sum(context if window is None else min(context, window + piece) for window in windows)
    per_row = 3 * spec.hidden_size + 3 * spec.intermediate_size + groups * seen
    widest = max(spec.hidden_size, spec.intermediate_size, spec.num_heads * spec.head_dim)
    inputs = piece * widest * _NATIVE_INPUT_BYTES if is_native else 0
    return tables + inputs + _ACTIVATION_BYTES * (piece * per_row + 2 * spec.vocab_size)
