"""A draft model in a plan: on its target's device, with what is left, and counted once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.fit.devices import gpu_parts, sum_parts
from engine.fit.plan import plan, replanned, without_draft
from engine.machine import Hardware
from engine.types import LoadPlan, LoadSpec, MemoryParts
from tests.engine.fit.test_devices import GB, GPU, machine, make

TARGET, DRAFT = make(layers=12), replace(make(layers=2), path="/models/draft.gguf", name="draft")


def made_for(hardware: Hardware, **wish: object) -> LoadPlan:
    options = {"format": "bf16", "context": 1024} | wish
    return plan(TARGET, hardware, LoadSpec(TARGET.path, **options), draft=DRAFT)  # type: ignore[arg-type]


def alone(hardware: Hardware, **wish: object) -> LoadPlan:
    return without_draft(made_for(hardware, **wish))


@pytest.mark.parametrize("hardware", [machine(), machine(GPU)], ids=["processor", "GPU"])
def test_the_bytes_are_those_of_both_on_the_same_device(hardware: Hardware) -> None:
    made, target = made_for(hardware), alone(hardware)
    draft = made.draft
    assert draft is not None and target.draft is None
    assert draft.device == made.device == target.device
    assert (draft.context, draft.threads) == (made.context, made.threads)
    assert draft.format == "file"
    assert made.bytes == sum_parts(made.devices)
    for name in ("weights", "kv_reserved", "working", "overhead"):
        assert getattr(made.bytes, name) == getattr(target.bytes, name) + getattr(draft.bytes, name)
    assert draft.bytes.overhead == 0  # the runtime is there already
    for share, before, added in zip(made.devices, target.devices, draft.devices, strict=True):
        assert share.spare_bytes == (before.spare_bytes or 0) - added.bytes.total
    assert gpu_parts(made).weights == (0 if made.device == "cpu" else made.bytes.weights)
    assert (made.weight_bits, made.gpu_layers) == (target.weight_bits, target.gpu_layers)


def test_a_draft_model_that_does_not_fit_beside_its_target_is_no_fit() -> None:
    target = alone(machine(ram_free=8 * GB))
    draft = made_for(machine(ram_free=8 * GB)).draft
    assert draft is not None
    need = target.bytes.total - target.bytes.overhead
    for free, fits in ((need + draft.bytes.total, True), (need + draft.bytes.total - 1, False)):
        made = made_for(machine(ram_free=free))
        assert (made.verdict != "no") is fits
        assert alone(machine(ram_free=free)).verdict != "no"
    assert "short" in made.reasons[0]
    assert "draft" in made.reasons[1]


def test_a_draft_model_takes_what_its_target_leaves_of_a_gpu() -> None:
    whole = alone(machine(GPU)).devices[-1].bytes.total
    tight = replace(GPU, free_bytes=whole + 1_000_000)
    made = made_for(machine(tight))
    assert made.draft is not None
    assert made.gpu_layers == 12  # the target comes first
    assert made.draft.gpu_layers == 0
    on_gpu = made.devices[-1].bytes
    assert on_gpu == alone(machine(tight)).devices[-1].bytes
    assert made.devices[0].bytes.weights == made.draft.bytes.weights > 0


def test_unknown_memory_stays_unknown() -> None:
    made = made_for(machine(ram_free=None))
    assert (made.spare_bytes, made.verdict) == (None, "tight")


def test_a_plan_made_anew_keeps_its_draft_model() -> None:
    made = replace(made_for(machine()), max_sequences=3)
    again = replanned(made, replace(made.hardware, best_threads=2))
    assert again.draft is not None
    assert (again.draft.model, again.draft.threads, again.threads, again.max_sequences) == (DRAFT, 2, 2, 3)
    assert without_draft(again).bytes != again.bytes
    assert MemoryParts() != again.draft.bytes
