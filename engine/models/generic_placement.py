"""Where a model that transformers runs has its layers: on one device, the last of them perhaps on the disk.

Importing this imports accelerate, by whose hooks a layer on the disk gets its weights for each pass and gives
them back behind it. Nothing is copied to a folder: they come from the model's own files, which stay open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from accelerate.hooks import AlignDevicesHook, add_hook_to_module
from torch import Tensor

from engine.errors import UnsupportedModelError
from engine.types import LoadPlan
from engine.words import tr


@dataclass(frozen=True, slots=True)
class DeviceMap:
    """``device`` computes everything; the layers ``on_disk`` of the list ``layers`` are read for it."""

    device: torch.device
    layers: str  # a dotted name, "model.layers"
    on_disk: frozenset[int]

    @property
    def by_module(self) -> dict[str, str]:
        """The same as transformers and accelerate write it."""
        layers = {self.layer_name(index): "disk" for index in sorted(self.on_disk)}
        return {"": str(self.device)} | layers

    def layer_name(self, index: int) -> str:
        return f"{self.layers}.{index}"

    def layer_of(self, name: str) -> int | None:
        """The layer a tensor belongs to, by its name."""
        number = name.removeprefix(self.layers + ".").partition(".")[0]
        return int(number) if name.startswith(self.layers + ".") and number.isdigit() else None


def device_map(model: Any, plan: LoadPlan) -> DeviceMap:
    """The places a plan gives to a model's layers. Raises UnsupportedModelError where layers are to be on the
    disk and the model has no list of them.
    """
    num_layers = plan.model.num_layers
    on_disk = frozenset(range(num_layers - plan.disk_layers, num_layers))
    return DeviceMap(torch.device(plan.device), _layers_name(model, plan) if on_disk else "", on_disk)


def _layers_name(model: Any, plan: LoadPlan) -> str:
    """The name of the list of all layers: the outermost one that is as long as it should be."""
    lists = [
        name
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.ModuleList) and len(module) == plan.model.num_layers
    ]
    if not lists:
        raise UnsupportedModelError(
            tr("{path}: this architecture's layers cannot stay on the disk.").format(path=plan.model.path),
            tr("Choose a smaller format, or a smaller model."),
        )
    outermost: str = min(lists, key=lambda name: name.count("."))
    return outermost


class LayerWeights(Mapping[str, Tensor]):
    """The weights of one layer by their names within it, as accelerate asks for them: ``read`` gives all when
    the first one is asked for, each is forgotten as it is handed out.
    """

    def __init__(self, names: Sequence[str], read: Callable[[], dict[str, Tensor]]) -> None:
        self._names = names
        self._read = read
        self._waiting: dict[str, Tensor] = {}

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._waiting:
            self._waiting = self._read()
        return self._waiting.pop(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def read_when_run(layer: torch.nn.Module, device: torch.device, weights: LayerWeights) -> None:
    """Let a layer have its weights on ``device`` during each of its passes, and on `meta` between them."""
    hook = AlignDevicesHook(execution_device=device, offload=True, weights_map=weights, place_submodules=True)
    add_hook_to_module(layer, hook)
