"""The guard: what it refuses, what it offers instead, and plans that time has overtaken."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from engine.errors import MemoryLimitError
from engine.fit.guard import LEVELS, check, check_again, is_refused, what_fits
from engine.fit.plan import plan, without_draft
from engine.machine import Gpu
from engine.types import LoadPlan, LoadSpec, ModelSpec
from tests.engine.fit.test_advice import need, spec_of, wish, with_free
from tests.engine.fit.test_devices import ALL, GB, GPU, machine

SPEC = spec_of(layers=40)


def made_for(free: int, draft: ModelSpec | None = None, **changes: object) -> LoadPlan:
    return plan(SPEC, with_free(free), wish(**changes), draft=draft)


def test_a_stricter_guard_refuses_all_that_a_laxer_one_does() -> None:
    size = need(SPEC)
    hardware = replace(with_free(size + 1), ram_total_bytes=100 * GB)
    gpu = replace(GPU, free_bytes=GB // 3, total_bytes=GB)
    plans = {
        "fits": made_for(size + GB),
        "tight": plan(SPEC, hardware, wish()),
        "spills": plan(SPEC, machine(gpu, ram_free=8 * GB), wish(format="bf16")),
        "no": made_for(size - GB // 10),
    }
    assert {made.verdict for made in plans.values()} == set(plans)
    refused = {level: {name for name, made in plans.items() if is_refused(made, level)} for level in LEVELS}
    assert refused == {"strict": {"tight", "spills", "no"}, "relaxed": {"no"}, "off": set()}


def test_unknown_memory_is_not_refused() -> None:
    made = plan(SPEC, replace(with_free(0), ram_free_bytes=None), wish())
    assert made.verdict == "tight"
    assert not is_refused(made, "strict")


def test_a_wish_to_load_it_anyway_is_not_refused() -> None:
    made = made_for(1000, anyway=True)
    assert made.verdict == "no"
    check(made, "strict")
    check_again(made, 1000, ())


def test_a_refusal_names_a_shorter_context_where_that_is_worth_having() -> None:
    free = need(SPEC, context=6000)
    with pytest.raises(MemoryLimitError, match=r"does not fit in memory: 2\.\d\d GB short\.") as caught:
        check(made_for(free, context=32_768))
    assert "It fits with a context of 5,9" in caught.value.hint
    tokens = int(caught.value.hint.split("context of ")[1].split(" tokens")[0].replace(",", ""))
    assert made_for(free, context=tokens).verdict != "no"


def test_a_refusal_names_a_smaller_format_where_only_that_fits() -> None:
    free = need(SPEC, "int4") + 50_000_000
    said = what_fits(made_for(free))
    assert said == "It fits as int4 with a context of 8,192 tokens."


def test_a_refusal_names_the_draft_model_where_it_is_that() -> None:  # B052
    draft = replace(spec_of(layers=6), path="/models/draft.gguf")
    target = need(SPEC)
    both = plan(SPEC, with_free(100 * GB), wish(), draft=draft)
    parts = both.draft
    assert parts is not None
    own = parts.bytes.total
    assert both.bytes.weights == without_draft(both).bytes.weights + parts.bytes.weights
    assert both.bytes.kv_reserved == without_draft(both).bytes.kv_reserved + parts.bytes.kv_reserved
    short = made_for(target + own // 2, draft)
    assert short.verdict == "no"
    assert what_fits(short) == "It fits without the draft model."
    assert without_draft(short).verdict != "no"
    assert made_for(target + own, draft).verdict != "no"


@pytest.mark.parametrize("wanted", [30, 40, 99])
def test_a_refusal_names_the_layers_that_a_gpu_has_room_for(wanted: int) -> None:
    gpu = replace(GPU, free_bytes=GB // 2, total_bytes=GB)
    hardware = machine(gpu, ram_free=8 * GB)
    made = plan(SPEC, hardware, wish(format="bf16", gpu_layers=wanted))
    assert made.verdict == "no"
    found = re.fullmatch(r"It fits with (\d+) layers on the GPU\.", what_fits(made))
    assert found is not None
    layers = int(found[1])
    assert 0 < layers < wanted
    assert plan(SPEC, hardware, wish(format="bf16", gpu_layers=layers)).verdict != "no"
    assert "layers on the GPU" not in what_fits(made, "strict")  # which refuses a part on the processor too


def test_a_refusal_sends_all_layers_to_the_processor_where_a_gpu_has_no_room_for_one() -> None:
    gpu = replace(GPU, free_bytes=GB // 10, total_bytes=GB)
    made = plan(SPEC, machine(gpu, ram_free=8 * GB), wish(format="bf16", gpu_layers=5))
    assert what_fits(made) == "It fits with all layers on the processor."


def test_a_refusal_names_no_layers_where_the_rest_has_no_room_either() -> None:
    gpu = replace(GPU, free_bytes=GB // 2, total_bytes=GB)
    made = plan(SPEC, machine(gpu, ram_free=GB // 10), wish(format="bf16", gpu_layers=30))
    assert made.verdict == "no"
    assert "layers" not in what_fits(made)


def test_where_nothing_fits_the_least_that_must_be_free_is_said() -> None:
    said = what_fits(made_for(1_000_000))
    assert said.startswith("Not even its smallest form fits: 0.")
    assert said.endswith("Choose a smaller model.")


def test_memory_that_another_program_took_is_an_error_with_what_still_fits() -> None:
    made = made_for(need(SPEC) + GB)
    check_again(made, need(SPEC), ())
    with pytest.raises(MemoryLimitError, match="Another program has taken memory") as caught:
        check_again(made, need(SPEC, "int4") + 50_000_000, ())
    assert caught.value.hint == "It fits as int4 with a context of 8,192 tokens."
    check_again(made, None, ())  # unknown: the system itself will say


def test_a_gpus_memory_that_went_is_said_by_its_name() -> None:
    made = plan(SPEC, machine(GPU), wish(format="bf16"))
    assert made.device == "cuda:0"
    check_again(made, 8 * GB, (GPU,))
    with pytest.raises(MemoryLimitError, match=r"GB on A GPU and 0\.10 GB are free"):
        check_again(made, 8 * GB, (replace(GPU, free_bytes=GB // 10),))


def test_memory_that_is_shared_is_counted_once_and_not_beyond_its_limit() -> None:  # B054
    apple = Gpu(0, "Apple GPU", "mps", 24 * GB, 24 * GB, ALL)

    def on_apple(nbytes: int, **changes: object) -> LoadPlan:
        """A model of so many bytes on 32 GB, 28 of them free."""
        layers = round(nbytes / (need(spec_of(layers=2)) - need(spec_of(layers=1))))
        spec = spec_of(layers=layers, context=1024)
        mac = replace(machine(apple, ram_free=28 * GB), ram_total_bytes=32 * GB)
        return plan(spec, mac, LoadSpec(spec.path, "bf16", **changes))  # type: ignore[arg-type]

    fits, over, huge = (on_apple(size * GB) for size in (18, 26, 40))
    assert (fits.verdict, fits.device) == ("fits", "mps")
    assert over.verdict == "spills"  # beyond what the GPU may have, within the memory
    assert sum(share.bytes.total for share in over.devices) < 28 * GB + over.bytes.overhead
    assert huge.verdict == "no"
    with pytest.raises(MemoryLimitError):
        check_again(fits, 10 * GB, (replace(apple, free_bytes=24 * GB),))


def test_memory_that_was_carved_out_adds_to_the_processors() -> None:  # B054
    carved = Gpu(0, "AMD Radeon 8060S", "rocm", 96 * GB, 95 * GB, ALL)
    made = plan(SPEC, machine(carved, ram_free=31 * GB), wish(format="bf16"))
    cpu, gpu = made.devices
    assert (cpu.free_bytes, gpu.free_bytes) == (31 * GB, 95 * GB)
    assert made.verdict == "fits"
