"""The line that says why: one situation for every verdict, and it can be read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.machine_load import MachineLoad
from app.why import HOLD_S, NOT_MEASURED, UNCLEAR, Situation, Slowness, SteadyVerdict, StepParts, explain

NBSP = "\u00a0"
READS = StepParts(0.0082, 0.0008, 0.0, 0.0010, 990_000_000, 60_000_000)
QUIET = MachineLoad(4, 0.1, 0.0, 0.0, 1.0)
AS_PREDICTED = Situation(
    measured_tps=97.0,
    predicted_tps=100.0,
    parts=READS,
    machine=QUIET,
    threads=2,
    num_layers=30,
    kernels="native avx2",
)
SLOWER = replace(AS_PREDICTED, measured_tps=60.0, is_slower=True)


def slower_by(**load: object) -> str:
    verdict = explain(replace(SLOWER, machine=replace(QUIET, **load)))  # type: ignore[arg-type]
    assert verdict.is_warning
    assert verdict.is_outside
    return verdict.sentence


def bound_by(**parts: object) -> str:
    verdict = explain(replace(AS_PREDICTED, parts=replace(READS, **parts)))  # type: ignore[arg-type]
    assert not verdict.is_warning
    return verdict.sentence


def test_before_the_first_answer_nothing_is_said_of_a_limit() -> None:
    assert explain(Situation(predicted_tps=40.0)) is NOT_MEASURED


def test_a_step_that_mostly_reads_weights_is_bound_by_memory() -> None:
    assert bound_by() == f"Memory-bound: 82% of each token is reading 0.99{NBSP}GB of weights"


def test_a_step_that_mostly_reads_its_context_is_bound_by_the_kv_cache() -> None:
    said = bound_by(kv_s=0.02, kv_bytes=2_400_000_000)
    assert said == f"Memory-bound: 68% of each token is reading 2.40{NBSP}GB of context (KV cache)"


def test_weights_and_context_together_are_memory_whichever_leads() -> None:
    said = bound_by(weights_s=0.004, kv_s=0.003, fixed_s=0.003)
    assert said.startswith("Memory-bound: 40% of each token is reading 0.99")


def test_weights_that_come_out_of_the_cache_are_said_to() -> None:
    said = bound_by(weights_bytes=8_000_000, fits_cache=True)
    assert (
        said == f"Cache-bound: 82% of each token is reading 8.0{NBSP}MB of weights from the processor's cache"
    )


def test_many_chats_at_once_are_bound_by_arithmetic() -> None:
    many = replace(AS_PREDICTED, num_chats=8, parts=replace(READS, compute_s=0.03))
    said = explain(many).sentence
    assert said == "Compute-bound: 75% of each step is arithmetic for 8 chats that reading does not hide"


def test_a_small_model_is_bound_by_the_fixed_cost_of_its_layers() -> None:
    said = bound_by(weights_s=0.0004, kv_s=0.0001, fixed_s=0.0015)
    assert said == "Overhead-bound: 75% of each token is the fixed cost of 30 layers"


def test_where_no_part_stands_out_the_limit_is_not_clear() -> None:
    mixed = replace(READS, weights_s=0.003, kv_s=0.002, compute_s=0.003, fixed_s=0.003)
    assert explain(replace(AS_PREDICTED, parts=mixed)) is UNCLEAR


@pytest.mark.parametrize("measured", [70.0, 130.0])
def test_where_the_prediction_does_not_hold_its_parts_are_no_explanation(measured: float) -> None:
    assert explain(replace(AS_PREDICTED, measured_tps=measured)) is UNCLEAR


def test_pages_that_come_back_from_the_disk_are_memory_that_spilled() -> None:
    assert slower_by(page_reads=300.0).endswith(
        "memory is short, and parts of the model come back from the disk"
    )


def test_a_gpu_that_has_reserved_more_than_it_has_spills() -> None:
    verdict = explain(replace(SLOWER, gpu_over_bytes=700_000_000))
    assert verdict.kind == "pages"
    assert f"0.70{NBSP}GB more are reserved than the GPU has" in verdict.sentence


def test_layers_on_the_disk_are_named_even_at_the_predicted_speed() -> None:
    said = explain(replace(AS_PREDICTED, disk_layers=3)).sentence
    assert said == "Memory spilled: 3 of 30 layers are read from the disk for every token"


def test_layers_that_a_gpu_had_no_room_for_are_named() -> None:
    said = explain(replace(AS_PREDICTED, spilled_layers=12)).sentence
    assert said == "Memory spilled: 12 of 30 layers had no room on the GPU"


def test_a_processor_that_throttles_says_so() -> None:
    assert slower_by(has_throttled=True).endswith("the processor is hot and slows itself down")


def test_a_lower_frequency_is_told_with_its_share() -> None:
    assert slower_by(frequency=0.71).endswith("the processor runs at 71% of its frequency")
    on_battery = slower_by(frequency=0.71, is_on_battery=True)
    assert on_battery.endswith("the laptop is on battery, and the processor runs at 71% of its frequency")


def test_time_that_a_host_gives_to_others_is_named() -> None:
    assert slower_by(stolen=0.12).endswith("other machines of this host take 12% of its time")


def test_a_program_on_the_cores_that_are_needed_is_named() -> None:
    assert slower_by(other_cpus=2.6).endswith("another program uses 2.6 of 4 cores")


def test_a_program_on_other_cores_shares_the_memory_bus() -> None:
    assert slower_by(other_cpus=1.5).endswith("another program uses 1.5 of 4 cores and the same memory bus")


def test_drafts_that_cost_more_than_they_save_are_named() -> None:
    verdict = explain(replace(AS_PREDICTED, drafts_gain=0.88))
    assert verdict.sentence.startswith("Drafts lose: checking them costs more than they save, 88%")
    assert explain(replace(AS_PREDICTED, drafts_gain=1.4)).kind == "weights"


def test_torch_in_place_of_kernels_that_are_missing_is_named_with_the_reason() -> None:
    torch = replace(AS_PREDICTED, kernels="torch", native_missing="No compiler was found.")
    assert explain(torch).sentence == "Slower kernel: torch reads the weights. No compiler was found"
    assert explain(replace(torch, native_missing="")).kind == "weights"  # it was the quicker one here


def test_what_nothing_measured_explains_is_not_guessed() -> None:
    verdict = explain(SLOWER)
    assert verdict.sentence == "Slower than predicted: the reason is not clear yet"
    assert not verdict.is_outside


def test_what_cannot_be_read_blames_nobody() -> None:
    assert explain(replace(SLOWER, machine=MachineLoad())).kind == "unexplained"


def test_a_busy_machine_is_no_news_while_the_speed_is_as_predicted() -> None:
    busy = replace(AS_PREDICTED, machine=replace(QUIET, other_cpus=3.0, page_reads=500.0, stolen=0.3))
    assert explain(busy).kind == "weights"


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_it_is_slower_after_three_seconds_below_80_percent_and_not_before() -> None:
    clock = Clock()
    slowness = Slowness(clock)
    assert not slowness.observe(70.0, 100.0)
    clock.now_s += 2.9
    assert not slowness.observe(70.0, 100.0)
    clock.now_s += 0.1
    assert slowness.observe(70.0, 100.0)
    assert not slowness.observe(80.0, 100.0)
    assert not slowness.observe(79.0, 100.0)  # it begins anew


def test_an_answer_that_waits_is_not_slower() -> None:
    clock = Clock()
    slowness = Slowness(clock)
    slowness.observe(70.0, 100.0)
    clock.now_s += 10
    assert not slowness.observe(None, 100.0)


def test_the_line_changes_at_most_once_in_two_seconds() -> None:
    clock = Clock()
    steady = SteadyVerdict(clock)
    first, second = explain(AS_PREDICTED), explain(SLOWER)
    assert steady.offer(first) is first
    clock.now_s += HOLD_S - 0.01
    assert steady.offer(second) is first
    clock.now_s += 0.01
    assert steady.offer(second) is second


def test_a_share_that_moves_a_little_does_not_change_the_line() -> None:
    clock = Clock()
    steady = SteadyVerdict(clock)
    first = steady.offer(explain(AS_PREDICTED))
    clock.now_s += 10
    near = explain(replace(AS_PREDICTED, parts=replace(READS, fixed_s=0.0012)))
    assert near.sentence != first.sentence
    assert steady.offer(near) is first
    far = explain(replace(AS_PREDICTED, parts=replace(READS, kv_s=0.003)))
    assert steady.offer(far) is far
