"""The worker that says how fast this machine reads memory now: the yardstick beside every measurement."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

from app.bench.serving import serve
from engine.hardware.reading import make_reader
from engine.quant.arena import Arena

BUFFER_BYTES = 1 << 30  # many times any cache
PULSE_S = 0.1  # at least
PIECES = 8  # of the buffer, each larger than any cache too


class Pulse:
    """A buffer, cut into pieces, and their readers."""

    def __init__(self) -> None:
        self._reads: list[Callable[[], object]] = []
        self._piece_bytes = 0

    def load(self, threads: int, buffer_bytes: int = BUFFER_BYTES) -> dict[str, Any]:
        """Take the memory as weights take it, in huge pages where the system grants them."""
        buffer = Arena(buffer_bytes).take(buffer_bytes)
        buffer.fill_(1)  # untouched pages would all be one page of zeros
        self._piece_bytes = buffer_bytes // PIECES // 64 * 64
        pieces = range(0, PIECES * self._piece_bytes, self._piece_bytes)
        self._reads = [make_reader(buffer[at : at + self._piece_bytes], threads) for at in pieces]
        for read in self._reads:
            read()
        return {}

    def pulse(self) -> dict[str, Any]:
        """GB/s (10⁹ bytes) over at least a tenth of a second; and of the median piece of that time."""
        took: list[float] = []
        before = time.perf_counter()
        while sum(took) < PULSE_S:
            for read in self._reads:
                read()
                now = time.perf_counter()
                took.append(now - before)
                before = now
        gigabytes = self._piece_bytes / 1e9
        return {"gbps": len(took) * gigabytes / sum(took), "median_gbps": gigabytes / median(took)}


def main() -> None:
    pulse = Pulse()
    serve({"load": pulse.load, "pulse": pulse.pulse})


if __name__ == "__main__":
    main()
