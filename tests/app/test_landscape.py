"""A survey: every format with every context, and when another one is needed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.landscape import Ground, context_stops, ground, survey
from engine.fit.plan import plan
from engine.machine import Gpu
from engine.types import LoadSpec
from tests.fakes import HARDWARE, make_spec

SPEC = make_spec(trained_context=4096)
WISH = LoadSpec(SPEC.path, format="int8", context=1024)
FORMATS = ("f32", "int8", "nf4")


def made(**changes: Any) -> Ground:
    values: dict[str, Any] = {
        "spec": SPEC,
        "hardware": HARDWARE,
        "wish": WISH,
        "held_bytes": 0,
        "draft": None,
        "preference": "quality",
        "formats": FORMATS,
        "contexts": (1024,),
    }
    return ground(**(values | changes))


def test_every_format_has_a_forecast_for_every_context() -> None:
    found = survey(made())
    assert found.contexts == (512, 1024, 2048, 4096, 8192)
    assert set(found.rows) == {"f32", "int8"}
    for format, row in found.rows.items():
        assert [each.plan.context for each in row] == list(found.contexts)
        assert {each.plan.format for each in row} == {format}
        speeds = [each.speed.half for each in row]
        assert (
            speeds == sorted(speeds, reverse=True) and speeds[-1] > 0
        )  # a longer cache takes longer to read
    forecast = found.at("int8", 1024)
    assert forecast is not None
    expected = plan(SPEC, found.ground.hardware, WISH)
    assert (forecast.plan.bytes, forecast.plan.verdict) == (expected.bytes, expected.verdict)
    assert found.at("int8", 777) is None and found.at("nf4", 1024) is None


def test_a_format_that_cannot_run_is_refused_in_words() -> None:
    refusal = survey(made()).refused["nf4"]
    assert "AVX-512 BF16" in str(refusal) and "int4" in str(refusal)


def test_a_survey_of_one_context_is_cheap_and_without_advice() -> None:
    found = survey(made(), (2048,))
    assert (found.contexts, found.advice) == ((2048,), None)
    assert found.at("f32", 2048) is not None


def test_contexts_are_powers_of_two_the_trained_limit_and_those_in_use() -> None:
    assert context_stops(made()) == (512, 1024, 2048, 4096, 8192)
    assert context_stops(made(spec=make_spec(trained_context=3000))) == (512, 1024, 2048, 3000, 4096)
    assert context_stops(made(spec=make_spec(trained_context=100)))[0] == 100
    assert 777 in context_stops(made(contexts=(777, 1024)))
    found = survey(made())
    assert found.advice is not None
    assert found.advice.plan.context in found.contexts


@pytest.mark.parametrize(
    "changes",
    [
        {"wish": replace(WISH, format="f32", context=2048, anyway=True)},
        {"contexts": (2048,)},
        {"hardware": replace(HARDWARE, ram_free_bytes=HARDWARE.ram_free_bytes + 4096)},  # type: ignore[operator]
        {"hardware": replace(HARDWARE, ram_free_bytes=7_000_000_000), "held_bytes": 1_000_000_000},
    ],
)
def test_moving_the_choice_or_a_few_bytes_needs_no_new_survey(changes: dict[str, Any]) -> None:
    assert made(**changes) == made()


@pytest.mark.parametrize(
    "changes",
    [
        {"wish": replace(WISH, kv="8")},
        {"wish": replace(WISH, gpu_layers=1)},
        {"preference": "fastest"},
        {"contexts": (1500,)},
        {"formats": ("f32",)},
        {"draft": make_spec("/models/draft.gguf")},
        {"spec": make_spec("/models/other.gguf")},
        {"held_bytes": 1_000_000_000},
        {"hardware": replace(HARDWARE, best_threads=1)},
    ],
)
def test_what_changes_plans_needs_a_new_survey(changes: dict[str, Any]) -> None:
    assert made(**changes) != made()


def test_what_a_gpu_tells_of_the_moment_needs_none() -> None:
    gpu = Gpu(0, "A GPU", "cuda", 8_000_000_000, 6_000_000_000, own_bytes=1)
    one = made(hardware=replace(HARDWARE, gpus=(gpu,)))
    other = replace(gpu, free_bytes=6_000_004_096, own_bytes=2)
    assert made(hardware=replace(HARDWARE, gpus=(other,))) == one
    assert made(hardware=replace(HARDWARE, gpus=(replace(gpu, free_bytes=1_000_000_000),))) != one


def test_unknown_memory_stays_unknown() -> None:
    found = survey(made(hardware=replace(HARDWARE, ram_free_bytes=None)))
    assert found.ground.hardware.ram_free_bytes is None
    assert {each.plan.verdict for each in found.rows["f32"]} == {"tight"}
