"""What torch tells of accelerators, recorded: none, one, several, and those that tell nothing."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from engine.errors import WishError
from engine.fit.plan import plan
from engine.hardware import gpus
from engine.hardware.gpus import GpuProbe
from engine.machine import Gpu, Hardware
from engine.types import LoadPlan, LoadSpec
from tests.fakes import make_spec

GB = 10**9
HARDWARE = Hardware("A processor", 2, 16 * GB, 8 * GB, gpus=None)
FORMATS = ("f32", "bf16", "f16", "int4g32", "int8row")


@dataclass
class Driver:
    """What stands behind torch.accelerator, as this test says it is."""

    kind: str = "cuda"
    names: tuple[str, ...] = ()
    memory: dict[str, tuple[int, int]] = field(default_factory=dict)  # by device: free, total
    kept: int = 0
    properties: SimpleNamespace | None = None
    looked: int = 0

    def current_accelerator(self, check_available: bool) -> torch.device | None:
        assert check_available
        self.looked += 1
        return torch.device(self.kind) if self.names else None

    def device_count(self) -> int:
        return len(self.names)

    def get_memory_info(self, device: str) -> tuple[int, int]:
        if device not in self.memory:
            raise RuntimeError("The allocator on this device tells nothing")
        return self.memory[device]

    def memory_reserved(self, device: str) -> int:
        return self.kept

    def get_device_properties(self, index: int) -> SimpleNamespace:
        if self.properties is None:
            raise RuntimeError("no properties")
        return self.properties

    def get_device_name(self, index: int) -> str:
        if not self.names[index]:
            raise RuntimeError("no name")
        return self.names[index]


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    made = Driver()
    monkeypatch.setattr(torch, "accelerator", made)
    monkeypatch.setattr(torch, "get_device_module", lambda _: made)
    monkeypatch.setattr(gpus, "computed_formats", lambda device: FORMATS)
    return made


def test_a_machine_without_an_accelerator_has_none(driver: Driver) -> None:
    assert GpuProbe().read() == ()


def test_one_gpu_is_told_with_its_memory(driver: Driver) -> None:
    driver.names, driver.memory = ("NVIDIA  RTX 9000",), {"cuda:0": (20 * GB, 24 * GB)}
    found = Gpu(0, "NVIDIA RTX 9000", "cuda", 24 * GB, 20 * GB, FORMATS, own_bytes=0)
    assert GpuProbe().read() == (found,)


def test_several_gpus_are_told_in_order_and_one_may_be_unreadable(driver: Driver) -> None:
    driver.names, driver.memory = ("A", ""), {"cuda:0": (1, 2)}
    first, second = GpuProbe().read()
    assert (first.device, first.name, first.free_bytes) == ("cuda:0", "A", 1)
    assert (second.device, second.name, second.total_bytes, second.free_bytes) == (
        "cuda:1",
        "CUDA 1",
        None,
        None,
    )


def test_rocm_is_told_from_cuda_though_torch_calls_both_so(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.names = ("AMD Radeon",)
    monkeypatch.setattr(torch.version, "hip", "6.4")
    (gpu,) = GpuProbe().read()
    assert (gpu.kind, gpu.device) == ("rocm", "cuda:0")


def test_apples_gpu_has_what_the_system_lets_a_program_have(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.kind, driver.names = "mps", ("",)
    monkeypatch.setattr(torch.mps, "recommended_max_memory", lambda: 12 * GB)
    monkeypatch.setattr(gpus, "ram_bytes", lambda: (16 * GB, 14 * GB))
    found = Gpu(0, "Apple GPU", "mps", 12 * GB, 12 * GB, FORMATS, own_bytes=0, is_unified=True)
    assert GpuProbe().read() == (found,)
    monkeypatch.setattr(gpus, "ram_bytes", lambda: (16 * GB, 5 * GB))
    assert GpuProbe().read() == (replace(found, free_bytes=5 * GB),)


def test_a_gpu_in_the_processor_has_the_systems_memory_not_the_drivers(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:  # B054, B099: the driver of a DGX Spark counts what files keep as used
    driver.names, driver.memory, driver.kept = ("NVIDIA GB10",), {"cuda:0": (20 * GB, 128 * GB)}, 2 * GB
    driver.properties = SimpleNamespace(uuid="b1d1", is_integrated=1)
    monkeypatch.setattr(gpus, "ram_bytes", lambda: (120 * GB, 100 * GB))
    (gpu,) = GpuProbe().read()
    assert (gpu.is_unified, gpu.total_bytes, gpu.free_bytes) == (True, 120 * GB, 102 * GB)
    monkeypatch.setattr(gpus, "ram_bytes", lambda: (None, None))
    assert GpuProbe().read()[0].free_bytes == 128 * GB


@pytest.mark.parametrize("carved", [True, False])
def test_memory_that_is_set_aside_for_amds_gpu_is_its_own(
    carved: bool, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:  # B054, B104: 96 GB of 128 are carved out, the system sees 32 and has 31 left
    driver.names, driver.memory = ("AMD Radeon 8060S",), {"cuda:0": (95 * GB, 96 * GB)}
    driver.properties = SimpleNamespace(uuid="", is_integrated=True)
    monkeypatch.setattr(torch.version, "hip", "6.4")
    monkeypatch.setattr(gpus, "has_vram", lambda nbytes: carved and nbytes == 96 * GB)
    monkeypatch.setattr(gpus, "ram_bytes", lambda: (32 * GB, 31 * GB))
    (gpu,) = GpuProbe().read()
    assert (gpu.uuid, gpu.shares_ram) == (None, not carved)
    assert (gpu.total_bytes, gpu.free_bytes) == ((96 * GB, 95 * GB) if carved else (32 * GB, 31 * GB))


def test_hidden_and_sliced_devices_are_as_torch_shows_them(driver: Driver) -> None:  # B100
    # CUDA_VISIBLE_DEVICES=MIG-…: one device, with the slice's memory and the slice's UUID
    driver.names, driver.memory = ("NVIDIA A100 80GB PCIe MIG 1g.10gb",), {"cuda:0": (9 * GB, 10 * GB)}
    driver.properties = SimpleNamespace(uuid="c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f", is_integrated=0)
    (gpu,) = GpuProbe().read()
    assert (gpu.total_bytes, gpu.free_bytes, gpu.shares_ram) == (10 * GB, 9 * GB, False)
    assert gpu.uuid == "c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f"


def test_what_torch_keeps_for_this_program_is_free_for_the_next_model(driver: Driver) -> None:
    driver.names, driver.memory, driver.kept = ("A",), {"cuda:0": (4 * GB, 24 * GB)}, 16 * GB
    assert GpuProbe().read()[0].free_bytes == 20 * GB


def test_devices_are_looked_for_once_and_free_memory_again_and_again(driver: Driver) -> None:
    driver.names, driver.memory = ("A",), {"cuda:0": (2, 4)}
    probe = GpuProbe()
    assert probe.read()[0].free_bytes == 2
    driver.memory["cuda:0"] = (1, 4)
    assert probe.read()[0].free_bytes == 1
    assert driver.looked == 1


def test_a_driver_that_fails_or_warns_is_no_gpu(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(check_available: bool) -> torch.device:
        warnings.warn("the driver is too old", stacklevel=1)
        raise RuntimeError("CUDA driver initialization failed")

    monkeypatch.setattr(driver, "current_accelerator", fail)
    assert GpuProbe().read() == ()


def made_for(device: str = "auto", format: str = "bf16") -> LoadPlan:
    spec = make_spec()
    return plan(spec, HARDWARE, LoadSpec(spec.path, format=format, device=device))


def test_a_plan_from_before_anybody_looked_is_made_anew_for_what_is_there(driver: Driver) -> None:
    made = replace(made_for(), max_sequences=3)
    assert made.device == "cpu"
    driver.names, driver.memory = ("A",), {"cuda:0": (20 * GB, 24 * GB)}
    settled = GpuProbe().settle(made)
    assert (settled.device, settled.gpu_layers, settled.max_sequences) == ("cuda:0", 2, 3)


def test_a_plan_without_gpus_stays_as_it_is_but_for_that_knowledge(driver: Driver) -> None:
    made = replace(made_for(), prefill_piece=7)
    assert GpuProbe().settle(made) == replace(made, hardware=replace(HARDWARE, gpus=()))


def test_a_plan_for_the_processor_looks_for_nothing(driver: Driver) -> None:
    made = made_for("cpu")
    driver.names, driver.memory = ("A",), {"cuda:0": (20 * GB, 24 * GB)}
    assert GpuProbe().settle(made).device == "cpu"


def test_a_device_that_is_not_here_is_refused_with_those_that_are(driver: Driver) -> None:
    driver.names, driver.memory = ("A",), {"cuda:0": (20 * GB, 24 * GB)}
    with pytest.raises(WishError, match=r"'mps' is not here.*auto, cpu or cuda:0"):
        GpuProbe().settle(made_for("mps"))
    driver.names = ()
    with pytest.raises(WishError, match="Choose auto or cpu"):
        GpuProbe().settle(made_for("cuda:0"))
    with pytest.raises(WishError, match="NVIDIA GPUs"):
        GpuProbe().settle(made_for(format="llm-int8"))


def test_looking_at_this_machine_works_whatever_it_has(tmp_path: Path) -> None:
    for gpu in GpuProbe().read():
        assert "f32" in gpu.formats
        assert torch.zeros(1, device=gpu.device).device.type == gpu.device.partition(":")[0]
