"""Packed matrices hold the values of the file, or the nearest that their format has."""

from __future__ import annotations

import pytest
import torch

from engine.models.placement import CPU
from engine.native.library import NativeLibrary
from engine.quant.dequantize import FLOAT_TYPES, dequantize
from engine.quant.formats import held_nbytes
from engine.quant.linear import Int4Linear, NativeLinear
from engine.quant.packing import Int4Packer, Int8Packer, NativePacker, NativeRounder, unpack_q4
from engine.quant.quantize import BLOCK_TYPES, quantize
from tests.engine.models.writers import quantized


def raw_of(weight: torch.Tensor, type_name: str) -> torch.Tensor:
    return torch.frombuffer(bytearray(quantized("w", weight, type_name).data), dtype=torch.uint8)


def pack_int4(values: torch.Tensor, scales: torch.Tensor, strip: int = 1 << 20) -> Int4Linear:
    packer = Int4Packer(*values.shape)
    for start in range(0, values.shape[0], strip):
        packer.add(values[start : start + strip], scales[start : start + strip])
    return packer.finish()


@pytest.mark.parametrize("rows", [16, 64, 100, 128, 200, 321])
@pytest.mark.parametrize("strip", [1, 7, 64, 100])
def test_rows_that_come_in_strips_are_packed_as_if_all_came_at_once(rows: int, strip: int) -> None:
    values, scales = unpack_q4(raw_of(torch.randn(rows, 64), "Q4_1"), "Q4_1", rows, 64)
    whole, strips = pack_int4(values, scales), pack_int4(values, scales, strip)
    padded = whole.packed.shape[0] - rows
    expected = torch.cat((values, values.new_zeros(padded, 64)))
    assert torch.equal(whole.packed, torch._convert_weight_to_int4pack_for_cpu(expected, 1))
    assert torch.equal(whole.packed, strips.packed)
    assert torch.equal(whole.scales_zeros, strips.scales_zeros)


@pytest.mark.parametrize("type_name", ["Q4_0", "Q4_1"])
@pytest.mark.parametrize(("rows", "cols"), [(16, 32), (7, 64), (48, 96), (1, 32), (33, 160)])
def test_unpacked_blocks_are_the_files_values(type_name: str, rows: int, cols: int) -> None:
    raw = raw_of(torch.randn(rows, cols), type_name)
    values, scales = unpack_q4(raw, type_name, rows, cols)
    assert values.min() >= 0
    assert values.max() <= 15
    expanded = scales.repeat_interleave(32, dim=1)
    exact = (values - 8) * expanded[..., 0] + expanded[..., 1]
    torch.testing.assert_close(exact, dequantize(raw, type_name, (rows, cols)), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("type_name", ["Q4_0", "Q4_1"])
@pytest.mark.parametrize(("rows", "cols"), [(16, 32), (7, 64), (48, 96), (33, 160)])
@pytest.mark.parametrize("batch", [1, 3, 5, 17])
def test_the_packed_product_is_the_dequantized_one(type_name: str, rows: int, cols: int, batch: int) -> None:
    raw = raw_of(torch.randn(rows, cols), type_name)
    linear = pack_int4(*unpack_q4(raw, type_name, rows, cols))
    x = torch.randn(batch, cols).bfloat16()
    exact = x.float() @ dequantize(raw, type_name, (rows, cols)).T
    y = linear(x)
    assert y.shape == (batch, rows)
    # scale and zero are rounded to 8 bits of mantissa: 2^-9 of each product, and the sum to bf16 again
    bound = (x.float().abs() @ dequantize(raw, type_name, (rows, cols)).abs().T) * 2**-6 + 0.02
    assert ((y.float() - exact).abs() <= bound).all()


@pytest.mark.parametrize(("rows", "cols"), [(16, 32), (7, 64), (33, 160)])
def test_packed_bytes_are_the_advisors(rows: int, cols: int) -> None:
    raw = raw_of(torch.randn(rows, cols), "Q4_1")
    linear = pack_int4(*unpack_q4(raw, "Q4_1", rows, cols))
    assert linear.nbytes == held_nbytes("int4g32", rows, cols)


@pytest.mark.parametrize("strip", [1, 7, 100])
def test_rows_are_rounded_to_the_nearest_of_their_own_scale(strip: int) -> None:
    values = torch.randn(40, 96, generator=torch.Generator().manual_seed(strip))
    values[3], values[5] = 0, values[5] * 1e-4
    packer = Int8Packer(40, 96, CPU)
    for start in range(0, 40, strip):
        packer.add(values[start : start + strip])
    held = packer.finish()
    scales = held.scales.float()[:, None]
    # the scale is rounded to 8 bits of mantissa first, and the largest value may lie beyond 127 of it
    away = (held.rows(list(range(40))) - values).abs()
    assert (away <= 0.5 * scales + values.abs() * 2**-8).all()
    assert held.nbytes == held_nbytes("int8row", 40, 96)


@pytest.mark.parametrize("dtype", FLOAT_TYPES.values())
@pytest.mark.parametrize("held", ["int8", "int4z"])
@pytest.mark.parametrize("strip", [16, 48, 1000])
def test_floats_are_rounded_and_packed_as_their_blocks_would_be(
    strip: int, held: str, dtype: torch.dtype, kernels: NativeLibrary
) -> None:
    values = torch.randn(100, 96, generator=torch.Generator().manual_seed(strip)).to(dtype)
    source = next(name for name, each in FLOAT_TYPES.items() if each == dtype)
    memories = [torch.zeros(held_nbytes(held, 100, 96) + 64, dtype=torch.uint8) for _ in range(2)]
    memories = [memory[-memory.data_ptr() % 64 :][: held_nbytes(held, 100, 96)] for memory in memories]
    rounder = NativeRounder(kernels, source, held, 96, memories[0])
    for start in range(0, 100, strip):
        part = values[start : start + strip].contiguous()
        rounder.add(part.data_ptr(), slice(start, start + part.shape[0]), threads=1 + start % 2)
    blocks = quantize(values.float(), BLOCK_TYPES[held])
    NativePacker(kernels, BLOCK_TYPES[held], held, 96, memories[1]).add(blocks.data_ptr(), slice(0, 100))
    rounded, packed = (
        torch.stack([NativeLinear(kernels, held, 100, 96, memory).rows([row])[0] for row in range(100)])
        for memory in memories
    )
    torch.testing.assert_close(rounded, packed, rtol=0.05, atol=0.05)
    assert (rounded == packed).float().mean() > 0.98
