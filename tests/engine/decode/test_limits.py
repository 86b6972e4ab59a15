"""Ranges of sampling values: one source for the command line, the settings and the engine."""

from __future__ import annotations

import math
from dataclasses import fields, replace

import pytest

from app.settings import Settings, with_value
from engine.decode.limits import RANGES, Range, checked
from engine.errors import WishError
from engine.types import SamplingParams


def test_every_sampling_value_has_a_range() -> None:
    assert RANGES.keys() == {field.name for field in fields(SamplingParams)}
    assert checked(SamplingParams()) == SamplingParams()


@pytest.mark.parametrize("top_k", [0, -1, -40, 1, 1 << 20])
def test_a_top_k_below_0_is_off_and_no_mistake(top_k: int) -> None:  # B061
    assert checked(SamplingParams(top_k=top_k)).top_k == top_k
    assert with_value(Settings(), f"top_k={top_k}").top_k == top_k


@pytest.mark.parametrize("name", RANGES)
def test_settings_and_engine_agree_on_what_is_too_much(name: str) -> None:
    most = RANGES[name].high
    assert checked(replace(SamplingParams(), **{name: most}))
    too_much = most + 1 if RANGES[name].is_whole else most + 0.5
    with pytest.raises(WishError, match=name.replace("_", "-")) as caught:
        checked(replace(SamplingParams(), **{name: too_much}))
    assert caught.value.hint == f"It must be {RANGES[name].words}."
    with pytest.raises(WishError):
        with_value(Settings(), f"{name}={too_much}")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, True, "1", None, 1j])
def test_what_is_no_number_of_the_range_is_refused(value: object) -> None:
    assert not Range(0, 5).holds(value)
    assert not Range(-math.inf, 5, is_whole=True).holds(value)


@pytest.mark.parametrize(
    ("allowed", "words"),
    [
        (Range(0, 5), "a number from 0 to 5"),
        (Range(0.1, 10), "a number from 0.1 to 10"),
        (Range(1, 1 << 20, is_whole=True), "a whole number from 1 to 1,048,576"),
        (Range(-math.inf, 9, is_whole=True), "a whole number up to 9"),
    ],
)
def test_a_range_is_told_in_words(allowed: Range, words: str) -> None:
    assert allowed.words == words
