"""Layers for accelerators: what is packed is what is multiplied, and a device's claims are tried."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from engine.quant.dequantize import dequantize
from engine.quant.formats import held_nbytes
from engine.quant.gpu_linear import GpuDenseLinear, GpuInt4Packer, computed_formats
from engine.quant.packing import unpack_q4
from engine.quant.quantize import quantize
from tests.engine.toy_device import TOY, ToyDevice

CPU = torch.device("cpu")


@pytest.fixture
def int4_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch's int4 kernel for GPUs as its documentation has it, on the processor: pairs of columns, the even
    one in the high half; here its tiles keep the order of the rows.
    """

    def convert(pairs: Tensor, tiles: int) -> Tensor:
        rows, half = pairs.shape
        assert rows % 8 == 0 and 2 * half % (16 * tiles) == 0
        return pairs.view(torch.int32).view(rows // 8, 2 * half // (16 * tiles), 32, tiles // 2)

    def multiply(x: Tensor, packed: Tensor, group: int, scales_zeros: Tensor) -> Tensor:
        assert (x.dtype, scales_zeros.dtype) == (torch.bfloat16, torch.bfloat16)
        pairs = packed.contiguous().view(torch.uint8).view(packed.shape[0] * 8, -1)
        values = torch.stack((pairs >> 4, pairs & 15), dim=-1).flatten(1).float()
        scale, zero = scales_zeros.float().transpose(0, 1).repeat_interleave(group, dim=1).unbind(-1)
        return (x.float() @ ((values - 8) * scale + zero).T).bfloat16()

    monkeypatch.setattr(torch, "_convert_weight_to_int4pack", convert)
    monkeypatch.setattr(torch, "_weight_int4pack_mm", multiply)


@pytest.fixture
def toy() -> Iterator[ToyDevice]:
    with ToyDevice() as device:
        yield device


@pytest.mark.parametrize("type_name", ["Q4_0", "Q4_1", "Q4_K"])
@pytest.mark.parametrize(("rows", "cols"), [(16, 256), (40, 768), (7, 1024)])
def test_four_bit_blocks_are_multiplied_as_their_file_means_them(
    type_name: str, rows: int, cols: int, int4_kernel: None
) -> None:
    raw = blocks(type_name, rows, cols)
    packer = GpuInt4Packer(rows, cols, CPU)
    for start in range(0, rows, 9):  # in strips of any height
        strip = raw[start : start + 9]
        packer.add(*unpack_q4(strip.reshape(-1), type_name, strip.shape[0], cols))
    linear, x = packer.finish(), torch.randn(3, cols)
    weight = dequantize(raw.reshape(-1), type_name, (rows, cols))
    found, expected = linear(x), x @ weight.T
    assert found.shape == (3, rows)
    torch.testing.assert_close(found, expected, atol=0.02 * float(expected.abs().max()), rtol=0.02)
    assert linear.nbytes == held_nbytes("int4g32", rows, cols)


def blocks(type_name: str, rows: int, cols: int) -> Tensor:
    """Blocks of a type, uint8 [rows, bytes of a row]: of random values, or with small scales."""
    if type_name == "Q4_1":
        return quantize(torch.randn(rows, cols), "Q4_1")
    size, block = {"Q4_0": (18, 32), "Q4_K": (144, 256)}[type_name]
    raw = torch.randint(0, 256, (rows * cols // block, size), dtype=torch.uint8)
    halves = torch.rand(raw.shape[0], 2).div(64).half().view(torch.uint8)
    raw[:, : 4 if type_name == "Q4_K" else 2] = halves[:, : 4 if type_name == "Q4_K" else 2]
    return raw.view(rows, -1)


def test_a_dense_layer_is_looked_up_and_multiplied_without_waiting(toy: ToyDevice) -> None:
    weight = torch.randn(5, 8)
    linear, x = GpuDenseLinear(weight.to(TOY)), torch.randn(2, 8)
    on_toy, before = x.to(TOY), toy.waits
    product, rows = linear(on_toy), linear.rows([3, 0, 3])
    assert toy.waits == before
    torch.testing.assert_close(toy.read(product), x @ weight.T)
    assert torch.equal(toy.read(rows), weight[[3, 0, 3]])
    assert toy.holds(rows)


def test_a_device_computes_what_it_was_seen_to_compute(int4_kernel: None) -> None:
    assert computed_formats(CPU) == ("f32", "bf16", "f16", "int4g32", "int8row")


def test_a_kernel_that_is_missing_fails_or_errs_is_none(
    monkeypatch: pytest.MonkeyPatch, int4_kernel: None
) -> None:
    right = torch._weight_int4pack_mm
    monkeypatch.setattr(torch, "_weight_int4pack_mm", lambda *args: right(*args).roll(1, dims=1))
    assert "int4g32" not in computed_formats(CPU)
    monkeypatch.setattr(torch, "_weight_int4pack_mm", lambda *args: right(*args)[:, :8])
    assert "int4g32" not in computed_formats(CPU)
    monkeypatch.delattr(torch, "_weight_int8pack_mm")
    assert computed_formats(CPU) == ("f32", "bf16", "f16")


def test_float32_is_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.nn.functional, "linear", lambda x, w: torch.full((x.shape[0], w.shape[0]), 9.0))
    assert computed_formats(CPU)[0] == "f32"
    assert "bf16" not in computed_formats(CPU)
