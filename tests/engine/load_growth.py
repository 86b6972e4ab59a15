"""Loads a model's weights once and prints how far that took the process: run as a child, by a test.

`python -m tests.engine.load_growth PATH FORMAT` prints the bytes of the weights as held, and of the highest
growth of resident memory while they were read.
"""

from __future__ import annotations

import sys

import torch

from app.bench import resident
from engine.fit.plan import plan
from engine.hardware.probe import probe
from engine.models.checkpoint import Checkpoint
from engine.models.load import load_decoder
from engine.models.spec import read_spec
from engine.types import LoadSpec


def main(path: str, format: str) -> None:
    made = plan(read_spec(path), probe(), LoadSpec(path, format=format, context=64))
    square = torch.ones(256, 256)
    _ = square @ square, square.bfloat16() @ square.bfloat16()  # what torch needs for itself
    resident.reset_peak()
    before = resident.rss_bytes()
    with Checkpoint(made.model) as checkpoint:
        for _ in load_decoder(made, checkpoint):
            pass
    print(made.bytes.weights, resident.peak_bytes() - before)


if __name__ == "__main__":
    main(*sys.argv[1:])
