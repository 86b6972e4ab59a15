"""GGUF's 4-bit blocks repacked for the int4 kernel, without a detour through 16 bits.

Q4_0: w = d (q − 8). Q4_1: w = d q + m = d (q − 8) + (m + 8 d). Both are the kernel's
w = (q − 8) scale + zero, exact up to the rounding of scale and zero to bfloat16.
Block layouts: ggml's ``block_q4_0`` and ``block_q4_1`` (32 values; low nibbles first, then high ones).
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.quant.linear import INT4, Int4Linear

_SCALE_BYTES = {"Q4_0": 2, "Q4_1": 4}


def unpack_q4(raw: Tensor, tensor_type: str, rows: int, cols: int) -> tuple[Tensor, Tensor]:
    """Split blocks [bytes] uint8 into values [rows, cols] int32 (0..15) and [rows, cols / 32, 2] float32
    (scale, zero). ``raw`` is not changed.
    """
    head = _SCALE_BYTES[tensor_type]
    blocks = raw.view(rows, cols // INT4.group, head + INT4.group // 2)
    nibbles = blocks[..., head:]
    values = torch.cat((nibbles & 15, nibbles >> 4), dim=-1)  # [rows, groups, 32]
    params = blocks[..., :head].contiguous().view(torch.float16).float()  # [rows, groups, 1 or 2]
    scale = params[..., 0]
    zero = torch.zeros_like(scale) if tensor_type == "Q4_0" else params[..., 1] + 8 * scale
    return values.view(rows, cols).to(torch.int32), torch.stack((scale, zero), dim=-1)


def pack_int4(values: Tensor, scales_zeros: Tensor) -> Int4Linear:
    """Pack values [rows, cols] int32 (0..15) and [rows, groups, 2] float32 for the int4 kernel."""
    rows, cols = values.shape
    padded = -(-rows // INT4.row_multiple) * INT4.row_multiple
    if padded != rows:
        values = torch.cat((values, values.new_zeros(padded - rows, cols)))
        scales_zeros = torch.cat(
            (scales_zeros, scales_zeros.new_zeros(padded - rows, *scales_zeros.shape[1:]))
        )
    packed: Tensor = torch._convert_weight_to_int4pack_for_cpu(values, 1)
    by_group = scales_zeros.to(torch.bfloat16).transpose(0, 1).contiguous()  # [groups, rows, 2]
    return Int4Linear(packed, by_group, rows)
