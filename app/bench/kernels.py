"""`decodeck bench --kernels`: every kernel of this machine on the matrices of a model.

Knows the list's shape and which matrices a model has; not how a kernel is timed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from app.bench.contenders import Pulse
from app.bench.process import Worker
from engine.errors import WishError
from engine.fit.kernels import kernel_name, read_matrices
from engine.models.spec import read_spec
from engine.types import LoadSpec, ModelSpec

ROWS = (1, 2, 4, 8, 64, 512)  # of the input: a step, verified drafts and batches, pieces of a prompt


@dataclass(frozen=True, slots=True)
class Timed:
    """One kernel on one matrix, timed."""

    name: str
    format: str  # how the matrix is held
    shape: tuple[int, int]  # [out, in]
    rows: int  # of the input
    us: float  # of one product with the matrix out of the caches
    read_bytes: int  # of weights and scales by one product
    chosen: bool  # whether a load of the model takes this kernel for this matrix


def measure_kernels(wish: LoadSpec, repeat: int, say: Callable[[str], None]) -> dict[str, Any]:
    """The `kernels` of the JSON report, one matrix after another with a pulse on both sides of each.

    Raises WishError for a wish that cannot be met, and what reading the model's header raises.
    """
    spec = read_spec(wish.path)
    if spec.generic is not None:
        raise WishError("No kernel of the program runs this model: transformers does.", "Choose another one.")
    listed: list[dict[str, Any]] = []
    with Worker("app.bench.kernel_worker", "kernels") as worker:
        taken = worker.ask("choose", path=wish.path, format=wish.format, threads=wish.threads)
        is_native = taken["kernels"] != "torch"
        shapes = shapes_of(spec, taken["format"], is_native)
        chosen = {(kernel_name(held, taken["kernels"]), rows, cols) for held, rows, cols in shapes}
        said: set[str] = set()
        with closing(Pulse(taken["threads"])) as pulse:
            before = pulse()
            for shape in dict.fromkeys((rows, cols) for _, rows, cols in shapes):
                say(f"measuring {shape[0]} × {shape[1]}")
                options = {"shape": shape, "rows": ROWS, "threads": taken["threads"], "repeats": repeat}
                reply = worker.ask("time_all", **options)
                after = pulse()
                for name in reply["left_out"].keys() - said:
                    say(f"{name} is left out: {reply['left_out'][name]}")
                said |= reply["left_out"].keys()
                listed += entries((_timed(each, chosen) for each in reply["measured"]), (before + after) / 2)
                before = after
    return {"model": wish.path, "format": taken["format"], "kernels": listed}


def shapes_of(spec: ModelSpec, format: str, is_native: bool = False) -> list[tuple[str, int, int]]:
    """(format held, out, in) of the matrices that a step multiplies with, each kind once, in their order."""
    matrices = read_matrices(spec, format, is_native)
    return list(dict.fromkeys((matrix.held, matrix.rows, matrix.cols) for matrix in matrices))


def entries(measured: Iterable[Timed], read_gbps: float) -> list[dict[str, Any]]:
    """Entries of the list; ``read_gbps`` is the bandwidth beside the measurements."""
    return [_entry(each, read_gbps) for each in measured]


def _timed(reply: dict[str, Any], chosen: set[tuple[str, int, int]]) -> Timed:
    rows, cols = reply["shape"]
    name, is_chosen = reply["name"], (reply["name"], rows, cols) in chosen
    return Timed(
        name, reply["format"], (rows, cols), reply["rows"], reply["us"], reply["read_bytes"], is_chosen
    )


def _entry(measured: Timed, read_gbps: float) -> dict[str, Any]:
    gbps = measured.read_bytes / measured.us / 1e3
    return {
        "name": measured.name,
        "format": measured.format,
        "shape": list(measured.shape),
        "rows": measured.rows,
        "us": measured.us,
        "gbps": gbps,
        "fraction_of_bandwidth": gbps / read_gbps,
        "chosen": measured.chosen,
    }
