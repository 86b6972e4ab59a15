"""The engine's laws on a real accelerator: `pytest -m gpu tests/gpu` on a machine that has one.

Everything but recording and waiting is said of any device that torch knows; CUDA and ROCm have these two too.
"""

from __future__ import annotations

import gc
import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from engine.decode.sampler import Sampler
from engine.engine import Engine
from engine.errors import MemoryLimitError
from engine.events import Finished, Loaded
from engine.fit.plan import plan
from engine.hardware.gpus import GpuProbe
from engine.hardware.probe import probe
from engine.kv.cache import KVCache
from engine.machine import Gpu, Hardware
from engine.models import graph
from engine.models.decoder import Decoder, Segment
from engine.models.spec import read_spec
from engine.types import GenerateRequest, LoadSpec, Message, SamplingParams
from tests.engine.models.built import TORCH, build, run, some_ids
from tests.engine.models.writers import write_llama_gguf
from tests.engine.tiny import FAMILIES, finished, tiny_folder

pytestmark = pytest.mark.gpu

CLOSE = {"rtol": 1e-3, "atol": 5e-3}
"""How far float32 logits may be apart: other orders of summation, and no TF32."""

GREEDY = SamplingParams(temperature=0.0)
KINDS: dict[str, dict[str, Any]] = {
    "llama": {},
    "tied": {"tie_word_embeddings": True},
    "sliding window": {"sliding_window": 8},
    **{name: FAMILIES[name] for name in ("gemma 2", "gemma 3", "phi 4 mini", "qwen 3", "olmo 2")},
}
numbers = itertools.count()


@pytest.fixture(scope="module")
def gpu() -> Gpu:
    found = GpuProbe().read()
    if not found:
        pytest.skip("torch sees no accelerator here")
    return found[0]


@pytest.fixture
def hardware(gpu: Gpu) -> Hardware:
    return replace(TORCH, gpus=(gpu,))


@pytest.fixture
def records(gpu: Gpu) -> None:
    if gpu.kind not in ("cuda", "rocm"):
        pytest.skip(f"{gpu.kind} records no steps")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("tiny") / "model")


def held_bytes(gpu: Gpu) -> int:
    """Bytes of tensors on the device."""
    gc.collect()
    torch.accelerator.synchronize()
    if gpu.kind == "mps":
        return torch.mps.current_allocated_memory()
    return torch.accelerator.memory_allocated(gpu.device)


def test_a_gpu_is_told_with_its_memory_and_what_it_computes(gpu: Gpu) -> None:
    assert gpu.name
    assert gpu.total_bytes is not None and gpu.free_bytes is not None
    assert 0 < gpu.free_bytes <= gpu.total_bytes
    assert {"f32", "bf16", "f16"} <= set(gpu.formats)
    if gpu.kind == "cuda" and torch.cuda.get_device_capability(gpu.index) >= (8, 0):
        assert {"int4g32", "int8row"} <= set(gpu.formats)


@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_those_of_the_processor(kind: str, tmp_path: Path, hardware: Hardware) -> None:
    """Prefill in pieces, decode steps, past the window."""
    folder, ids = tiny_folder(tmp_path / "m", **KINDS[kind]), some_ids(40)
    expected = run(build(folder), ids, [40])
    for pieces in ([40], [7, 9, 1, 20], [5]):
        found = run(build(folder, hardware=hardware), ids, pieces)
        assert found.device.type != "cpu"
        torch.testing.assert_close(found.cpu(), expected, **CLOSE)


@pytest.mark.parametrize("kind", ["llama", "tied"])
def test_every_split_gives_the_logits_of_one_device(kind: str, tmp_path: Path, hardware: Hardware) -> None:
    folder, ids = tiny_folder(tmp_path / "m", **KINDS[kind]), some_ids(30)
    expected = run(build(folder), ids, [30])
    for layers in (1, 2, 3):
        decoder = build(folder, hardware=hardware, gpu_layers=layers)
        torch.testing.assert_close(run(decoder, ids, [20]).cpu(), expected, **CLOSE)


def test_native_layers_on_the_processor_go_on_on_the_gpu(folder: Path, gpu: Gpu) -> None:
    ids, hardware = some_ids(30), replace(probe(), gpus=(gpu,))
    decoder = build(folder, hardware=hardware, gpu_layers=2)
    torch.testing.assert_close(run(decoder, ids, [20]).cpu(), run(build(folder), ids, [30]), **CLOSE)


@pytest.mark.parametrize("kind", KINDS)
def test_recorded_steps_give_the_logits_of_plain_ones(
    kind: str, tmp_path: Path, hardware: Hardware, records: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph, "LEAST_PLACES", 16)
    folder, ids = tiny_folder(tmp_path / "m", **KINDS[kind]), some_ids(80)
    decoder = build(folder, hardware=hardware)
    found = run(decoder, ids, [5])
    assert "recorded" not in decoder.kernels
    torch.testing.assert_close(found.cpu(), run(build(folder), ids, [80]), **CLOSE)


def test_rows_of_a_recorded_batch_belong_to_their_own_caches(
    folder: Path, hardware: Hardware, records: None
) -> None:
    decoder = build(folder, hardware=hardware)
    texts = [some_ids(length, seed=length) for length in (5, 23, 11)]
    caches = [decoder.new_cache(64) for _ in texts]
    with torch.inference_mode():
        decoder.forward([Segment(c, ids[:-1]) for c, ids in zip(caches, texts, strict=True)])
    for order in ([0, 1, 2], [2, 0, 1], [1, 2]):
        found = step(decoder, [caches[n] for n in order], [texts[n][-1] for n in order])
        expected = torch.stack([run(build(folder), texts[n], [len(texts[n])])[-1] for n in order])
        torch.testing.assert_close(found.cpu(), expected, **CLOSE)
        for n in order:
            caches[n].trim(len(texts[n]) - 1)


def step(decoder: Decoder, caches: list[KVCache], ids: list[int]) -> Tensor:
    with torch.inference_mode():
        return decoder.forward([Segment(c, [token]) for c, token in zip(caches, ids, strict=True)])


@contextmanager
def never_waiting() -> Iterator[None]:
    """Every operation that waits for the device is an error."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize(
    "sampling", [GREEDY, SamplingParams(seed=1), SamplingParams(seed=1, top_k=0, repeat_penalty=1.2)]
)
def test_a_step_and_its_draw_wait_for_nothing(
    sampling: SamplingParams, folder: Path, hardware: Hardware, records: None
) -> None:
    decoder, sampler = build(folder, hardware=hardware), Sampler(sampling)
    cache = decoder.new_cache(64)
    run_ids = some_ids(10)
    with torch.inference_mode():
        decoder.forward([Segment(cache, run_ids)])
    step(decoder, [cache], [1])  # is recorded
    with never_waiting():
        logits = step(decoder, [cache], [2])
        drawn = sampler.draw(logits[0], run_ids)
    assert 0 <= int(drawn) < logits.shape[1]


@pytest.mark.parametrize("type_name", ["Q4_0", "Q4_1", "Q8_0"])
def test_a_files_own_bits_choose_as_their_dequantized_weights_do(
    type_name: str, tmp_path: Path, gpu: Gpu, hardware: Hardware
) -> None:
    folder = tiny_folder(tmp_path / "m", hidden_size=128, intermediate_size=160, initializer_range=0.1)
    config, state = (
        json.loads((folder / "config.json").read_text()),
        load_file(folder / "model.safetensors"),
    )
    gguf = write_llama_gguf(tmp_path / "m.gguf", state, config, type_name)
    ids = some_ids(100)
    exact, decoder = run(build(gguf), ids, [100]), build(gguf, "file", hardware=hardware)
    held = run(decoder, ids, [90]).cpu()
    best, second = exact.topk(2).values.T
    clear = best - second > 0.25
    assert clear.sum() > 20
    assert torch.equal(exact.argmax(-1)[clear], held.argmax(-1)[clear])
    if "int4g32" in gpu.formats:
        assert ("int4pack" in decoder.kernels) == type_name.startswith("Q4")


@pytest.mark.parametrize("format", ["bf16", "f16", "int8", "int4"])
def test_fewer_bits_stay_near_float32(format: str, tmp_path: Path, hardware: Hardware) -> None:
    folder = tiny_folder(tmp_path / "m", hidden_size=128, intermediate_size=256, initializer_range=0.1)
    ids = some_ids(60)
    exact = run(build(folder), ids, [60])
    found = run(build(folder, format, hardware=hardware), ids, [50]).cpu()
    least = torch.nn.functional.cosine_similarity(exact, found).min()
    assert least > {"int4": 0.95, "int8": 0.99}.get(format, 0.999)


@pytest.mark.parametrize("format", ["f32", "bf16", "int8", "int4"])
def test_the_device_holds_what_the_plan_says(
    format: str, tmp_path: Path, gpu: Gpu, hardware: Hardware
) -> None:
    folder = tiny_folder(tmp_path / "m", hidden_size=128, intermediate_size=256)
    made = plan(read_spec(str(folder)), hardware, LoadSpec(str(folder), format, 256))
    before = held_bytes(gpu)
    decoder = build(folder, format, 256, hardware)
    cache = decoder.new_cache(256)
    grown, parts = held_bytes(gpu) - before, made.devices[-1].bytes
    tensors = 64 * made.model.num_layers * 16  # each is rounded up by the allocator
    assert (
        parts.weights + parts.kv_reserved <= grown <= parts.weights + parts.kv_reserved + (1 << 20) + tensors
    )
    del decoder, cache
    assert held_bytes(gpu) <= before + (1 << 16)


def loaded(folder: Path, sequences: int = 1, **wish: object) -> tuple[Engine, Loaded]:
    options = {"format": "f32", "context": 128} | wish
    made = plan(read_spec(str(folder)), probe(), LoadSpec(str(folder), **options))  # type: ignore[arg-type]
    engine = Engine()
    (*_, last) = engine.load(replace(made, max_sequences=sequences))
    assert isinstance(last, Loaded)
    return engine, last


def answers(engine: Engine, *texts: str, sampling: SamplingParams = GREEDY) -> list[Finished]:
    requests = [
        GenerateRequest(f"r{next(numbers)}", (Message("user", text),), sampling, max_tokens=24)
        for text in texts
    ]
    for request in requests:
        engine.submit(request)
    events = []
    while engine.is_busy:
        events += engine.step()
    ends = [finished(events, request.request_id) for request in requests]
    return [end for end in ends if end is not None]


def tokens(engine: Engine, *texts: str, sampling: SamplingParams = GREEDY) -> list[tuple[int, ...]]:
    return [end.stats.token_ids for end in answers(engine, *texts, sampling=sampling)]


def test_greedy_answers_are_those_of_the_processor(folder: Path, gpu: Gpu) -> None:
    engine, last = loaded(folder)
    assert last.plan.device == gpu.device
    assert tokens(engine, "one", "two") == tokens(loaded(folder, device="cpu")[0], "one", "two")


def test_a_batch_answers_as_each_alone(folder: Path, gpu: Gpu) -> None:
    texts = ("one", "two", "three")
    alone = [tokens(loaded(folder)[0], text)[0] for text in texts]
    assert tokens(loaded(folder, sequences=3)[0], *texts) == alone


def test_a_seed_repeats(folder: Path, gpu: Gpu) -> None:
    engine, _ = loaded(folder)
    warm = SamplingParams(temperature=1.5, seed=7)
    first = tokens(engine, "one", sampling=warm)
    assert tokens(engine, "one", sampling=warm) == first
    assert tokens(loaded(folder)[0], "one", sampling=warm) == first


def test_unload_gives_the_memory_back_cycle_after_cycle(folder: Path, gpu: Gpu) -> None:
    engine, _ = loaded(folder)
    answers(engine, "one")
    engine.unload()
    base = held_bytes(gpu)
    for _ in range(5):
        engine, _ = loaded(folder)
        answers(engine, "one")
        engine.unload()
        assert held_bytes(gpu) <= base + (1 << 16)
        if gpu.kind != "mps":
            assert torch.accelerator.memory_reserved(gpu.device) <= base + (64 << 20)


def test_out_of_memory_is_an_error_and_the_engine_goes_on(
    folder: Path, gpu: Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, _ = loaded(folder)
    expected = tokens(engine, "one")

    def ask_too_much(*args: object) -> Tensor:
        return torch.empty(1 << 46, dtype=torch.uint8, device=gpu.device)

    with monkeypatch.context() as patched:
        patched.setattr(Sampler, "draw", ask_too_much)
        engine.submit(GenerateRequest("oom", (Message("user", "one"),), GREEDY, max_tokens=9))
        with pytest.raises(MemoryLimitError):
            engine.step()
    engine.abort()
    engine.step()
    assert tokens(engine, "one") == expected


def test_a_model_too_large_for_the_gpu_is_refused_before_it_is_read(folder: Path, gpu: Gpu) -> None:
    assert gpu.free_bytes is not None
    spec = read_spec(str(folder))
    per_token = 2 * spec.num_layers * spec.num_kv_heads * spec.head_dim * 4
    with pytest.raises(MemoryLimitError):
        loaded(folder, context=4 * (gpu.total_bytes or 0) // per_token, gpu_layers=3)
