"""Keys and values in 8 and 4 bits: the torch road, and the native kernels byte for byte beside it."""

from __future__ import annotations

import ctypes
import math

import pytest
import torch
from torch import Tensor

from engine.fit.kv_bits import RING_TOKENS, KVBits, key_bytes, ring_bytes, token_bytes, value_bytes
from engine.kv.quantized import (
    PackedCache,
    rotate,
    round_groups,
)
from engine.native.library import Format, Model, NativeLibrary, Plane, Span

DIMS = (16, 48, 64, 80, 96, 128, 256)
FORMATS = {32: Format.F32, 16: Format.BF16, 8: Format.INT8, 4: Format.INT4}
HEADS, TOKENS = 3, 96


def some(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def stored(packing: PackedCache, rows: Tensor, tokens: Tensor) -> Tensor:
    cache = torch.zeros(rows.shape[1], TOKENS * packing.token_bytes, dtype=torch.uint8)
    packing.store(cache, tokens, rows)
    return cache


@pytest.mark.parametrize("dim", DIMS)
def test_a_rotation_keeps_products_and_undoes_itself(dim: int) -> None:
    a, b = some(5, 2, dim), some(5, 2, dim, seed=1)
    torch.testing.assert_close((rotate(a) * rotate(b)).sum(-1), (a * b).sum(-1), rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(rotate(rotate(a)), a)
    spike = torch.zeros(dim)
    spike[3] = 1
    block = dim & -dim
    assert rotate(spike).abs().max().item() == pytest.approx(1 / math.sqrt(block))


@pytest.mark.parametrize("bits", [8, 4])
def test_a_number_is_rounded_by_half_a_step_at_most(bits: int) -> None:
    x = some(200, 32)
    numbers, scale = round_groups(x, bits)
    off = ((numbers * scale.float()) - x).abs()
    step = scale.float().abs().expand_as(off)
    ends = x / scale.float() > 7.5  # beyond the last of the sixteen numbers
    assert bits == 8 or ends.any()
    limit = torch.where(ends, step, step / 2) if bits == 4 else step / 2
    assert (off <= limit * 1.01).all()


def test_a_group_without_a_scale_has_none_and_zeros_stay_zeros() -> None:
    for bits in (8, 4):
        for broken in (math.nan, math.inf, -math.inf, 3e38):
            x = torch.ones(2, 32)
            x[1, 7] = broken
            numbers, scale = round_groups(x, bits)
            assert scale[1].isnan() and not scale[0].isnan() and (numbers[1] == 0).all()
        numbers, scale = round_groups(torch.zeros(1, 32), bits)
        assert scale.item() == 0 and (numbers == 0).all()


@pytest.mark.parametrize("is_keys", [True, False], ids=["keys", "values"])
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("dim", DIMS)
def test_what_is_stored_anywhere_is_read_back(dim: int, bits: int, is_keys: bool) -> None:
    packing, rows = PackedCache(bits, dim, is_keys), some(40, HEADS, dim)
    tokens = torch.randperm(TOKENS, generator=torch.Generator().manual_seed(2))[:40]
    cache = stored(packing, rows, tokens)
    read = packing.load(cache, tokens)
    assert read.shape == (HEADS, 40, dim)
    largest = rows.abs().amax(-1, keepdim=True).transpose(0, 1)
    assert ((read - rows.transpose(0, 1)).abs() <= largest / (250 if bits == 8 else 7.9)).all()
    packing.store(cache, tokens[:1], rows[1:2])  # and leaves the others as they are
    assert torch.equal(packing.load(cache, tokens[1:]), read[:, 1:])


@pytest.mark.parametrize("dim", DIMS)
def test_the_kernels_count_the_same_bytes(dim: int, kernels: NativeLibrary) -> None:
    for bits, format in FORMATS.items():
        assert kernels.functions.dk_key_bytes(format, dim) == key_bytes(bits, dim)
        assert kernels.functions.dk_value_bytes(format, dim) == value_bytes(bits, dim)


def test_fewer_bits_take_fewer_bytes() -> None:
    sizes = [token_bytes(KVBits(*kv), 64) for kv in ((32, 32), (16, 16), (8, 8), (8, 4), (4, 4))]
    assert sizes == [512, 256, 134, 102, 74]
    assert ring_bytes(KVBits(8, 8), 2, 64) == 0
    assert ring_bytes(KVBits(8, 4), 2, 64) == 2 * RING_TOKENS * 2 * 64 * 2


class NativeCache:
    """A plane of two layers and rings, written and read by the kernels through three spans."""

    def __init__(self, kernels: NativeLibrary, kv: KVBits, dim: int) -> None:
        self.functions, self.dim, self.heads = kernels.functions, dim, HEADS
        self.keys = torch.zeros(2, HEADS, TOKENS * key_bytes(kv.keys, dim), dtype=torch.uint8)
        self.values = torch.zeros(2, HEADS, TOKENS * value_bytes(kv.values, dim), dtype=torch.uint8)
        rings = (2, 2, HEADS, RING_TOKENS, dim)
        self.rings = torch.zeros(rings, dtype=torch.bfloat16)
        self.model = Model(
            kv_heads=HEADS,
            head_dim=dim,
            key_format=FORMATS[kv.keys],
            value_format=FORMATS[kv.values],
            ring_tokens=RING_TOKENS if kv.has_rings else 0,
        )
        spans = [(0, 48), (32, 0), (64, 80)]
        self.plane = Plane(
            keys=self.keys.data_ptr(),
            values=self.values.data_ptr(),
            ring_keys=self.rings[0].data_ptr(),
            ring_values=self.rings[1].data_ptr(),
            layer_stride=HEADS * TOKENS,
            head_stride=TOKENS,
            spans=(Span * 3)(*(Span(*span) for span in spans)),
            num_spans=3,
        )
        position = torch.arange(80)
        self.tokens = torch.where(
            position < 32, 48 + position, torch.where(position < 64, position - 32, position + 16)
        )

    def store(self, keys: Tensor, values: Tensor, position: int) -> None:
        format = Format.F32 if keys.dtype == torch.float32 else Format.BF16
        model, plane = ctypes.byref(self.model), ctypes.byref(self.plane)
        self.functions.dk_store(
            model, plane, 1, format, keys.data_ptr(), values.data_ptr(), position, keys.shape[0], 2
        )

    def load(self, begin: int, end: int, ring_first: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        out = torch.empty(2, self.heads, end - begin, self.dim, dtype=dtype)
        format = Format.F32 if dtype == torch.float32 else Format.BF16
        model, plane = ctypes.byref(self.model), ctypes.byref(self.plane)
        self.functions.dk_load(
            model, plane, 1, begin, end, ring_first, format, out[0].data_ptr(), out[1].data_ptr(), 2
        )
        return out[0], out[1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kv", [KVBits(8, 8), KVBits(4, 4), KVBits(8, 4)], ids=str)
@pytest.mark.parametrize("dim", [48, 64, 80, 256])
def test_the_kernels_hold_the_same_bytes(
    dim: int, kv: KVBits, dtype: torch.dtype, kernels: NativeLibrary
) -> None:
    native = NativeCache(kernels, kv, dim)
    keys, values = some(80, HEADS, dim, seed=3).to(dtype), some(80, HEADS, dim, seed=4).to(dtype)
    keys[5, 1] *= 1e4
    values[6, 0] = 0
    native.store(keys[:37], values[:37], 0)
    native.store(keys[37:], values[37:], 37)
    for rows, cache, bits, is_keys in (
        (keys, native.keys, kv.keys, True),
        (values, native.values, kv.values, False),
    ):
        packing = PackedCache(bits, dim, is_keys)
        assert torch.equal(stored(packing, rotate(rows), native.tokens), cache[1])
        assert not cache[0].any()  # the other layer
        loaded = native.load(3, 80, 80, torch.float32)[0 if is_keys else 1]
        assert torch.equal(loaded, packing.load(cache[1], native.tokens[3:]))
        rounded = native.load(3, 80, 80, torch.bfloat16)[0 if is_keys else 1]
        assert torch.equal(rounded, loaded.to(torch.bfloat16))


def test_the_last_tokens_are_read_at_16_bits_from_the_rings(kernels: NativeLibrary) -> None:
    native, keys, values = (
        NativeCache(kernels, KVBits(4, 4), 64),
        some(80, HEADS, 64),
        some(80, HEADS, 64, seed=5),
    )
    native.store(keys, values, 0)
    for loaded, rows in zip(native.load(10, 80, 50, torch.float32), (keys, values), strict=True):
        assert torch.equal(loaded[:, 40:], rotate(rows[50:]).transpose(0, 1).to(torch.bfloat16).float())
    packed = native.load(10, 80, 80, torch.float32)
    assert torch.equal(native.load(10, 80, 50, torch.float32)[0][:, :40], packed[0][:, :40])


def test_dense_planes_are_stored_and_loaded_as_they_are(kernels: NativeLibrary) -> None:
    native, keys, values = (
        NativeCache(kernels, KVBits(16, 32), 48),
        some(80, HEADS, 48),
        some(80, HEADS, 48, seed=6),
    )
    native.store(keys, values, 0)
    loaded = native.load(0, 80, 80, torch.float32)
    assert torch.equal(loaded[0], keys.transpose(0, 1).to(torch.bfloat16).float())
    assert torch.equal(loaded[1], values.transpose(0, 1))
