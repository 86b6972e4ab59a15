"""The accelerators that torch can use: names, memory, and what each was seen to compute.

Imports torch: for the engine's thread alone. Unknown is None, never zero.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import torch

from engine.fit.plan import depends_on_gpus, replanned
from engine.hardware.amdgpu import has_vram
from engine.hardware.probe import ram_bytes
from engine.machine import Gpu
from engine.quant.gpu_linear import computed_formats
from engine.types import LoadPlan


class GpuProbe:
    """Looks once for what is there; what is free it asks anew each time."""

    def __init__(self) -> None:
        self._found: tuple[Gpu, ...] | None = None

    def read(self) -> tuple[Gpu, ...]:
        """All accelerators; the first call sets each of them up, which takes up to some seconds."""
        if self._found is None:
            self._found = _find()
        self._found = tuple(_measured(gpu) for gpu in self._found)
        return self._found

    def settle(self, made: LoadPlan) -> LoadPlan:
        """The plan itself, or one re-made where it was made before anybody had looked for GPUs, or is for one
        whose free memory has changed.

        Raises WishError where it is for a device that is not here.
        """
        gpus = self.read()
        if made.wish.device == "cpu" or made.hardware.gpus == gpus:
            return made
        hardware = replace(made.hardware, gpus=gpus)
        if not gpus and not depends_on_gpus(made):
            return replace(made, hardware=hardware)
        return replanned(made, hardware)


def give_back() -> None:
    """Return to the devices what torch keeps for later and nobody holds."""
    if torch.accelerator.is_available():
        torch.accelerator.empty_cache()


def _find() -> tuple[Gpu, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a driver that is too old for torch is a GPU that is not there
        try:
            kind = torch.accelerator.current_accelerator(check_available=True)
            count = torch.accelerator.device_count() if kind is not None else 0
        except RuntimeError:
            return ()
        return tuple(_gpu(kind.type, index) for index in range(count)) if kind is not None else ()


def _gpu(type_name: str, index: int) -> Gpu:
    kind = "rocm" if type_name == "cuda" and torch.version.hip else type_name
    found = Gpu(index, _name(type_name, index), kind, None, None)
    uuid, is_integrated = _properties(type_name, index)
    total = _memory(found.device)[1]
    is_unified = is_integrated and not (kind == "rocm" and has_vram(total))
    formats = computed_formats(torch.device(found.device))
    return replace(found, total_bytes=total, formats=formats, uuid=uuid, is_unified=is_unified)


def _measured(gpu: Gpu) -> Gpu:
    """With what is free now. A GPU without memory of its own has what the system lets a program have."""
    free, total = _memory(gpu.device)
    own = _own_bytes(gpu.device)
    if not gpu.shares_ram:
        return replace(gpu, free_bytes=None if free is None else free + (own or 0), own_bytes=own)
    in_ram, available = ram_bytes()
    if gpu.kind != "mps":  # a driver's own figures leave out what the system would take back from files
        total = _least(total, in_ram)
    for_model = None if available is None else available + (own or 0)
    return replace(gpu, total_bytes=total, free_bytes=_least(total, for_model), own_bytes=own)


def _least(*figures: int | None) -> int | None:
    """Of those that are known."""
    return min((each for each in figures if each is not None), default=None)


def _properties(type_name: str, index: int) -> tuple[str | None, bool]:
    """(UUID, whether it is a part of the processor); unknown is no UUID, and a card."""
    try:
        properties = torch.get_device_module(type_name).get_device_properties(index)
    except (RuntimeError, AttributeError, AssertionError):
        return None, type_name == "mps"
    uuid = getattr(properties, "uuid", None)
    return str(uuid) if uuid else None, bool(getattr(properties, "is_integrated", False))


def _name(type_name: str, index: int) -> str:
    """As the driver calls it; Apple's has no name."""
    if type_name == "mps":
        return "Apple GPU"
    try:
        name = torch.get_device_module(type_name).get_device_name(index)
    except (RuntimeError, AttributeError, AssertionError):
        return f"{type_name.upper()} {index}"
    return " ".join(str(name).split())


def _memory(device: str) -> tuple[int | None, int | None]:
    """(free, total) bytes as the driver says."""
    try:
        if device == "mps":  # tells how much of the common memory a program may have, not how much it has
            total = torch.mps.recommended_max_memory()
            return total, total
        free, total = torch.accelerator.get_memory_info(device)
        return free, total
    except (RuntimeError, AttributeError):
        return None, None


def _own_bytes(device: str) -> int | None:
    """What torch keeps for tensors of this program: free for its next model."""
    try:
        return int(torch.accelerator.memory_reserved(device))
    except (RuntimeError, AttributeError):
        return None
