"""Linear layers as they are held in memory: dense or 4-bit for torch's kernels, any format for native ones.

A layer knows its bytes and its kernel's name; it does not know which model it belongs to.
"""

from __future__ import annotations

import ctypes
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.native.library import Format, Matrix, NativeLibrary
from engine.quant.formats import WEIGHT_FORMATS

INT4 = WEIGHT_FORMATS["int4g32"]
DENSE_TYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
_FEW_ROWS = 8  # of one pass of a native kernel over a matrix


class Linear(Protocol):
    """y = x Wᵀ for ``x`` [rows, in] → [rows, out], in the dtype of ``x``."""

    kernel: str

    @property
    def nbytes(self) -> int: ...

    def __call__(self, x: Tensor) -> Tensor: ...


class Embedding(Protocol):
    """A matrix [vocab, hidden] that is looked up by rows."""

    @property
    def nbytes(self) -> int: ...

    def rows(self, ids: list[int]) -> Tensor:
        """A fresh float32 [len(ids), hidden]."""
        ...


class DenseLinear:
    """A matrix held in float32 or bfloat16, [out, in]; also an Embedding."""

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight
        self.kernel = f"torch {'f32' if weight.dtype == torch.float32 else 'bf16'}"

    @property
    def nbytes(self) -> int:
        return self.weight.nbytes

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x.to(self.weight.dtype), self.weight).to(x.dtype)

    def rows(self, ids: list[int]) -> Tensor:
        return self.weight[torch.tensor(ids)].float()


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


class NativeLinear:
    """A matrix [rows, cols] held for the native kernels; also an Embedding.

    ``memory`` is uint8 of held_nbytes, laid out as engine/native/layout.h says; ``matrix`` is the same for
    the kernels and valid as long as this object lives. Products run on as many threads as torch has. A dense
    matrix is torch's too, whose products of many rows are the quicker ones there.
    """

    def __init__(self, library: NativeLibrary, held: str, rows: int, cols: int, memory: Tensor) -> None:
        self._functions = library.functions
        self._memory = memory
        self.matrix = Matrix(memory.data_ptr(), rows, cols, Format[held.upper()])
        self.kernel = f"decodeck {held} {library.instruction_set}"
        dtype = DENSE_TYPES.get(held)
        self._dense = None if dtype is None else memory.view(dtype).view(rows, cols)

    @property
    def nbytes(self) -> int:
        return self._memory.nbytes

    def __call__(self, x: Tensor) -> Tensor:
        num, threads = x.shape[0], torch.get_num_threads()
        if self._dense is not None and num > _FEW_ROWS:
            return F.linear(x.to(self._dense.dtype), self._dense).to(x.dtype)
        inputs = x.float().contiguous()
        out = torch.empty(num, self.matrix.rows, dtype=torch.float32)
        scratch_bytes = self._functions.dk_linear_scratch(num, self.matrix.cols, threads)
        scratch = torch.empty(scratch_bytes, dtype=torch.uint8)  # torch begins tensors on 64 bytes
        matrix = ctypes.byref(self.matrix)
        pointers = inputs.data_ptr(), out.data_ptr()
        self._functions.dk_linear(matrix, *pointers, num, threads, scratch.data_ptr())
        return out.to(x.dtype)

    def rows(self, ids: list[int]) -> Tensor:
        assert all(0 <= row < self.matrix.rows for row in ids), "the engine refuses tokens without a row"
        out = torch.empty(len(ids), self.matrix.cols, dtype=torch.float32)
        first, stride = out.data_ptr(), self.matrix.cols * out.element_size()
        for index, row in enumerate(ids):
            self._functions.dk_row(ctypes.byref(self.matrix), row, first + index * stride)
        return out
