"""The cache of one sequence of a model that transformers runs: its own layers, with a length and a capacity.

Importing this imports transformers. Layers of attention keep their keys and values in memory reserved once,
all of them even where a window hides the older ones, so that they can be trimmed; other layers are the
library's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import (
    DummyLayer,
    DynamicLayer,
    DynamicSlidingWindowLayer,
    LinearAttentionLayer,
)


class ReservedLayer(DynamicLayer):  # type: ignore[misc]  # transformers' types are not read
    """Keys and values [1, heads, length, dim] of one layer, in a reservation made at the first token."""

    def __init__(self, capacity: int, is_sliding: bool) -> None:
        super().__init__()
        self.is_sliding = is_sliding  # by which transformers finds the layer whose mask has a window
        self._capacity = capacity
        self._length = 0
        self._places: tuple[Tensor, ...] = ()

    @property
    def nbytes(self) -> int:
        return sum(place.nbytes for place in self._places)

    @property
    def used_nbytes(self) -> int:
        return self.nbytes // self._capacity * self._length

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, ...]:
        """Store keys and values [1, heads, rows, dim]; return all there are."""
        new = key_states, value_states
        if not self._places:
            self._places = tuple(x.new_empty((*x.shape[:2], self._capacity, x.shape[3])) for x in new)
            self.is_initialized, self.device = True, key_states.device
        end = self._length + key_states.shape[2]
        assert end <= self._capacity, "the scheduler admits no more tokens than the cache holds"
        for place, rows in zip(self._places, new, strict=True):
            place[:, :, self._length : end] = rows
        self._set_length(end)
        return self.keys, self.values

    def get_seq_length(self) -> int:
        return self._length

    def trim(self, length: int) -> None:
        """Forget all tokens from ``length`` on."""
        if self._places:  # a layer that borrows another one's keys and values never has any
            self._set_length(length)

    def _set_length(self, length: int) -> None:
        self._length = length
        self.keys, self.values = (place[:, :, :length] for place in self._places)


class GenericCache:
    """What a model keeps of one sequence; ``held`` is what its forward pass takes and fills.

    Where a layer is no list of tokens (``can_trim`` is false) a cache can only grow or be emptied.
    """

    def __init__(self, config: Any, capacity: int) -> None:
        self._config = config
        self._capacity = capacity
        self._ids: list[int] = []
        self.held = DynamicCache(config=config)
        self.held.layers = _reserving(self.held.layers, capacity)

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
    def can_trim(self) -> bool:
        """Whether all layers can forget their last tokens."""
        return all(isinstance(layer, ReservedLayer | DummyLayer) for layer in self.held.layers)

    @property
    def nbytes(self) -> int:
        """Bytes held, those reserved for tokens to come too; there are none before the first token."""
        return sum(self._nbytes(layer) for layer in self.held.layers)

    @property
    def used_nbytes(self) -> int:
        """Bytes of the tokens held, and of states."""
        layers = self.held.layers
        return sum(x.used_nbytes if isinstance(x, ReservedLayer) else self._nbytes(x) for x in layers)

    @property
    def is_rotated(self) -> bool:
        """Never: what it holds has 16 bits or more."""
        return False

    def reserve(self, rows: int) -> bool:
        """Whether there is room for ``rows`` more tokens."""
        return self.length + rows <= self._capacity

    def append(self, layer: int, keys: Tensor, values: Tensor, first: int) -> tuple[Tensor, Tensor]:
        raise AssertionError("transformers appends to its layers by itself")

    def advance(self, ids: Sequence[int]) -> None:
        """Count tokens that a forward pass has appended."""
        self._ids.extend(ids)

    def trim(self, length: int) -> None:
        """Forget all tokens from ``length`` on."""
        assert 0 <= length <= self.length
        if length == 0:
            self._empty()
        elif length < self.length:
            assert self.can_trim, "who asks for this has looked at the runner's capabilities"
            for layer in self._reserved():
                layer.trim(length)
        del self._ids[length:]

    def _empty(self) -> None:
        """Forget everything; memory that is reserved stays."""
        fresh = DynamicCache(config=self._config).layers
        layers = self.held.layers
        self.held.layers = [_emptied(old, new) for old, new in zip(layers, fresh, strict=True)]

    def _reserved(self) -> Iterator[ReservedLayer]:
        return (layer for layer in self.held.layers if isinstance(layer, ReservedLayer))

    def _nbytes(self, layer: Any) -> int:
        if isinstance(layer, ReservedLayer):
            return layer.nbytes
        held = {id(tensor): tensor for tensor in _tensors(vars(layer).values())}  # keys may be the values too
        return sum(tensor.nbytes for tensor in held.values())


def _emptied(layer: Any, fresh: Any) -> Any:
    """A layer that holds nothing, with its memory where it can be kept."""
    if isinstance(layer, ReservedLayer):
        layer.trim(0)
    elif type(layer) is LinearAttentionLayer:
        with torch.inference_mode():  # in which its tensors were made
            layer.reset()
    else:
        return fresh
    return layer


def _reserving(layers: Sequence[Any], capacity: int) -> list[Any]:
    """Layers that reserve in place of plain lists of tokens; any others as they are. All layers with a window
    have one mask, and so windows are left where some layers cannot do without theirs (DeepSeek V4).
    """
    is_left = any(
        isinstance(x, DynamicSlidingWindowLayer) and type(x) is not DynamicSlidingWindowLayer for x in layers
    )
    kinds = (DynamicLayer,) if is_left else (DynamicLayer, DynamicSlidingWindowLayer)
    return [ReservedLayer(capacity, x.is_sliding) if type(x) in kinds else x for x in layers]


def _tensors(values: Any) -> Iterator[Tensor]:
    """The tensors of a layer, which keeps several in one dictionary; a lone number is not one."""
    for value in values:
        if isinstance(value, Tensor):
            if value.ndim:
                yield value
        elif isinstance(value, dict):
            yield from _tensors(value.values())
