"""The planned working memory of the fused step is what the kernels ask for, to the byte."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from engine.fit.bytes import tokenizer_bytes, working_bytes
from engine.fit.kv_bits import KV16, RING_TOKENS, KVBits
from engine.fit.plan import plan
from engine.fit.scratch import MAX_ROWS, StepSize, step_scratch_bytes
from engine.models.decoder import Segment
from engine.models.spec import read_spec
from engine.native.library import Format, Model, NativeLibrary
from engine.native.library import Segment as NativeSegment
from engine.types import LoadSpec, ModelSpec
from tests.engine.models.built import TORCH, build, some_ids
from tests.engine.tiny import FAMILIES, tiny_folder
from tests.fakes import HARDWARE, make_spec

SHAPES = {  # hidden, intermediate, heads, kv heads, head size
    "smollm2 135m": (576, 1536, 9, 3, 64),
    "llama 3.2 1b": (2048, 8192, 32, 8, 64),
    "gemma 3 270m": (640, 2048, 4, 1, 256),
    "qwen 3 0.6b": (1024, 3072, 16, 8, 128),  # heads · size above the hidden size
    "one odd head": (96, 32, 2, 1, 48),
}


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    """What a test changes ends with it."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def shaped(name: str) -> ModelSpec:
    hidden, intermediate, heads, kv_heads, dim = SHAPES[name]
    return replace(
        make_spec(),
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=dim,
    )


FORMATS = {32: Format.F32, 16: Format.BF16, 8: Format.INT8, 4: Format.INT4}


def asked_for(
    kernels: NativeLibrary,
    spec: ModelSpec,
    segments: list[tuple[int, int]],
    threads: int,
    kv: KVBits = KV16,
) -> int:
    """What the kernels want for segments of (tokens held, new tokens)."""
    model = Model(
        hidden=spec.hidden_size,
        heads=spec.num_heads,
        kv_heads=spec.num_kv_heads,
        head_dim=spec.head_dim,
        intermediate=spec.intermediate_size,
        key_format=FORMATS[kv.keys],
        value_format=FORMATS[kv.values],
        ring_tokens=RING_TOKENS if kv.has_rings else 0,
    )
    natives = (NativeSegment * len(segments))(
        *(NativeSegment(length=held, rows=rows) for held, rows in segments)
    )
    wanted: int = kernels.functions.dk_step_scratch(ctypes.byref(model), natives, len(segments), threads)
    return wanted


@pytest.mark.parametrize("name", SHAPES)
def test_the_kernels_ask_for_what_is_computed(name: str, kernels: NativeLibrary) -> None:
    spec = shaped(name)
    for segments in ([(0, 1)], [(255, 1)], [(256, 1)], [(5000, 16)], [(9, 3), (700, 5), (0, 1)]):
        rows = [new for _, new in segments]
        positions = max(held + new for held, new in segments)
        for threads in (1, 2, 7, 500):
            size = StepSize(sum(rows), max(rows), positions, threads)
            assert asked_for(kernels, spec, segments, threads) == step_scratch_bytes(spec, size), size


@pytest.mark.parametrize("kv", [KVBits(8, 8), KVBits(4, 4), KVBits(8, 4), KVBits(16, 8)], ids=str)
@pytest.mark.parametrize("name", SHAPES)
def test_so_they_do_over_packed_caches(name: str, kv: KVBits, kernels: NativeLibrary) -> None:
    spec = shaped(name)
    for segments in ([(0, 1)], [(256, 1)], [(5000, 16)], [(9, 3), (700, 5), (0, 1)]):
        rows, positions = [new for _, new in segments], max(map(sum, segments))
        size = StepSize(sum(rows), max(rows), positions, 3, kv)
        assert asked_for(kernels, spec, segments, 3, kv) == step_scratch_bytes(spec, size), size
        assert step_scratch_bytes(spec, size) <= step_scratch_bytes(spec, StepSize.largest(6000, 3, kv))


@pytest.mark.parametrize("name", SHAPES)
def test_no_step_in_a_context_asks_for_more_than_is_planned(name: str, kernels: NativeLibrary) -> None:
    spec, context = shaped(name), 1000
    planned = step_scratch_bytes(spec, StepSize.largest(context, 2))
    assert asked_for(kernels, spec, [(context - MAX_ROWS, MAX_ROWS)], 2) == planned
    for segments in ([(context - 1, 1)] * MAX_ROWS, [(context - 8, 8), (0, 8)], [(500, 1)]):
        assert asked_for(kernels, spec, segments, 2) <= planned


@pytest.mark.parametrize("family", ["llama", "gemma 2", "olmo 2", "phi 4 mini", "granite with biases"])
def test_a_running_step_holds_what_was_planned(family: str, kernels: NativeLibrary, tmp_path: Path) -> None:
    folder, context, ids = tiny_folder(tmp_path / "m", **FAMILIES.get(family, {})), 300, some_ids(300)
    spec = read_spec(str(folder))
    decoder = build(folder, context=context, hardware=replace(TORCH, native=kernels.instruction_set))
    tables, cache = decoder.bytes_by_part()[1], decoder.new_cache(context)
    torch.set_num_threads(2)
    with torch.inference_mode():
        decoder.forward([Segment(cache, ids[:-MAX_ROWS])])
        decoder.forward([Segment(cache, ids[-MAX_ROWS:], True)])
    held = decoder.bytes_by_part()[1] - tables
    assert held == step_scratch_bytes(spec, StepSize.largest(context, 2))
    assert working_bytes(spec, context, 32, True, 2) - working_bytes(spec, context, 32, True) == held


def test_the_plan_counts_the_step_of_the_native_kernels_alone() -> None:
    spec, wish = shaped("llama 3.2 1b"), LoadSpec("/models/tiny.gguf", context=4096, threads=2)
    made = plan(spec, replace(HARDWARE, native="avx2"), wish)
    assert made.kernels == "native avx2"
    options = {"format": "file", "threads": 2}
    without = working_bytes(spec, made.context, made.prefill_piece, True, **options) + tokenizer_bytes(spec)
    assert made.bytes.working - without == step_scratch_bytes(spec, StepSize.largest(4096, 2))
    stock = plan(spec, replace(HARDWARE, native=None), wish)
    plain = working_bytes(spec, stock.context, stock.prefill_piece, **options)
    assert stock.bytes.working == plain + tokenizer_bytes(spec)
