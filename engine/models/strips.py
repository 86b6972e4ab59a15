"""Reads tensors strip by strip, each strip on several threads at once, so that a load waits for nobody long.

Knows rows and bytes; not what becomes of them.
"""

from __future__ import annotations

import contextlib
import functools
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from types import TracebackType
from typing import Self, TypeVar

import torch
from torch import Tensor

from engine.models.checkpoint import Checkpoint
from engine.waiting import POLL_S, settle, until_done

STRIP_ELEMENTS = 1 << 20
_STRIP_BYTES = 8 << 20  # a few milliseconds from the system's cache
_PIECE_BYTES = 1 << 20  # read and used while it is in the cache of one core
_PIECE_ROWS = 16  # rows of a tile: pieces begin and end with one
_MOST_THREADS = 16  # more read no faster, and a system may refuse to start hundreds

Y = TypeVar("Y")


def strips(rows: int, cols: int) -> Iterator[slice]:
    """Rows in strips of about a million elements: Cancel waits for one, which may have to be rounded."""
    height = max(1, STRIP_ELEMENTS // cols)
    for first in range(0, rows, height):
        yield slice(first, min(first + height, rows))


class StripReader:
    """The bytes of tensors, read by up to ``threads`` threads of its own. None of them runs a torch
    operation: OpenMP would start a team for each.

    All reads are generators that yield while the disk takes its time, so that they can be dropped at once; a
    thread whose read hangs is left behind then, with the memory and the file it reads.
    """

    def __init__(self, checkpoint: Checkpoint, threads: int) -> None:
        self.checkpoint = checkpoint
        self._crew = _Crew(min(threads, _MOST_THREADS))
        self._buffers = [torch.empty(0, dtype=torch.uint8) for _ in range(self._crew.size)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._crew.stop(POLL_S)

    def use(self, name: str, use: Callable[[int, slice], None]) -> Iterator[int]:
        """Call ``use(address, rows)`` for all rows of a tensor, in pieces that begin with a multiple of 16
        rows; the bytes at the address are there during the call alone, which comes from any thread. Yields
        the rows done after every strip and while it waits. Raises what ``use`` raises, and ModelFileError.

        ``use`` must keep alive what it writes to: a last call may be under way when the load is over.
        """
        rows, row_bytes = self._extent(name)
        piece = max(1, self._piece(rows, row_bytes) // _PIECE_ROWS) * _PIECE_ROWS
        if piece * row_bytes > self._buffers[0].numel():
            self._buffers = [torch.empty(piece * row_bytes, dtype=torch.uint8) for _ in self._buffers]
        buffers = self._buffers

        def read(part: slice, thread: int) -> None:
            buffer = buffers[thread]
            view = buffer.numpy().data[: (part.stop - part.start) * row_bytes]
            self.checkpoint.read_into(view, name, part)
            if not self._crew.is_stopped:
                use(buffer.data_ptr(), part)

        for strip in self._strips(rows, piece, row_bytes):
            yield from self._share(strip, piece, read, strip.start)
            yield strip.stop

    def copy(self, name: str, out: Tensor) -> Iterator[int]:
        """Read a tensor's bytes to where they stay: ``out`` is contiguous, in the stored type and shape.
        Yields as `use` does.
        """
        rows, row_bytes = self._extent(name)
        piece = max(1, self._piece(rows, row_bytes))
        for strip in self._strips(rows, piece, row_bytes):
            yield from self._share(strip, piece, self._copier(name, out, 0), strip.start)
            yield strip.stop

    def raw(self, name: str, rows: slice, meanwhile: Y) -> Generator[Y, None, Tensor]:
        """The stored bytes of some rows of a tensor, as `Checkpoint.raw` gives them; yields ``meanwhile``
        while it waits.
        """
        _, row_bytes = self._extent(name)
        out = torch.empty((rows.stop - rows.start) * row_bytes, dtype=torch.uint8)
        piece = max(1, self._piece(rows.stop - rows.start, row_bytes))
        yield from self._share(rows, piece, self._copier(name, out, rows.start), meanwhile)
        return out

    def read_ahead(self, names: Iterable[str], meanwhile: Y) -> Iterator[Y]:
        """Read whole small tensors, norms and biases, for the checkpoint to give them without a wait."""
        waiting = deque(names)

        def take(_: int) -> None:
            for name in _drained(waiting):
                if self._crew.is_stopped:
                    return
                self.checkpoint.keep(name, self.checkpoint.raw(name))

        yield from until_done(self._crew.all(take), meanwhile)

    def _copier(self, name: str, out: Tensor, first: int) -> Callable[[slice, int], None]:
        """Reads rows to their place in ``out``, which begins with row ``first``."""
        _, row_bytes = self._extent(name)
        target = out.view(-1).view(torch.uint8).numpy().data

        def read(part: slice, _: int) -> None:
            place = slice((part.start - first) * row_bytes, (part.stop - first) * row_bytes)
            self.checkpoint.read_into(target[place], name, part)

        return read

    def _extent(self, name: str) -> tuple[int, int]:
        """Rows of a tensor, and bytes of one."""
        info = self.checkpoint.info(name)
        return info.shape[0], info.nbytes // info.shape[0]

    def _piece(self, rows: int, row_bytes: int) -> int:
        """Rows of a piece of a tensor: few enough that each thread gets a share of a strip."""
        return min(_PIECE_BYTES, min(rows * row_bytes, _STRIP_BYTES) // self._crew.size) // row_bytes

    def _strips(self, rows: int, piece: int, row_bytes: int) -> Iterator[slice]:
        height = max(1, _STRIP_BYTES // (piece * row_bytes)) * piece
        for first in range(0, rows, height):
            yield slice(first, min(first + height, rows))

    def _share(
        self, rows: slice, piece: int, read: Callable[[slice, int], None], meanwhile: Y
    ) -> Iterator[Y]:
        """Call ``read(rows, thread)`` for every piece; a thread takes the next one when it is through."""
        starts = range(rows.start, rows.stop, piece)
        pieces = deque(slice(at, min(at + piece, rows.stop)) for at in starts)

        def take(thread: int) -> None:
            for part in _drained(pieces):
                if self._crew.is_stopped:
                    return
                read(part, thread)

        yield from until_done(self._crew.all(take), meanwhile)


def _drained(items: deque[Y]) -> Iterator[Y]:
    """Take items from the front until another thread has taken the last one."""
    with contextlib.suppress(IndexError):
        while True:
            yield items.popleft()


class _Crew:
    """Threads that all run the same job at once, each with its number. They are daemons and never waited for
    long: one of them may hang in a read.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.is_stopped = False
        self._jobs: queue.SimpleQueue[tuple[Future[None], Callable[[int], None]] | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._run, args=(number,), name=f"decodeck-load-{number}", daemon=True)
            for number in range(size)
        ]
        for thread in self._threads:
            thread.start()

    def all(self, job: Callable[[int], None]) -> list[Future[None]]:
        """Run ``job(thread)`` once for every thread."""
        return [self._submit(job) for _ in self._threads]

    def stop(self, timeout_s: float) -> None:
        """Let the threads end; those that have not in time are left behind."""
        self.is_stopped = True
        for _ in self._threads:
            self._jobs.put(None)
        deadline = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _submit(self, job: Callable[[int], None]) -> Future[None]:
        future: Future[None] = Future()
        self._jobs.put((future, job))
        return future

    def _run(self, number: int) -> None:
        while (taken := self._jobs.get()) is not None:
            future, job = taken
            settle(future, functools.partial(job, number))
            del taken, future, job  # an error in the future has this frame too
