"""The worker that says how fast this machine reads memory now: the yardstick beside every measurement."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from app.bench.serving import serve
from engine.quant.arena import Arena

BUFFER_BYTES = 1 << 30  # many times any cache
PULSE_S = 0.1  # at least


def make_reader(buffer: Tensor, threads: int) -> Callable[[], object]:
    """A function that reads all of ``buffer`` once, on ``threads`` threads.

    A sum of 64-bit integers in torch is as fast as a loop of AVX-512 loads in C on the same threads (within
    3 %, 2 cores of an EPYC), and faster than its products, norms and sums by column.
    """
    torch.set_num_threads(threads)
    return buffer.view(torch.int64).sum


class Pulse:
    """A buffer and its reader."""

    def __init__(self) -> None:
        self._read: Callable[[], object] = lambda: None
        self._size = 0

    def load(self, threads: int, buffer_bytes: int = BUFFER_BYTES) -> dict[str, Any]:
        """Take the memory as weights take it, in huge pages where the system grants them."""
        buffer = Arena(buffer_bytes).take(buffer_bytes)
        buffer.fill_(1)  # untouched pages would all be one page of zeros
        self._size = buffer_bytes
        self._read = make_reader(buffer, threads)
        self._read()
        return {}

    def pulse(self) -> dict[str, Any]:
        """GB/s (10⁹ bytes) over at least a tenth of a second."""
        passes, started = 0, time.perf_counter()
        while True:
            self._read()
            passes += 1
            seconds = time.perf_counter() - started
            if seconds >= PULSE_S:
                return {"gbps": passes * self._size / seconds / 1e9}


def main() -> None:
    pulse = Pulse()
    serve({"load": pulse.load, "pulse": pulse.pulse})


if __name__ == "__main__":
    main()
