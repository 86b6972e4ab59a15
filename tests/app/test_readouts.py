"""What the window is told: parts that add up, words that are true."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app import readouts
from engine.events import AnswerStats, MemoryReport
from engine.fit.plan import plan
from engine.types import LoadSpec, MemoryParts
from tests.fakes import HARDWARE, make_spec
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


def test_what_lies_on_gpus_is_not_in_the_bar() -> None:
    away = MemoryParts(weights=900, kv_reserved=400, working=50, overhead=9)
    view = readouts.memory_view(replace(REPORT, on_gpus=away))
    assert (view.weights, view.kv_used, view.kv_reserved) == (100, 40, 60)
    assert view.weights + view.kv_used + view.working + view.other == 4_000


@pytest.mark.parametrize("total", [10_000, None])
def test_gaps_in_pages_are_no_part_of_their_own(total: int | None) -> None:
    view = readouts.memory_view(replace(REPORT, ram_total_bytes=total, kv_waste_bytes=70))
    assert view.kv_waste == 70
    assert replace(view, kv_waste=0) == readouts.memory_view(replace(REPORT, ram_total_bytes=total))


def test_unknown_memory_stays_unknown() -> None:
    view = readouts.memory_view(replace(REPORT, ram_total_bytes=None, ram_free_bytes=None))
    assert view.total is None
    assert view.weights == 1_000


def test_a_stats_line_leaves_out_what_was_not_measured() -> None:  # B083
    none = AnswerStats(10, 0, 1, 0.5, None, None, None)
    assert readouts.stats_line(none) == f"1 token · first token 0.50{NBSP}s"
    both = AnswerStats(10, 0, 128, 0.214, 200.0, 42.13, None)
    assert readouts.stats_line(both) == f"128 tokens · 42.1{NBSP}tok/s · first token 0.21{NBSP}s"


def test_accepted_drafts_are_named_and_only_where_there_were_drafts() -> None:
    figures = AnswerStats(10, 0, 128, 0.214, 200.0, 42.13, None, drafted_tokens=200, accepted_tokens=142)
    assert readouts.stats_line(figures).endswith(" · 71% of drafts accepted")
    assert "drafts" not in readouts.stats_line(replace(figures, drafted_tokens=0, accepted_tokens=0))
    assert readouts.stats_line(replace(figures, accepted_tokens=0)).endswith(" · 0% of drafts accepted")
    assert readouts.drafts_accepted(replace(figures, drafted_tokens=0, accepted_tokens=0)) is None


def test_a_prompt_of_a_few_tokens_has_no_prefill_speed_to_show() -> None:
    assert readouts.prompt_speed(AnswerStats(100, 95, 9, 0.1, 120.0, 50.0, None)) is None
    assert readouts.prompt_speed(AnswerStats(100, 20, 9, 0.1, 120.0, 50.0, None)) == 120.0


def test_the_chip_and_the_dock_show_the_bits_of_the_kernels_that_are_taken() -> None:
    native, wish = replace(HARDWARE, native="avx2"), LoadSpec("/models/tiny.gguf")
    for type_name, bits in (("Q8_0", "8-bit"), ("Q5_1", "5-bit")):
        spec = replace(make_spec(), tensors=tuple(replace(t, type=type_name) for t in make_spec().tensors))
        for hardware, label in ((native, bits), (HARDWARE, "16-bit")):
            made = plan(spec, hardware, wish)
            assert readouts.chip_view(made, ModelState.READY).detail.startswith(label)


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
