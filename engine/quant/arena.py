"""Anonymous memory for the matrices of a model, in huge pages where the system grants them.

Knows bytes and addresses, not what lies in them.
"""

from __future__ import annotations

import contextlib
import mmap

import torch
from torch import Tensor

ALIGNMENT = 64  # bytes: a cache line, and the widest vector


def aligned(nbytes: int) -> int:
    """Bytes of an arena that so many take."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


class Arena:
    """One piece of memory that is handed out in slices. Pages are taken from the system as they are written,
    and given back when the last tensor on them is gone.

    Weights are read from end to end again and again: in pages of 2 MB that costs fewer address translations
    than in pages of 4 kB, about a tenth of the read bandwidth.
    """

    def __init__(self, nbytes: int) -> None:
        """Reserves room for ``nbytes``. Raises MemoryError where the system has no more."""
        self._memory = _reserve(max(1, nbytes))
        self._used = 0

    @property
    def nbytes(self) -> int:
        """Bytes of all of it."""
        return self._memory.numel()

    def restart(self) -> None:
        """Hand out the same memory again: nobody may use what was taken before."""
        self._used = 0

    def take(self, nbytes: int) -> Tensor:
        """The next ``nbytes`` as uint8, from a boundary of 64 bytes on; what is in them is not defined."""
        assert nbytes <= self._memory.numel() - self._used, "the arena is as large as the plan's matrices"
        taken = self._memory[self._used : self._used + nbytes]
        self._used += aligned(nbytes)
        return taken


def _reserve(nbytes: int) -> Tensor:
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return torch.empty(nbytes, dtype=torch.uint8)
    try:
        pages = mmap.mmap(-1, nbytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"{nbytes} bytes") from error
    with contextlib.suppress(OSError):  # a kernel without them: small pages do as well, a little slower
        pages.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(pages, dtype=torch.uint8)  # it keeps the mapping
