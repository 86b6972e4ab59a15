"""4-bit blocks repacked for the int4 kernel hold the values of the file."""

from __future__ import annotations

import pytest
import torch

from engine.quant.dequantize import dequantize
from engine.quant.formats import held_nbytes
from engine.quant.packing import pack_int4, unpack_q4
from tests.engine.models.writers import quantized


def raw_of(weight: torch.Tensor, type_name: str) -> torch.Tensor:
    return torch.frombuffer(bytearray(quantized("w", weight, type_name).data), dtype=torch.uint8)


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
