"""The KV cache of one running sequence, behind the protocol that pages will implement too.

A cache owns its tensors and its length; it does not know which tokens it holds.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor


class KVCache(Protocol):
    """Keys and values of one sequence, layer by layer."""

    @property
    def length(self) -> int:
        """Tokens held."""
        ...

    @property
    def capacity(self) -> int:
        """Most tokens that can be held."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes reserved."""
        ...

    @property
    def used_nbytes(self) -> int:
        """Bytes of the tokens held."""
        ...

    @property
    def storage(self) -> tuple[Tensor, Tensor]:
        """All keys and all values, [layers, kv_heads, capacity, dim], to be read and written in place."""
        ...

    def append(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Store [rows, kv_heads, dim] after the held tokens of ``layer``; return all of that layer's keys and
        values, [kv_heads, length + rows, dim], without a copy. ``length`` grows only by ``advance``.
        """
        ...

    def advance(self, rows: int) -> None:
        """Count ``rows`` appended tokens as held: every layer has them."""
        ...

    def trim(self, length: int) -> None:
        """Forget all tokens from ``length`` on."""
        ...

    def reset(self) -> None:
        """Forget everything; the reservation stays."""
        ...


class ContiguousCache:
    """Two tensors [layers, kv_heads, capacity, dim], reserved at once and touched as they fill."""

    def __init__(self, layers: int, kv_heads: int, dim: int, capacity: int, dtype: torch.dtype) -> None:
        shape = (layers, kv_heads, capacity, dim)
        self._keys = torch.empty(shape, dtype=dtype)
        self._values = torch.empty(shape, dtype=dtype)
        self._capacity = capacity
        self._length = 0

    @property
    def length(self) -> int:
        return self._length

    @property
    def capacity(self) -> int:
        return self._capacity

    @property
    def nbytes(self) -> int:
        return self._keys.nbytes + self._values.nbytes

    @property
    def used_nbytes(self) -> int:
        return self.nbytes // self._capacity * self._length

    @property
    def storage(self) -> tuple[Tensor, Tensor]:
        return self._keys, self._values

    def append(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        end = self._length + keys.shape[0]
        assert end <= self._capacity, "the scheduler admits no more tokens than the cache holds"
        layer_keys, layer_values = self._keys[layer], self._values[layer]
        layer_keys[:, self._length : end].copy_(keys.transpose(0, 1))
        layer_values[:, self._length : end].copy_(values.transpose(0, 1))
        return layer_keys[:, :end], layer_values[:, :end]

    def advance(self, rows: int) -> None:
        self._length += rows

    def trim(self, length: int) -> None:
        assert 0 <= length <= self._length
        self._length = length

    def reset(self) -> None:
        self._length = 0
