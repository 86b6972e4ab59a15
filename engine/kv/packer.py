"""Keys and values of 8 and 4 bits through torch, where there are no native kernels. See engine.kv.pool."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.fit.kv_bits import RING_TOKENS, KVBits
from engine.kv.pool import PagedCache
from engine.kv.quantized import PackedCache, rotate


class TorchPacker:
    """Rounds and reads with torch operations; what is read comes in ``dtype``."""

    def __init__(self, kv: KVBits, dim: int, dtype: torch.dtype) -> None:
        self._homes = PackedCache(kv.keys, dim, True), PackedCache(kv.values, dim, False)
        self._dtype = dtype

    def store(self, cache: PagedCache, layer: int, keys: Tensor, values: Tensor) -> None:
        kind, index = cache.pool.places[layer]
        start, end = cache.length, cache.length + keys.shape[0]
        tokens = _tokens(cache, kind, start, end)
        recent = torch.arange(max(start, end - RING_TOKENS), end)
        for side, (home, rows) in enumerate(zip(self._homes, (keys, values), strict=True)):
            rotated = rotate(rows)
            home.store(cache.pool.planes[kind][side][index].flatten(1), tokens, rotated)
            if cache.rings:
                ring = cache.rings[kind][side][index]
                ring[:, recent % RING_TOKENS] = rotated[recent - start].transpose(0, 1).to(ring.dtype)

    def load(self, cache: PagedCache, layer: int, first: int, end: int) -> tuple[Tensor, Tensor]:
        kind, index = cache.pool.places[layer]
        ring_first = max(first, cache.ring_first) if cache.rings else end
        tokens = _tokens(cache, kind, first, ring_first)
        recent = torch.arange(ring_first, end) % RING_TOKENS
        sides = []
        for side, home in enumerate(self._homes):
            older = home.load(cache.pool.planes[kind][side][index].flatten(1), tokens).to(self._dtype)
            if cache.rings:
                newer = cache.rings[kind][side][index][:, recent].to(self._dtype)
                older = torch.cat((older, newer), dim=1)
            sides.append(older)
        return sides[0], sides[1]


def _tokens(cache: PagedCache, kind: int, start: int, end: int) -> Tensor:
    """Where positions are in the plane: [end − start]."""
    spans = cache.pages.spans(kind, start, end)
    return torch.cat([torch.arange(0)] + [torch.arange(place, place + count) for place, count in spans])
