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


def shapes(type_name: str) -> list[tuple[int, int]]:
    """Whole and part tiles; one block, and an odd and an even number of them."""
    block = TENSOR_TYPES[type_name].block
    return [(16, block), (1, 2 * block), (33, 3 * block), (100, 4 * block)]


def set_halves(raw: np.ndarray, type_name: str, halves: np.ndarray) -> None:
    """Put half floats, given as uint16, in the place of each block's scales."""
    blocks = raw.reshape(-1, TENSOR_TYPES[type_name].block_bytes)
    for at in SCALES.get(type_name, (0,)):
        blocks[:, at : at + 2] = np.resize(halves, len(blocks)).view(np.uint8).reshape(-1, 2)
        halves = np.roll(halves, 1)


# To the bit: the kernels multiply in the order in which `dequantize` does and round nothing.
@pytest.mark.parametrize("type_name", NATIVE_FORMATS)
def test_every_type_is_held_exactly(type_name: str, kernels: NativeLibrary) -> None:
    for rows, cols in shapes(type_name):
        raw = random_blocks(type_name, (rows, cols), rows)
        assert torch.equal(all_rows(pack(kernels, type_name, raw, cols)), values(raw, type_name, cols))


@pytest.mark.parametrize("type_name", NATIVE_FORMATS)
def test_half_floats_of_every_size_are_held_exactly_as_scales(type_name: str, kernels: NativeLibrary) -> None:
    ends = [1, 0x7BFF, 0x7C00, 0x8000, 0xFC00]  # the smallest and the largest, infinities, a negative zero
    halves = np.array([*ends, *range(0, 1 << 16, 17)], np.uint16)
    cols = 64 * TENSOR_TYPES[type_name].block
    raw = random_blocks(type_name, (64, cols))
    set_halves(raw, type_name, halves)
    held = all_rows(pack(kernels, type_name, raw, cols))
    torch.testing.assert_close(held, values(raw, type_name, cols), rtol=0, atol=0, equal_nan=True)


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
    cols = TENSOR_TYPES[type_name].block
    raw = random_blocks(type_name, (17, cols))
    linear = pack(kernels, type_name, raw, cols)
    padded = NativeLinear(kernels, NATIVE_FORMATS[type_name], 32, cols, linear._memory)
    assert not padded.rows(list(range(17, 32))).any()
    assert torch.equal(padded.rows([16]), linear.rows([16]))
