"""Which device runs which layers, in which precisions, and how a tensor crosses from one to the other.

Knows devices and layer numbers; no weights. A plan decides, see engine/fit/devices.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.fit.kv_bits import KV16, KVBits
from engine.fit.kv_pages import planned_bits
from engine.types import LoadPlan

CPU = torch.device("cpu")
_HALVES = {"bf16": torch.bfloat16, "f16": torch.float16}


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive layers on one device. ``dtype`` is what goes into their products, ``kv_dtype`` what their
    keys and values are kept in, or read as where ``kv`` has fewer bits.
    """

    device: torch.device
    layers: range
    dtype: torch.dtype
    kv_dtype: torch.dtype
    kv: KVBits = KV16


def planned_runs(plan: LoadPlan) -> tuple[Run, ...]:
    """The runs of layers of a plan, in order; a device without layers has none."""
    runs: list[Run] = []
    for share in plan.devices:
        first = runs[-1].layers.stop if runs else 0
        if share.layers:
            is_cpu = share.device == CPU.type
            dtypes = _cpu_dtypes(plan) if is_cpu else _gpu_dtypes(plan, share.device)
            kv = planned_bits(plan)
            runs.append(Run(torch.device(share.device), range(first, first + share.layers), *dtypes, kv))
    return tuple(runs)


def _cpu_dtypes(plan: LoadPlan) -> tuple[torch.dtype, torch.dtype]:
    """Native kernels take and give float32, whatever they compute in; float16 would cut large inputs off."""
    is_float = plan.is_native or plan.format in ("f32", "f16")
    kv_dtype = torch.float32 if plan.kv_bits == 32 else torch.bfloat16
    return torch.float32 if is_float else torch.bfloat16, kv_dtype


def _gpu_dtypes(plan: LoadPlan, device: str) -> tuple[torch.dtype, torch.dtype]:
    """16-bit numbers of the kind that the device has, bfloat16 before float16."""
    formats = next(gpu.formats for gpu in plan.hardware.gpus or () if gpu.device == device)
    half = next((dtype for name, dtype in _HALVES.items() if name in formats), torch.float32)
    kv_dtype = torch.float32 if plan.kv_bits == 32 else half
    return torch.float32 if plan.format == "f32" else half, kv_dtype


def move(x: Tensor, device: torch.device) -> Tensor:
    """``x`` on ``device``; itself where it is there already. Only a way back to the processor waits for a
    device.
    """
    return x.to(device, non_blocking=device.type != "cpu")
