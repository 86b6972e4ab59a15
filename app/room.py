"""The machine and the memory that is free now, as plans are made from. Knows no model and no window."""

from __future__ import annotations

from dataclasses import replace

from engine.calibration import Calibration
from engine.events import MemoryReport
from engine.machine import Hardware


class Room:
    """What was probed once and is reported again and again.

    While a model is being read, what the engine reports says nothing about the room there is: parts of it are
    neither held nor free. Plans then go by the last report from before.
    """

    def __init__(self) -> None:
        self.probed: Hardware | None = None
        self.report: MemoryReport | None = None  # the newest, for the gauges
        self._settled: MemoryReport | None = None

    def take(self, report: MemoryReport, is_loading: bool) -> None:
        """A new report; ``is_loading`` tells that a model is being read."""
        self.report = report
        if not is_loading or self._settled is None:
            self._settled = report

    def learn(self, loaded: Hardware) -> None:
        """Take what a load has measured of kernels and threads: the next plans are made with it."""
        if self.probed is not None:
            times, threads = loaded.kernel_times, loaded.best_threads
            known = loaded.calibration or self.probed.calibration
            self.probed = replace(self.probed, kernel_times=times, best_threads=threads, calibration=known)

    def calibrate(self, calibration: Calibration) -> None:
        """Take what is known of the machine's speed by now."""
        if self.probed is not None:
            self.probed = replace(self.probed, calibration=calibration)

    @property
    def calibration(self) -> Calibration | None:
        """What is known of the machine's speed: the only place that has the newest."""
        return self.probed.calibration if self.probed is not None else None

    @property
    def hardware(self) -> Hardware | None:
        """The machine with the memory that is free now; None while nothing is known of it."""
        settled = self._settled
        if self.probed is None or settled is None:
            return self.probed
        free = settled.ram_free_bytes
        if free is None:
            return replace(self.probed, gpus=settled.gpus)
        return replace(self.probed, ram_free_bytes=free, gpus=settled.gpus)

    @property
    def held_bytes(self) -> int:
        """What the loaded model gives back when it is replaced; an untouched cache takes no memory."""
        settled = self._settled
        if settled is None:
            return 0
        held = settled.in_ram
        return held.weights_bytes + held.kv_used_bytes + held.working_bytes
