"""Ranges of sampling values: one source for the command line, the settings and the engine."""

from __future__ import annotations

import math
import sys
from dataclasses import fields, replace

import pytest

from app.settings import Settings, with_value
from engine.decode.limits import (
    MOST_BIASED,
    MOST_REGEX_BYTES,
    MOST_SCHEMA_BYTES,
    RANGES,
    Range,
    check_form,
    checked,
)
from engine.errors import WishError
from engine.types import SamplingParams


def test_every_sampling_value_has_a_range() -> None:
    assert RANGES.keys() | {"logit_bias"} == {field.name for field in fields(SamplingParams)}
    assert checked(SamplingParams()) == SamplingParams()


@pytest.mark.parametrize("top_k", [0, -1, -40, 1, 1 << 20])
def test_a_top_k_below_0_is_off_and_no_mistake(top_k: int) -> None:  # B061
    assert checked(SamplingParams(top_k=top_k)).top_k == top_k
    if top_k >= 0:  # a person is told that 0 is off, and to type less is a mistake
        assert with_value(Settings(), f"top_k={top_k}").top_k == top_k
    else:
        with pytest.raises(WishError, match="a whole number from 0 to"):
            with_value(Settings(), f"top_k={top_k}")


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


@pytest.mark.parametrize(
    ("bias", "words"),
    [
        (((0, math.nan),), "nan"),
        (((0, 100.5),), "100.5"),
        (((0, -math.inf),), "-inf"),
        (((0, "1"),), "'1'"),
        (((-1, 1.0),), "-1"),
        (((True, 1.0),), "True"),
        (((1.0, 1.0),), "1.0"),
        (((50, 1.0),), "50"),
        (((1, 1.0), (2, 2.0), (1, 3.0)), "1 twice"),
        (tuple((token, 1.0) for token in range(MOST_BIASED + 1)), "1,025 tokens"),
    ],
)
def test_a_bias_that_cannot_be_used_is_named(bias: tuple[tuple[int, float], ...], words: str) -> None:
    with pytest.raises(WishError, match="logit-bias") as caught:
        checked(SamplingParams(logit_bias=bias), vocab_size=50)
    assert words in caught.value.message
    assert caught.value.hint


def test_a_bias_is_checked_without_a_vocabulary_as_far_as_it_can_be() -> None:
    params = SamplingParams(logit_bias=((50, -100), (49, 100.0)))
    assert checked(params) is params
    with pytest.raises(WishError, match="50") as caught:
        checked(params, vocab_size=50)
    assert "from 0 to 49" in caught.value.hint


@pytest.mark.parametrize(
    ("schema", "regex", "words"),
    [
        ("{}", "a", "not to both"),
        ("[1]", "", "not a JSON object"),
        ("{" * 1000, "", "not a JSON object"),
        ('{"a": "' + "é" * (MOST_SCHEMA_BYTES // 2) + '"}', "", "bytes"),
        ("", "a" * (MOST_REGEX_BYTES + 1), "bytes"),
    ],
)
def test_what_is_no_form_of_an_answer_is_refused(schema: str, regex: str, words: str) -> None:
    with pytest.raises(WishError, match=words) as caught:
        check_form(schema, regex)
    assert caught.value.hint


def test_a_form_needs_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    check_form('{"type": "object"}', "")
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(WishError, match="not installed") as caught:
        check_form("", "a")
    assert "pip install llguidance" in caught.value.hint


@pytest.mark.parametrize("regex", ["\\", "a\\", "a\\\\\\"])
def test_a_backslash_that_escapes_nothing_is_refused(regex: str) -> None:
    with pytest.raises(WishError, match="backslash"):
        check_form("", regex)


def test_an_escaped_backslash_may_end_a_regex() -> None:
    check_form("", "a\\\\")
