"""The arithmetic of memory for models that transformers runs, as fit/bytes.py is the lean decoder's.

Weights are the tensors of the files in the format's precision; the cache is what each kind of layer keeps.
Standard library only.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache

from engine.fit.activations import flash_bytes
from engine.models.generic_table import EAGER, KEPT_F32
from engine.types import ModelSpec, TensorInfo

FORMATS = {"f32": 4, "bf16": 2, "f16": 2}
"""What such a model can be loaded as, and bytes of one parameter."""

_F32_BYTES = 4
_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d+)\.")
_SCAN = 256  # positions that a state space layer pads a piece to
_SCAN_TABLES, _SCORE_TABLES = 6, 3  # as large as all its pairs of positions, and as all scores
_STREAMS = 4  # as large as the residual stream


def layer_of(name: str) -> int | None:
    """The layer of a tensor, by its name in the file."""
    found = _LAYER.search(name)
    return int(found.group(1)) if found else None


@lru_cache(maxsize=32)  # a slider asks for the same model again and again
def weight_bytes(spec: ModelSpec, format: str) -> int:
    """Bytes of all weights, those of layers on the disk too. To the byte where the library uses every tensor
    of the files; what it leaves out (a head that is tied, layers behind the last) is left out here.
    """
    return sum(_nbytes(spec, tensor, format) for tensor in spec.tensors)


@lru_cache(maxsize=32)
def layer_bytes(spec: ModelSpec, format: str) -> tuple[int, ...]:
    """Bytes of the weights of every layer."""
    sums = [0] * spec.num_layers
    for tensor in spec.tensors:
        layer = layer_of(tensor.name)
        if layer is not None and layer < spec.num_layers:
            sums[layer] += _nbytes(spec, tensor, format)
    return tuple(sums)


def read_bytes(spec: ModelSpec, format: str) -> int:
    """Bytes of weights that one token reads: of the experts only those chosen for it."""
    assert spec.generic is not None
    return int(weight_bytes(spec, format) * spec.generic.read_fraction)


def kv_bytes(spec: ModelSpec, tokens: int, kv_bits: int) -> int:
    """Bytes of a cache with room for ``tokens``: keys and values (or what stands for both) of every layer of
    attention, and states, whose size is the same for any number of tokens.

    Layers with a sliding window keep every token, as `engine.models.generic_cache` says.
    """
    assert spec.generic is not None
    cache = spec.generic.cache
    numbers = sum(layer.per_token * tokens + layer.conv for layer in cache)
    return numbers * kv_bits // 8 + sum(layer.recurrent for layer in cache) * _F32_BYTES


def working_bytes(spec: ModelSpec, context: int, piece: int, format: str = "bf16", threads: int = 1) -> int:
    """Bytes of the widest moment of one prefill piece, within a tenth for attention of the usual kind, an
    estimate for the others: the residual stream and what is made of it, the mask, and the widest of attention
    (keys and values are repeated for the heads that share them), feed-forward part, a state space layer's
    pairs of positions, and a row of logits.
    """
    assert spec.generic is not None
    number, heads = FORMATS[format], spec.num_heads * spec.head_dim
    attention = number * (2 * heads * context + 3 * piece * heads)
    scores = piece * spec.num_heads * context
    if spec.architecture in EAGER:
        attention += number * _SCORE_TABLES * scores
    elif _is_latent(spec):
        attention += (2 * _F32_BYTES + 1) * scores  # torch has no flash attention for such heads
    else:
        attention += threads * flash_bytes(piece, spec.head_dim, number)
    feed_forward = 3 * number * piece * spec.intermediate_size
    has_state = any(layer.recurrent for layer in spec.generic.cache)
    scan = _F32_BYTES * _SCAN_TABLES * spec.num_heads * _SCAN**2 if has_state else 0
    shared = number * piece * (context + _STREAMS * spec.hidden_size)
    return shared + max(attention, feed_forward, scan, 2 * _F32_BYTES * spec.vocab_size)


def _is_latent(spec: ModelSpec) -> bool:
    """Whether a token keeps less than its keys and values: they are made of a latent, of different sizes."""
    assert spec.generic is not None
    whole = 2 * spec.num_kv_heads * spec.head_dim
    return any(0 < layer.per_token < whole for layer in spec.generic.cache)


def _nbytes(spec: ModelSpec, tensor: TensorInfo, format: str) -> int:
    if spec.tied_embeddings and tensor.name.endswith("lm_head.weight"):
        return 0
    layer = layer_of(tensor.name)
    if layer is not None and layer >= spec.num_layers:  # they guess further tokens; nothing here asks them to
        return 0
    is_kept = any(part in tensor.name for part in KEPT_F32.get(spec.architecture, ()))
    return math.prod(tensor.shape) * (_F32_BYTES if is_kept else FORMATS[format])
