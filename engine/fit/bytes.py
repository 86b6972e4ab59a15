"""The one arithmetic of memory: weights as held, KV cache, working memory. Standard library only.

Advisor, loader, allocator and gauges all call it; nothing else computes these bytes.
"""

from __future__ import annotations

from functools import lru_cache

from engine.fit import generic_bytes
from engine.fit.activations import Piece, logits_bytes, widest_bytes
from engine.fit.held import held_matrices
from engine.fit.kv_bits import KV16, KVBits
from engine.fit.scratch import MAX_ROWS, StepSize, step_scratch_bytes
from engine.models.families import tensor_names, tensor_shapes
from engine.quant.formats import WEIGHT_FORMATS
from engine.types import ModelSpec

_KV_TENSORS = 2  # keys and values
_TOKENIZER_BYTES, _TOKEN_BYTES = 8_000_000, 200  # 20 MB measured with 49,152 tokens, 60 MB with 262,144
_VECTOR_BYTES = 4
_ROTATION_BYTES = 8
_DENSE_BITS = 16


@lru_cache(maxsize=32)  # a slider asks for the same model again and again
def weight_bytes(spec: ModelSpec, format: str, is_native: bool = False) -> int:
    """Bytes of all weights as held: matrices with their scales and padding, norms and biases in float32."""
    if spec.generic is not None:
        return generic_bytes.weight_bytes(spec, format)
    vectors = sum(shape[0] for word, shape in held_shapes(spec).items() if len(shape) == 1)
    matrices = sum(matrix.nbytes for matrix in held_matrices(spec, format, is_native))
    return vectors * _VECTOR_BYTES + matrices


def held_shapes(spec: ModelSpec) -> dict[str, tuple[int, ...]]:
    """Words and shapes of what stays in memory: factors of a rotation are in its table."""
    shapes = tensor_shapes(spec)
    return {word: shapes[word] for word in tensor_names(spec) if not word.startswith("rope_")}


def weight_bits(spec: ModelSpec, format: str, is_native: bool = False) -> float:
    """Mean bits per parameter as held, scales included."""
    return 8 * weight_bytes(spec, format, is_native) / max(1, spec.num_params)


@lru_cache(maxsize=32)
def layer_bits(spec: ModelSpec, format: str, is_native: bool = False) -> int:
    """Bits (without scales) that hold most of the layers' parameters: 4, 5, 6, 8, 16 or 32."""
    if spec.generic is not None:
        return 8 * generic_bytes.FORMATS[format]
    counts: dict[int, int] = {}
    for matrix in held_matrices(spec, format, is_native)[1:]:
        bits = WEIGHT_FORMATS[matrix.held].element_bits
        counts[bits] = counts.get(bits, 0) + matrix.rows * matrix.cols
    return max(counts, key=lambda bits: counts[bits], default=16)


def kv_bytes(spec: ModelSpec, tokens: int, kv_bits: int) -> int:
    """Bytes of ``tokens`` tokens in all layers, those with a window too: each 2 · layers · kv heads · head
    size · bits / 8. What a pool reserves is in engine.fit.kv_pages.
    """
    if spec.generic is not None:
        return generic_bytes.kv_bytes(spec, tokens, kv_bits)
    per_token = _KV_TENSORS * spec.num_layers * spec.num_kv_heads * spec.head_dim
    return per_token * tokens * kv_bits // 8


def tokenizer_bytes(spec: ModelSpec) -> int:
    """Bytes of a tokenizer once it is loaded: an estimate by its words."""
    return _TOKENIZER_BYTES + _TOKEN_BYTES * spec.vocab_size


def working_bytes(
    spec: ModelSpec,
    context: int,
    piece: int,
    is_native: bool = False,
    step_threads: int = 0,
    kv: KVBits = KV16,
    format: str = "bf16",
    threads: int = 0,
) -> int:
    """Bytes of tables and activations: the rotary tables, and the widest moment of one prefill piece, which
    `engine.fit.activations` knows. The fused step keeps its own memory for ``step_threads`` threads (0: there
    is no fused step), and needs no more for a piece that it takes; ``threads`` compute the piece.
    """
    if spec.generic is not None:
        return generic_bytes.working_bytes(spec, context, piece, format, threads)
    tables = len(spec.ropes) * context * (spec.rotary_dim // 2) * _ROTATION_BYTES
    is_dense = layer_bits(spec, format, is_native) >= _DENSE_BITS
    is_a_step = bool(step_threads) and piece <= MAX_ROWS
    whole = Piece(piece, context, format, is_native, is_dense, kv, threads)
    moment = logits_bytes(spec) if is_a_step else widest_bytes(spec, whole)
    step = step_scratch_bytes(spec, StepSize.largest(context, step_threads, kv)) if step_threads else 0
    return tables + step + moment
