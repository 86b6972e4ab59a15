"""A disk that the tests let fail: reads of weights that hang, come short, or end in an error."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable

import pytest


class Disk:
    """Stands between the program and `os.preadv`. Nothing is wrong with it until it is told so.

    ``hangs``: reads wait until ``let_go`` is called. ``most_bytes``: no read gives more. ``fails_at``: the
    number of the read, from 1, that ends in an error of input and output.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.hangs = False
        self.most_bytes: int | None = None
        self.fails_at: int | None = None
        self.before_read: Callable[[int], None] = lambda number: None
        self.sizes: list[int] = []
        self.places: list[int] = []  # where in its file each read began
        self.waiting = threading.Semaphore(0)  # counts the reads that have begun to hang
        self._free = threading.Event()
        self._lock = threading.Lock()
        self._preadv = os.preadv
        monkeypatch.setattr(os, "preadv", self._read)

    def let_go(self) -> None:
        """All reads that hang go on."""
        self.hangs = False
        self._free.set()

    @property
    def num_bytes(self) -> int:
        """Read so far."""
        return sum(self.sizes)

    def _read(self, descriptor: int, views: list[memoryview], offset: int) -> int:
        with self._lock:
            self.sizes.append(0)
            self.places.append(offset)
            number = len(self.sizes)
        self.before_read(number)
        if number == self.fails_at:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if self.hangs:
            self.waiting.release()
            assert self._free.wait(60), "the test forgot to let go"
        [view] = views
        count = self._preadv(descriptor, [view[: self.most_bytes]], offset)
        with self._lock:
            self.sizes[number - 1] = count
        return count


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    if not hasattr(os, "preadv"):
        pytest.skip("files are read in another way here")
    return Disk(monkeypatch)
