"""Keys and values in 8 and 4 bits, in torch: byte for byte what engine/native/cache.h describes.

The road where there are no native kernels, and what these are tested with. Knows caches of heads, tokens and
numbers; no pages and no model. What a cache holds is rotated (`rotate`): queries go through the same rotation
before they meet keys, and what attention makes of values goes through it once more, which undoes it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.fit.kv_bits import BLOCK_TOKENS, key_bytes, key_columns, value_bytes

_GROUP = 32  # columns that lie together
_HALF_GROUP = 16
_LARGEST_SCALE = 65504.0  # of a half float


def rotate(x: Tensor) -> Tensor:
    """Heads [..., dim] in float32 times the orthonormal Hadamard matrix of the largest power of two that
    divides dim, block by block (arXiv 2404.00456): no number is then much larger than its neighbours,
    products of two rotated heads are those of the heads, and a second rotation undoes the first.
    """
    dim = x.shape[-1]
    block, apart = dim & -dim, 1
    out = x.float()
    while apart < block:
        pairs = out.reshape(*x.shape[:-1], dim // (2 * apart), 2, apart)
        first, second = pairs[..., 0, :], pairs[..., 1, :]
        out = torch.stack((first + second, first - second), dim=-2).reshape(x.shape)
        apart *= 2
    return out * (1.0 / math.sqrt(block))


def round_groups(x: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """Groups [..., columns] of float32 as whole numbers in int8 and a scale [..., 1] in float16 each.

    8 bits: scale = largest magnitude / 127. 4 bits: the number of the largest magnitude / −8, so that it
    becomes −8. A group with an infinity, a NaN or what is too large has NaN for a scale.
    """
    high, low = x.amax(-1, keepdim=True), x.amin(-1, keepdim=True)
    top = torch.where(high >= -low, high, low)  # NaN where there is one
    wanted = top.abs() / 127.0 if bits == 8 else top / -8.0
    said = torch.where(wanted.abs() <= _LARGEST_SCALE, wanted + 0.0, torch.nan)
    scale = said.to(torch.float16)
    divisor = scale.float()
    steps = torch.where(divisor.abs() > 0, x / divisor, 0.0).nan_to_num(0.0).round()
    lowest, highest = (-127, 127) if bits == 8 else (-8, 7)
    return steps.clamp(lowest, highest).to(torch.int8), scale


@dataclass(frozen=True, slots=True)
class PackedCache:
    """How the keys, or the values, of one layer lie in bytes: uint8 [kv_heads, tokens · token_bytes], in
    blocks of 16 tokens. ``bits``: 8 or 4. ``dim`` is a multiple of 16.
    """

    bits: int
    dim: int
    is_keys: bool

    @property
    def token_bytes(self) -> int:
        return (key_bytes if self.is_keys else value_bytes)(self.bits, self.dim)

    def store(self, cache: Tensor, tokens: Tensor, rows: Tensor) -> None:
        """Round ``rows`` [n, kv_heads, dim], rotated already, to the places ``tokens`` [n] of ``cache``."""
        padded = torch.nn.functional.pad(rows.float().transpose(0, 1), (0, self._padded - self.dim))
        groups = self._groups
        numbers, scales = round_groups(_split(padded, groups, -1), self.bits)
        bytes_ = (numbers.flatten(-2).short() + (128 if self.bits == 8 else 8)).to(torch.uint8)
        if self.bits == 4:
            halves = _split(bytes_, -1, 2, _HALF_GROUP)
            bytes_ = (halves[..., 0, :] | halves[..., 1, :] << 4).flatten(-2)
        cache[:, self._places(tokens)] = bytes_
        cache[:, self._scale_places(tokens, groups)] = scales.squeeze(-1).contiguous().view(torch.uint8)

    def load(self, cache: Tensor, tokens: Tensor) -> Tensor:
        """The numbers of ``tokens`` [n], rotated: float32 [kv_heads, n, dim]."""
        groups = self._groups
        bytes_ = cache[:, self._places(tokens)]
        if self.bits == 4:
            quads = _split(bytes_, self._padded // _GROUP, _HALF_GROUP)
            bytes_ = torch.stack((quads & 15, quads >> 4), dim=-2).flatten(-3)
        numbers = bytes_.float() - (128 if self.bits == 8 else 8)
        scales = cache[:, self._scale_places(tokens, groups)].contiguous().view(torch.float16)
        return (_split(numbers, groups, self._padded // groups) * scales.float().unsqueeze(-1)).flatten(-2)[
            ..., : self.dim
        ]

    @property
    def _padded(self) -> int:
        return -(-self.dim // _GROUP) * _GROUP

    @property
    def _groups(self) -> int:
        """Scales of a token."""
        return self._padded // key_columns(self.bits) if self.is_keys else 1

    def _places(self, tokens: Tensor) -> Tensor:
        """Where the bytes of tokens [n] are in a head's cache: [n, columns], or in 4 bits [n, columns / 2],
        of which each has a column in its low half and the one 16 columns further in its high half.
        """
        column = torch.arange(self._padded)
        if self.bits == 4:
            column = column.view(-1, 2, _HALF_GROUP)[:, 0].flatten()
        token = (tokens % BLOCK_TOKENS)[:, None]
        is_whole = self.is_keys or self.bits == 4
        part = _GROUP if is_whole else _HALF_GROUP  # columns whose words follow each other
        part_bytes = BLOCK_TOKENS * part * self.bits // 8
        inside = column % part if self.bits == 8 else column % _HALF_GROUP
        word, byte = (
            (inside // 4, 4 * token + inside % 4) if self.is_keys else (token // 4, 4 * inside + token % 4)
        )
        return self._blocks(tokens) + column // part * part_bytes + word * 64 + byte

    def _scale_places(self, tokens: Tensor, groups: int) -> Tensor:
        """Where the bytes of their scales are: [n, 2 · groups]."""
        first = self._blocks(tokens) + BLOCK_TOKENS * self._padded * self.bits // 8
        group, byte = torch.arange(groups)[:, None], torch.arange(2)
        inside = (group * 2 * BLOCK_TOKENS + byte).flatten()
        return first + 2 * (tokens % BLOCK_TOKENS)[:, None] + inside

    def _blocks(self, tokens: Tensor) -> Tensor:
        """Where their blocks begin: [n, 1]."""
        return (tokens // BLOCK_TOKENS * BLOCK_TOKENS * self.token_bytes)[:, None]


def _split(x: Tensor, *sizes: int) -> Tensor:
    """The last dimension as several."""
    return x.reshape(*x.shape[:-1], *sizes)
