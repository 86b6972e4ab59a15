"""What the window is told: parts that add up, words that are true."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app import readouts
from engine.fit.plan import plan
from engine.types import AnswerStats, LoadSpec, MemoryReport
from tests.fakes import HARDWARE, make_plan, make_spec
from ui.values import ModelState

NBSP = "\u00a0"
REPORT = MemoryReport(
    weights_bytes=1_000,
    kv_reserved_bytes=500,
    kv_used_bytes=200,
    working_bytes=50,
    overhead_bytes=250,
    rss_bytes=1_600,
    ram_total_bytes=10_000,
    ram_free_bytes=6_000,
    kv_used_tokens=20,
)


@pytest.mark.parametrize("free", [0, 100, 300, 6_000, 8_400])
def test_the_parts_of_memory_add_up_to_all_of_it(free: int) -> None:
    view = readouts.memory_view(replace(REPORT, ram_free_bytes=free))
    assert view.total == 10_000
    parts = view.weights + view.kv_used + view.kv_reserved + view.working + view.other + view.free
    assert parts == view.total
    assert min(view.weights, view.kv_used, view.kv_reserved, view.working, view.other, view.free) >= 0


def test_unknown_memory_stays_unknown() -> None:
    view = readouts.memory_view(replace(REPORT, ram_total_bytes=None, ram_free_bytes=None))
    assert view.total is None
    assert view.weights == 1_000


def test_a_stats_line_leaves_out_what_was_not_measured() -> None:  # B083
    none = AnswerStats(10, 0, 1, 0.5, None, None, None)
    assert readouts.stats_line(none) == f"1 token · first token 0.50{NBSP}s"
    both = AnswerStats(10, 0, 128, 0.214, 200.0, 42.13, None)
    assert readouts.stats_line(both) == f"128 tokens · 42.1{NBSP}tok/s · first token 0.21{NBSP}s"


def test_a_prompt_of_a_few_tokens_has_no_prefill_speed_to_show() -> None:
    assert readouts.prompt_speed(AnswerStats(100, 95, 9, 0.1, 120.0, 50.0, None)) is None
    assert readouts.prompt_speed(AnswerStats(100, 20, 9, 0.1, 120.0, 50.0, None)) == 120.0


def test_contexts_are_powers_of_two_and_the_trained_limit() -> None:
    assert readouts.context_stops(make_spec(trained_context=2048)) == (512, 1024, 2048, 4096)
    assert readouts.context_stops(make_spec(trained_context=3000)) == (512, 1024, 2048, 3000, 4096)
    assert readouts.context_stops(make_spec(trained_context=100))[0] == 100


def test_the_file_format_is_offered_only_where_it_is_smaller() -> None:
    spec = make_spec()
    assert readouts.format_keys(spec, False) == ("f32", "bf16", "file")
    wide = replace(spec, tensors=tuple(replace(t, type="BF16") for t in spec.tensors))
    assert readouts.format_keys(wide, False) == ("f32", "bf16")
    eight = replace(spec, tensors=tuple(replace(t, type="Q8_0") for t in spec.tensors))
    assert readouts.format_keys(eight, False) == ("f32", "bf16")  # torch's kernels have no home for it
    assert readouts.format_keys(eight, True) == ("f32", "bf16", "file")


def test_the_dock_shows_the_loaded_and_the_wished_settings() -> None:
    loaded = make_plan()
    wish = LoadSpec("/models/tiny.gguf", format="bf16", context=1024)
    view = readouts.tuning_view(loaded, wish, HARDWARE, 0, "ready", None)
    assert (view.loaded_format, view.chosen_format) == ("file", "bf16")
    assert (view.loaded_context, view.chosen_context, view.trained_context) == (4096, 1024, 4096)
    assert [choice.label for choice in view.formats] == ["32-bit", "16-bit", "4-bit"]
    assert view.verdict is not None
    assert view.verdict.title.startswith("Fits · ")
    assert (view.tight_from, view.no_fit_from) == (None, None)


def test_a_context_that_does_not_fit_is_marked_from_where_it_begins() -> None:
    loaded = make_plan()
    wish = LoadSpec("/models/tiny.gguf", format="file", context=512)
    poor = replace(HARDWARE, ram_free_bytes=loaded.bytes.total)
    view = readouts.tuning_view(loaded, wish, poor, 0, "hidden", None)
    assert view.no_fit_from is None or view.no_fit_from > 512
    none = readouts.tuning_view(loaded, wish, replace(HARDWARE, ram_free_bytes=0), 0, "hidden", None)
    assert none.no_fit_from == 512
    assert none.verdict is not None
    assert none.verdict.kind == "no"


def test_the_chip_and_the_dock_show_the_bits_of_the_kernels_that_are_taken() -> None:
    native, wish = replace(HARDWARE, native="avx2"), LoadSpec("/models/tiny.gguf")
    for type_name, bits in (("Q8_0", "8-bit"), ("Q5_1", "5-bit")):
        spec = replace(make_spec(), tensors=tuple(replace(t, type=type_name) for t in make_spec().tensors))
        for hardware, label in ((native, bits), (HARDWARE, "16-bit")):
            made = plan(spec, hardware, wish)
            assert readouts.chip_view(made, ModelState.READY).detail.startswith(label)
        view = readouts.tuning_view(plan(spec, native, wish), wish, native, 0, "hidden", None)
        assert [choice.label for choice in view.formats] == ["32-bit", "16-bit", bits]


def test_the_status_bar_names_kernels_and_what_is_lost_without_ours() -> None:
    named = readouts.status_view(HARDWARE, False, "torch bf16")
    assert (named.facts, named.tooltip) == (("torch bf16",), "Weights are read by torch bf16.")
    assert readouts.status_view(HARDWARE, False).tooltip == ""
    poor = replace(HARDWARE, native_missing="They are missing.")
    assert readouts.status_view(poor, False).tooltip == "They are missing."
    assert readouts.status_view(poor, False, "torch bf16").tooltip.endswith("bf16. They are missing.")
    assert readouts.status_view(None, False, "torch bf16").facts == ()


def test_the_privacy_line_is_true_during_a_download() -> None:
    assert readouts.status_view(HARDWARE, False).privacy == "Nothing leaves this computer"
    assert "downloaded" in readouts.status_view(HARDWARE, True).privacy
