"""Linear layers as they are held in memory: dense 32/16-bit, or 4-bit on torch's int4pack kernel.

A layer knows its bytes and its kernel's name; it does not know which model it belongs to.
"""

from __future__ import annotations

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.quant.formats import WEIGHT_FORMATS

INT4 = WEIGHT_FORMATS["int4g32"]


class Linear(Protocol):
    """y = x Wᵀ for ``x`` [rows, in] → [rows, out], in the dtype of ``x``."""

    kernel: str

    @property
    def nbytes(self) -> int: ...

    def __call__(self, x: Tensor) -> Tensor: ...


class DenseLinear:
    """A matrix held in float32 or bfloat16, [out, in]."""

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight
        self.kernel = f"torch {'f32' if weight.dtype == torch.float32 else 'bf16'}"

    @property
    def nbytes(self) -> int:
        return self.weight.nbytes

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight)


class Int4Linear:
    """A matrix of 4-bit values in groups of 32 along the input, each with a bf16 scale and zero point.

    The kernel computes w = (q − 8) × scale + zero and is quick with bf16 activations only.
    ``packed`` [rows, in / 2] uint8 and ``scales_zeros`` [in / 32, rows, 2] bf16 have ``rows`` = out padded
    to a multiple of 16, as the kernel wants it; the padding is cut off the product.
    """

    kernel = "torch int4pack"

    def __init__(self, packed: Tensor, scales_zeros: Tensor, out_features: int) -> None:
        self.packed = packed
        self.scales_zeros = scales_zeros
        self.out_features = out_features

    @property
    def nbytes(self) -> int:
        return self.packed.nbytes + self.scales_zeros.nbytes

    def __call__(self, x: Tensor) -> Tensor:
        y: Tensor = torch._weight_int4pack_mm_for_cpu(x, self.packed, INT4.group, self.scales_zeros)
        return y if y.shape[1] == self.out_features else y[:, : self.out_features]
