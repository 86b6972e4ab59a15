"""The widest moment of a prefill piece: what torch holds beside weights and cache while a piece is read.

The arithmetic of engine/models/decoder.py and attention.py: change one with the other. A test holds it to
what torch allocates. Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.fit.kv_bits import KVBits
from engine.fit.scratch import linear_scratch_bytes
from engine.types import ModelSpec

_F32, _HALF = 4, 2  # bytes
_CAPPED_SCORES = 1 << 22  # _SCORES of engine/models/attention.py
_BLOCK_ELEMENTS = 1 << 19  # of a matrix that is converted, as in engine/quant/linear.py
_SCORE_COLUMNS = 512  # torch's flash attention on processors: keys that a thread looks at at once
_SCORE_ROWS = ((768, 256), (192, 64), (0, 32))  # and queries, by how many there are


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece at the end of a context, and how its products are computed."""

    rows: int
    context: int
    format: str  # one of engine.fit.choices.FORMATS
    is_native: bool
    is_dense: bool  # the layers' weights have 16 bits or more
    kv: KVBits
    threads: int  # 0: on a GPU, whose attention needs no buffers that are known

    @property
    def number_bytes(self) -> int:
        """Of what goes into products: the native kernels take float32."""
        return _F32 if self.is_native or self.format in ("f32", "f16") else _HALF

    @property
    def kv_bytes(self) -> int:
        """Of a number of keys and values as attention reads them."""
        return _F32 if self.kv.values == 32 else _HALF

    def seen(self, window: int | None) -> int:
        """Positions that the rows of a layer with such a window see together."""
        return self.context if window is None else min(self.context, window - 1 + self.rows)


def widest_bytes(spec: ModelSpec, piece: Piece) -> int:
    """Bytes of the residual stream, the masks, and the widest part of a layer; or of a row of logits."""
    residual = _F32 * piece.rows * spec.hidden_size
    masks = sum(_mask_bytes(spec, piece, window) for window in {each.sliding_window for each in spec.layers})
    widest = max(_attention_bytes(spec, piece), _feed_forward_bytes(spec, piece), _masking_bytes(spec, piece))
    return residual + max(masks + widest, logits_bytes(spec))


def _mask_bytes(spec: ModelSpec, piece: Piece, window: int | None) -> int:
    """One for the heads that share a key head."""
    groups = spec.num_heads // spec.num_kv_heads
    return piece.kv_bytes * groups * piece.rows * piece.seen(window)


def _masking_bytes(spec: ModelSpec, piece: Piece) -> int:
    """While the last mask is made: what is hidden, and the mask of one head."""
    seen = min(piece.seen(each.sliding_window) for each in spec.layers)
    return (piece.kv_bytes + 1) * piece.rows * seen


def _attention_bytes(spec: ModelSpec, piece: Piece) -> int:
    """Products, rotated queries and keys, and what attention itself takes."""
    rows, number, heads = piece.rows, piece.number_bytes, spec.num_heads * spec.head_dim
    keys = spec.num_kv_heads * spec.head_dim
    products = number * rows * (heads + 2 * keys)
    if piece.is_native:
        products *= 2  # each matrix by itself, and side by side
    biasing = _biased_bytes(spec, piece, "qkv", heads + 2 * keys)
    turned = number * rows * (heads + keys)
    norming = 0
    if spec.options.qk_norm != "none":
        norming = _norm_bytes(piece, heads) + number * rows * heads
        products += turned
    turning = 2 * _F32 * rows * (heads + keys) + (turned if number == _HALF else 0)
    output = number * rows * heads + _added_bytes(spec, piece, heads)
    return products + max(biasing, norming, turning, turned + _scores_bytes(spec, piece), turned + output)


def _scores_bytes(spec: ModelSpec, piece: Piece) -> int:
    """Queries, keys and values of packed caches, scores, and what comes out."""
    heads = spec.num_heads * spec.head_dim
    seen = max(piece.seen(each.sliding_window) for each in spec.layers)
    own = 2 * piece.kv_bytes * piece.rows * heads
    if piece.kv.values < 16:
        own += _unpacked_bytes(spec, piece, seen)
    queries = spec.num_heads // spec.num_kv_heads * piece.rows
    if spec.options.attention_cap is not None:
        heads_at_once = max(1, min(spec.num_kv_heads, _CAPPED_SCORES // (queries * seen)))
        scores = heads_at_once * queries * seen
        return own + scores * (2 * _F32 + (_HALF if piece.kv_bytes == _HALF else 0))
    return (
        own
        + _F32 * piece.rows * spec.num_heads
        + piece.threads * flash_bytes(queries, spec.head_dim, piece.kv_bytes)
    )


def _unpacked_bytes(spec: ModelSpec, piece: Piece, seen: int) -> int:
    """Keys and values of packed caches at 16 bits; without native kernels they, and the rotated queries, are
    float32 on the way.
    """
    numbers = spec.num_kv_heads * spec.head_dim * seen
    if piece.is_native:
        return 2 * _HALF * numbers
    queries = piece.rows * spec.num_heads * spec.head_dim
    return 2 * _HALF * numbers + 2 * _F32 * max(numbers, queries)


def flash_bytes(queries: int, head_dim: int, number_bytes: int) -> int:
    """Of one thread: scores, their maxima and sums, and sums of values, in float32; scores of the caches'
    type too (aten/src/ATen/native/cpu/FlashAttentionKernel.cpp).
    """
    rows = min(queries, next(size for least, size in _SCORE_ROWS if queries >= least))
    halves = _HALF * rows * _SCORE_COLUMNS if number_bytes == _HALF else 0
    return _F32 * rows * (_SCORE_COLUMNS + 2 + head_dim) + halves


def _feed_forward_bytes(spec: ModelSpec, piece: Piece) -> int:
    """Both products, the gated activation, and the product of that."""
    rows, number, inner = piece.rows, piece.number_bytes, spec.intermediate_size
    both = 2 * number * rows * inner
    biasing = both + number * rows * spec.hidden_size + _biased_bytes(spec, piece, "gate_up", 2 * inner)
    return max(biasing, both + number * rows * inner + _added_bytes(spec, piece, inner))


def _biased_bytes(spec: ModelSpec, piece: Piece, group: str, size: int) -> int:
    """Products of a group with their bias added, which is done in float32."""
    if group not in spec.options.biases:
        return 0
    return piece.rows * size * (_F32 if piece.number_bytes == _F32 else 2 * _F32)


def _added_bytes(spec: ModelSpec, piece: Piece, cols: int) -> int:
    """The product that a part adds to the residual stream, with bias and norm where it has them."""
    product = _product_bytes(piece, cols, spec.hidden_size)
    if {"o", "down"} & set(spec.options.biases):
        product = max(product, (piece.number_bytes + _F32) * piece.rows * spec.hidden_size)
    if not spec.options.post_norms:
        return product
    made = piece.number_bytes * piece.rows * spec.hidden_size
    return max(product, made + _norm_bytes(piece, spec.hidden_size))


def _norm_bytes(piece: Piece, size: int) -> int:
    """Of rows of ``size``, as torch computes it: in float32, step by step."""
    return _F32 * piece.rows * size * (2 if piece.number_bytes == _F32 else 3)


def _product_bytes(piece: Piece, cols: int, out: int) -> int:
    """What a product [rows, cols] → [rows, out] takes beside its input."""
    made = piece.number_bytes * piece.rows * out
    if piece.is_native and not piece.is_dense:
        return made + linear_scratch_bytes(piece.rows, cols)
    if piece.format == "f16":  # a block of the matrix at a time, as float32
        return made + _F32 * _BLOCK_ELEMENTS * (1 + piece.rows // cols)
    if piece.is_native and piece.format != "f32":  # inputs as bfloat16, and what comes out
        return max(_HALF * piece.rows * (cols + out), made + _HALF * piece.rows * out)
    return made


def logits_bytes(spec: ModelSpec) -> int:
    """Of one row, and once more as float32; capped, what is made on the way."""
    return _F32 * spec.vocab_size * (2 if spec.options.logit_cap is None else 3)
