"""Unpacking of quantized blocks: equal to the bit to the format authors' own numbers."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
import torch

from engine.quant import dequantize as module
from engine.quant import formats
from engine.quant.dequantize import dequantize

BLOCK_TYPES = [kind.name for kind in formats.TENSOR_TYPES.values() if kind.supported and kind.block > 1]
# where the float16 scales of a block lie
SCALES = {"Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}
SCALES |= {"Q4_1": (0, 2), "Q5_1": (0, 2)}


def random_blocks(type_name: str, shape: tuple[int, int], seed: int = 1) -> np.ndarray:
    """Bytes [rows, bytes of a row] that are random but for their scales, which are sane numbers."""
    kind = formats.TENSOR_TYPES[type_name]
    random = np.random.default_rng(seed)
    raw = random.integers(0, 256, (formats.nbytes(type_name, shape) // kind.block_bytes, kind.block_bytes))
    raw = raw.astype(np.uint8)
    for at in SCALES.get(type_name, (0,)):
        raw[:, at : at + 2] = random.normal(0, 0.1, (len(raw), 1)).astype(np.float16).view(np.uint8)
    return raw.reshape(shape[0], -1)


@pytest.mark.parametrize("type_name", BLOCK_TYPES)
def test_random_blocks_unpack_to_the_reference_to_the_bit(type_name: str) -> None:
    raw = random_blocks(type_name, (5, 512))
    want = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType[type_name])
    got = dequantize(torch.from_numpy(raw.reshape(-1).copy()), type_name, (5, 512))
    assert got.dtype == torch.float32
    assert np.array_equal(got.numpy(), want)


@pytest.mark.parametrize("type_name", ["Q4_1", "Q6_K"])
def test_unpacking_in_pieces_changes_nothing(type_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = torch.from_numpy(random_blocks(type_name, (7, 768)).reshape(-1))
    whole = dequantize(raw, type_name, (7, 768))
    monkeypatch.setattr(module, "_PIECE", 512)
    assert torch.equal(dequantize(raw, type_name, (7, 768)), whole)


@pytest.mark.parametrize(("type_name", "dtype"), [("F32", np.float32), ("F16", np.float16)])
def test_floats_become_float32(type_name: str, dtype: type[np.floating]) -> None:
    values = np.linspace(-2, 2, 12).astype(dtype).reshape(3, 4)
    got = dequantize(torch.from_numpy(values.reshape(-1).view(np.uint8).copy()), type_name, (3, 4))
    assert np.array_equal(got.numpy(), values.astype(np.float32))


def test_bfloat16_keeps_its_upper_half() -> None:
    raw = torch.tensor([0x80, 0x3F, 0x00, 0xC0], dtype=torch.uint8)
    assert dequantize(raw, "BF16", (2,)).tolist() == [1.0, -2.0]


def test_one_q4_1_block_by_hand() -> None:
    head = np.array([0.5, -1.0], dtype=np.float16).view(np.uint8)
    raw = np.concatenate([head, np.arange(16, dtype=np.uint8) | (15 << 4)])
    got = dequantize(torch.from_numpy(raw), "Q4_1", (1, 32))[0]
    assert got[:16].tolist() == [0.5 * i - 1 for i in range(16)]
    assert got[16:].tolist() == [6.5] * 16


def test_a_type_without_formula_is_refused() -> None:
    with pytest.raises(ValueError, match="IQ4_NL"):
        dequantize(torch.zeros(18, dtype=torch.uint8), "IQ4_NL", (1, 32))


def test_unpacking_works_in_inference_mode_and_leaves_the_bytes_alone() -> None:
    raw = torch.from_numpy(random_blocks("Q5_K", (2, 256)).reshape(-1))
    before = raw.clone()
    with torch.inference_mode():
        dequantize(raw, "Q5_K", (2, 256))
    assert torch.equal(raw, before)
