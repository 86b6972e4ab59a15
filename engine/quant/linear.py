"""Linear layers as they are held in memory: for torch's kernels, and in any format for the native ones.

A layer knows its bytes and its kernel's name; it does not know which model it belongs to.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.native.library import Format, Matrix, NativeLibrary
from engine.quant.formats import WEIGHT_FORMATS

INT4 = WEIGHT_FORMATS["int4g32"]
DENSE_TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
_FEW_ROWS = 8  # of one pass of a native kernel over a matrix, or of torch's product with a vector
_BLOCK_ELEMENTS = 1 << 19  # of a matrix that is converted: it stays in the caches until it is multiplied


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
    """A matrix held in float32, bfloat16 or float16, [out, in]; also an Embedding.

    Few rows are multiplied in the type of the matrix, with sums in float32. float16 reaches no further than
    65,504: a product that leaves its range is computed again in float32.
    """

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight
        self._name = next(name for name, dtype in DENSE_TYPES.items() if dtype == weight.dtype)
        self.kernel = f"torch {self._name}"

    @property
    def nbytes(self) -> int:
        return self.weight.nbytes

    def __call__(self, x: Tensor) -> Tensor:
        if x.shape[0] > _FEW_ROWS:
            return product_of_rows(x, self.weight)
        y = F.linear(x.to(self.weight.dtype), self.weight)
        if self._name == "f16" and not bool(y.isfinite().all()):
            return product_of_rows(x, self.weight)
        return y.to(x.dtype)

    def rows(self, ids: list[int]) -> Tensor:
        return self.weight[torch.tensor(ids)].float()


def product_of_rows(x: Tensor, weight: Tensor) -> Tensor:
    """x Wᵀ for many rows of ``x``, in its dtype, with a dense ``weight`` of any type.

    Where the processor multiplies 16-bit numbers no faster than it converts them, and always for float16, the
    matrix is converted to float32 a block at a time: that is four times as quick, and exact.
    """
    if weight.dtype == torch.float32 or (weight.dtype == torch.bfloat16 and _has_bf16_products()):
        return F.linear(x.to(weight.dtype), weight).to(x.dtype)
    inputs = x.float()
    height = max(1, _BLOCK_ELEMENTS // weight.shape[1])
    out = torch.empty(x.shape[0], weight.shape[0], dtype=x.dtype)
    block = torch.empty(height, weight.shape[1])
    for start in range(0, weight.shape[0], height):
        part = weight[start : start + height]
        converted = block[: part.shape[0]].copy_(part)
        out[:, start : start + height] = inputs @ converted.T
    return out


@functools.cache
def _has_bf16_products() -> bool:
    """Whether torch has more than a plain loop for products of bfloat16 matrices on this processor."""
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


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


class Int8Linear:
    """A matrix of 8-bit values with a bf16 scale for each row, w = q × scale; also an Embedding.

    ``values`` [out, in] int8, ``scales`` [out] bf16. The kernel is quick with bf16 activations only.
    """

    kernel = "torch int8pack"

    def __init__(self, values: Tensor, scales: Tensor) -> None:
        self.values = values
        self.scales = scales

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + self.scales.nbytes

    def __call__(self, x: Tensor) -> Tensor:
        y: Tensor = torch._weight_int8pack_mm(x.to(torch.bfloat16), self.values, self.scales)
        return y.to(x.dtype)

    def rows(self, ids: list[int]) -> Tensor:
        chosen = torch.tensor(ids)
        return self.values[chosen].float() * self.scales[chosen].float()[:, None]


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
        if self._dense is not None and x.shape[0] > _FEW_ROWS:
            return product_of_rows(x, self._dense)
        return self.with_others([], x)[0]

    def with_others(self, others: Sequence[NativeLinear], x: Tensor) -> list[Tensor]:
        """The products of one input with this matrix and some others, which prepare the input once."""
        matrices = [self.matrix, *(other.matrix for other in others)]
        num, threads = x.shape[0], torch.get_num_threads()
        inputs = x.float().contiguous()
        out = torch.empty(num * sum(matrix.rows for matrix in matrices), dtype=torch.float32)
        scratch_bytes = self._functions.dk_linear_scratch(num, self.matrix.cols, threads)
        scratch = torch.empty(scratch_bytes, dtype=torch.uint8)  # torch begins tensors on 64 bytes
        native, pointers = (Matrix * len(matrices))(*matrices), (inputs.data_ptr(), out.data_ptr())
        self._functions.dk_linear(native, len(matrices), *pointers, num, threads, scratch.data_ptr())
        parts = torch.split(out, [num * matrix.rows for matrix in matrices])
        return [part.view(num, matrix.rows).to(x.dtype) for part, matrix in zip(parts, matrices, strict=True)]

    @property
    def is_dense(self) -> bool:
        return self._dense is not None

    def rows(self, ids: list[int]) -> Tensor:
        assert all(0 <= row < self.matrix.rows for row in ids), "the engine refuses tokens without a row"
        out = torch.empty(len(ids), self.matrix.cols, dtype=torch.float32)
        first, stride = out.data_ptr(), self.matrix.cols * out.element_size()
        for index, row in enumerate(ids):
            self._functions.dk_row(ctypes.byref(self.matrix), row, first + index * stride)
        return out


def products(linears: Sequence[Linear], x: Tensor) -> list[Tensor]:
    """What some matrices with as many columns make of the same input [rows, in]: of each [rows, out]."""
    quantized = [linear for linear in linears if isinstance(linear, NativeLinear) and not linear.is_dense]
    if len(quantized) < len(linears):
        return [linear(x) for linear in linears]
    return quantized[0].with_others(quantized[1:], x)


def biased_products(linears: Sequence[Linear], h: Tensor, bias: Tensor | None) -> list[Tensor]:
    """The products of one input, and their common bias added."""
    plain = products(linears, h)
    if bias is None:
        return plain
    added, start = [], 0
    for product in plain:
        end = start + product.shape[-1]
        added.append((product + bias[start:end]).to(h.dtype))
        start = end
    return added
