"""Rounds rows of floats to blocks of GGUF's own types, for the kernels that take these blocks.

Layouts are those that dequantize.py reads (ggml's ``block_q8_0`` and ``block_q4_1``): scales are float16 and
rounded before the values are, so that a value is always the nearest that its block can say.
engine/native/quantize.cpp has the same formulas, on several threads and without the interpreter lock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.quant.formats import TENSOR_TYPES

GROUP = 32
BLOCK_TYPES = {"int8": "Q8_0", "int4z": "Q4_1", "int4g32": "Q4_1"}
"""The blocks from which each held format is packed where the file has others."""

_PIECE = 1 << 18  # elements rounded at once: what is in between stays in the caches
_KEPT = (1.0, 0.88)  # parts of a group's range from which Q4_1 begins
_REFINEMENTS = 2  # after these, errors fall by less than a hundredth


def quantize(values: Tensor, type_name: str) -> Tensor:
    """Blocks of ``type_name`` (Q8_0, Q4_1), uint8 [rows, bytes of a row], of ``values`` float32 [rows, cols];
    cols is a multiple of 32. Does not change ``values``.
    """
    kind, rounded = TENSOR_TYPES[type_name], _ROUND[type_name]
    groups = values.reshape(-1, GROUP)
    blocks = torch.empty(groups.shape[0], kind.block_bytes, dtype=torch.uint8)
    step = _PIECE // GROUP
    for start in range(0, groups.shape[0], step):
        rounded(groups[start : start + step], blocks[start : start + step])
    return blocks.view(values.shape[0], -1)


def _q8_0(groups: Tensor, blocks: Tensor) -> None:
    """value = d · q with d = max |value| / 127."""
    d = _half(groups.abs().amax(dim=1, keepdim=True) / 127)
    q = _steps(groups, d, 0.0).clamp_(-127, 127)
    _put_half(blocks[:, :2], d)
    blocks[:, 2:] = q.to(torch.int8).view(torch.uint8)


def _q4_1(groups: Tensor, blocks: Tensor) -> None:
    """value = d · q + m. From parts of the group's range, again and again the straight line through the
    points (q, value) in the sense of least squares, and the values rounded to it anew; each group keeps its
    best.
    """
    least, most = (each[:, None] for each in torch.aminmax(groups, dim=1))
    mean, width = groups.mean(dim=1, keepdim=True), most - least
    best = _fit(groups, width / 15, least)
    for kept in _KEPT:
        tried = _fit(groups, width * kept / 15, least + width * (1 - kept) / 2)
        best = _better(best, tried)
        for _ in range(_REFINEMENTS):
            tried = _refined(groups, tried, mean)
            best = _better(best, tried)
    _put_half(blocks[:, :2], best.d)
    _put_half(blocks[:, 2:4], best.m)
    q = best.q.to(torch.uint8)
    blocks[:, 4:] = q[:, : GROUP // 2] | (q[:, GROUP // 2 :] << 4)


@dataclass(frozen=True, slots=True)
class _Fit:
    """The nearest q of 0..15 [groups, 32] for d and m [groups, 1], and each group's error, squared."""

    d: Tensor
    m: Tensor
    q: Tensor
    error: Tensor


def _fit(groups: Tensor, d: Tensor, m: Tensor) -> _Fit:
    d, m = _half(d), _half(m)
    q = _steps(groups, d, m).clamp_(0, 15)
    error = (q * d).add_(m).sub_(groups).square_().sum(dim=1, keepdim=True)
    return _Fit(d, m, q, error)


def _refined(groups: Tensor, fit: _Fit, mean: Tensor) -> _Fit:
    """The fit to the straight line through the points that another one found."""
    mean_q = fit.q.mean(dim=1, keepdim=True)
    away = fit.q - mean_q
    spread = away.square().sum(dim=1, keepdim=True)
    slope = away.mul_(groups).sum(dim=1, keepdim=True) / spread.clamp_min_(1.0)  # 0 where all q are equal
    return _fit(groups, slope, mean - slope * mean_q)


def _better(one: _Fit, other: _Fit) -> _Fit:
    """For each group the one that errs less."""
    is_better = other.error < one.error
    pairs = ((other.d, one.d), (other.m, one.m), (other.q, one.q), (other.error, one.error))
    return _Fit(*(torch.where(is_better, new, old) for new, old in pairs))


def _half(values: Tensor) -> Tensor:
    """As float16 will hold them."""
    return values.half().float()


def _put_half(place: Tensor, values: Tensor) -> None:
    """float32 [groups, 1] as the two bytes of a float16."""
    place.copy_(values.half().view(torch.uint8))


def _steps(groups: Tensor, d: Tensor, m: Tensor | float) -> Tensor:
    """The nearest whole number of steps d above m; 0 where there are no steps."""
    inverse = torch.where(d != 0, 1 / d, 0)
    return (groups - m).mul_(inverse).round_()


_ROUND: dict[str, Callable[[Tensor, Tensor], None]] = {"Q8_0": _q8_0, "Q4_1": _q4_1}
