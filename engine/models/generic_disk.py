"""Layers of a model that stay on the disk: their files, the memory they take turns in, how fast they come.

Importing this imports transformers. Knows tensors and a clock; not which layers these are, nor who computes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import torch
from torch import Tensor

from engine.models.checkpoint import Checkpoint
from engine.models.generic_files import FilesAtOnce
from engine.models.generic_placement import LayerWeights
from engine.models.generic_weights import GenericWeights, Target
from engine.quant.arena import Arena, aligned
from engine.types import ModelSpec

LEAST_BYTES = 16 << 20  # of all layers: fewer say more of the system's calls than of the disk
_TIMED = 2  # which reading of a layer


class DiskLayers:
    """The files stay open for as long as the model is loaded: a folder that is moved or deleted meanwhile
    does no harm. One layer computes after another, and all of them in the same memory.
    """

    def __init__(
        self,
        spec: ModelSpec,
        weights: GenericWeights,
        layers: Sequence[Sequence[Target]],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """``layers`` are the targets of each."""
        self._weights = weights
        self._clock = clock
        self._checkpoint = Checkpoint(spec)
        self._files = FilesAtOnce(self._checkpoint)
        self._arena = Arena(max(map(_arena_bytes, layers)))
        self._layers: list[_Layer] = []

    @property
    def held_bytes(self) -> int:
        """Bytes of the memory that stays for a layer."""
        return self._arena.nbytes

    @property
    def gbps(self) -> float | None:
        """10⁹ bytes of the files a second, to have a layer in memory: the median of the layers, each by the
        second time that it was read. The system held nothing of it either time, as it is where memory is
        short; caches of the disk's own, or of a host's, have seen it once, as at every later turn.

        None as long as not all were read twice, and where they are too small to tell.
        """
        if sum(layer.nbytes for layer in self._layers) < LEAST_BYTES:
            return None
        seconds = [layer.timed_s for layer in self._layers if layer.timed_s]
        if len(seconds) < len(self._layers):
            return None
        return median(layer.nbytes / s / 1e9 for layer, s in zip(self._layers, seconds, strict=True))

    def layer(self, targets: Sequence[Target], prefix: str) -> LayerWeights:
        """The weights of a layer, whose names begin with ``prefix``."""
        layer = _Layer(targets, prefix)
        self._layers.append(layer)
        names = [name.removeprefix(prefix) for target in targets for name in target.names]
        return LayerWeights(names, lambda: self._read(layer))

    def close(self) -> None:
        """Close the files."""
        self._checkpoint.close()

    def _read(self, layer: _Layer) -> dict[str, Tensor]:
        self._arena.restart()
        if layer.num_reads < _TIMED:
            self._checkpoint.forget(name for target in layer.targets for name in target.source_names)
        started = self._clock()
        made = self._weights.read_layer(layer.targets, self._files, self._empty)
        layer.num_reads += 1
        if layer.num_reads == _TIMED:
            layer.timed_s = self._clock() - started
        return {name.removeprefix(layer.prefix): tensor for name, tensor in made.items()}

    def _empty(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        return self._arena.take(math.prod(shape) * dtype.itemsize).view(dtype).view(shape)


@dataclass(slots=True)
class _Layer:
    """``prefix`` is what its tensors' names begin with."""

    targets: Sequence[Target]
    prefix: str
    num_reads: int = 0
    timed_s: float = 0.0  # that the one took which is timed; 0: it was not read so often

    @property
    def nbytes(self) -> int:
        """Of its tensors in the files."""
        return sum(target.nbytes for target in self.targets)


def _arena_bytes(targets: Sequence[Target]) -> int:
    """Bytes of a layer's weights in an arena."""
    return sum(aligned(math.prod(target.shape) * target.dtype.itemsize) for target in targets)
