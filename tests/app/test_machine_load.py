"""What the machine does beside the program: differences of counters, nothing where there are none."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import psutil
import pytest
from pytestqt.qtbot import QtBot

from app import machine_load
from app.io_thread import IoThread
from app.machine_load import LoadMeter, MachineLoad, MachineWatch


class Times(NamedTuple):
    user: float
    system: float
    idle: float
    iowait: float = 0.0
    steal: float = 0.0
    guest: float = 0.0


class Machine:
    """Counters as a test wants them, in seconds since the start."""

    def __init__(self) -> None:
        self.now_s, self.times, self.own_s, self.mhz = 0.0, Times(0, 0, 0), 0.0, 3000.0
        self.page_reads: int | None = 5

    def cpu_times(self) -> Times:
        return self.times


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    process = SimpleNamespace(cpu_times=lambda: SimpleNamespace(user=made.own_s, system=0.0))
    monkeypatch.setattr(psutil, "Process", lambda: process)
    monkeypatch.setattr(psutil, "cpu_times", made.cpu_times)
    monkeypatch.setattr(psutil, "cpu_count", lambda: 4)
    slow = SimpleNamespace(current=800.0)
    monkeypatch.setattr(psutil, "cpu_freq", lambda percpu: [slow, SimpleNamespace(current=made.mhz)])
    monkeypatch.setattr(psutil, "sensors_battery", lambda: None, raising=False)
    monkeypatch.setattr(machine_load, "_page_reads", lambda: made.page_reads)
    monkeypatch.setattr(machine_load, "_throttles", lambda: None)
    return made


@pytest.fixture
def meter(machine: Machine) -> LoadMeter:
    made = LoadMeter(lambda: machine.now_s)
    assert made.read() == MachineLoad(4)  # the first reading is of no time yet
    return made


def test_what_others_use_is_all_that_is_busy_less_our_own(machine: Machine, meter: LoadMeter) -> None:
    machine.now_s, machine.own_s = 2.0, 3.0
    machine.times = Times(user=4.0, system=0.5, idle=3.0, iowait=0.5, guest=0.2)
    found = meter.read()
    assert found.other_cpus == pytest.approx((4.5 - 3.0) / 2)
    assert found.stolen == 0.0


def test_stolen_time_is_a_share_of_all_processors(machine: Machine, meter: LoadMeter) -> None:
    machine.now_s, machine.times = 2.0, Times(4, 0, 3, steal=1.0)
    found = meter.read()
    assert found.stolen == pytest.approx(1 / 8)
    assert found.other_cpus == pytest.approx(2.0)


def test_faults_are_told_a_second(machine: Machine, meter: LoadMeter) -> None:
    machine.now_s, machine.page_reads = 2.0, 605
    assert meter.read().page_reads == pytest.approx(300)
    machine.now_s, machine.page_reads = 4.0, None
    assert meter.read().page_reads is None


def test_the_frequency_is_the_quickest_cores_beside_the_highest_seen(
    machine: Machine, meter: LoadMeter
) -> None:
    machine.now_s = 1.0
    assert meter.read().frequency == 1.0
    machine.now_s, machine.mhz = 2.0, 2100.0
    assert meter.read().frequency == pytest.approx(0.7)


def test_a_machine_without_readable_frequencies_has_none(
    machine: Machine, meter: LoadMeter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(**_: Any) -> None:
        raise NotImplementedError

    monkeypatch.setattr(psutil, "cpu_freq", unreadable)
    machine.now_s = 1.0
    assert meter.read().frequency is None
    monkeypatch.setattr(psutil, "cpu_freq", lambda percpu: [])
    machine.now_s = 2.0
    assert meter.read().frequency is None


def test_battery_and_throttling_are_told_where_they_can_be_read(
    machine: Machine, meter: LoadMeter, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = iter((3, 4, 4))
    monkeypatch.setattr(machine_load, "_throttles", lambda: next(counts))
    monkeypatch.setattr(psutil, "sensors_battery", lambda: SimpleNamespace(power_plugged=False))
    found = []
    for machine.now_s in (1.0, 2.0, 3.0):
        found.append(meter.read())
    assert [load.has_throttled for load in found] == [False, True, False]
    assert all(load.is_on_battery for load in found)


def test_this_machine_can_be_read() -> None:
    meter = LoadMeter()
    meter.read()
    found = meter.read()
    assert found.num_cpus >= 1
    assert found.other_cpus is None or found.other_cpus >= 0.0


@pytest.fixture
def io(qtbot: QtBot) -> Iterator[IoThread]:
    made = IoThread()
    yield made
    made.stop()


def test_the_watch_reads_off_the_window_and_only_while_it_is_on(
    qtbot: QtBot, io: IoThread, machine: Machine, meter: LoadMeter
) -> None:
    watch = MachineWatch(io, meter)
    machine.now_s, machine.times = 1.0, Times(2, 0, 2)
    watch.watch(True)
    qtbot.waitUntil(lambda: watch.load.other_cpus == 2.0)
    watch.watch(False)
    assert not watch.is_watching
    watch.watch(True)
    assert watch.load == MachineLoad()  # what was read before the pause says nothing of now
