"""Floats rounded to GGUF's blocks: in the format authors' own layout, and better than by their own rule."""

from __future__ import annotations

import ctypes

import gguf
import numpy as np
import pytest
import torch
from torch import Tensor

from engine.native.library import NativeLibrary
from engine.quant import quantize as module
from engine.quant.dequantize import FLOAT_TYPES, dequantize
from engine.quant.formats import TENSOR_TYPES
from engine.quant.quantize import BLOCK_TYPES, quantize

TYPES = sorted(set(BLOCK_TYPES.values()))


def weights(kind: str, rows: int = 48, cols: int = 320) -> Tensor:
    """Matrices of many shapes of distribution."""
    generator = torch.Generator().manual_seed(7)
    normal = torch.randn(rows, cols, generator=generator)
    if kind == "outliers":
        normal[:, ::37] *= 30
    return {
        "normal": normal,
        "outliers": normal,
        "tiny": normal * 1e-5,
        "shifted": normal * 0.01 + 3,
        "zeros": torch.zeros(rows, cols),
        "constant": torch.full((rows, cols), -0.37),
        "spikes": torch.zeros(rows, cols).index_fill_(1, torch.arange(0, cols, 32), 2.0),
    }[kind]


KINDS = ("normal", "outliers", "tiny", "shifted", "zeros", "constant", "spikes")


def held(values: Tensor, type_name: str) -> Tensor:
    return dequantize(quantize(values, type_name).view(-1), type_name, tuple(values.shape))


@pytest.mark.parametrize("type_name", TYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_blocks_are_read_by_the_format_authors_own_code(kind: str, type_name: str) -> None:
    values = weights(kind)
    blocks = quantize(values, type_name)
    assert tuple(blocks.shape) == gguf.quant_shape_to_byte_shape(values.shape, type_id(type_name))
    want = gguf.quants.dequantize(blocks.numpy(), type_id(type_name))
    assert np.array_equal(held(values, type_name).numpy(), want)
    assert np.isfinite(want).all()


def type_id(type_name: str) -> gguf.GGMLQuantizationType:
    return gguf.GGMLQuantizationType[type_name]


@pytest.mark.parametrize("type_name", TYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_errors_are_no_larger_than_by_the_authors_rule(kind: str, type_name: str) -> None:
    values = weights(kind)
    theirs = gguf.quants.quantize(values.numpy(), type_id(type_name))
    their_error = torch.from_numpy(gguf.quants.dequantize(theirs, type_id(type_name))) - values
    error = held(values, type_name) - values
    assert error.square().sum() <= 1.0001 * their_error.square().sum() + 1e-12
    if kind == "normal" and type_name == "Q4_1":
        assert error.square().sum() < 0.9 * their_error.square().sum()  # what the search is for


def test_eight_bits_are_within_half_a_step() -> None:
    values = weights("normal")
    steps = values.view(-1, 32).abs().amax(dim=1, keepdim=True) / 127
    away = (held(values, "Q8_0") - values).view(-1, 32).abs()
    assert (away <= 0.5 * steps * 1.01 + values.view(-1, 32).abs() * 2**-10).all()  # d is a half float


@pytest.mark.parametrize("type_name", TYPES)
def test_rounding_in_pieces_changes_nothing_and_leaves_the_values_alone(
    type_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = weights("outliers")
    before, whole = values.clone(), quantize(values, type_name)
    monkeypatch.setattr(module, "_PIECE", 1024)
    with torch.inference_mode():
        assert torch.equal(quantize(values, type_name), whole)
    assert torch.equal(values, before)


def native_blocks(kernels: NativeLibrary, values: Tensor, type_name: str, threads: int) -> Tensor:
    source = next(name for name, dtype in FLOAT_TYPES.items() if dtype == values.dtype)
    kind = TENSOR_TYPES[type_name]
    rows, cols = values.shape
    blocks = torch.full((rows, cols // kind.block * kind.block_bytes), 0xAA, dtype=torch.uint8)
    source_id, address = TENSOR_TYPES[source].ggml_id, values.data_ptr()
    count = kernels.functions.dk_quantize
    assert count(source_id, address, rows, cols, kind.ggml_id, blocks.data_ptr(), threads) == 0
    return blocks


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", FLOAT_TYPES.values())
@pytest.mark.parametrize("type_name", TYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_native_rounding_is_torchs(
    kind: str, type_name: str, dtype: torch.dtype, threads: int, kernels: NativeLibrary
) -> None:
    values = weights(kind).to(dtype)
    ours = native_blocks(kernels, values, type_name, threads)
    blocks = quantize(values.float(), type_name)
    if torch.equal(ours, blocks):
        return
    # sums in another order may tip a value that lies between two: the errors are as small all the same
    shape = (*values.shape,)
    errors = [
        (dequantize(each.view(-1), type_name, shape) - values.float()).view(-1, 32).square().sum(dim=1)
        for each in (ours, blocks)
    ]
    torch.testing.assert_close(errors[0], errors[1], rtol=1e-2, atol=1e-12)
    assert (ours == blocks).float().mean() > 0.99


def test_every_half_float_is_read_and_what_is_no_number_stays_none(kernels: NativeLibrary) -> None:
    halves = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(torch.float16).view(-1, 32)
    finite = halves[halves.isfinite().all(dim=1)]
    got = dequantize(native_blocks(kernels, finite, "Q8_0", 1).view(-1), "Q8_0", (*finite.shape,))
    assert torch.equal(got, held(finite.float(), "Q8_0"))
    for bad in (torch.nan, torch.inf):
        values = torch.ones(1, 32)
        values[0, 5] = bad
        for type_name in TYPES:
            for blocks in (native_blocks(kernels, values, type_name, 1), quantize(values, type_name)):
                assert not dequantize(blocks.view(-1), type_name, (1, 32)).isfinite().any()


@pytest.mark.parametrize(("source", "cols", "kind"), [(0, 40, 8), (2, 64, 8), (0, 64, 2), (0, 64, 14)])
def test_what_cannot_be_rounded_is_said(source: int, cols: int, kind: int, kernels: NativeLibrary) -> None:
    place = (ctypes.c_uint8 * 1024)()
    address = ctypes.addressof(place)
    assert kernels.functions.dk_quantize(source, address, 1, cols, kind, address, 1) == -1
