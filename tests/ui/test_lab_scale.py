"""Logarithmic axes: equal factors are equal distances, and ticks are few and round."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ui.lab_scale import LogScale

SPEEDS = st.floats(1e-3, 1e5)


def test_equal_factors_are_equal_distances() -> None:
    scale = LogScale(1.0, 16.0)
    shares = [scale.share(value) for value in (1, 2, 4, 8, 16)]
    assert shares == pytest.approx([0.0, 0.25, 0.5, 0.75, 1.0])


@given(st.lists(SPEEDS, min_size=1, max_size=20))
def test_all_values_have_room(values: list[float]) -> None:
    scale = LogScale.around(values)
    assert all(0 < scale.share(value) < 1 for value in values)
    assert scale.high / scale.low >= 4 * (1 - 1e-9)


@given(SPEEDS, st.floats(1.0, 1e5))
def test_ticks_are_round_ascending_and_few(low: float, factor: float) -> None:
    scale = LogScale.around([low, low * factor])
    ticks = scale.ticks()
    assert 1 <= len(ticks) <= 9
    assert list(ticks) == sorted(ticks)
    assert all(scale.low <= tick <= scale.high for tick in ticks)
    assert {f"{tick:.0e}"[0] for tick in ticks} <= {"1", "2", "5"}


@pytest.mark.parametrize("values", [[], [0.0], [-1.0, math.nan, math.inf]])
def test_nothing_to_show_is_a_scale_all_the_same(values: list[float]) -> None:
    assert LogScale.around(values).ticks()


def test_one_place_lies_in_the_middle() -> None:
    assert LogScale(512, 512).share(512) == 0.5
