"""The one arithmetic of memory: weights as held, KV cache, working memory. Standard library only.

Advisor, loader, allocator and gauges all call it; nothing else computes these bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from engine.models.families import tensor_names
from engine.quant.formats import WEIGHT_FORMATS, held_nbytes
from engine.types import ModelSpec, TensorInfo

_INT4_TYPES = ("Q4_0", "Q4_1")
_STACKED = (("q", "k", "v"), ("o",), ("gate", "up"), ("down",))
_KV_TENSORS = 2  # keys and values
_ACTIVATION_BYTES = 4


@dataclass(frozen=True, slots=True)
class HeldMatrix:
    """One matrix of the running model: file tensors ``words`` stacked by rows and held in one format."""

    words: tuple[str, ...]  # the decoder's own names
    held: str  # f32 | bf16 | int4g32
    rows: int
    cols: int

    @property
    def nbytes(self) -> int:
        return held_nbytes(self.held, self.rows, self.cols)


def held_format(tensor: TensorInfo, format: str) -> str:
    """How a matrix of the file is held when the model is loaded as ``format`` (file, f32, bf16).

    With ``file``, 4-bit blocks stay 4-bit and everything else is held at 16 bits.
    """
    if format == "f32":
        return "f32"
    return "int4g32" if format == "file" and tensor.type in _INT4_TYPES else "bf16"


def held_matrices(spec: ModelSpec, format: str) -> list[HeldMatrix]:
    """All matrices of the model in the order in which they are loaded: embedding, layers, head.

    Tensors that are multiplied with the same input are stacked where their formats agree. The embedding is
    looked up by row, which the 4-bit layout does not allow: it is held at 16 bits at least, and a tied head
    is the same matrix.
    """
    names, by_name = tensor_names(spec), {tensor.name: tensor for tensor in spec.tensors}
    tensors = {word: by_name[name] for word, name in names.items()}
    rows, cols = tensors["embedding"].shape
    matrices = [HeldMatrix(("embedding",), "f32" if format == "f32" else "bf16", rows, cols)]
    for index in range(spec.num_layers):
        for kinds in _STACKED:
            words = tuple(f"layers.{index}.{kind}" for kind in kinds)
            matrices += _stack(words, tensors, format)
    if "head" in tensors:
        matrices += _stack(("head",), tensors, format)
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
def weight_bytes(spec: ModelSpec, format: str) -> int:
    """Bytes of all weights as held: matrices with their scales and padding, norms in float32."""
    norms = (2 * spec.num_layers + 1) * spec.hidden_size * 4
    factors = spec.head_dim // 2 * 4 if "rope_factors" in tensor_names(spec) else 0
    return norms + factors + sum(matrix.nbytes for matrix in held_matrices(spec, format))


def weight_bits(spec: ModelSpec, format: str) -> float:
    """Mean bits per parameter as held, scales included."""
    return 8 * weight_bytes(spec, format) / max(1, spec.num_params)


@lru_cache(maxsize=32)
def layer_bits(spec: ModelSpec, format: str) -> int:
    """Nominal bits (without scales) of the format that holds most of the layers' parameters: 4, 16 or 32."""
    counts: dict[str, int] = {}
    for matrix in held_matrices(spec, format)[1:]:
        counts[matrix.held] = counts.get(matrix.held, 0) + matrix.rows * matrix.cols
    most = max(counts, key=lambda held: counts[held], default="bf16")
    return WEIGHT_FORMATS[most].element_bits


def kv_bytes(spec: ModelSpec, tokens: int, kv_bits: int) -> int:
    """Bytes of ``tokens`` tokens in all layers: each 2 · layers · kv heads · head size · bits / 8.

    The contiguous cache keeps every token of a sliding-window layer too.
    """
    per_token = _KV_TENSORS * spec.num_layers * spec.num_kv_heads * spec.head_dim
    return per_token * tokens * kv_bits // 8


def working_bytes(spec: ModelSpec, context: int, piece: int) -> int:
    """Bytes of tables and activations: the rotary table, and the widest moment of one prefill piece.

    That is the residual, the gated activation with both its inputs, the mask over the context, one row of
    logits; or the attention scores' block, which is small beside them.
    """
    table = context * spec.head_dim // 2 * 8
    groups = spec.num_heads // spec.num_kv_heads
    per_row = 3 * spec.hidden_size + 3 * spec.intermediate_size + groups * context
    return table + _ACTIVATION_BYTES * (piece * per_row + 2 * spec.vocab_size)
