"""Numbers are written by the rules of the design: rounding by size, unknown is a dash, parts add up."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QLocale

from ui import numbers


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (42.06, "42.1"),
        (9.0, "9.0"),
        (99.94, "99.9"),
        (99.97, "100"),
        (1234.4, "1,234"),
        (None, "–"),
        (math.inf, "–"),
        (math.nan, "–"),
        (-1.0, "–"),
    ],
)
def test_speed_has_one_decimal_below_100_and_is_never_infinite(value: float | None, text: str) -> None:
    assert numbers.tps(value) == text


@pytest.mark.parametrize(("value", "text"), [(0.214, "0.21"), (9.996, "10.0"), (12.34, "12.3"), (None, "–")])
def test_seconds_have_two_decimals_below_10(value: float | None, text: str) -> None:
    assert numbers.seconds(value) == text


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [
        (990_000_000, "0.99"),
        (9_994_000_000, "9.99"),
        (9_996_000_000, "10.0"),
        (16_500_000_000, "16.5"),
        (None, "–"),
    ],
)
def test_gigabytes_are_decimal_with_two_decimals_below_10(num_bytes: int | None, text: str) -> None:
    assert numbers.gigabytes(num_bytes) == text


@pytest.mark.parametrize(
    ("tokens", "text"),
    [(512, "512"), (8192, "8k"), (131_072, "128k"), (1_048_576, "1M"), (10_000, "10,000"), (None, "–")],
)
def test_a_short_context_says_8k_for_8192(tokens: int | None, text: str) -> None:
    assert numbers.context(tokens) == text


def test_counters_have_separators() -> None:
    assert numbers.count(7431) == "7,431"
    assert numbers.count(None) == "–"


@given(st.lists(st.integers(0, 1_600_000_000), min_size=1, max_size=6))
def test_parts_add_up_to_the_sum_as_written(parts: list[int]) -> None:
    texts, total = numbers.gigabyte_parts(parts)
    if sum(parts) < 9_990_000_000:
        gigabytes = [0.0 if text.endswith("MB") else float(text) for text in texts]
    assert sum(round(value * 100) for value in gigabytes) == round(float(total) * 100)
    assert abs(float(total) - sum(parts) / 1e9) < 0.06


def test_what_would_be_a_zero_is_written_in_megabytes() -> None:
    texts, total = numbers.gigabyte_parts((4_100_000, 98_000_000, 0, 7_200_000_000, 20_000))
    assert texts == ("4.1\u00a0MB", "0.10", "0.00", "7.20", "0.00")
    assert total == "7.30"


@pytest.mark.parametrize(
    ("num_bytes", "text"), [(9_940_000, "9.9\u00a0MB"), (10_000_000, "0.01\u00a0GB"), (0, "0.0\u00a0MB")]
)
def test_a_size_has_its_unit(num_bytes: int, text: str) -> None:
    assert numbers.size(num_bytes) == text


@pytest.mark.parametrize(
    ("value", "text"), [(8.64, "8.6"), (9.96, "10"), (41.4, "41"), (None, "–"), (-1.0, "–")]
)
def test_a_prediction_is_whole_from_10_up(value: float | None, text: str) -> None:
    assert numbers.predicted_tps(value) == text


@pytest.mark.parametrize(("value", "text"), [(8.94, "8.9"), (33.4, "33"), (None, "–")])
def test_a_bandwidth_is_whole_from_10_up(value: float | None, text: str) -> None:
    assert numbers.gbps(value) == text


@pytest.mark.parametrize(
    ("code", "text", "value"),
    [
        *(("en", "0.7", 0.7), ("en", "1,5", 1.5), ("en", "1,500", 1500.0), ("en", "0,125", 0.125)),
        *(("de", "0,7", 0.7), ("de", "0.7", 0.7), ("de", "1.500", 1500.0), ("de", "1.200,5", 1200.5)),
        *(
            ("en", "abc", None),
            ("en", "", None),
            ("en", "nan", None),
            ("de", "inf", None),
            ("en", "1_0", None),
        ),
    ],
)
def test_numbers_are_read_as_people_write_them(code: str, text: str, value: float | None) -> None:
    QLocale.setDefault(QLocale(code))
    try:
        assert numbers.read_typed(text) == value
    finally:
        QLocale.setDefault(QLocale.system())


@pytest.mark.parametrize(("code", "texts"), [("en", ["0.7", "1200.5", "5"]), ("de", ["0,7", "1200,5", "5"])])
def test_numbers_to_be_typed_have_the_language_s_decimals(code: str, texts: list[str]) -> None:
    QLocale.setDefault(QLocale(code))
    try:
        assert [numbers.typed(value) for value in (0.7, 1200.5, 5.0)] == texts
        assert [numbers.read_typed(text) for text in texts] == [0.7, 1200.5, 5.0]
    finally:
        QLocale.setDefault(QLocale.system())
