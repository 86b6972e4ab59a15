"""Keys and values of 8 and 4 bits through the native kernels. See engine.kv.pool.Packer."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from engine.fit.kv_bits import KVBits
from engine.kv.pool import PagedCache
from engine.native.library import Format, Model, NativeLibrary
from engine.native.step import plane_of, set_formats

_SOURCES = {torch.float32: Format.F32, torch.bfloat16: Format.BF16}


class NativePacker:
    """Rounds and reads with all of torch's threads; what is read comes in ``dtype``: float32 or bfloat16."""

    def __init__(
        self, library: NativeLibrary, kv: KVBits, kv_heads: int, dim: int, dtype: torch.dtype
    ) -> None:
        self._functions = library.functions
        self._dtype = dtype
        self._model = Model(kv_heads=kv_heads, head_dim=dim)
        set_formats(self._model, kv, dtype)

    def store(self, cache: PagedCache, layer: int, keys: Tensor, values: Tensor) -> None:
        kind, index = cache.pool.places[layer]
        rows = keys.shape[0]
        sources = [x.contiguous() if x.dtype in _SOURCES else x.float().contiguous() for x in (keys, values)]
        self._functions.dk_store(
            ctypes.byref(self._model),
            ctypes.byref(plane_of(cache, kind, rows)),
            index,
            _SOURCES[sources[0].dtype],
            sources[0].data_ptr(),
            sources[1].data_ptr(),
            cache.length,
            rows,
            torch.get_num_threads(),
        )

    def load(self, cache: PagedCache, layer: int, first: int, end: int) -> tuple[Tensor, Tensor]:
        kind, index = cache.pool.places[layer]
        shape = (self._model.kv_heads, end - first, self._model.head_dim)
        keys, values = torch.empty(shape, dtype=self._dtype), torch.empty(shape, dtype=self._dtype)
        if end > first:
            self._functions.dk_load(
                ctypes.byref(self._model),
                ctypes.byref(plane_of(cache, kind, end - cache.length)),
                index,
                first,
                end,
                cache.ring_first if cache.rings else end,
                _SOURCES[self._dtype],
                keys.data_ptr(),
                values.data_ptr(),
                torch.get_num_threads(),
            )
        return keys, values
