"""How much of a model lies in slower memory than was meant for it, and how many times slower that makes it.

Layers stay on the processor that a GPU has no room for, or on the disk where memory has none. Pure
arithmetic, standard library only.
"""

from __future__ import annotations

from dataclasses import replace

from engine.fit.speed import step_s
from engine.machine import Hardware
from engine.types import LoadPlan
from engine.words import decimal, percent, tr

_PLENTY_BYTES = 1 << 60


def roomy(hardware: Hardware) -> Hardware:
    """The same machine with memory for any model."""
    gpus = hardware.gpus and tuple(
        replace(gpu, free_bytes=_PLENTY_BYTES, total_bytes=_PLENTY_BYTES) for gpu in hardware.gpus
    )
    return replace(hardware, ram_free_bytes=_PLENTY_BYTES, gpus=gpus)


def with_spill(made: LoadPlan, whole: LoadPlan) -> LoadPlan:
    """``made`` with its share of weights in slower memory, and what that costs. ``whole`` is the plan of the
    same wish for a machine with memory for any model.
    """
    spilled = 1 - _fast_weights(made, whole.device) / max(1, _fast_weights(whole, whole.device))
    tokens = max(1, made.context // 2)
    slowdown = max(1.0, step_s(made, tokens) / step_s(whole, tokens))
    said = tr("{share} of it spills: about {slowdown} times slower than with room for all of it.").format(
        share=percent(decimal(100 * spilled, 0)), slowdown=decimal(slowdown, 1)
    )
    reasons = (made.reasons[0], said, *made.reasons[1:])
    return replace(made, spilled=spilled, slowdown=slowdown, reasons=reasons)


def _fast_weights(made: LoadPlan, device: str) -> int:
    return sum(share.bytes.weights for share in made.devices if share.device == device)
