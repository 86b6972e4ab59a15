"""Attention of new rows over caches: windows, masks, capped scores; in pieces, or as a step of fixed sizes.

Knows tensors, lengths and caches; no weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.kv.cache import DeviceCache, KVCache
from engine.kv.quantized import rotate
from engine.models.placement import CPU

_SCORES = 1 << 22  # of capped attention at once, so that a long context needs no large block


def first_visible(length: int, window: int | None) -> int:
    """The first position that the first of new rows sees, with ``length`` tokens before it."""
    return 0 if window is None else max(0, length + 1 - window)


def piece_mask(
    rows: int, length: int, window: int | None, groups: int, dtype: torch.dtype, device: torch.device = CPU
) -> Tensor | None:
    """Additive mask [groups · rows, visible] of new rows over positions from the first visible one on; None
    for a single row, which sees them all.
    """
    if rows == 1:
        return None
    query = torch.arange(length, length + rows, device=device)[:, None]
    key = torch.arange(first_visible(length, window), length + rows, device=device)[None, :]
    return _hiding(key, query, window, dtype).repeat(groups, 1)


def _hiding(key: Tensor, query: Tensor, window: int | None, dtype: torch.dtype) -> Tensor:
    """Additive mask over the positions ``key`` of rows at the positions ``query``: none sees what comes after
    it, or lies before its window.
    """
    hidden = key > query
    if window is not None:
        hidden |= key <= query - window
    return torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill_(hidden, float("-inf"))


class Attention(Protocol):
    """How the rows of one pass read what is before them, and keep their own keys and values."""

    def __call__(
        self, layer: int, queries: Tensor, keys: Tensor, values: Tensor, window: int | None
    ) -> Tensor:
        """Attention of queries [rows, heads, dim] of ``layer`` over its caches and the new keys and values
        [rows, kv_heads, dim], which are appended: [rows, heads · dim].
        """
        ...


class PieceAttention:
    """Rows of some segments, each as many as it brings, over as much of each cache as is filled."""

    def __init__(
        self,
        caches: Sequence[KVCache],
        rows: Sequence[int],
        windows: Iterable[int | None],
        groups: int,
        scale: float,
        cap: float | None,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self._caches = caches
        self._rows = rows
        self._scale, self._cap = scale, cap
        self._masks = {
            window: [
                piece_mask(count, cache.length, window, groups, dtype, device)
                for cache, count in zip(caches, rows, strict=True)
            ]
            for window in windows
        }

    def __call__(
        self, layer: int, queries: Tensor, keys: Tensor, values: Tensor, window: int | None
    ) -> Tensor:
        outputs, start = [], 0
        for cache, count, mask in zip(self._caches, self._rows, self._masks[window], strict=True):
            end, first = start + count, first_visible(cache.length, window)
            seen = cache.append(layer, keys[start:end], values[start:end], first)
            asked = rotate(queries[start:end]) if cache.is_rotated else queries[start:end]
            out = attend(asked, *seen, mask, self._scale, self._cap)
            if cache.is_rotated:  # in float32; what comes next takes what the queries are in
                out = rotate(out.view(asked.shape)).flatten(1).to(queries.dtype)
            outputs.append(out)
            start = end
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs)


class StepAttention:
    """One row of each cache at ``positions`` [rows], which lie on the caches' device, over the first ``size``
    places of each: what is computed depends on no number that the host knows, so that it can be recorded.

    Places behind a position count for nothing, but they must hold numbers.
    """

    def __init__(
        self,
        caches: Sequence[DeviceCache],
        positions: Tensor,
        size: int,
        windows: Iterable[int | None],
        scale: float,
        cap: float | None,
        dtype: torch.dtype,
    ) -> None:
        self._caches = caches
        self._rows = [positions[row : row + 1] for row in range(len(caches))]
        self._size = size
        self._scale, self._cap = scale, cap
        key = torch.arange(size, device=positions.device)
        self._masks = {  # by window, one [1, size] for each row
            window: [_hiding(key, position.unsqueeze(1), window, dtype) for position in self._rows]
            for window in windows
        }

    def __call__(
        self, layer: int, queries: Tensor, keys: Tensor, values: Tensor, window: int | None
    ) -> Tensor:
        outputs = []
        for row, (cache, position, mask) in enumerate(
            zip(self._caches, self._rows, self._masks[window], strict=True)
        ):
            held_keys, held_values = cache.layer(layer)
            held_keys.index_copy_(1, position, keys[row].unsqueeze(1).to(held_keys.dtype))
            held_values.index_copy_(1, position, values[row].unsqueeze(1).to(held_values.dtype))
            size = min(self._size, held_keys.shape[1])
            seen = held_keys[:, :size], held_values[:, :size]
            outputs.append(attend(queries[row : row + 1], *seen, mask[:, :size], self._scale, self._cap))
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs)


def attend(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, scale: float, cap: float | None
) -> Tensor:
    """Queries [rows, heads, dim] over keys and values [kv_heads, visible, dim] → [rows, heads · dim].

    The heads that share a key head are laid along the query axis: keys are read once for all of them,
    and a one-token step needs no mask. Computes in the precision of the cache, which is never converted: it
    may be as large as the weights.
    """
    rows, heads, dim = queries.shape
    kv_heads = keys.shape[0]
    q = queries.view(rows, kv_heads, heads // kv_heads, dim).permute(1, 2, 0, 3)
    q = q.reshape(kv_heads, heads // kv_heads * rows, dim).to(keys.dtype)
    if cap is None:
        out = F.scaled_dot_product_attention(q[None], keys[None], values[None], attn_mask=mask, scale=scale)
    else:
        step = max(1, _SCORES // (q.shape[1] * keys.shape[1]))
        some = [slice(head, head + step) for head in range(0, kv_heads, step)]
        out = torch.cat([_capped(q[at], keys[at], values[at], mask, scale, cap) for at in some])
    out = out.view(kv_heads, heads // kv_heads, rows, dim).permute(2, 0, 1, 3)
    return out.reshape(rows, heads * dim).to(queries.dtype)


def _capped(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, scale: float, cap: float
) -> Tensor:
    """[heads, rows, dim] over [heads, visible, dim] with scores held in ±cap (Gemma 2, arXiv 2408.00118)."""
    scores = torch.matmul(queries, keys.transpose(1, 2)).float()
    scores = scores.mul_(scale / cap).tanh_().mul_(cap)
    if mask is not None:
        scores += mask
    return torch.matmul(scores.softmax(dim=-1).to(values.dtype), values)
