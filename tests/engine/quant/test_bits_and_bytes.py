"""NF4 and LLM.int8 through bitsandbytes, on whatever runs here.

Its CPU kernel for NF4 needs AVX-512 BF16: elsewhere its order of bytes is checked against the library's own
way back. What a GPU would run is run on the library's plain implementation, which takes the same calls.
"""

from __future__ import annotations

import importlib.util
import os

import pytest
import torch
from torch import Tensor

from engine.errors import WishError
from engine.hardware.probe import probe
from engine.quant import bits_and_bytes
from engine.quant.bits_and_bytes import LlmInt8Packer, Nf4Linear, Nf4Packer
from engine.quant.formats import held_nbytes

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("bitsandbytes") is None, reason="bitsandbytes is not installed"
)
# information-theoretically optimal levels for a normal distribution: table of arXiv 2305.14314, appendix E
LEVELS = (-1.0, -0.6961928, -0.52507305, -0.39491749, -0.28444138, -0.18477343, -0.09105004, 0.0)
LEVELS += (0.0795803, 0.1609302, 0.24611230, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1.0)


def weights(rows: int, cols: int) -> Tensor:
    return torch.randn(rows, cols, generator=torch.Generator().manual_seed(rows)) / 8


def nearest_levels(values: Tensor, scales_type: torch.dtype = torch.float32) -> Tensor:
    """Every value as NF4 has it, by definition: the nearest level times the largest of its 64."""
    groups, levels = values.view(-1, 64), torch.tensor(LEVELS)
    largest = groups.abs().amax(dim=1, keepdim=True)
    chosen = (groups[:, :, None] / largest[:, :, None] - levels).abs().argmin(dim=2)
    return (levels[chosen] * largest.to(scales_type).float()).view_as(values)


DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def packed(held: str, values: Tensor, strip: int) -> Nf4Linear:
    packer = Nf4Packer(held, *values.shape, values.device)
    for start in range(0, values.shape[0], strip):
        packer.add(values[start : start + strip])
    return packer.finish()


@pytest.mark.parametrize("strip", [1, 50, 1000])
@pytest.mark.parametrize(("rows", "cols"), [(32, 64), (100, 192), (7, 128)])
@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("device", DEVICES)
def test_nf4_products_are_those_of_the_nearest_levels(
    device: str, rows: int, cols: int, strip: int, batch: int
) -> None:
    values, x = weights(rows, cols), torch.randn(batch, cols)
    linear = packed("nf4", values.to(device), strip)
    y, exact = linear(x.to(device)).cpu(), x @ nearest_levels(values).T
    assert (y.shape, y.dtype) == ((batch, rows), torch.float32)
    assert ((y - exact).abs() <= (x.abs() @ values.abs().T) * 2**-6 + 1e-2).all()
    assert linear.nbytes == held_nbytes("nf4", rows, cols)


@pytest.mark.parametrize("strip", [1, 32, 50, 1000])
@pytest.mark.parametrize(("rows", "cols"), [(32, 64), (100, 192), (7, 128)])
def test_the_order_of_the_cpu_kernel_is_the_librarys(rows: int, cols: int, strip: int) -> None:
    values = weights(rows, cols)
    linear = packed("nf4cpu", values, strip)
    state = linear._state
    state.original_nested, state.original_dtype = False, torch.float32
    state.original_qshape = (linear.values.numel(), 1)
    plain, _ = bits_and_bytes.functional()._convert_weight_packed_for_cpu_inverse(linear.values, state)
    again = Nf4Linear(plain.view(-1, cols // 2), linear.scales.T.float().reshape(-1), rows)
    exact = nearest_levels(values, torch.bfloat16)
    torch.testing.assert_close(again(torch.eye(cols)).T, exact, rtol=2**-7, atol=1e-6)
    assert linear.nbytes == held_nbytes("nf4cpu", rows, cols)


@pytest.mark.skipif("avx512_bf16" not in probe().instruction_sets, reason="the kernel needs AVX-512 BF16")
@pytest.mark.parametrize("batch", [1, 5, 40])
def test_the_cpu_kernel_multiplies_what_was_packed_for_it(batch: int) -> None:
    values, x = weights(100, 192), torch.randn(batch, 192)
    exact = x @ nearest_levels(values, torch.bfloat16).T
    y = packed("nf4cpu", values, 50)(x)
    assert ((y - exact).abs() <= (x.abs() @ values.abs().T) * 2**-6 + 1e-2).all()


@pytest.mark.parametrize("strip", [1, 7, 1000])
@pytest.mark.parametrize("batch", [1, 6])
@pytest.mark.parametrize("has_outlier", [False, True])
@pytest.mark.parametrize("device", DEVICES)
def test_llm_int8_spares_the_columns_of_outliers(
    device: str, strip: int, batch: int, has_outlier: bool
) -> None:
    values, x = weights(40, 96), torch.randn(batch, 96).clamp(-3, 3)
    if has_outlier:
        x[0, 17] = 60.0
    packer = LlmInt8Packer(40, 96, torch.device(device))
    for start in range(0, 40, strip):
        packer.add(values[start : start + strip].to(device))
    linear = packer.finish()
    y, exact = linear(x.to(device)).cpu(), x @ values.T
    # a step of the weights is 1/127 of a row's largest; one of the inputs too, but for the outlier's column
    steps = values.abs().amax(dim=1) / 127
    bound = x.abs().sum(dim=1, keepdim=True) * steps + 3 / 127 * values.abs().sum(dim=1) + 0.02
    assert ((y - exact).abs() <= bound).all()
    assert (y.shape, y.dtype) == ((batch, 40), torch.float32)
    assert linear.nbytes == held_nbytes("llm-int8", 40, 96)


def test_the_library_is_imported_without_asking_a_hub() -> None:
    before = os.environ.get("HF_HUB_OFFLINE")
    assert bits_and_bytes.functional().__name__ == "bitsandbytes.functional"
    assert os.environ.get("HF_HUB_OFFLINE") == before


def test_a_library_that_cannot_be_imported_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise RuntimeError("no CUDA libraries\nfound")

    monkeypatch.setattr(bits_and_bytes.importlib, "import_module", fail)
    bits_and_bytes.functional.cache_clear()
    with pytest.raises(WishError, match="no CUDA libraries"):
        bits_and_bytes.functional()
