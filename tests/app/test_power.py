"""Watts from counters: of the right state, of the right device, and none that nobody has told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytestqt.qtbot import QtBot

from app.cost import Power
from app.io_thread import IoThread
from app.power import PowerMeter, PowerRecord, Sample
from engine.machine import Gpu, GpuReading

GPU = Gpu(0, "A GPU", "cuda", 8_000_000_000, 8_000_000_000)


class Counter:
    """A counter that the test moves."""

    def __init__(self) -> None:
        self.joules: float | None = 0.0
        self.calls = 0

    def read_j(self) -> float | None:
        self.calls += 1
        return self.joules

    def read(self, gpus: tuple[Gpu, ...]) -> tuple[GpuReading, ...]:
        self.calls += 1
        return tuple(
            GpuReading(gpu.device, gpu.name, energy_j=self.joules, power_w=7.0, temperature_c=50.0)
            for gpu in gpus
        )


def test_energy_over_time_is_power_of_the_state_it_was_used_in() -> None:
    record = PowerRecord()
    for at_s, joules, is_busy in (
        (0.0, 0.0, False),
        (1.0, 5.0, False),
        (2.0, 11.0, True),  # began somewhere in this second: counts for neither
        (3.0, 41.0, True),
        (5.0, 101.0, True),
        (6.0, 105.0, False),
        (7.0, 112.0, False),
    ):
        record.take(Sample(at_s, joules), is_busy)
    assert list(record.rest) == [5.0, 7.0]
    assert list(record.busy) == [30.0, 30.0]
    assert record.power == Power(30.0, 6.0)
    assert record.now_w == 7.0


def test_a_counter_that_stops_telling_gives_no_watts() -> None:
    record = PowerRecord()
    for at_s, joules in ((0.0, 1.0), (1.0, None), (2.0, 50.0)):
        record.take(Sample(at_s, joules), True)
        assert record.now_w is None
    assert record.power == Power()


def test_watts_of_a_gpu_that_counts_no_energy_are_taken_as_they_are() -> None:
    record = PowerRecord()
    record.take(Sample(0.0, None, 20.0), True)
    record.take(Sample(1.0, None, 22.0), True)
    assert record.power.busy_w == 22.0


@pytest.fixture
def io() -> Iterator[IoThread]:
    made = IoThread()
    yield made
    made.stop()


def test_where_nothing_tells_of_energy_nothing_is_read_again(qtbot: QtBot, io: IoThread) -> None:
    counter = Counter()
    counter.joules = None
    meter = PowerMeter(io, lambda: False, tuple, counter, counter)
    with qtbot.waitSignal(meter.changed):
        meter.restart()
    assert not meter.is_on
    assert counter.calls == 1
    assert meter.record.power == Power()


def test_another_model_begins_anew(qtbot: QtBot, io: IoThread) -> None:
    counter, now = Counter(), [0.0]
    meter = PowerMeter(io, lambda: True, tuple, counter, counter, lambda: now[0])
    for _ in range(3):
        with qtbot.waitSignal(meter.changed):
            meter.read()
        now[0] += 1.0
        counter.joules = (counter.joules or 0.0) + 12.0
    assert meter.record.power.busy_w == pytest.approx(12.0)
    with qtbot.waitSignal(meter.changed):
        meter.restart()
    assert meter.record.power == Power()
    assert meter.is_on


def test_a_model_on_gpus_is_measured_there(qtbot: QtBot, io: IoThread) -> None:
    counter, now = Counter(), [0.0]
    meter = PowerMeter(io, lambda: True, lambda: (GPU, GPU), counter, counter, lambda: now[0])
    for _ in range(2):
        with qtbot.waitSignal(meter.changed):
            meter.read()
        now[0] += 2.0
        counter.joules = 30.0
    assert meter.record.power.busy_w == pytest.approx(30.0)  # of both
    assert [each.temperature_c for each in meter.gpus] == [50.0, 50.0]
