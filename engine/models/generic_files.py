"""Two ways to read tensors of files into those of a model: in pieces for a load, at once for a layer in use.

Knows bytes and precisions; not what tensors are for.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from engine.models.checkpoint import Checkpoint
from engine.models.strips import StripReader, strips
from engine.quant.dequantize import FLOAT_TYPES
from engine.types import TensorInfo

_SMALL_BYTES = 1 << 17  # not worth a round of the threads: norms, biases, routers

Y = TypeVar("Y")


class Files(Protocol):
    """The tensors of a model's files."""

    def fill(self, out: Tensor, tensor: TensorInfo) -> Generator[int, None, None]:
        """Read a tensor into ``out``, which has its shape in any precision; yields the bytes read so far.

        Raises ModelFileError where the file changed or cannot be read.
        """
        ...


class FilesInPieces:
    """For a load: every wait is a short piece, and small tensors are read ahead, all together."""

    def __init__(self, reader: StripReader) -> None:
        self._reader = reader

    def read_ahead(self, tensors: Iterable[TensorInfo], meanwhile: Y) -> Iterator[Y]:
        """Read the small ones among them, before any of them is asked for."""
        names = [tensor.name for tensor in tensors if tensor.nbytes <= _SMALL_BYTES]
        yield from self._reader.read_ahead(names, meanwhile)

    def fill(self, out: Tensor, tensor: TensorInfo) -> Generator[int, None, None]:
        if tensor.nbytes <= _SMALL_BYTES:
            out.copy_(self._reader.checkpoint.tensor(tensor.name))
            return
        row_bytes = tensor.nbytes // tensor.shape[0]
        stored = FLOAT_TYPES[tensor.type]
        if stored == out.dtype:
            for rows in self._reader.copy(tensor.name, out):
                yield rows * row_bytes
            return
        for strip in strips(tensor.shape[0], out[0].numel()):
            raw = yield from self._reader.raw(tensor.name, strip, strip.start * row_bytes)
            out[strip] = raw.view(stored).view(-1, *tensor.shape[1:])
            yield strip.stop * row_bytes


class FilesAtOnce:
    """For a step: nothing else can be done meanwhile. What the file has in the precision of ``out`` is read
    to where it stays, the rest through one strip of memory: new pages take the system longer than the bytes.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._strip = torch.empty(0, dtype=torch.uint8)

    def fill(self, out: Tensor, tensor: TensorInfo) -> Generator[int, None, None]:
        stored = FLOAT_TYPES[tensor.type]
        if stored == out.dtype:
            view = out.view(-1).view(torch.uint8).numpy().data
            self._checkpoint.read_into(view, tensor.name)
        elif tensor.nbytes <= _SMALL_BYTES:
            out.copy_(self._checkpoint.tensor(tensor.name))
        else:
            for rows in strips(tensor.shape[0], out[0].numel()):
                out[rows] = self._read(tensor, rows).view(stored).view(-1, *tensor.shape[1:])
        yield tensor.nbytes

    def _read(self, tensor: TensorInfo, rows: slice) -> Tensor:
        """The bytes of some rows; they are there until the next ones are read."""
        nbytes = (rows.stop - rows.start) * (tensor.nbytes // tensor.shape[0])
        if nbytes > self._strip.numel():
            self._strip = torch.empty(nbytes, dtype=torch.uint8)
        self._checkpoint.read_into(self._strip[:nbytes].numpy().data, tensor.name, rows)
        return self._strip[:nbytes]
