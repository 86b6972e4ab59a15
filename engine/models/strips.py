"""Reads tensors strip by strip, each strip on several threads at once, so that a load waits for nobody long.

Knows rows and bytes; not what becomes of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

import torch
from torch import Tensor

from engine.models.checkpoint import Checkpoint

STRIP_ELEMENTS = 1 << 22
_STRIP_BYTES = 8 << 20  # under 100 ms even from a slow disk
_PIECE_BYTES = 1 << 20  # read and used while it is in the cache of one core
_PIECE_ROWS = 16  # rows of a tile: pieces begin and end with one


def strips(rows: int, cols: int) -> Iterator[slice]:
    """Rows in strips of about 4 million elements: well under 100 ms each, Cancel waits for no longer."""
    height = max(1, STRIP_ELEMENTS // cols)
    for first in range(0, rows, height):
        yield slice(first, min(first + height, rows))


class StripReader:
    """The bytes of tensors, read by ``threads`` threads of its own. None of them runs a torch operation:
    OpenMP would start a team for each.
    """

    def __init__(self, checkpoint: Checkpoint, threads: int) -> None:
        self._checkpoint = checkpoint
        self._pool = ThreadPoolExecutor(threads, "decodeck-load")
        self._buffers = [torch.empty(0, dtype=torch.uint8) for _ in range(threads)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)

    def use(self, name: str, use: Callable[[int, slice], None]) -> Iterator[int]:
        """Call ``use(address, rows)`` for all rows of a tensor, in pieces that begin with a multiple of 16
        rows; the bytes at the address are there during the call alone, which comes from any thread. Yields
        the rows done after every strip. Raises what ``use`` raises, and ModelFileError.
        """
        rows, row_bytes = self._extent(name)
        piece = max(1, self._piece(rows, row_bytes) // _PIECE_ROWS) * _PIECE_ROWS
        if piece * row_bytes > self._buffers[0].numel():
            self._buffers = [torch.empty(piece * row_bytes, dtype=torch.uint8) for _ in self._buffers]
        buffers = [(buffer.numpy().data, buffer.data_ptr()) for buffer in self._buffers]

        def read(part: slice, thread: int) -> None:
            view, address = buffers[thread]
            self._checkpoint.read_into(view[: (part.stop - part.start) * row_bytes], name, part)
            use(address, part)

        yield from self._share(rows, piece, row_bytes, read)

    def copy(self, name: str, out: Tensor) -> Iterator[int]:
        """Read a tensor's bytes to where they stay: ``out`` is contiguous, in the stored type and shape."""
        rows, row_bytes = self._extent(name)
        target = out.view(-1).view(torch.uint8).numpy().data

        def read(part: slice, _: int) -> None:
            self._checkpoint.read_into(target[part.start * row_bytes : part.stop * row_bytes], name, part)

        yield from self._share(rows, max(1, self._piece(rows, row_bytes)), row_bytes, read)

    def _extent(self, name: str) -> tuple[int, int]:
        """Rows of a tensor, and bytes of one."""
        info = self._checkpoint.info(name)
        return info.shape[0], info.nbytes // info.shape[0]

    def _piece(self, rows: int, row_bytes: int) -> int:
        """Rows of a piece of a tensor: few enough that each thread gets a share of a strip."""
        return min(_PIECE_BYTES, min(rows * row_bytes, _STRIP_BYTES) // len(self._buffers)) // row_bytes

    def _share(
        self, rows: int, piece: int, row_bytes: int, read: Callable[[slice, int], None]
    ) -> Iterator[int]:
        """Call ``read(rows, thread)`` for every piece; a thread takes the next one when it is through."""
        height = max(1, _STRIP_BYTES // (piece * row_bytes)) * piece
        for first in range(0, rows, height):
            end = min(first + height, rows)
            pieces = deque(slice(at, min(at + piece, end)) for at in range(first, end, piece))

            def take(thread: int, pieces: deque[slice] = pieces) -> None:
                while True:
                    try:
                        part = pieces.popleft()
                    except IndexError:
                        return
                    read(part, thread)

            list(self._pool.map(take, range(len(self._buffers))))
            yield end
