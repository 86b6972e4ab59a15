"""The list of kernels from what a registry measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.bench import kernel_worker, kernels, worker
from app.bench.kernels import Timed, entries, shapes_of
from app.bench.tables import kernel_lines
from engine.models.spec import read_spec
from engine.quant import registry
from engine.types import LoadSpec

TIMED = Timed("quick", "bf16", (1000, 500), 1, 100.0, 1_000_000, True)


def test_an_entry_has_the_settled_keys_and_bandwidths_from_the_bytes_read() -> None:
    (entry,) = entries([TIMED], read_gbps=40.0)
    assert set(entry) == {"name", "format", "shape", "rows", "us", "gbps", "fraction_of_bandwidth", "chosen"}
    assert entry["gbps"] == pytest.approx(10.0)
    assert entry["fraction_of_bandwidth"] == pytest.approx(0.25)
    assert (entry["shape"], entry["chosen"]) == ([1000, 500], True)


def test_each_kind_of_matrix_is_there_once_and_the_tied_head_too(tiny: Callable[[str], Path]) -> None:
    shapes = shapes_of(read_spec(str(tiny("F16"))), "bf16")
    assert len(shapes) == len(set(shapes))
    assert {(rows, cols) for _, rows, cols in shapes} >= {(512, 256), (256, 256), (1024, 256), (256, 512)}


class InProcess:
    """Stands in for the worker: the same functions without a process."""

    def __init__(self, module: str, title: str) -> None:
        assert module == kernel_worker.__name__

    def __enter__(self) -> InProcess:
        return self

    def __exit__(self, *error: object) -> None: ...

    def ask(self, command: str, **options: Any) -> Any:
        return getattr(kernel_worker, command)(**json.loads(json.dumps(options)))


class Steady:
    """A pulse that never changes."""

    def __init__(self, threads: int) -> None: ...

    def __call__(self) -> float:
        return 50.0

    def close(self) -> None: ...


def test_every_matrix_has_one_chosen_kernel_that_a_load_names_too(
    tiny: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "Worker", InProcess)
    monkeypatch.setattr(kernels, "Pulse", Steady)
    monkeypatch.setattr(kernels, "ROWS", (1, 3))
    monkeypatch.setattr(registry, "LEAST_SPREAD_BYTES", 1 << 20)
    monkeypatch.setattr(registry, "cache_bytes", lambda: None)
    path = tiny("Q4_0,head=Q8_0")
    said: list[str] = []
    report = kernels.measure_kernels(LoadSpec(str(path), threads=1), 1, said.append)
    assert (report["model"], report["format"]) == (str(path), "file")
    listed = report["kernels"]
    shapes = {tuple(entry["shape"]) for entry in listed}
    assert len(said) >= len(shapes) > 2
    for entry in listed:
        assert entry["fraction_of_bandwidth"] == pytest.approx(entry["gbps"] / 50.0)
    chosen = {(*entry["shape"], entry["rows"]): entry["name"] for entry in listed if entry["chosen"]}
    assert set(chosen) == {(*shape, rows) for shape in shapes for rows in (1, 3)}
    named = worker.Bench().load(str(path), 64, 1, "auto", "auto")["kernels"]
    assert set(chosen.values()) == set(named.split(" + "))


def test_what_is_quicker_than_memory_comes_from_the_cache_and_is_no_share_of_the_bandwidth() -> None:
    lines = kernel_lines({"model": "m.gguf", "kernels": entries([TIMED], 8.4)})
    assert lines[2].split()[-2:] == ["cache", "*"]
    assert "%" not in lines[2]
    assert lines[-1].startswith("cache: read quicker than memory can be")
    below = kernel_lines({"model": "m.gguf", "kernels": entries([TIMED], 9.8)})  # as near as pulses are
    assert below[2].split()[-3:] == ["102", "%", "*"]
    assert len(below) == len(lines) - 1


def test_a_line_for_each_kernel_marks_the_chosen_one() -> None:
    other = replace(TIMED, name="slow", us=300.0, chosen=False)
    lines = kernel_lines({"model": "m.gguf", "kernels": entries([TIMED, other], 40.0)})
    assert len(lines) == 5
    assert lines[2].split() == ["quick", "bf16", "1000", "×", "500", "1", "100.0", "10.0", "25", "%", "*"]
    assert "*" not in lines[3]
