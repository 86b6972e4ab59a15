"""Behind "Why?": the doors closed on paper, batches and drafts, by the arithmetic that plans."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app import explain
from app.live_prediction import Moment
from engine.fit.plan import plan
from engine.fit.speed import step_bytes, step_s, tokens_per_step
from engine.types import LoadPlan, LoadSpec, ModelSpec
from tests.fakes import HARDWARE, make_plan, make_spec
from ui.gauge_values import Door


def doors(made: LoadPlan, tokens: int = 1000) -> dict[str, Door]:
    return {door.title: door for door in explain.doors(made, tokens)}


def planned(spec: ModelSpec, format: str = "int4") -> LoadPlan:
    return plan(spec, replace(HARDWARE, native="avx2"), LoadSpec(spec.path, format=format, context=4096))


def test_what_is_loaded_comes_first_as_it_is() -> None:
    made = make_plan()
    first = explain.doors(made, 1000)[0]
    assert first.title == "As loaded"
    assert first.tps == pytest.approx(1 / step_s(made, 1000))
    assert first.full_tps == pytest.approx(1 / step_s(made, made.context))
    assert first.read_bytes == step_bytes(made, 1000).total
    assert first.times == 1.0


def test_at_16_bits_a_step_reads_twice_to_four_times_the_weights() -> None:
    made = planned(make_spec())
    door = doors(made)["At 16 bits"]
    wide = planned(make_spec(), "bf16")
    assert door.read_bytes == step_bytes(wide, 1000).total
    assert door.memory_bytes == wide.bytes.total - wide.bytes.overhead
    assert door.read_bytes > step_bytes(made, 1000).total
    assert door.times == pytest.approx(step_s(wide, 1000) / step_s(made, 1000))
    closed = doors(wide)["At 16 bits"]
    assert closed.tps is None
    assert closed.words == "The weights are held at 16 bits already."


def test_without_gqa_every_query_head_reads_keys_and_values_of_its_own() -> None:
    spec = make_spec()
    assert spec.num_heads > spec.num_kv_heads
    made = planned(spec)
    door, groups = doors(made)["Without GQA"], spec.num_heads // spec.num_kv_heads
    whole = planned(replace(spec, num_kv_heads=spec.num_heads))
    assert step_bytes(whole, 1000).kv == groups * step_bytes(made, 1000).kv
    assert door.read_bytes == step_bytes(whole, 1000).total
    assert f"{groups} query heads share" in door.words
    none = doors(planned(replace(spec, num_kv_heads=spec.num_heads)))["Without GQA"]
    assert (none.tps, none.words) == (None, "Every query head has keys and values of its own.")


def test_without_its_window_every_layer_reads_the_whole_chat() -> None:
    made = planned(replace(make_spec(), sliding_window=512))
    door = doors(made, 3000)["Without its window"]
    assert door.read_bytes == step_bytes(planned(make_spec()), 3000).total
    assert door.read_bytes > step_bytes(made, 3000).total
    assert "the last 512 tokens" in door.words
    none = doors(planned(make_spec()))["Without its window"]
    assert (none.tps, none.words) == (None, "Every layer reads the whole chat: there is no window.")


def test_a_door_that_would_not_fit_says_so_and_keeps_its_figures() -> None:
    made = planned(make_spec())
    poor = replace(made, hardware=replace(made.hardware, ram_free_bytes=0))
    door = doors(poor)["At 16 bits"]
    assert not door.does_fit
    assert door.tps is not None


def test_batches_are_slower_each_and_faster_together() -> None:
    rows = explain.batches(planned(make_spec()), 1000)
    assert [row.chats for row in rows] == [1, 2, 4, 8]
    each, together = [row.each_tps for row in rows], [row.all_tps for row in rows]
    assert each == sorted(each, reverse=True)
    assert together == sorted(together)
    assert all(row.all_tps == pytest.approx(row.chats * row.each_tps) for row in rows)


@pytest.mark.parametrize("agrees", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("drafted", [1, 3, 8])
def test_the_agreement_of_a_measured_share_gives_that_share_again(agrees: float, drafted: int) -> None:
    share = (tokens_per_step(agrees, drafted) - 1) / drafted
    assert explain.agreement(share, drafted) == pytest.approx(agrees, abs=2e-3)


def test_drafts_that_are_never_right_cost_and_those_that_are_gain() -> None:
    made = planned(make_spec())
    never, often = explain.drafts(made, 1000, 0.0, 3.0), explain.drafts(made, 1000, 0.8, 3.0)
    assert explain.best(never).drafted == 0
    assert explain.best(often).drafted > 0
    assert never[0].tps == often[0].tps == pytest.approx(1 / step_s(made, 1000))


def test_the_step_is_told_by_its_parts() -> None:
    made = planned(make_spec())
    found = explain.step_view(made, Moment((1000,)))
    assert [part.name for part in found] == ["Weights", "Context", "Arithmetic", "Fixed cost"]
    assert sum(part.ms for part in found) == pytest.approx(1000 * step_s(made, 1000), rel=0.02)
    assert sum(part.nbytes for part in found) == step_bytes(made, 1000).total
