"""The worker that times kernels of linear layers, in a process of its own: some are others' libraries.

Knows the registry; not which matrices are worth timing.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch

from app import paths
from app.bench.serving import serve
from engine.fit.plan import plan
from engine.hardware.probe import probe
from engine.models.spec import read_spec
from engine.quant.registry import KernelChoice, measure
from engine.types import LoadSpec


def choose(path: str, format: str, threads: int | None) -> dict[str, Any]:
    """What a load of the model takes: kernels, format and threads."""
    times = paths.kernel_times_file()
    wish = LoadSpec(path, format, device="cpu", threads=threads)
    made = plan(read_spec(path), probe(times), wish)
    torch.set_num_threads(made.threads)
    made = KernelChoice(times).settle(made)
    return {"kernels": made.kernels, "format": made.format, "threads": made.threads}


def time_all(shape: list[int], rows: list[int], threads: int, repeats: int) -> dict[str, Any]:
    """Every kernel of this machine on one matrix [out, in], and why others are not there."""
    left_out: dict[str, str] = {}
    out, cols = shape
    measured = measure([(out, cols)], rows, threads, leave_out=left_out.__setitem__, repeats=repeats)
    return {"measured": [asdict(each) for each in measured], "left_out": left_out}


def main() -> None:
    serve({"choose": choose, "time_all": time_all})


if __name__ == "__main__":
    main()
