"""Linear layers on an accelerator, through torch's device-neutral operations: dense, and 4-bit in tiles.

Nothing here waits for the device, so that a step can be recorded. What a device computes is tried and not
believed: see `computed_formats`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.quant.formats import held_nbytes
from engine.quant.linear import DENSE_TYPES, INT4, Int8Linear, Linear

_TILE_COLS = 16  # of one matrix instruction
_TILES = (8, 4, 2)  # of columns that a thread reads together: as many as the matrix has room for
_TRIAL_ROWS, _TRIAL_COLS, _TRIAL_TOLERANCE = 32, 128, 0.02  # of the largest number of the product


class GpuDenseLinear:
    """A matrix [out, in] in float32, bfloat16 or float16, multiplied in its own type; also an Embedding."""

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight
        name = next(name for name, dtype in DENSE_TYPES.items() if dtype == weight.dtype)
        self.kernel = f"torch {name}"

    @property
    def nbytes(self) -> int:
        return self.weight.nbytes

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x.to(self.weight.dtype), self.weight).to(x.dtype)

    def rows(self, ids: list[int]) -> Tensor:
        return self.weight[torch.tensor(ids).to(self.weight.device, non_blocking=True)].float()


class GpuInt4Linear:
    """A matrix of 4-bit values in groups of 32 along the input, w = (q − 8) × scale + zero, as torch's int4
    kernel for GPUs wants them: ``packed`` int32, in tiles, and ``scales_zeros`` [in / 32, rows, 2] bf16, with
    rows = out padded to a multiple of 16. The padding is cut off the product.
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
        inputs = x.to(torch.bfloat16)
        y: Tensor = torch._weight_int4pack_mm(inputs, self.packed, INT4.group, self.scales_zeros)
        return y[:, : self.out_features].to(x.dtype)


class GpuInt4Packer:
    """Packs a matrix [rows, cols] on ``device`` as its rows come in. Peak memory there: the matrix twice."""

    def __init__(self, rows: int, cols: int, device: torch.device) -> None:
        self._rows = rows
        self._tiles = next(tiles for tiles in _TILES if cols % (tiles * _TILE_COLS) == 0)
        padded = -(-rows // INT4.row_multiple) * INT4.row_multiple
        self._pairs = torch.zeros(padded, cols // 2, dtype=torch.uint8, device=device)
        shape = (cols // INT4.group, padded, 2)
        self._scales_zeros = torch.zeros(shape, dtype=torch.bfloat16, device=device)
        self._done = 0

    def add(self, values: Tensor, scales_zeros: Tensor) -> None:
        """The next rows: values [n, cols] int32 (0..15) and [n, groups, 2] float32, on any device."""
        rows = slice(self._done, self._done + values.shape[0])
        nibbles = values.to(torch.uint8)
        self._pairs[rows] = (nibbles[:, ::2] << 4 | nibbles[:, 1::2]).to(self._pairs.device)
        by_group = scales_zeros.to(torch.bfloat16).transpose(0, 1)  # [groups, n, 2]
        self._scales_zeros[:, rows] = by_group.to(self._pairs.device)
        self._done = rows.stop

    def finish(self) -> GpuInt4Linear:
        """The layer, once all rows are in; what is missing to the kernel's multiple is zero."""
        assert self._done == self._rows
        packed = torch._convert_weight_to_int4pack(self._pairs, self._tiles)
        return GpuInt4Linear(packed, self._scales_zeros, self._rows)


def computed_formats(device: torch.device) -> tuple[str, ...]:
    """Keys of WEIGHT_FORMATS that a device multiplies rightly, tried on a small matrix; float32 always."""
    tried: dict[str, Callable[[torch.device], bool]] = {
        **{name: functools.partial(_is_dense_right, dtype) for name, dtype in DENSE_TYPES.items()},
        "int4g32": _is_int4_right,
        "int8row": _is_int8_right,
    }
    return tuple(name for name, is_right in tried.items() if name == "f32" or _holds(is_right, device))


def _holds(is_right: Callable[[torch.device], bool], device: torch.device) -> bool:
    """Whether a trial succeeds; what a device cannot do it may say in any way."""
    try:
        return is_right(device)
    except Exception:
        return False


def _is_dense_right(dtype: torch.dtype, device: torch.device) -> bool:
    weight = torch.linspace(-1, 1, _TRIAL_ROWS * _TRIAL_COLS).view(_TRIAL_ROWS, _TRIAL_COLS)
    return _is_right(GpuDenseLinear(weight.to(dtype).to(device)), weight, device)


def _is_int4_right(device: torch.device) -> bool:
    values = torch.arange(_TRIAL_ROWS * _TRIAL_COLS).view(_TRIAL_ROWS, _TRIAL_COLS) * 7 % 16
    scales_zeros = torch.linspace(0.25, 1, _TRIAL_ROWS * _TRIAL_COLS // INT4.group * 2)
    scales_zeros = scales_zeros.view(_TRIAL_ROWS, _TRIAL_COLS // INT4.group, 2)
    packer = GpuInt4Packer(_TRIAL_ROWS, _TRIAL_COLS, device)
    packer.add(values.to(torch.int32), scales_zeros)
    linear = packer.finish()
    scale, zero = scales_zeros.repeat_interleave(INT4.group, dim=1).unbind(-1)
    is_planned = linear.nbytes == held_nbytes(INT4.name, _TRIAL_ROWS, _TRIAL_COLS)
    return is_planned and _is_right(linear, (values - 8) * scale + zero, device)


def _is_int8_right(device: torch.device) -> bool:
    values = torch.arange(_TRIAL_ROWS * _TRIAL_COLS).view(_TRIAL_ROWS, _TRIAL_COLS) * 11 % 255 - 127
    scales = torch.linspace(0.25, 1, _TRIAL_ROWS).to(torch.bfloat16)
    linear = Int8Linear(values.to(torch.int8).to(device), scales.to(device))
    return _is_right(linear, values * scales.float()[:, None], device)


def _is_right(linear: Linear, weight: Tensor, device: torch.device) -> bool:
    """Whether a layer multiplies two rows as its weights do in float32 on the processor."""
    x = torch.linspace(-1, 1, 2 * _TRIAL_COLS).view(2, _TRIAL_COLS).cos()
    expected = x @ weight.float().T
    error = (linear(x.to(device)).cpu().float() - expected).abs().max()
    return bool(error <= _TRIAL_TOLERANCE * expected.abs().max())
