"""A recorder of steps that keeps the rules of a CUDA graph on any device.

It notes every operation with the very tensors it read and wrote, and replays them: what the host knew while
it recorded stays as it was, results come to lie in the same memory, and a step that reads a number cannot be
noted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

aten = torch.ops.aten
_READ_BY_HOST = (aten._local_scalar_dense.default, aten.nonzero.default)
_Note = tuple[Any, Any, Any, list[Tensor]]


class _Notes(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.notes: list[_Note] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function._can_decompose():
            with self:
                return function.decompose(*args, **kwargs)
        if function in _READ_BY_HOST:
            raise RuntimeError("operation not permitted when a stream is capturing")
        out = function(*args, **kwargs)
        self.notes.append((function, args, kwargs, _tensors(out)))
        return out


def _tensors(out: Any) -> list[Tensor]:
    return [each for each in tree_flatten(out)[0] if isinstance(each, Tensor)]


class Tape:
    """Counts what it has recorded and replayed."""

    def __init__(self) -> None:
        self.recorded = 0
        self.replayed = 0

    def __call__(self, run: Callable[[], Tensor]) -> tuple[Tensor, Callable[[], None]]:
        self.recorded += 1
        with _Notes() as notes:
            out = run()

        def replay() -> None:
            self.replayed += 1
            for function, args, kwargs, written in notes.notes:
                for place, values in zip(written, _tensors(function(*args, **kwargs)), strict=True):
                    if place is not values:
                        place.copy_(values)

        return out, replay
