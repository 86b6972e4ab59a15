"""The arithmetic of memory for models that transformers runs, as fit/bytes.py is the lean decoder's.

Weights are the tensors of the files in the format's precision; the cache is what each kind of layer keeps.
Standard library only.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache

from engine.fit.generic_activations import GenericPiece, widest_bytes
from engine.models.generic_table import KEPT_F32
from engine.types import ModelSpec, TensorInfo

FORMATS = {"f32": 4, "bf16": 2, "f16": 2}
"""What such a model can be loaded as, and bytes of one parameter."""

_F32_BYTES = 4
_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d+)\.")


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

    Layers with a sliding window keep every token, as `engine.models.generic_cache` says, but those that keep
    something else beside.
    """
    assert spec.generic is not None
    return sum(layer.nbytes(tokens, kv_bits) for layer in spec.generic.cache)


def working_bytes(spec: ModelSpec, context: int, piece: int, format: str = "bf16", threads: int = 1) -> int:
    """Bytes of the widest moment of one prefill piece, see `engine.fit.generic_activations`."""
    return widest_bytes(spec, GenericPiece(piece, context, FORMATS[format], threads))


def _nbytes(spec: ModelSpec, tensor: TensorInfo, format: str) -> int:
    if spec.tied_embeddings and tensor.name.endswith("lm_head.weight"):
        return 0
    layer = layer_of(tensor.name)
    if layer is not None and layer >= spec.num_layers:  # they guess further tokens; nothing here asks them to
        return 0
    is_kept = any(part in tensor.name for part in KEPT_F32.get(spec.architecture, ()))
    return math.prod(tensor.shape) * (_F32_BYTES if is_kept else FORMATS[format])
