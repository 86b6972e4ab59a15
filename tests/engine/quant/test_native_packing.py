"""Blocks of GGUF files in the native formats: read back, they are the file's values."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.native.library import NativeLibrary
from engine.quant.arena import Arena
from engine.quant.dequantize import dequantize
from engine.quant.formats import NATIVE_FORMATS, TENSOR_TYPES, held_nbytes
from engine.quant.linear import NativeLinear
from engine.quant.packing import NativePacker
from tests.engine.quant.test_dequantize import SCALES, random_blocks

EXACT = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0")
# Types whose scale is a product that is rounded: the largest factor of d in a scale, the largest value.
ROUNDED = {"Q3_K": (32, 4), "Q4_K": (63, 15), "Q5_K": (63, 31), "Q6_K": (128, 32)}
HALF_STEP = 2**-11  # of what is rounded to a half float
TINIEST = 2**-25  # and half a step of the smallest ones


def pack(kernels: NativeLibrary, type_name: str, raw: np.ndarray, cols: int, strip: int = 0) -> NativeLinear:
    """Rows [rows, bytes] held natively, all at once or in strips of rows."""
    rows, held = len(raw), NATIVE_FORMATS[type_name]
    memory = Arena(held_nbytes(held, rows, cols)).take(held_nbytes(held, rows, cols)).fill_(0xAA)
    packer = NativePacker(kernels, type_name, held, cols, memory)
    for first in range(0, rows, strip or rows):
        part = np.ascontiguousarray(raw[first : first + (strip or rows)])
        packer.add(part.ctypes.data, slice(first, first + len(part)))
    return NativeLinear(kernels, held, rows, cols, memory)


def all_rows(linear: NativeLinear) -> Tensor:
    return linear.rows(list(range(linear.matrix.rows)))


def values(raw: np.ndarray, type_name: str, cols: int) -> Tensor:
    return dequantize(torch.from_numpy(raw.reshape(-1).copy()), type_name, (len(raw), cols))


def scales(raw: np.ndarray, type_name: str, place: int) -> Tensor:
    """The half float at a place of each block, for each element: [rows, cols]."""
    kind = TENSOR_TYPES[type_name]
    blocks = torch.from_numpy(raw.reshape(len(raw), -1, kind.block_bytes).copy())
    return (
        blocks[..., place : place + 2]
        .contiguous()
        .view(torch.float16)
        .float()
        .repeat(1, 1, kind.block)
        .flatten(1)
    )


@pytest.mark.parametrize("type_name", EXACT)
@pytest.mark.parametrize(("rows", "cols"), [(16, 32), (1, 64), (33, 96), (100, 512)])
def test_types_with_a_scale_for_32_values_are_held_exactly(
    type_name: str, rows: int, cols: int, kernels: NativeLibrary
) -> None:
    raw = random_blocks(type_name, (rows, cols))
    assert torch.equal(all_rows(pack(kernels, type_name, raw, cols)), values(raw, type_name, cols))


@pytest.mark.parametrize("type_name", ROUNDED)
@pytest.mark.parametrize(("rows", "cols"), [(16, 256), (1, 512), (33, 768)])
def test_types_with_super_blocks_are_held_up_to_the_rounding_of_their_scales(
    type_name: str, rows: int, cols: int, kernels: NativeLibrary
) -> None:
    raw = random_blocks(type_name, (rows, cols))
    error = (all_rows(pack(kernels, type_name, raw, cols)) - values(raw, type_name, cols)).abs()
    factor, largest = ROUNDED[type_name]
    d, *minimum = (scales(raw, type_name, place).abs() for place in SCALES[type_name])
    bound = largest * (HALF_STEP * factor * d + TINIEST)
    for d_min in minimum:
        bound += HALF_STEP * 63 * d_min + TINIEST
    assert (error <= bound * 1.001).all()


@pytest.mark.parametrize("type_name", NATIVE_FORMATS)
def test_rows_that_come_in_strips_are_packed_as_if_all_came_at_once(
    type_name: str, kernels: NativeLibrary
) -> None:
    raw = random_blocks(type_name, (75, 512))
    whole = pack(kernels, type_name, raw, 512)
    for strip in (16, 48):
        assert torch.equal(whole._memory, pack(kernels, type_name, raw, 512, strip)._memory)


@pytest.mark.parametrize("type_name", NATIVE_FORMATS)
def test_what_no_row_fills_is_zero(type_name: str, kernels: NativeLibrary) -> None:
    cols = 32 if type_name in EXACT else 256
    raw = random_blocks(type_name, (17, cols))
    linear = pack(kernels, type_name, raw, cols)
    padded = NativeLinear(kernels, NATIVE_FORMATS[type_name], 32, cols, linear._memory)
    assert not padded.rows(list(range(17, 32))).any()
    assert torch.equal(padded.rows([16]), linear.rows([16]))


@pytest.mark.parametrize("type_name", ROUNDED)
@pytest.mark.parametrize("d", [0.0, 2.0**-24, 2.0**-15, 3e-5, 60_000.0, 65_504.0])
def test_scales_at_the_ends_of_half_floats_stay_finite_and_near(
    type_name: str, d: float, kernels: NativeLibrary
) -> None:
    raw = random_blocks(type_name, (4, 256))
    for place in SCALES[type_name]:
        raw[:, place : place + 2] = np.array([d], np.float16).view(np.uint8)
    held, exact = all_rows(pack(kernels, type_name, raw, 256)), values(raw, type_name, 256)
    assert held.isfinite().all()
    if d < 1:
        factor, largest = ROUNDED[type_name]
        bound = (largest + 1) * (HALF_STEP * factor * d + TINIEST)
        assert ((held - exact).abs() <= bound * 1.001).all()


def test_a_scale_that_is_not_finite_is_not_made_a_number(kernels: NativeLibrary) -> None:
    raw = random_blocks("Q6_K", (1, 256))
    raw[:, 192:208] = 1
    raw[:, 208:210] = np.array([np.inf], np.float16).view(np.uint8)
    assert not all_rows(pack(kernels, "Q6_K", raw, 256)).isfinite().any()
