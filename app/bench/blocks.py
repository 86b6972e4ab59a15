"""Random weights as the bytes of ggml's tensor types: valid blocks whose values have a sane size.

Quantized blocks are random bytes with their scales set; no float matrix is ever made. Block layouts are those
of ggml's `ggml-common.h`. Knows types and rows, not models or files.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.quant.formats import TENSOR_TYPES

Bytes = NDArray[np.uint8]

_VARIATION = 0.5  # scales lie within ±25 % of their mean
_SIGNED = {"Q8_0": 2}  # where the block's int8 elements begin; −128 is no value a quantizer writes


@dataclass(frozen=True, slots=True)
class _Blocks:
    """float16 numbers of a block, as (place, factor of its d), and the deviation of a value over d.

    Where q is not centred and has no minimum, d has either sign, as a quantizer writes it.
    """

    scales: tuple[tuple[int, float], ...]
    deviation: float
    is_signed: bool = False


# A mean of zero needs a minimum of mean(q) · d. The deviations are those of independent uniform bits:
# q of n levels sqrt((n² − 1) / 12), times the 6-bit (mean square 1,333.5) or int8 scales of the K types.
_BLOCKS: dict[str, _Blocks] = {
    "Q4_0": _Blocks(((0, 1.0),), 4.61, is_signed=True),
    "Q4_1": _Blocks(((0, 1.0), (2, -7.5)), 4.61),
    "Q5_0": _Blocks(((0, 1.0),), 9.23, is_signed=True),
    "Q5_1": _Blocks(((0, 1.0), (2, -15.5)), 9.23),
    "Q8_0": _Blocks(((0, 1.0),), 73.9),
    "Q4_K": _Blocks(((0, 1.0), (2, 7.5)), 258.0),
    "Q5_K": _Blocks(((0, 1.0), (2, 15.5)), 527.0),
    "Q6_K": _Blocks(((208, 1.0),), 1366.0),
}
# 16-bit floats: (bits of sign and mantissa, lowest bit of the exponent, bias)
_HALVES: dict[str, tuple[int, int, int]] = {
    "F16": (0x83FF, 0x0400, 15),
    "BF16": (0x807F, 0x0080, 127),
}
TYPES = (*_BLOCKS, *_HALVES)


class RandomRows:
    """The rows of one random matrix, in order: values have a mean of 0 and a deviation of about 1/√cols.

    The bytes depend on ``seed``, ``name``, ``type_name`` and the shape alone, not on how many rows are taken
    at once: the raw stream of NumPy's bit generators never changes. Raises ValueError for another type.
    """

    def __init__(self, type_name: str, cols: int, name: str, seed: int) -> None:
        if type_name not in TYPES:
            raise ValueError(f"{type_name} cannot be made")
        self._type = type_name
        self._cols = cols
        self._row_bytes = cols // TENSOR_TYPES[type_name].block * TENSOR_TYPES[type_name].block_bytes
        self._bits = np.random.SFC64([seed, zlib.crc32(name.encode())])
        self._left = np.empty(0, dtype=np.uint8)

    def take(self, rows: int) -> Bytes:
        """The next rows, uint8 [rows, bytes of a row]."""
        raw = self._random(rows * self._row_bytes)
        if self._type in _HALVES:
            self._shape_halves(raw)
        else:
            self._set_scales(raw)
        return raw.reshape(rows, self._row_bytes)

    def _random(self, count: int) -> Bytes:
        """The next bytes of the stream; what a whole number of words leaves over is kept."""
        words = -(-(count - self._left.size) // 8)
        drawn = self._bits.random_raw(max(0, words)).view(np.uint8)
        both = np.concatenate((self._left, drawn)) if self._left.size else drawn
        self._left = both[count:].copy()
        return both[:count]

    def _set_scales(self, raw: Bytes) -> None:
        kind, block_bytes = _BLOCKS[self._type], TENSOR_TYPES[self._type].block_bytes
        blocks = raw.reshape(-1, block_bytes)
        place = kind.scales[0][0]
        varied = blocks[:, place].astype(np.float32) * (_VARIATION / 255) + (1 - _VARIATION / 2)
        d = varied / np.float32(kind.deviation * math.sqrt(self._cols))
        if kind.is_signed:
            d *= 1 - 2 * (blocks[:, place + 1] & 1).astype(np.float32)
        for place, factor in kind.scales:
            scale = (d * np.float32(factor)).astype("<f2")
            blocks[:, place : place + 2] = scale.view(np.uint8).reshape(-1, 2)
        if self._type in _SIGNED:
            elements = blocks[:, _SIGNED[self._type] :].view(np.int8)
            np.maximum(elements, -127, out=elements)

    def _shape_halves(self, raw: Bytes) -> None:
        """Keep random signs and mantissas; the exponent is one of two neighbours."""
        kept, lowest, bias = _HALVES[self._type]
        exponent = bias + round(-math.log2(1.2076 * math.sqrt(self._cols)))  # the mixture's deviation: 1.2076
        values = raw.view("<u2")
        lower = values & lowest
        values &= kept
        values += exponent * lowest
        values -= lower


def random_norm(size: int, name: str, seed: int) -> Bytes:
    """A norm's float32 weights around 1, as bytes."""
    bits = np.random.SFC64([seed, zlib.crc32(name.encode())])
    steps = bits.random_raw(size) >> np.uint64(56)
    weights = steps.astype("<f4") / np.float32(510) + np.float32(0.75)
    return weights.view(np.uint8)


def silence(rows: Bytes, type_name: str) -> None:
    """Make all values of ``rows`` [rows, bytes of a row] zero, in place."""
    if type_name in _HALVES:
        rows[:] = 0
        return
    blocks = rows.reshape(-1, TENSOR_TYPES[type_name].block_bytes)
    for place, _ in _BLOCKS[type_name].scales:
        blocks[:, place : place + 2] = 0
