"""Live readings: each value by itself, unknown where a card does not tell it, and no card woken for them."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.hardware import amdgpu, sensors
from engine.hardware.sensors import GpuSensors
from engine.machine import Gpu, GpuReading
from tests.engine.hardware import fake_nvml
from tests.engine.hardware.fake_nvml import GIB, ErrorCode, FakeNvml

UUID = "b1d1a5c2-0000-4a4e-9e5c-3f0a2f6d7b11"
CARD = Gpu(0, "NVIDIA GeForce RTX 3090", "cuda", 24 * GIB, 22 * GIB, uuid=UUID, own_bytes=11 * GIB)


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeNvml:
    """The library of a machine whose cards are awake."""
    made = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", made)
    monkeypatch.setattr(sensors, "_PCI", tmp_path / "pci")
    return made


def read(gpu: Gpu, clock: Clock) -> GpuReading:
    (found,) = GpuSensors(clock).read((gpu,))
    return found


def test_a_card_at_work_tells_everything(nvml: FakeNvml, clock: Clock) -> None:
    nvml.cards = {f"GPU-{UUID}": fake_nvml.RTX_3090}
    assert read(CARD, clock) == GpuReading(
        "cuda:0",
        "NVIDIA GeForce RTX 3090",
        total_bytes=24 * GIB,
        free_bytes=10 * GIB,
        used_by_others_bytes=2 * GIB,  # of 14 in use 12 are this process's
        spilled_bytes=0,
        power_w=pytest.approx(287.412),
        temperature_c=67,
        energy_j=pytest.approx(8_231_004.551),
        utilization=pytest.approx(0.93),
        driver="580.65.06",
    )


@pytest.mark.parametrize(
    "hidden", ["GetPowerUsage", "GetTemperature", "GetUtilizationRates", "GetMemoryInfo"]
)
def test_one_value_that_is_not_told_costs_no_other(hidden: str, nvml: FakeNvml, clock: Clock) -> None:  # B099
    nvml.cards = {f"GPU-{UUID}": fake_nvml.RTX_3090}
    whole = read(CARD, clock)
    nvml.cards = {f"GPU-{UUID}": fake_nvml.RTX_3090 | {hidden: ErrorCode(fake_nvml.NOT_SUPPORTED)}}
    lacking = read(CARD, clock)
    names = {
        "GetPowerUsage": {"power_w"},
        "GetTemperature": {"temperature_c"},
        "GetUtilizationRates": {"utilization"},
        "GetMemoryInfo": {"free_bytes", "used_by_others_bytes", "spilled_bytes"},
    }[hidden]
    for name in GpuReading.__slots__:
        expected = getattr(whole, name) if name not in names else None
        if name == "free_bytes" and name in names:
            expected = CARD.free_bytes  # torch's word, from when it looked
        assert getattr(lacking, name) == expected, name


@pytest.mark.parametrize("card", [fake_nvml.GB10, fake_nvml.ORIN])
def test_unified_memory_is_the_systems_and_never_zero(
    card: fake_nvml.Card, nvml: FakeNvml, clock: Clock
) -> None:  # B099
    nvml.cards = {f"GPU-{UUID}": card}
    shared = replace(CARD, total_bytes=120 * GIB, free_bytes=90 * GIB, is_unified=True)
    found = read(shared, clock)
    assert (found.total_bytes, found.free_bytes) == (120 * GIB, 90 * GIB)
    assert found.used_by_others_bytes is None
    assert found.temperature_c == 41
    assert found.energy_j is None
    assert "computer's" in found.note


def test_a_virtual_machine_that_hides_power_shows_none(nvml: FakeNvml, clock: Clock) -> None:
    nvml.cards = {f"GPU-{UUID}": fake_nvml.PASSIVE_T4}
    found = read(CARD, clock)
    assert (found.power_w, found.energy_j, found.temperature_c) == (None, None, 67)


@pytest.mark.parametrize("is_installed", [True, False])
def test_without_the_library_nothing_is_told_and_it_is_looked_for_once(
    is_installed: bool, nvml: FakeNvml, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:  # B097
    tries: list[str] = []
    real = builtins.__import__

    def spy(name: str, *rest: Any) -> Any:
        if name == "pynvml":
            tries.append(name)
            if not is_installed:
                raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", spy)
    nvml.init = ErrorCode(fake_nvml.LIBRARY_NOT_FOUND)
    watching = GpuSensors(clock)
    for _ in range(5):
        (found,) = watching.read((CARD,))
        clock.now += 60
    assert found == GpuReading("cuda:0", CARD.name, 24 * GIB, 22 * GIB, note=found.note)
    assert found.note.startswith("No NVIDIA sensor")
    assert len(tries) == 1
    assert nvml.calls == (["nvmlInit"] if is_installed else [])


def test_a_stub_of_the_library_that_fails_is_no_sensor(nvml: FakeNvml, clock: Clock) -> None:  # B097
    nvml.init = ErrorCode(fake_nvml.UNKNOWN)
    found = read(CARD, clock)
    assert (found.power_w, found.total_bytes) == (None, 24 * GIB)
    assert found.note == "NVIDIA's sensors tell nothing: Unknown Error."


def test_a_driver_that_was_updated_is_one_note_and_is_tried_again_later(
    nvml: FakeNvml, clock: Clock
) -> None:  # B098
    nvml.cards = {f"GPU-{UUID}": fake_nvml.RTX_3090}
    nvml.init = ErrorCode(fake_nvml.MISMATCH)
    watching = GpuSensors(clock)
    for _ in range(10):
        (found,) = watching.read((CARD,))
        clock.now += 1
    assert "Restart the computer." in found.note
    assert nvml.calls.count("nvmlInit") == 1
    nvml.init = None
    clock.now += 60
    (found,) = watching.read((CARD,))
    assert (found.note, found.temperature_c) == ("", 67)


def test_a_gpu_that_is_lost_shows_nothing_until_it_is_back(nvml: FakeNvml, clock: Clock) -> None:  # B098
    watching, lost = GpuSensors(clock), ErrorCode(fake_nvml.LOST)
    nvml.cards = {f"GPU-{UUID}": fake_nvml.RTX_3090}
    assert watching.read((CARD,))[0].temperature_c == 67
    nvml.cards = {f"GPU-{UUID}": fake_nvml.RTX_3090 | {"GetHandleByUUID": lost}}
    clock.now += 1
    (found,) = watching.read((CARD,))
    assert (found.temperature_c, found.power_w) == (None, None)
    assert "lost" in found.note
    nvml.cards = {f"GPU-{UUID}": fake_nvml.RTX_3090}
    clock.now += 60
    assert watching.read((CARD,))[0].temperature_c == 67


def test_numbers_that_cannot_be_are_not_shown(nvml: FakeNvml, clock: Clock) -> None:  # B098
    odd = {"GetMemoryInfo": fake_nvml.memory(24 * GIB, -GIB), "GetPowerUsage": -1}
    nvml.cards = {f"GPU-{UUID}": fake_nvml.RTX_3090 | odd}
    found = read(CARD, clock)
    assert (found.free_bytes, found.used_by_others_bytes, found.power_w) == (None, None, None)


def test_calls_that_an_old_library_lacks_are_unknown(nvml: FakeNvml, clock: Clock) -> None:  # B098
    nvml.cards = {f"GPU-{UUID}": {"GetMemoryInfo": fake_nvml.memory(24 * GIB, 20 * GIB)}}
    found = read(CARD, clock)
    assert (found.free_bytes, found.temperature_c, found.utilization) == (20 * GIB, None, None)
    assert found.used_by_others_bytes == 0  # 4 are in use, 11 are ours by torch's count


def test_a_slice_has_its_own_memory_and_no_utilization(nvml: FakeNvml, clock: Clock) -> None:  # B100
    nvml.cards = {f"MIG-{UUID}": fake_nvml.MIG_SLICE, "A100": fake_nvml.A100}
    gpu = replace(CARD, name="NVIDIA A100 MIG 1g.10gb", total_bytes=10 * GIB, free_bytes=9 * GIB, own_bytes=0)
    found = read(gpu, clock)
    assert (found.total_bytes, found.free_bytes) == (10 * GIB, 9 * GIB)
    assert found.used_by_others_bytes == GIB // 2
    assert found.utilization is None
    assert "MIG" in found.note
    assert found.power_w == pytest.approx(118)  # of the whole card: a slice has none


def test_a_slice_that_goes_by_its_cards_name_is_not_taken_for_the_card(
    nvml: FakeNvml, clock: Clock
) -> None:  # B100
    nvml.cards = {f"GPU-{UUID}": fake_nvml.A100}
    found = read(replace(CARD, total_bytes=10 * GIB, free_bytes=9 * GIB), clock)
    assert (found.total_bytes, found.free_bytes) == (10 * GIB, 9 * GIB)
    assert (found.utilization, found.used_by_others_bytes) == (None, None)


def test_memory_that_windows_has_put_into_ram_is_seen(nvml: FakeNvml, clock: Clock) -> None:  # B055
    nvml.cards = {f"GPU-{UUID}": fake_nvml.LAPTOP_WDDM}
    small = replace(CARD, total_bytes=8 * GIB, free_bytes=300 << 20)
    within = read(replace(small, own_bytes=6 * GIB), clock)
    assert within.spilled_bytes == 0
    over = read(replace(small, own_bytes=9 * GIB), clock)
    assert over.spilled_bytes == 9 * GIB - (8 * GIB - (300 << 20))


def test_gauges_that_ask_often_get_two_readings_a_second(nvml: FakeNvml, clock: Clock) -> None:
    nvml.cards = {f"GPU-{UUID}": fake_nvml.RTX_3090}
    watching = GpuSensors(clock)
    for _ in range(100):
        watching.read((CARD,))
        clock.now += 0.015625  # exact in binary
    assert nvml.calls.count("nvmlDeviceGetTemperature") == 4  # in 1.5625 s
    watching.read((replace(CARD, index=1),))
    assert nvml.calls.count("nvmlDeviceGetTemperature") == 5  # another card's figures are never old ones


def pci(root: Path, name: str, vendor: str, kind: str, status: str) -> None:
    folder = root / "pci" / name
    (folder / "power").mkdir(parents=True)
    (folder / "vendor").write_text(f"{vendor}\n")
    (folder / "class").write_text(f"{kind}\n")
    (folder / "power" / "runtime_status").write_text(f"{status}\n")


def test_a_card_that_sleeps_is_left_asleep_unless_a_model_is_on_it(
    nvml: FakeNvml, clock: Clock, tmp_path: Path
) -> None:  # B103
    nvml.cards = {f"GPU-{UUID}": fake_nvml.RTX_3090}
    pci(tmp_path, "0000:00:02.0", "0x8086", "0x030000", "active")
    pci(tmp_path, "0000:01:00.0", "0x10de", "0x030000", "suspended")
    pci(tmp_path, "0000:01:00.1", "0x10de", "0x040300", "active")  # its sound
    watching = GpuSensors(clock)
    (found,) = watching.read((replace(CARD, own_bytes=0),))
    assert (found.note, found.power_w) == ("The GPU sleeps.", None)
    assert nvml.calls == []
    clock.now += 1
    assert watching.read((CARD,))[0].temperature_c == 67
    clock.now += 1
    watching.read((replace(CARD, own_bytes=None),))
    assert nvml.calls[-1] == "nvmlShutdown"  # an open handle would keep it awake


def amd(root: Path, card: str, **files: str) -> None:
    device = root / card / "device"
    (device / "hwmon" / "hwmon3").mkdir(parents=True)
    for name, text in files.items():
        place = device / "hwmon" / "hwmon3" if name in ("temp1_input", "power1_average") else device
        (place / name).write_text(f"{text}\n")


@pytest.fixture
def amd_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    monkeypatch.setattr(amdgpu, "_CARDS", tmp_path)
    return lambda card, **files: amd(tmp_path, card, **files)


def test_amds_card_tells_through_linux(amd_files: Callable[..., None], clock: Clock) -> None:  # B104
    carved = 96 * GIB
    amd_files(
        "card1",
        mem_info_vram_total=str(carved),
        mem_info_vram_used=str(40 * GIB),
        mem_info_gtt_total=str(16 * GIB),
        gpu_busy_percent="50",
        temp1_input="55000",
        power1_average="80500000",
    )
    gpu = Gpu(0, "AMD Radeon 8060S", "rocm", carved, 50 * GIB, own_bytes=38 * GIB)
    found = read(gpu, clock)
    assert (found.total_bytes, found.free_bytes, found.used_by_others_bytes) == (carved, 56 * GIB, 2 * GIB)
    assert (found.power_w, found.temperature_c, found.utilization) == (pytest.approx(80.5), 55, 0.5)
    assert amdgpu.has_vram(carved)
    assert not amdgpu.has_vram(16 * GIB)


def test_of_two_equal_amd_cards_nobody_knows_which(amd_files: Callable[..., None], clock: Clock) -> None:
    gpu = Gpu(0, "AMD Radeon", "rocm", 16 * GIB, 15 * GIB)
    for card in ("card0", "card1"):
        amd_files(card, mem_info_vram_total=str(16 * GIB), temp1_input="40000")
    assert read(gpu, clock) == GpuReading("cuda:0", "AMD Radeon", 16 * GIB, 15 * GIB)


def test_amd_files_that_say_nothing_are_unknown(amd_files: Callable[..., None], clock: Clock) -> None:
    amd_files("card0", mem_info_vram_total=str(16 * GIB), temp1_input="N/A", power1_average="")
    found = read(Gpu(0, "AMD Radeon", "rocm", 16 * GIB, 15 * GIB), clock)
    assert (found.temperature_c, found.power_w, found.free_bytes) == (None, None, 15 * GIB)


@pytest.mark.parametrize("kind", ["mps", "xpu"])
def test_other_gpus_show_what_torch_knows(kind: str, clock: Clock) -> None:
    gpu = Gpu(0, "A GPU", kind, 16 * GIB, 12 * GIB)
    found = read(gpu, clock)
    assert (found.total_bytes, found.free_bytes, found.power_w) == (16 * GIB, 12 * GIB, None)
