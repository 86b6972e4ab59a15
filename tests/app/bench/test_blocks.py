"""Random blocks are valid, of a sane size, and the same for the same seed."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from app.bench.blocks import TYPES, RandomRows, random_norm, silence
from engine.quant.dequantize import dequantize

ROWS, COLS = 64, 2048


def values(raw: np.ndarray, type_name: str, rows: int = ROWS) -> torch.Tensor:
    return dequantize(torch.from_numpy(raw.reshape(-1).copy()), type_name, (rows, COLS))


@pytest.mark.parametrize("type_name", TYPES)
def test_values_are_finite_centred_and_scaled_to_the_width(type_name: str) -> None:
    weights = values(RandomRows(type_name, COLS, "w", 0).take(ROWS), type_name)
    assert torch.isfinite(weights).all()
    assert abs(weights.mean().item()) < 0.05 * weights.std().item()
    assert weights.std().item() * math.sqrt(COLS) == pytest.approx(1.0, abs=0.35)


@pytest.mark.parametrize("type_name", TYPES)
def test_rows_do_not_depend_on_how_many_are_taken_at_once(type_name: str) -> None:
    whole = RandomRows(type_name, COLS, "w", 3).take(7)
    source = RandomRows(type_name, COLS, "w", 3)
    pieces = np.concatenate([source.take(2), source.take(1), source.take(4)])
    assert np.array_equal(whole, pieces)


def test_seed_and_name_both_change_the_bytes() -> None:
    first = RandomRows("Q4_0", COLS, "w", 0).take(1)
    assert not np.array_equal(first, RandomRows("Q4_0", COLS, "w", 1).take(1))
    assert not np.array_equal(first, RandomRows("Q4_0", COLS, "v", 0).take(1))


@pytest.mark.parametrize("type_name", TYPES)
def test_a_silent_row_is_all_zeros_and_its_neighbours_are_not(type_name: str) -> None:
    raw = RandomRows(type_name, COLS, "w", 0).take(3)
    silence(raw[1:2], type_name)
    weights = values(raw, type_name, 3)
    assert not weights[1].any()
    assert weights[0].any() and weights[2].any()


def test_8_bit_elements_leave_out_the_value_that_no_quantizer_writes() -> None:
    raw = RandomRows("Q8_0", COLS, "w", 0).take(ROWS).reshape(-1, 34)
    elements = raw[:, 2:].view(np.int8)
    assert (elements.min(), elements.max()) == (-127, 127)


def test_a_norm_is_around_one() -> None:
    weights = random_norm(1000, "n", 0).view(np.float32)
    assert weights.size == 1000
    assert 0.75 <= weights.min() < 0.8 and 1.2 < weights.max() <= 1.25


def test_other_types_are_refused() -> None:
    with pytest.raises(ValueError, match="Q2_K"):
        RandomRows("Q2_K", COLS, "w", 0)
