"""What comes from the disk for every pass of a model that has not all of its layers in memory.

Knows the tensors of files; not how fast they are read. Standard library only.
"""

from __future__ import annotations

from functools import lru_cache

from engine.fit.generic_bytes import layer_of
from engine.types import ModelSpec, TensorInfo


def disk_layers(spec: ModelSpec, count: int) -> list[list[TensorInfo]]:
    """The tensors of the files that each of the last ``count`` layers is read from, in the files' order."""
    first = spec.num_layers - count
    layers: list[list[TensorInfo]] = [[] for _ in range(count)]
    for tensor in sorted(spec.tensors, key=lambda tensor: (tensor.file, tensor.offset)):
        layer = layer_of(tensor.name)
        if layer is not None and first <= layer < spec.num_layers:
            layers[layer - first].append(tensor)
    return layers


@lru_cache(maxsize=32)  # a slider asks for the same model again and again
def disk_bytes(spec: ModelSpec, count: int) -> int:
    """Bytes of the files that one pass reads for the last ``count`` layers: as they are stored, whatever the
    format in memory is.
    """
    return sum(tensor.nbytes for layer in disk_layers(spec, count) for tensor in layer)
