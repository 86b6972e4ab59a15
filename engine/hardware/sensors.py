"""Live readings of GPUs, for gauges: temperature, power, and memory that other programs use.

Reads NVML and Linux's own files; never torch, so any thread but the window's may ask. Knows no gauges.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from engine.hardware import amdgpu
from engine.hardware.nvml import CardFacts, Nvml
from engine.machine import Gpu, GpuReading
from engine.words import mark, tr

_PCI = Path("/sys/bus/pci/devices")
_NVIDIA, _DISPLAY = "0x10de", "0x03"
_OFTEN_S = 0.5
_SLICE = 0.9  # a card that has much more than torch was given is more than what torch was given
_ASLEEP = mark("The GPU sleeps.")
_SHARED = mark("Its memory is a part of the computer's.")
_SLICED = mark("A slice of a GPU (MIG) does not tell how busy it is.")


class GpuSensors:
    """Reads at most twice a second; asked more often it gives the last reading. For one thread at a time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._nvml = Nvml(clock)
        self._at = float("-inf")
        self._asked: tuple[Gpu, ...] = ()
        self._last: tuple[GpuReading, ...] = ()

    def read(self, gpus: tuple[Gpu, ...]) -> tuple[GpuReading, ...]:
        """One reading for each of ``gpus``, as torch has found them. A card that sleeps and holds nothing of
        ours is left asleep. Never raises.
        """
        is_same = [gpu.device for gpu in gpus] == [gpu.device for gpu in self._asked]
        if not is_same or self._clock() - self._at >= _OFTEN_S:
            self._at, self._asked = self._clock(), gpus
            self._last = tuple(self._reading(gpu) for gpu in gpus)
        return self._last

    def close(self) -> None:
        """Let the cards sleep."""
        self._nvml.close()

    def _reading(self, gpu: Gpu) -> GpuReading:
        if gpu.kind == "cuda":
            return self._nvidia(gpu)
        base = GpuReading(gpu.device, gpu.name, gpu.total_bytes, gpu.free_bytes)
        if gpu.kind == "rocm":
            return amdgpu.read(base, gpu)
        return replace(base, note=tr(_SHARED) if gpu.shares_ram else "")

    def _nvidia(self, gpu: Gpu) -> GpuReading:
        base = GpuReading(gpu.device, gpu.name, gpu.total_bytes, gpu.free_bytes)
        if not gpu.own_bytes and _is_asleep():
            self._nvml.close()
            return replace(base, note=tr(_ASLEEP))
        facts = self._nvml.facts(gpu.uuid) if gpu.uuid else None
        if facts is None:
            return replace(base, note=self._nvml.missing)
        seen = replace(
            base,
            power_w=facts.power_w,
            temperature_c=facts.temperature_c,
            energy_j=facts.energy_j,
            driver=self._nvml.driver(),
        )
        return _with_memory(seen, gpu, facts)


def _with_memory(base: GpuReading, gpu: Gpu, facts: CardFacts) -> GpuReading:
    """With the card's own figures of memory where they are of the same memory as torch's."""
    total, free = facts.total_bytes, facts.free_bytes
    if gpu.shares_ram or total is None:
        return replace(base, utilization=facts.utilization, note=tr(_SHARED) if gpu.shares_ram else "")
    if gpu.total_bytes is not None and gpu.total_bytes < _SLICE * total:
        return replace(base, note=tr(_SLICED))  # the whole card's are not those of the slice
    own = facts.own_bytes if facts.own_bytes is not None else gpu.own_bytes
    used = None if free is None else total - free
    return replace(
        base,
        total_bytes=total,
        free_bytes=free,
        used_by_others_bytes=None if used is None or own is None else max(0, used - own),
        spilled_bytes=None if used is None or gpu.own_bytes is None else max(0, gpu.own_bytes - used),
        utilization=facts.utilization,
        note=tr(_SLICED) if facts.is_slice else "",
    )


def _is_asleep() -> bool:
    """Whether every NVIDIA card of a Linux machine is switched off for the moment: to ask would wake it.
    https://docs.kernel.org/power/runtime_pm.html
    """
    cards = [
        folder
        for folder in _folders(_PCI)
        if _text(folder / "vendor") == _NVIDIA and _text(folder / "class").startswith(_DISPLAY)
    ]
    states = [_text(card / "power" / "runtime_status") for card in cards]
    return bool(states) and all(state == "suspended" for state in states)


def _folders(place: Path) -> list[Path]:
    try:
        return sorted(place.iterdir())
    except OSError:
        return []


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
