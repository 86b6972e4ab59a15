"""The keys and values of one running sequence: what a forward pass asks for, and the plain kinds.

Pages that sequences share are in engine.kv.pool.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    def is_rotated(self) -> bool:
        """Whether what it gives is rotated, see engine.kv.quantized: queries have to be too."""
        ...

    def reserve(self, rows: int) -> bool:
        """Make room for ``rows`` more tokens; whether there is any."""
        ...

    def append(self, layer: int, keys: Tensor, values: Tensor, first: int) -> tuple[Tensor, Tensor]:
        """Store [rows, kv_heads, dim] after the held tokens of ``layer``, where room was reserved; return the
        layer's keys and values from position ``first`` on, [kv_heads, length + rows − first, dim]. ``length``
        grows only by ``advance``.
        """
        ...

    def advance(self, ids: Sequence[int]) -> None:
        """Count appended tokens, these ``ids``, as held: every layer has them."""
        ...

    def trim(self, length: int) -> None:
        """Forget all tokens from ``length`` on."""
        ...


class DeviceCache(KVCache, Protocol):
    """A cache whose places stay where they are, so that a step over it can be recorded."""

    def layer(self, layer: int) -> tuple[Tensor, Tensor]:
        """All places for keys and for values of one layer, [kv_heads, capacity, dim]."""
        ...


class ContiguousCache:
    """Two tensors [layers, kv_heads, capacity, dim] on one device, reserved at once; those of the processor
    take memory as they fill.
    """

    def __init__(
        self,
        layers: int,
        kv_heads: int,
        dim: int,
        capacity: int,
        dtype: torch.dtype,
        device: torch.device | None = None,
    ) -> None:
        shape = (layers, kv_heads, capacity, dim)
        self._keys = torch.empty(shape, dtype=dtype, device=device)
        self._values = torch.empty(shape, dtype=dtype, device=device)
        self._capacity = capacity
        self._ids: list[int] = []

    @property
    def ids(self) -> Sequence[int]:
        """The tokens held."""
        return self._ids

    @property
    def length(self) -> int:
        return len(self._ids)

    @property
    def capacity(self) -> int:
        return self._capacity

    @property
    def nbytes(self) -> int:
        return self._keys.nbytes + self._values.nbytes

    @property
    def used_nbytes(self) -> int:
        return self.nbytes // self._capacity * self.length

    @property
    def num_layers(self) -> int:
        return self._keys.shape[0]

    def layer(self, layer: int) -> tuple[Tensor, Tensor]:
        return self._keys[layer], self._values[layer]

    @property
    def is_rotated(self) -> bool:
        return False

    def reserve(self, rows: int) -> bool:
        return self.length + rows <= self._capacity

    def append(self, layer: int, keys: Tensor, values: Tensor, first: int) -> tuple[Tensor, Tensor]:
        start, end = self.length, self.length + keys.shape[0]
        assert end <= self._capacity, "no more tokens are appended than there was room for"
        layer_keys, layer_values = self._keys[layer], self._values[layer]
        layer_keys[:, start:end].copy_(keys.transpose(0, 1))
        layer_values[:, start:end].copy_(values.transpose(0, 1))
        return layer_keys[:, first:end], layer_values[:, first:end]

    def advance(self, ids: Sequence[int]) -> None:
        self._ids.extend(ids)

    def trim(self, length: int) -> None:
        assert 0 <= length <= self.length
        del self._ids[length:]


class SplitCache:
    """The cache of a model whose layers lie on several devices: a part for each run of layers, in order."""

    def __init__(self, parts: Sequence[ContiguousCache]) -> None:
        self.parts = tuple(parts)
        self._places = [(part, layer) for part in parts for layer in range(part.num_layers)]

    @property
    def ids(self) -> Sequence[int]:
        """The tokens held."""
        return self.parts[0].ids

    @property
    def length(self) -> int:
        return self.parts[0].length

    @property
    def capacity(self) -> int:
        return self.parts[0].capacity

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.parts)

    @property
    def used_nbytes(self) -> int:
        return sum(part.used_nbytes for part in self.parts)

    def layer(self, layer: int) -> tuple[Tensor, Tensor]:
        part, index = self._places[layer]
        return part.layer(index)

    @property
    def is_rotated(self) -> bool:
        return False

    def reserve(self, rows: int) -> bool:
        return self.parts[0].reserve(rows)

    def append(self, layer: int, keys: Tensor, values: Tensor, first: int) -> tuple[Tensor, Tensor]:
        part, index = self._places[layer]
        return part.append(index, keys, values, first)

    def advance(self, ids: Sequence[int]) -> None:
        for part in self.parts:
            part.advance(ids)

    def trim(self, length: int) -> None:
        for part in self.parts:
            part.trim(length)
