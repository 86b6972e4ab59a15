"""What Linux's driver of AMD's GPUs tells in files: temperature, power, and memory in use.

https://docs.kernel.org/gpu/amdgpu/driver-misc.html and https://docs.kernel.org/gpu/amdgpu/thermal.html
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from engine.machine import Gpu, GpuReading

_CARDS = Path("/sys/class/drm")
_VRAM = "mem_info_vram_total"


def read(base: GpuReading, gpu: Gpu) -> GpuReading:
    """``base`` with what the card of ``gpu`` tells: the one whose memory has the size that torch knows. Where
    several have, nobody can say which is meant.
    """
    cards = [card for card in _cards() if _number(card / _VRAM) == gpu.total_bytes]
    if gpu.total_bytes is None or len(cards) != 1:
        return base
    (card,) = cards
    used, sensors = _number(card / "mem_info_vram_used"), next(iter(sorted(card.glob("hwmon/hwmon*"))), card)
    others = None if used is None or gpu.own_bytes is None else max(0, used - gpu.own_bytes)
    busy = _number(card / "gpu_busy_percent")
    return replace(
        base,
        free_bytes=base.free_bytes if used is None else max(0, gpu.total_bytes - used),
        used_by_others_bytes=others,
        power_w=_scaled(_number(sensors / "power1_average"), 1e-6),
        temperature_c=_scaled(_number(sensors / "temp1_input"), 1e-3),
        utilization=_scaled(busy, 1e-2),
    )


def has_vram(total_bytes: int | None) -> bool:
    """Whether there is a card with so much memory of its own, set aside at start or on the card: what a GPU
    has beyond that is the computer's.
    """
    return total_bytes is not None and any(_number(card / _VRAM) == total_bytes for card in _cards())


def _cards() -> list[Path]:
    """The folders of the devices that have such files."""
    return [path.parent for path in sorted(_CARDS.glob(f"card[0-9]*/device/{_VRAM}"))]


def _number(path: Path) -> int | None:
    try:
        text = path.read_text(errors="replace").strip()
    except OSError:
        return None
    return int(text) if text.isascii() and text.isdecimal() else None


def _scaled(value: int | None, factor: float) -> float | None:
    return None if value is None else value * factor
