"""Attention of new rows over a cache: windows, masks, capped scores.

Knows tensors and lengths; no weights and no layers.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

_SCORES = 1 << 22  # of capped attention at once, so that a long context needs no large block


def first_visible(length: int, window: int | None) -> int:
    """The first position that the first of new rows sees, with ``length`` tokens before it."""
    return 0 if window is None else max(0, length + 1 - window)


def piece_mask(rows: int, length: int, window: int | None, groups: int, dtype: torch.dtype) -> Tensor | None:
    """Additive mask [groups · rows, visible] of new rows over positions from the first visible one on; None
    for a single row, which sees them all.
    """
    if rows == 1:
        return None
    query = torch.arange(length, length + rows)[:, None]
    key = torch.arange(first_visible(length, window), length + rows)[None, :]
    hidden = key > query
    if window is not None:
        hidden |= key <= query - window
    mask = torch.zeros(hidden.shape, dtype=dtype).masked_fill_(hidden, float("-inf"))
    return mask.repeat(groups, 1)


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
