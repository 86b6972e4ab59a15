"""Advice: the longest context, the grid, and what is recommended, on machines made up for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.calibration import Calibration
from engine.errors import WishError
from engine.fit.advice import (
    PREFERENCES,
    READING_TPS,
    context_steps,
    grid,
    longest_context,
    reading_tps,
    recommend,
    usable_formats,
)
from engine.fit.kv_pages import PAGE_TOKENS
from engine.fit.plan import plan
from engine.fit.preference import tps
from engine.machine import Hardware
from engine.types import LoadSpec, ModelSpec
from tests.engine.fit.test_devices import ALL, GB, GPU, machine, make

NATIVE = replace(machine(native="avx512vnni"), calibration=Calibration(read_gbps=50.0, disk_gbps=2.0))


def spec_of(type_name: str = "F16", layers: int = 12, context: int = 32_768) -> ModelSpec:
    return replace(make(type_name, layers=layers), trained_context=context)


def wish(**changes: object) -> LoadSpec:
    return LoadSpec("/models/tiny.gguf", **changes)  # type: ignore[arg-type]


def need(spec: ModelSpec, format: str = "file", context: int | None = None, kv: str = "auto") -> int:
    """Free bytes that a wish takes on the processor."""
    parts = plan(spec, NATIVE, wish(format=format, context=context, kv=kv)).bytes
    return parts.total - parts.overhead


def with_free(nbytes: int, gbps: float = 50.0) -> Hardware:
    """A machine with so much free, of which 3 % are next to nothing."""
    calibration = Calibration(read_gbps=gbps)
    return replace(NATIVE, ram_free_bytes=nbytes, ram_total_bytes=1000, calibration=calibration)


def test_the_grid_goes_row_by_row_and_every_cell_is_the_plan_of_its_own() -> None:
    spec = spec_of()
    plans = grid(spec, NATIVE, wish(kv="8"), ("file", "int4"), (512, 1024, 2048))
    assert [(made.format, made.context) for made in plans] == [
        (format, context) for format in ("file", "int4") for context in (512, 1024, 2048)
    ]
    assert plans[4] == plan(spec, NATIVE, wish(kv="8", format="int4", context=1024))


def test_formats_that_cannot_run_here_are_no_rows() -> None:
    assert "nf4" not in usable_formats(spec_of(), NATIVE, wish())
    assert {"file", "f32", "bf16", "int8", "int4"} <= set(usable_formats(spec_of(), NATIVE, wish()))
    with pytest.raises(WishError, match="not here"):
        usable_formats(spec_of(), NATIVE, wish(device="cuda:0"))


@pytest.mark.parametrize(
    ("trained", "steps"),
    [
        (2048, (512, 1024, 2048)),
        (3000, (512, 1024, 2048, 3000)),
        (512, (512,)),
        (100, (100,)),
        (1, (2,)),
    ],
)
def test_columns_go_up_to_what_the_model_was_trained_for(trained: int, steps: tuple[int, ...]) -> None:
    assert context_steps(spec_of(context=trained)) == steps


def test_an_absurd_trained_context_makes_few_columns() -> None:
    assert len(context_steps(spec_of(context=1 << 24))) == 16


def test_the_longest_context_fits_and_one_page_more_does_not() -> None:
    spec = spec_of()
    for kv in ("auto", "8"):
        hardware = with_free(need(spec, context=10_000, kv=kv))
        longest = longest_context(spec, hardware, wish(kv=kv))
        assert longest is not None
        assert 9_900 < longest <= 10_000
        assert plan(spec, hardware, wish(kv=kv, context=longest)).verdict != "no"
        assert plan(spec, hardware, wish(kv=kv, context=longest + PAGE_TOKENS)).verdict == "no"


def test_the_longest_context_counts_what_a_replaced_model_holds() -> None:
    spec = spec_of()
    short, more = with_free(need(spec, context=4096)), need(spec, context=8192) - need(spec, context=4096)
    assert (longest_context(spec, short, wish(), more) or 0) > 2 * (
        longest_context(spec, short, wish()) or 0
    ) - 99


def test_the_longest_context_is_the_trained_one_where_that_fits_and_0_where_none_does() -> None:
    assert longest_context(spec_of(context=5000), NATIVE, wish()) == 5000
    assert longest_context(spec_of(), with_free(1_000_000), wish()) == 0
    assert longest_context(spec_of(), replace(NATIVE, ram_free_bytes=None), wish()) is None


def test_the_longest_context_keeps_all_layers_on_the_gpu_where_they_fit_at_all() -> None:
    spec = spec_of()
    whole = plan(spec, machine(GPU), wish(format="bf16", context=8192)).devices[-1].bytes.total
    hardware = machine(replace(GPU, free_bytes=whole, total_bytes=whole))
    longest = longest_context(spec, hardware, wish(format="bf16"))
    assert longest is not None
    assert 8192 <= longest < 9000  # smaller pieces of a prompt take less memory
    assert plan(spec, hardware, wish(format="bf16", context=longest)).gpu_layers == spec.num_layers
    crowded = replace(GPU, free_bytes=whole // 3, total_bytes=whole)
    assert (
        longest_context(spec, machine(crowded), wish(format="bf16")) == spec.trained_context
    )  # it spills anyhow


def test_reading_speed_is_in_the_answers_own_tokens() -> None:
    assert reading_tps(1.0) == (pytest.approx(175 / 60), 5.0)
    assert reading_tps() == READING_TPS
    assert reading_tps(2.0)[1] == 10.0


def test_the_most_exact_weights_are_recommended_where_they_fit_and_are_quick_enough() -> None:
    advice = recommend(spec_of(), NATIVE, wish())
    assert (advice.plan.format, advice.plan.verdict, advice.plan.context) == ("file", "fits", 8192)
    assert (advice.wish.format, advice.wish.context) == ("file", 8192)
    assert plan(advice.plan.model, NATIVE, advice.wish).bytes == advice.plan.bytes
    assert "most exact" in advice.reason


def test_less_exact_weights_are_recommended_where_memory_is_short() -> None:
    spec = spec_of(layers=40, context=8192)
    sizes = [need(spec, format) for format in ("file", "int8", "int4")]
    assert sizes == sorted(sizes, reverse=True)
    for format, size in zip(("file", "int8", "int4"), sizes, strict=True):
        assert recommend(spec, with_free(size + 1_000_000), wish()).plan.format == format


def test_less_exact_weights_are_recommended_where_the_exact_ones_are_slower_than_reading() -> None:
    spec = spec_of(layers=40)
    quick = recommend(spec, with_free(100 * GB, gbps=50), wish()).plan
    assert quick.format == "file"
    for times, format in ((0.8, "int8"), (0.5, "int4")):  # of the bandwidth at which the file is just read
        gbps = 50 * READING_TPS[1] / tps(quick) * times
        slow = recommend(spec, with_free(100 * GB, gbps=gbps), wish()).plan
        assert slow.format == format
    crawling = recommend(spec, with_free(100 * GB, gbps=0.5), wish())
    assert crawling.plan.format == "int4"
    assert "as quickly as people read" in crawling.reason


def test_what_the_user_prefers_is_what_is_recommended() -> None:
    spec = spec_of(layers=40)
    hardware = with_free(need(spec, "int8", 16_384))
    quality, fastest, longest = (recommend(spec, hardware, wish(), each).plan for each in PREFERENCES)
    assert tps(fastest) >= tps(quality)
    assert longest.context >= max(quality.context, fastest.context)
    assert quality.weight_bits >= fastest.weight_bits
    for made in (quality, fastest, longest):
        assert made.verdict == "fits"
    with pytest.raises(WishError, match="Choose quality, fastest, longest"):
        recommend(spec, hardware, wish(), "cheapest")


def test_a_shorter_context_is_recommended_before_nothing() -> None:
    spec = spec_of(layers=40)
    hardware = with_free(need(spec, "int4", 4096))
    advice = recommend(spec, hardware, wish())
    assert advice.plan.verdict == "fits"
    assert 2048 <= advice.plan.context <= 4096


def test_where_nothing_fits_the_nearest_is_named() -> None:
    advice = recommend(spec_of(), with_free(1000), wish())
    assert (advice.plan.verdict, advice.plan.format) == ("no", "int4")
    assert advice.reason == "Nothing fits; int4 comes nearest."


def test_wider_than_the_file_is_never_recommended() -> None:
    spec = spec_of("Q4_0")
    for preference in PREFERENCES:
        assert recommend(spec, NATIVE, wish(format="f32"), preference).plan.format == "file"


def test_device_threads_and_draft_stay_as_they_are_wished() -> None:
    spec = spec_of()
    asked = wish(device="cpu", threads=3, anyway=True, kv="4", context=100)
    advice = recommend(spec, replace(NATIVE, gpus=(GPU,)), asked)
    assert (advice.wish.device, advice.wish.threads, advice.plan.device) == ("cpu", 3, "cpu")
    assert (advice.wish.anyway, advice.plan.context, advice.plan.kv_bits) == (False, 8192, 16)


def test_a_discrete_card_is_taken_before_the_graphics_in_the_processor() -> None:  # B053
    inside = replace(GPU, index=1, name="Inside", free_bytes=60 * GB, total_bytes=64 * GB, is_unified=True)
    assert recommend(spec_of(), machine(inside, GPU), wish()).plan.device == "cuda:0"
    assert recommend(spec_of(), machine(inside), wish()).plan.device == "cuda:1"


def test_several_cards_are_not_one_big_one() -> None:  # B053
    spec = spec_of(layers=40)
    size = plan(spec, machine(GPU), wish(format="bf16")).devices[-1].bytes.total
    large, small = (
        replace(GPU, index=i, free_bytes=int(part * size), total_bytes=size, formats=ALL)
        for i, part in ((0, 0.9), (1, 0.3))
    )
    made = plan(spec, machine(small, large), wish(format="bf16"))
    assert (made.device, made.verdict) == ("cuda:0", "spills")
    assert made.devices[-1].bytes.total <= large.free_bytes  # type: ignore[operator]
