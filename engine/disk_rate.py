"""How fast layers come from the disk on this machine: read for a moment as every pass reads them.

Knows files and a clock; not what is predicted with the rate, and not where it is kept.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator
from statistics import median

import torch

from engine.fit.disk import disk_bytes, disk_layers
from engine.loading import opened
from engine.models.checkpoint import Checkpoint
from engine.models.generic_files import FilesAtOnce
from engine.quant.linear import DENSE_TYPES
from engine.types import LoadPlan, TensorInfo
from engine.waiting import drained, in_background, until_done

BUDGET_S = 0.5  # of reading; the layer that is read then is read to its end
LEAST_BYTES = 16 << 20  # fewer say more of the system's calls than of the disk


def timing_disk(
    made: LoadPlan, clock: Callable[[], float] = time.perf_counter
) -> Generator[object, None, float | None]:
    """10⁹ bytes of its files a second at which the layers of a plan come that stay on the disk, the median of
    those that are read; None where none do, or too few bytes to tell. What the system holds of these layers
    is dropped before: where memory is short, nothing is left of one when its turn comes again.

    Yields after every tensor. Raises ModelFileError where the files changed or cannot be read.
    """
    if disk_bytes(made.model, made.disk_layers) < LEAST_BYTES:
        return None
    layers = [layer for layer in disk_layers(made.model, made.disk_layers) if layer]
    checkpoint = yield from opened(made.model)
    with checkpoint:
        yield from until_done([in_background(checkpoint.verify, "decodeck-header")], None)
        reading = _Reading(checkpoint, layers, DENSE_TYPES[made.format], clock)
        rates, num_bytes, seconds = [], 0, 0.0
        for layer in layers:
            nbytes, took = sum(tensor.nbytes for tensor in layer), 0.0
            for tensor in layer:
                took += reading.seconds(tensor)
                yield None
            rates.append(nbytes / took / 1e9)
            num_bytes, seconds = num_bytes + nbytes, seconds + took
            if num_bytes >= LEAST_BYTES and seconds >= BUDGET_S:
                break
    return median(rates)


class _Reading:
    """Reads the tensors of layers into memory that is there already, as it is for a pass."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        layers: list[list[TensorInfo]],
        dtype: torch.dtype,
        clock: Callable[[], float],
    ) -> None:
        tensors = [tensor for layer in layers for tensor in layer]
        most = max(math.prod(tensor.shape) for tensor in tensors)
        self._memory = torch.ones(most, dtype=dtype)  # zeros could be pages that the system has yet to give
        self._files = FilesAtOnce(checkpoint)
        self._clock = clock
        checkpoint.forget(tensor.name for tensor in tensors)

    def seconds(self, tensor: TensorInfo) -> float:
        out = self._memory[: math.prod(tensor.shape)].view(tensor.shape)
        started = self._clock()
        drained(self._files.fill(out, tensor))
        return self._clock() - started
