"""An accelerator that is none: it computes on the processor, but keeps the rules of a device of its own.

Operations take tensors of one device only, except where torch allows numbers and indexes of the processor;
what crosses from one to the other is counted, and so is whatever makes the host wait. To the program it is
the device "meta", the only one besides the processor that every build of torch knows. Of
`torch.tensor(..., device="meta")` torch drops the numbers before anybody sees them: make such a tensor on the
processor and move it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only

TOY = torch.device("meta")
aten = torch.ops.aten
_CROSSING = (aten._to_copy.default, aten.copy_.default)
_HOST_READS = (aten._local_scalar_dense.default, aten.nonzero.default, aten.is_nonzero.default)
_HOST_INDEXES = (aten.index.Tensor, aten.index_put_.default, aten.index_put.default)


class _ToyTensor(Tensor):
    """What the program holds of a tensor on the toy device."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> _ToyTensor:
        with torch.inference_mode(False):  # views of a tensor that was made outside of it need their like
            made: _ToyTensor = Tensor._make_wrapper_subclass(
                cls, inner.shape, inner.stride(), inner.storage_offset(), dtype=inner.dtype, device=TOY
            )
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError("the toy device works inside its mode only")


class ToyDevice(TorchDispatchMode):
    """The device while it is entered. ``crossings`` counts tensors by direction: to, from; ``waits`` counts
    the operations by which the host learnt a number.
    """

    def __init__(self) -> None:
        super().__init__()
        self.crossings: Counter[str] = Counter()
        self.waits = 0
        self._made: WeakSet[_ToyTensor] = WeakSet()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        tensors = [each for each in tree_flatten((args, kwargs))[0] if isinstance(each, Tensor)]
        is_here = any(isinstance(each, _ToyTensor) for each in tensors) or _is_toy(kwargs.get("device"))
        if not is_here and not any(isinstance(each, torch.device) and _is_toy(each) for each in args):
            return function(*args, **kwargs)
        if function._can_decompose():  # is made of others: only these have rules
            with self:
                return function.decompose(*args, **kwargs)
        if function in _CROSSING:
            return self._cross(function, args, kwargs)
        self._check(function, tensors)
        if function in _HOST_READS:
            self.waits += 1
        if "device" in kwargs:
            kwargs["device"] = torch.device("cpu")
        return self._run(function, args, kwargs)

    def read(self, tensor: Tensor) -> Tensor:
        """The numbers of a tensor on any device, for the test alone: nothing is counted."""
        return _unwrapped(tensor).clone()

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors that are alive on the device; views share theirs."""
        storages = [toy.inner.untyped_storage() for toy in self._made]
        return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())

    def holds(self, tensor: Tensor) -> bool:
        """Whether a tensor lies on the device."""
        return isinstance(tensor, _ToyTensor)

    def _check(self, function: Any, tensors: list[Tensor]) -> None:
        hosts = [each for each in tensors if not isinstance(each, _ToyTensor) and each.dim() > 0]
        if function in _HOST_INDEXES:
            self.crossings["to"] += len(hosts)
            hosts = [each for each in hosts if each.dtype not in (torch.int64, torch.int32)]
        assert not hosts, f"{function} mixes devices"

    def _cross(self, function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """A copy, which may change the device."""
        if function is aten.copy_.default:
            target, source, *rest = args
            waits = not (rest[0] if rest else kwargs.get("non_blocking"))
            self._count(isinstance(source, _ToyTensor), isinstance(target, _ToyTensor), waits)
            _unwrapped(target).copy_(_unwrapped(source))
            return target
        (source,) = args
        is_toy = isinstance(source, _ToyTensor)
        device = kwargs.pop("device", None) or (TOY if is_toy else torch.device("cpu"))
        self._count(is_toy, _is_toy(device), not kwargs.get("non_blocking"))
        copied = function(_unwrapped(source), **kwargs)
        return self._wrapped(copied) if _is_toy(device) else copied

    def _count(self, is_from_toy: bool, is_to_toy: bool, waits: bool) -> None:
        """A copy waits unless it is told not to; what comes to the host is not there before it has waited."""
        if is_from_toy == is_to_toy:
            return
        self.crossings["from" if is_from_toy else "to"] += 1
        self.waits += waits or is_from_toy

    def _run(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        toys = [each for each in tree_flatten((args, kwargs))[0] if isinstance(each, _ToyTensor)]
        known = {id(toy.inner): toy for toy in toys}  # what is changed in place comes back as itself

        def wrapped(inner: Tensor) -> Tensor:
            return known[id(inner)] if id(inner) in known else self._wrapped(inner)

        out = function(*tree_map_only(Tensor, _unwrapped, args), **tree_map_only(Tensor, _unwrapped, kwargs))
        return tree_map_only(Tensor, wrapped, out)

    def _wrapped(self, inner: Tensor) -> _ToyTensor:
        made = _ToyTensor(inner)
        self._made.add(made)
        return made


def _is_toy(device: torch.device | None) -> bool:
    return device is not None and device.type == TOY.type


def _unwrapped(tensor: Tensor) -> Tensor:
    return tensor.inner if isinstance(tensor, _ToyTensor) else tensor
