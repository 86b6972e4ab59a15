"""What plans are made from: the probed machine, and what the engine says of it again and again."""

from __future__ import annotations

from dataclasses import replace

from app.room import Room
from engine.calibration import Calibration
from engine.events import MemoryReport
from engine.machine import Gpu
from engine.types import MemoryParts
from tests.fakes import HARDWARE

GPU = Gpu(0, "A GPU", "cuda", 8_000, 6_000)
REPORT = MemoryReport(
    weights_bytes=1_000,
    kv_reserved_bytes=400,
    kv_used_bytes=100,
    working_bytes=50,
    overhead_bytes=0,
    rss_bytes=0,
    ram_total_bytes=10_000,
    ram_free_bytes=5_000,
    kv_used_tokens=10,
)


def test_nothing_is_known_of_gpus_before_the_engine_has_looked() -> None:
    room = Room()
    assert room.hardware is None
    room.probed = replace(HARDWARE, gpus=None)
    assert room.hardware is not None and room.hardware.gpus is None
    room.take(replace(REPORT, gpus=(GPU,)), is_loading=False)
    assert (room.hardware.gpus, room.hardware.ram_free_bytes) == ((GPU,), 5_000)
    room.take(replace(REPORT, ram_free_bytes=None), is_loading=False)
    assert (room.hardware.gpus, room.hardware.ram_free_bytes) == ((), HARDWARE.ram_free_bytes)


def test_a_loaded_model_gives_back_what_it_has_in_the_processors_memory() -> None:
    room = Room()
    assert room.held_bytes == 0
    room.take(REPORT, is_loading=False)
    assert room.held_bytes == 1_000 + 100 + 50
    away = MemoryParts(weights=900, kv_reserved=300, working=30, overhead=7)
    room.take(replace(REPORT, on_gpus=away), is_loading=False)
    assert room.held_bytes == 100 + 25 + 20
    whole = MemoryParts(weights=1_000, kv_reserved=400, working=60)
    room.take(replace(REPORT, on_gpus=whole), is_loading=False)
    assert room.held_bytes == 0


def test_what_a_load_measured_is_known_from_then_on() -> None:
    room = Room()
    room.probed = HARDWARE
    room.learn(replace(HARDWARE, best_threads=3))
    assert room.probed.best_threads == 3


def test_the_newest_speed_of_the_machine_is_known_and_no_load_forgets_it() -> None:
    room = Room()
    room.calibrate(Calibration(40.0))
    assert room.probed is None
    room.probed = HARDWARE
    room.calibrate(Calibration(50.0))
    room.learn(HARDWARE)
    assert room.probed.calibration == Calibration(50.0)
    room.learn(replace(HARDWARE, calibration=Calibration(60.0)))
    assert room.probed.calibration == Calibration(60.0)
