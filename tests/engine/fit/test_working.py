"""Planned working memory against what torch allocates for the last piece of a full context: within 10 %."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.engine import Engine
from engine.fit.bytes import tokenizer_bytes
from engine.fit.plan import plan
from engine.fit.scratch import MAX_ROWS
from engine.hardware.probe import probe
from engine.machine import Hardware
from engine.models.decoder import Runner, Segment
from engine.models.spec import read_spec
from engine.native.library import NativeLibrary
from engine.types import LoadPlan, LoadSpec
from tests.engine.peak import peak_bytes
from tests.engine.tiny import tiny_folder

CONTEXT, THREADS = 1024, 1
WIDE = {  # wide enough for what grows with the sizes to be most of it
    "hidden_size": 384,
    "intermediate_size": 1024,
    "num_attention_heads": 12,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "num_hidden_layers": 2,
    "max_position_embeddings": CONTEXT,
    "initializer_range": 0.02,
}
KINDS: dict[str, dict[str, Any]] = {
    "llama": {"family": "llama"},
    "every head with keys of its own, and a window": {
        "family": "mistral",
        "sliding_window": 256,
        "num_key_value_heads": 12,
    },
    "biases": {"family": "qwen2", "hidden_size": 256},
    "biases everywhere": {"family": "llama", "attention_bias": True, "mlp_bias": True},
    "norms of heads": {"family": "qwen3"},
    "capped scores": {"family": "gemma2", "sliding_window": 128},
    "two kinds of layers": {"family": "gemma3_text", "sliding_window": 128, "num_hidden_layers": 6},
    "norms behind": {"family": "olmo2"},
    "a scaled residual": {"family": "granite"},
}


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def folder_of(kind: str, tmp_path: Path) -> Path:
    return tiny_folder(tmp_path / "m", **(WIDE | KINDS[kind]))


def held_at_most(made: LoadPlan) -> int:
    """Bytes of tables, of the largest step's memory, and of the widest moment of the last piece."""
    engine = Engine()
    for _ in engine.load(made):
        pass
    torch.set_num_threads(THREADS)
    assert engine._model is not None
    runner, piece = engine._model.runner, made.prefill_piece
    with torch.inference_mode():
        cache = engine._model.store.begin([])
        before = made.context - piece
        for start in range(0, before, piece):
            runner.forward([Segment(cache, [1] * min(piece, before - start))])
        moment = peak_bytes(lambda: runner.forward([Segment(cache, [1] * piece)]))
        assert cache.length == made.context
        _steps_at_the_end(runner, made)
    return moment + runner.bytes_by_part()[1]


def _steps_at_the_end(runner: Runner, made: LoadPlan) -> None:
    """The widest decode step, whose memory stays."""
    cache = runner.new_cache(made.context)
    runner.forward([Segment(cache, [1] * (made.context - MAX_ROWS))])
    runner.forward([Segment(cache, [1] * MAX_ROWS)])


def check(folder: Path, hardware: Hardware, format: str, kv: str = "auto") -> None:
    made = plan(read_spec(str(folder)), hardware, LoadSpec(str(folder), format, CONTEXT, kv, "cpu", THREADS))
    planned = made.bytes.working - tokenizer_bytes(made.model)
    assert planned == pytest.approx(held_at_most(made), rel=0.1), (format, kv, made.kernels)


@pytest.mark.parametrize("kind", KINDS)
def test_native_kernels_take_what_was_planned(kind: str, kernels: NativeLibrary, tmp_path: Path) -> None:
    folder, hardware = folder_of(kind, tmp_path), replace(probe(), native=kernels.instruction_set)
    for format, kv in (("f32", "auto"), ("bf16", "auto"), ("int8", "8")):
        check(folder, hardware, format, kv)


@pytest.mark.parametrize("kind", KINDS)
def test_torchs_kernels_take_what_was_planned(kind: str, tmp_path: Path) -> None:
    folder, hardware = folder_of(kind, tmp_path), replace(probe(), native=None)
    for format, kv in (("f32", "auto"), ("int4", "auto"), ("bf16", "8")):
        check(folder, hardware, format, kv)
