"""The engine's worker, used in this process: what it leaves in the caches and what it counts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from app.bench import resident
from app.bench.contenders import Held, file_step_bytes
from app.bench.worker import Bench
from engine.errors import EngineError
from engine.models.spec import read_spec

Write = Callable[[str], Path]


def loaded(path: Path, **changes: object) -> tuple[Bench, Held]:
    bench = Bench()
    options = {"context": 256, "threads": 1, "format": "auto", "kv": "auto"} | changes
    return bench, Held(**bench.load(str(path), **options))  # type: ignore[arg-type]


def lengths(bench: Bench) -> dict[int, list[int]]:
    return {depth: [cache.length for cache in caches] for depth, caches in bench._caches.items()}


def test_decoding_leaves_the_caches_where_it_began(tiny: Write) -> None:
    bench, _ = loaded(tiny("Q4_0"))
    assert bench.decode(steps=3, depth=20, batch=2)["seconds"] > 0
    assert bench.decode(steps=3, depth=0)["seconds"] > 0
    assert lengths(bench) == {20: [20, 20], 0: [0]}


def test_a_step_of_many_rows_is_taken_back(tiny: Write) -> None:
    bench, _ = loaded(tiny("Q4_0"))
    bench.decode(steps=100, depth=10, rows=8)  # more rows than the cache holds, were they kept
    assert lengths(bench) == {10: [10]}


def test_a_prompt_fills_an_empty_cache_each_time_with_the_same_best_token(tiny: Write) -> None:
    bench, _ = loaded(tiny("Q4_0"), format="f32")
    tokens = {bench.prefill(33)["token"] for _ in range(2)}
    assert lengths(bench) == {33: [33]}
    assert len(tokens) == 1 and None not in tokens


def test_the_tied_head_is_read_in_every_step_and_the_cache_by_each_sequence(tiny: Write) -> None:
    path = tiny("F16")
    _, held = loaded(path, format="bf16")
    assert held.weight_bytes_per_step == file_step_bytes(read_spec(str(path)))  # all of it, at 16 bits
    kv = 2 * 2 * 2 * 64 * 2  # two tensors, layers, kv heads, head size, bytes
    assert held.kv_bytes_per_token == kv
    assert held.step_bytes(100, batch=3) == held.weight_bytes_per_step + 300 * kv


def test_memory_counts_the_caches_of_the_bench(tiny: Write) -> None:
    bench, held = loaded(tiny("Q4_0"))
    bench.decode(steps=1, depth=20, batch=2)
    memory = bench.memory()
    parts = memory["memory_bytes"]
    assert parts["kv_used"] == 40 * held.kv_bytes_per_token
    assert parts["kv_reserved"] == 2 * 256 * held.kv_bytes_per_token
    assert parts["total"] == sum(parts[name] for name in ("weights", "kv_reserved", "working", "overhead"))
    bench.forget()
    assert bench.memory()["memory_bytes"]["kv_reserved"] == 0


def test_a_model_that_cannot_be_loaded_is_an_error_of_the_engine(tmp_path: Path) -> None:
    with pytest.raises(EngineError):
        Bench().load(str(tmp_path / "none.gguf"), 128, 1, "auto", "auto")


def test_the_peak_of_memory_is_at_least_what_is_resident() -> None:
    resident.reset_peak()
    block = bytearray(b"1") * 50_000_000
    assert resident.peak_bytes() >= resident.rss_bytes() - (1 << 20)
    assert len(block) == 50_000_000
