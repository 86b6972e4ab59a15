"""What the machine does beside this program: processor time of others, faults, frequency.

Knows no model and draws no conclusion; `app.why` does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
from PySide6.QtCore import QObject, QTimer

from app.io_thread import IoThread

LANE = "machine"
EVERY_MS = 1_000
_THROTTLES = Path("/sys/devices/system/cpu/cpu0/thermal_throttle")  # counters of Intel's, under Linux


@dataclass(frozen=True, slots=True)
class MachineLoad:
    """The last second or so, beside this program. None cannot be read here."""

    num_cpus: int = 1  # logical
    other_cpus: float | None = None  # kept busy by other programs
    stolen: float | None = None  # share of the processors' time that a host gave to other machines
    page_reads: float | None = None  # pages of this program read from disk or swap, a second
    frequency: float | None = None  # of the processor, as a share of the highest seen since the start
    has_throttled: bool = False  # it slowed itself down for its temperature
    is_on_battery: bool = False


UNKNOWN_LOAD = MachineLoad()


@dataclass(frozen=True, slots=True)
class _Counters:
    """Readings that only grow, and the moment."""

    at_s: float
    busy_s: float
    own_s: float
    stolen_s: float | None
    page_reads: int | None
    throttles: int | None


class LoadMeter:
    """Reads the counters; each ``read`` tells of the time since the one before it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._process = psutil.Process()
        self._before: _Counters | None = None
        self._highest_mhz = 0.0

    def read(self) -> MachineLoad:
        """The time since the last call; a first one knows nothing. Takes about a millisecond."""
        before, now = self._before, self._counters()
        self._before = now
        num_cpus, frequency = psutil.cpu_count() or 1, self._frequency()
        if before is None or now.at_s <= before.at_s:
            return MachineLoad(num_cpus)
        span_s = now.at_s - before.at_s
        others_s = (now.busy_s - before.busy_s) - (now.own_s - before.own_s)
        return MachineLoad(
            num_cpus,
            max(0.0, others_s / span_s),
            _rate(before.stolen_s, now.stolen_s, span_s * num_cpus),
            _rate(before.page_reads, now.page_reads, span_s),
            frequency,
            bool(_rate(before.throttles, now.throttles, span_s)),
            _is_on_battery(),
        )

    def _counters(self) -> _Counters:
        times, own = psutil.cpu_times(), self._process.cpu_times()
        idle_s = times.idle + getattr(times, "iowait", 0.0)
        guest_s = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)  # a part of user's time
        stolen_s = getattr(times, "steal", None)
        busy_s = sum(times) - idle_s - guest_s - (stolen_s or 0.0)
        return _Counters(self._clock(), busy_s, own.user + own.system, stolen_s, _page_reads(), _throttles())

    def _frequency(self) -> float | None:
        """The quickest core's: the others may well be asleep."""
        try:
            each = psutil.cpu_freq(percpu=True)
        except (OSError, NotImplementedError, AttributeError):
            return None
        mhz = max((core.current for core in each or ()), default=0.0)
        self._highest_mhz = max(self._highest_mhz, mhz)
        return mhz / self._highest_mhz if mhz else None


class MachineWatch(QObject):
    """Reads the meter once a second while ``watch(True)`` holds; ``load`` is the newest reading."""

    def __init__(self, io: IoThread, meter: LoadMeter | None = None) -> None:
        super().__init__()
        self._io = io
        self._meter = meter or LoadMeter()
        self._is_reading = False
        self.load = MachineLoad()
        self._timer = QTimer(self, interval=EVERY_MS)
        self._timer.timeout.connect(self._read)

    @property
    def is_watching(self) -> bool:
        return self._timer.isActive()

    def watch(self, is_on: bool) -> None:
        """Begin or stop; it costs nothing where no answer is being written."""
        if is_on and not self._timer.isActive():
            self.load = MachineLoad()
            self._timer.start()
            self._read()
        elif not is_on:
            self._timer.stop()

    def _read(self) -> None:
        if not self._is_reading:
            self._is_reading = True
            self._io.submit(self._meter.read, on_done=self._on_read, on_error=self._on_unread, lane=LANE)

    def _on_read(self, load: MachineLoad) -> None:
        self._is_reading, self.load = False, load

    def _on_unread(self, _: object) -> None:
        self._is_reading, self.load = False, MachineLoad()


def _rate(before: float | None, now: float | None, span_s: float) -> float | None:
    return None if before is None or now is None else max(0.0, (now - before) / span_s)


def _page_reads() -> int | None:
    """Page faults of this process that had to read; None under Windows, which counts all as one."""
    try:
        import resource
    except ImportError:
        return None
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_majflt)


def _throttles() -> int | None:
    try:
        return sum(int(file.read_text()) for file in _THROTTLES.glob("*_throttle_count"))
    except (OSError, ValueError):
        return None


def _is_on_battery() -> bool:
    try:
        battery = psutil.sensors_battery()
    except (OSError, NotImplementedError, AttributeError, ValueError):
        return False
    return battery is not None and battery.power_plugged is False
