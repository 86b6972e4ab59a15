"""What lies in slower memory than was meant for it: how much, and what it costs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.calibration import Calibration
from engine.fit import generic_bytes
from engine.fit.plan import plan
from engine.fit.speed import step_s
from engine.models.spec import read_spec
from engine.types import LoadPlan, LoadSpec
from tests.engine.fit.test_advice import spec_of, wish
from tests.engine.fit.test_devices import GB, GPU, machine
from tests.engine.models.generic_models import generic_folder

SPEC = spec_of(layers=12)


def on_gpu(free: int, **changes: object) -> LoadPlan:
    gpu = replace(GPU, free_bytes=free, total_bytes=free)
    return plan(SPEC, machine(gpu), wish(format="bf16", context=1024, **changes))


def test_what_lies_where_it_was_meant_to_spills_nothing() -> None:
    made = on_gpu(8 * GB)
    assert (made.verdict, made.spilled, made.slowdown) == ("fits", 0.0, 1.0)
    assert plan(SPEC, machine(), wish()).slowdown == 1.0


def test_layers_that_stay_on_the_processor_are_told_with_their_cost() -> None:
    whole = on_gpu(8 * GB)
    layers = [on_gpu(whole.devices[-1].bytes.total * part // 10) for part in (9, 7, 6)]
    assert [made.verdict for made in layers] == ["spills"] * 3
    assert [made.spilled for made in layers] == sorted(made.spilled for made in layers)
    assert [made.slowdown for made in layers] == sorted(made.slowdown for made in layers)
    for made in layers:
        part = 1 - made.devices[-1].bytes.weights / whole.devices[-1].bytes.weights
        assert made.spilled == pytest.approx(part)
        assert made.slowdown == pytest.approx(step_s(made, 512) / step_s(whole, 512))
        assert made.reasons[1].startswith(
            f"{100 * made.spilled:.0f}% of it spills: about {made.slowdown:.1f} "
        )


def test_layers_that_were_asked_to_stay_spill_too_and_a_processor_that_was_chosen_does_not() -> None:
    assert on_gpu(8 * GB, gpu_layers=6).spilled == pytest.approx(0.5, abs=0.05)
    assert on_gpu(8 * GB, gpu_layers=0).spilled == 0.0
    assert on_gpu(8 * GB, device="cpu").verdict == "fits"


def test_layers_on_the_disk_spill(tmp_path: Path) -> None:
    spec = read_spec(str(generic_folder(tmp_path / "m", "qwen3_moe")))
    asked = LoadSpec(spec.path, format="f32", context=128)
    calibration = Calibration(read_gbps=20.0, disk_gbps=0.5)
    hardware = replace(machine(ram_free=GB), calibration=calibration)
    whole = plan(spec, hardware, asked)
    need = whole.bytes.total - whole.bytes.overhead
    made = plan(spec, replace(hardware, ram_free_bytes=need - 1), asked)
    assert (whole.verdict, made.verdict, made.disk_layers) == ("fits", "spills", 2)
    away = sum(generic_bytes.layer_bytes(spec, "f32")[-2:])
    assert made.spilled == pytest.approx(away / whole.bytes.weights)
    assert made.slowdown > 1.0
    assert any("stay on the disk" in reason for reason in made.reasons)
