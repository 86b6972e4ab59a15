"""Watts while tokens are made and at rest, read from the counters of processor and GPUs once a second.

Knows no prices. Where nothing tells of energy nothing is read again, and nothing is known.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Protocol

from PySide6.QtCore import QObject, QTimer, Signal

from app.cost import Power
from app.io_thread import IoThread
from engine.events import Failed
from engine.hardware.rapl import RaplCounter
from engine.hardware.sensors import GpuSensors
from engine.machine import Gpu, GpuReading

LANE = "power"
EVERY_MS = 1_000
_SAMPLES = 30  # whose median counts


class EnergyCounter(Protocol):
    """Counts joules upwards; None while it does not tell."""

    def read_j(self) -> float | None: ...


class Sensors(Protocol):
    """Reads GPUs, as engine.hardware.sensors does."""

    def read(self, gpus: tuple[Gpu, ...]) -> tuple[GpuReading, ...]: ...


@dataclass(frozen=True, slots=True)
class Sample:
    """One reading of everything. ``joules`` counts; ``watts`` is a GPU's own figure where it counts none."""

    at_s: float
    joules: float | None = None
    watts: float | None = None
    gpus: tuple[GpuReading, ...] = ()

    @property
    def tells(self) -> bool:
        """Whether there is anything to read again."""
        return bool(self.gpus) or self.joules is not None


@dataclass(slots=True)
class PowerRecord:
    """The last samples of both states. A second in which the state changed counts for neither."""

    busy: deque[float] = field(default_factory=lambda: deque(maxlen=_SAMPLES))
    rest: deque[float] = field(default_factory=lambda: deque(maxlen=_SAMPLES))
    now_w: float | None = None
    _last: tuple[Sample, bool] | None = None

    def take(self, sample: Sample, is_busy: bool) -> None:
        """Take a sample that was read while tokens were made, or not."""
        last, self._last = self._last, (sample, is_busy)
        self.now_w = self._watts(last[0] if last else None, sample)
        if self.now_w is not None and last is not None and last[1] == is_busy:
            (self.busy if is_busy else self.rest).append(self.now_w)

    @property
    def power(self) -> Power:
        """The medians of both."""
        return Power(*(median(each) if each else None for each in (self.busy, self.rest)))

    def _watts(self, before: Sample | None, now: Sample) -> float | None:
        if before is None or now.joules is None or before.joules is None or now.at_s <= before.at_s:
            return now.watts
        return max(0.0, now.joules - before.joules) / (now.at_s - before.at_s)


class PowerMeter(QObject):
    """``changed`` fires with every reading. ``is_busy`` says whether tokens are made now, ``gpus`` which GPUs
    the loaded model runs on; without any the processor's counter is read.
    """

    changed = Signal()

    def __init__(
        self,
        io: IoThread,
        is_busy: Callable[[], bool],
        gpus: Callable[[], tuple[Gpu, ...]],
        processor: EnergyCounter | None = None,
        sensors: Sensors | None = None,
        clock: Callable[[], float] = time.monotonic,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._io = io
        self._is_busy = is_busy
        self._gpus = gpus
        self._clock = clock
        self._processor = processor or RaplCounter()
        self._sensors = sensors or GpuSensors()
        self._is_reading = False
        self.record = PowerRecord()
        self.gpus: tuple[GpuReading, ...] = ()
        self._timer = QTimer(self, interval=EVERY_MS)
        self._timer.timeout.connect(self.read)

    @property
    def is_on(self) -> bool:
        """Whether there is something that is read again."""
        return self._timer.isActive()

    def restart(self) -> None:
        """Another model is loaded, maybe on another device: what was measured is not of it."""
        self.record = PowerRecord()
        self._timer.start()
        self.read()

    def read(self) -> None:
        """Read once on the I/O thread."""
        if not self._is_reading:
            self._is_reading = True
            done, failed = self._on_sample, self._on_unread
            self._io.submit(self._sample, self._gpus(), on_done=done, on_error=failed, lane=LANE)

    def _sample(self, gpus: tuple[Gpu, ...]) -> Sample:
        """On the I/O thread; some milliseconds."""
        if not gpus:
            return Sample(self._clock(), self._processor.read_j())
        readings = self._sensors.read(gpus)
        return Sample(
            self._clock(),
            _sum([each.energy_j for each in readings]),
            _sum([each.power_w for each in readings]),
            readings,
        )

    def _on_sample(self, sample: Sample) -> None:
        self._is_reading = False
        if not sample.tells:
            self._timer.stop()
        self.gpus = sample.gpus
        self.record.take(sample, self._is_busy())
        self.changed.emit()

    def _on_unread(self, _: Failed) -> None:
        """Logged where it failed; what cannot be read is not read again."""
        self._is_reading = False
        self._timer.stop()


def _sum(values: list[float | None]) -> float | None:
    """None where one of them is unknown, or there is none."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None
