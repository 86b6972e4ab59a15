"""Decoders built from files as the engine would, and run over tokens in pieces."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from engine.fit.plan import plan
from engine.machine import Gpu, Hardware
from engine.models.checkpoint import Checkpoint
from engine.models.decoder import Decoder, Segment
from engine.models.load import load_decoder
from engine.models.spec import read_spec
from engine.types import LoadSpec
from tests.engine.toy_device import TOY

TORCH = Hardware("test", 2, None, None)
"""A machine without the native kernels."""

WITH_TOY = Hardware(
    "test",
    2,
    None,
    None,
    gpus=(Gpu(0, "Toy", TOY.type, 1 << 34, 1 << 34, ("f32", "bf16", "f16", "int8row")),),
)
"""A machine with the accelerator of toy_device.py, which takes whatever it is not told to leave."""

EXACT = {"rtol": 1e-4, "atol": 2e-4}
"""How far float32 logits of the same weights may be apart."""


def build(
    folder: Path,
    format: str = "f32",
    context: int = 1024,
    hardware: Hardware = TORCH,
    gpu_layers: int | None = None,
) -> Decoder:
    wish = LoadSpec(str(folder), format=format, context=context, gpu_layers=gpu_layers)
    made = plan(read_spec(str(folder)), hardware, wish)
    checkpoint = Checkpoint(made.model)
    steps = load_decoder(made, checkpoint)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            checkpoint.close()
            decoder: Decoder = done.value
            return decoder


def run(decoder: Decoder, ids: list[int], pieces: list[int]) -> Tensor:
    """All logits of ``ids``, read in pieces of the given lengths and then one by one."""
    cache, rows, start = decoder.new_cache(len(ids)), [], 0
    with torch.inference_mode():
        for size in [*pieces, *[1] * (len(ids) - sum(pieces))]:
            rows.append(decoder.forward([Segment(cache, ids[start : start + size], wants_all_logits=True)]))
            start += size
    assert cache.length == len(ids)
    return torch.cat(rows)


def some_ids(count: int, seed: int = 1) -> list[int]:
    return torch.randint(0, 256, (count,), generator=torch.Generator().manual_seed(seed)).tolist()
