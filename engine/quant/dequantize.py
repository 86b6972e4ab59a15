"""Unpacks quantized blocks to float32, vectorised in torch; knows bytes of blocks and no files.

Layouts and formulas are those of ggml's `ggml-quants.c` / `ggml-common.h`, in the same order of
float32 operations, so that results are equal to the bit.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from engine.quant.formats import TENSOR_TYPES

FLOAT_TYPES: dict[str, torch.dtype] = {
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
}
_PIECE = 1 << 21  # elements unpacked at once, so that temporary memory stays small


def dequantize(raw: Tensor, type_name: str, shape: tuple[int, ...]) -> Tensor:
    """The tensor of `shape` in float32 from its bytes, uint8 [nbytes].

    `type_name` must be a supported key of TENSOR_TYPES; ValueError otherwise. Does not change `raw`.
    """
    if type_name in FLOAT_TYPES:
        return raw.view(FLOAT_TYPES[type_name]).float().reshape(shape)
    kind = TENSOR_TYPES[type_name]
    unpack = _UNPACK.get(type_name)
    if unpack is None:
        raise ValueError(f"{type_name} cannot be unpacked")
    blocks = raw.view(-1, kind.block_bytes)  # [blocks, bytes of a block]
    values = torch.empty(blocks.shape[0], kind.block, dtype=torch.float32)
    step = max(1, _PIECE // kind.block)
    for start in range(0, blocks.shape[0], step):
        values[start : start + step] = unpack(blocks[start : start + step])
    return values.view(shape)


def _half(part: Tensor) -> Tensor:
    """float16 numbers in the bytes [blocks, 2n] → float32 [blocks, n]."""
    return part.contiguous().view(torch.float16).float()


def _nibbles(part: Tensor) -> Tensor:
    """[blocks, n] bytes → [blocks, 2n]: all low halves, then all high halves."""
    return torch.cat((part & 15, part >> 4), dim=-1)


def _fifth_bits(part: Tensor) -> Tensor:
    """32 bits in 4 bytes, lowest first: [blocks, 4] → [blocks, 32] of 0 or 16."""
    shifts = torch.arange(8, dtype=torch.uint8)
    bits = (part[:, :, None] >> shifts) & 1
    return (bits << 4).flatten(1)


def _q4_0(b: Tensor) -> Tensor:
    """value = d · (q − 8); f16 d, 16 bytes of nibbles."""
    return _half(b[:, :2]) * (_nibbles(b[:, 2:]).float() - 8)


def _q4_1(b: Tensor) -> Tensor:
    """value = d · q + m; f16 d, f16 m, 16 bytes of nibbles."""
    return _half(b[:, :2]) * _nibbles(b[:, 4:]).float() + _half(b[:, 2:4])


def _q5_0(b: Tensor) -> Tensor:
    """value = d · (q − 16); f16 d, 4 bytes of fifth bits, 16 bytes of nibbles."""
    q = _nibbles(b[:, 6:]) | _fifth_bits(b[:, 2:6])
    return _half(b[:, :2]) * (q.float() - 16)


def _q5_1(b: Tensor) -> Tensor:
    """value = d · q + m; f16 d, f16 m, 4 bytes of fifth bits, 16 bytes of nibbles."""
    q = _nibbles(b[:, 8:]) | _fifth_bits(b[:, 4:8])
    return _half(b[:, :2]) * q.float() + _half(b[:, 2:4])


def _q8_0(b: Tensor) -> Tensor:
    """value = d · q; f16 d, 32 signed bytes."""
    return _half(b[:, :2]) * b[:, 2:].contiguous().view(torch.int8).float()


def _two_bits(part: Tensor) -> Tensor:
    """64 bytes in two runs of 32, each byte holding four 2-bit numbers 32 elements apart → [blocks, 256]."""
    shifts = torch.tensor([0, 2, 4, 6], dtype=torch.uint8).view(1, 1, 4, 1)
    return ((part.reshape(-1, 2, 1, 32) >> shifts) & 3).flatten(1)


def _q2_k(b: Tensor) -> Tensor:
    """value = d · scale · q − dmin · minimum; 16 sub-blocks of 16 share a byte of scale and minimum."""
    scales, quants = b[:, :16], b[:, 16:80]
    d, d_min = _half(b[:, 80:82]), _half(b[:, 82:84])
    scale = d * (scales & 15).float()  # [blocks, 16]
    minimum = d_min * (scales >> 4).float()
    q = _two_bits(quants).float().view(-1, 16, 16)
    return (scale[:, :, None] * q - minimum[:, :, None]).flatten(1)


def _q3_k(b: Tensor) -> Tensor:
    """value = d · (scale − 32) · (q − 4 where the high bit is clear); 16 sub-blocks of 16.

    The 16 scales have 6 bits each, in 12 bytes.
    """
    high, quants, packed = b[:, :32], b[:, 32:96], b[:, 96:108]
    low = torch.cat((packed[:, :8] & 15, packed[:, :8] >> 4), dim=1)  # [blocks, 16]
    shifts = torch.tensor([0, 2, 4, 6], dtype=torch.uint8).view(1, 4, 1)
    upper = packed[:, 8:]  # [blocks, 4]: two more bits of four scales a byte
    top = ((upper[:, None, :] >> shifts) & 3).flatten(1)  # [blocks, 16]
    scale = _half(b[:, 108:110]) * ((low | (top << 4)).float() - 32)
    planes = torch.arange(8, dtype=torch.uint8).view(1, 8, 1)
    is_clear = (((high[:, None, :] >> planes) & 1) ^ 1).flatten(1)  # [blocks, 256]
    q = _two_bits(quants).float() - 4 * is_clear.float()
    return (scale[:, :, None] * q.view(-1, 16, 16)).flatten(1)


def _scales_and_minima(packed: Tensor) -> tuple[Tensor, Tensor]:
    """Eight 6-bit scales and minima from 12 bytes, as Q4_K and Q5_K keep them → [blocks, 8] twice."""
    first, second, third = packed[:, :4], packed[:, 4:8], packed[:, 8:12]
    scales = torch.cat((first & 63, (third & 15) | ((first >> 6) << 4)), dim=1)
    minima = torch.cat((second & 63, (third >> 4) | ((second >> 6) << 4)), dim=1)
    return scales.float(), minima.float()


def _pairs_of_runs(part: Tensor) -> Tensor:
    """128 bytes in runs of 32 → [blocks, 8, 32]: low halves are one sub-block, high ones the next."""
    runs = part.reshape(-1, 4, 1, 32)
    return torch.cat((runs & 15, runs >> 4), dim=2).view(-1, 8, 32)


def _q4_k(b: Tensor) -> Tensor:
    """value = d · scale · q − dmin · minimum; 8 sub-blocks of 32."""
    d, d_min = _half(b[:, :2]), _half(b[:, 2:4])
    scales, minima = _scales_and_minima(b[:, 4:16])
    q = _pairs_of_runs(b[:, 16:144]).float()
    return ((d * scales)[:, :, None] * q - (d_min * minima)[:, :, None]).flatten(1)


def q4_k_parts(b: Tensor) -> tuple[Tensor, Tensor]:
    """The same as value = (q − 8) · scale + zero: q [blocks, 8, 32] uint8, and [blocks, 8, 2] float32."""
    d, d_min = _half(b[:, :2]), _half(b[:, 2:4])
    scales, minima = _scales_and_minima(b[:, 4:16])
    scale = d * scales
    return _pairs_of_runs(b[:, 16:144]), torch.stack((scale, 8 * scale - d_min * minima), dim=-1)


def _q5_k(b: Tensor) -> Tensor:
    """As Q4_K, with the fifth bit of sub-block j of element i in bit j of byte i."""
    d, d_min = _half(b[:, :2]), _half(b[:, 2:4])
    scales, minima = _scales_and_minima(b[:, 4:16])
    planes = torch.arange(8, dtype=torch.uint8).view(1, 8, 1)
    fifth = ((b[:, 16:48][:, None, :] >> planes) & 1) << 4  # [blocks, 8, 32]
    q = (_pairs_of_runs(b[:, 48:176]) | fifth).float()
    return ((d * scales)[:, :, None] * q - (d_min * minima)[:, :, None]).flatten(1)


def _q6_k(b: Tensor) -> Tensor:
    """value = d · scale · (q − 32); 16 sub-blocks of 16 with signed bytes as scales."""
    low, high = b[:, :128].reshape(-1, 2, 1, 64), b[:, 128:192].reshape(-1, 2, 1, 32)
    low = torch.cat((low & 15, low >> 4), dim=2).view(-1, 8, 32)
    shifts = torch.tensor([0, 2, 4, 6], dtype=torch.uint8).view(1, 1, 4, 1)
    top = ((high >> shifts) & 3).reshape(-1, 8, 32)
    q = (low | (top << 4)).float() - 32  # [blocks, 8, 32]
    scale = _half(b[:, 208:210]) * b[:, 192:208].contiguous().view(torch.int8).float()
    return (scale[:, :, None] * q.view(-1, 16, 16)).flatten(1)


_UNPACK: dict[str, Callable[[Tensor], Tensor]] = {
    "Q4_0": _q4_0,
    "Q4_1": _q4_1,
    "Q5_0": _q5_0,
    "Q5_1": _q5_1,
    "Q8_0": _q8_0,
    "Q2_K": _q2_k,
    "Q3_K": _q3_k,
    "Q4_K": _q4_k,
    "Q5_K": _q5_k,
    "Q6_K": _q6_k,
}
