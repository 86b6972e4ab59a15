"""Layers on two devices: the same logits wherever they lie, and only the residual stream crosses."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.fit.plan import plan
from engine.models import placement
from engine.models.decoder import Segment
from engine.models.placement import CPU, Run
from engine.models.spec import read_spec
from engine.types import LoadSpec
from tests.engine.models.built import EXACT, TORCH, WITH_TOY, build, run, some_ids
from tests.engine.tiny import FAMILIES, tiny_folder
from tests.engine.toy_device import ToyDevice

LAYERS = 3
KINDS: dict[str, dict[str, Any]] = {
    "llama": {},
    "tied": {"tie_word_embeddings": True},
    "gemma 3": FAMILIES["gemma 3"],
    "phi 4 mini": FAMILIES["phi 4 mini"],
    "olmo 2": FAMILIES["olmo 2"],
}


@pytest.fixture
def toy() -> Iterator[ToyDevice]:
    with ToyDevice() as device:
        yield device


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("tiny") / "model")


@pytest.mark.parametrize("kind", KINDS)
def test_every_split_gives_the_logits_of_one_device(kind: str, tmp_path: Path, toy: ToyDevice) -> None:
    folder, ids = tiny_folder(tmp_path / "m", **KINDS[kind]), some_ids(40)
    expected = run(build(folder), ids, [17, 20])
    for layers in range(1, read_spec(str(folder)).num_layers + 1):
        decoder = build(folder, hardware=WITH_TOY, gpu_layers=layers)
        torch.testing.assert_close(toy.read(run(decoder, ids, [17, 20])), expected, **EXACT)


@pytest.mark.parametrize(("kind", "to", "back"), [("llama", 1, 0), ("tied", 2, 1)])
def test_one_tensor_crosses_a_border_and_the_host_waits_for_none(
    kind: str, to: int, back: int, tmp_path: Path, toy: ToyDevice
) -> None:
    """A tied embedding lies with the head: its rows come from there, by the numbers of the tokens."""
    decoder = build(tiny_folder(tmp_path / "m", **KINDS[kind]), hardware=WITH_TOY, gpu_layers=2)
    caches = [decoder.new_cache(32) for _ in range(2)]
    for size in (9, 1, 9, 1):
        toy.crossings.clear()
        toy.waits = 0
        with torch.inference_mode():
            found = decoder.forward([Segment(cache, some_ids(size)) for cache in caches])
        assert toy.holds(found)
        if caches[0].length == 10:
            continue  # the first step also finds out that this device records none
        assert (toy.crossings["to"], toy.crossings["from"], toy.waits) == (to, back, back)


def test_a_whole_model_on_a_device_gets_its_embeddings_from_the_host(folder: Path, toy: ToyDevice) -> None:
    decoder = build(folder, hardware=WITH_TOY)
    toy.crossings.clear()
    toy.waits = 0
    with torch.inference_mode():
        decoder.forward([Segment(decoder.new_cache(32), some_ids(9))])
    assert toy.crossings == {"to": 1}
    assert toy.waits == 0


@pytest.mark.parametrize("layers", [1, 2, LAYERS])
@pytest.mark.parametrize("format", ["f32", "bf16", "int8"])
@pytest.mark.parametrize("kind", ["llama", "tied"])
def test_each_device_holds_what_the_plan_says(
    kind: str, format: str, layers: int, tmp_path: Path, toy: ToyDevice
) -> None:
    folder = tiny_folder(tmp_path / "m", **KINDS[kind])
    wish = LoadSpec(str(folder), format=format, context=100, gpu_layers=layers)
    made = plan(read_spec(str(folder)), WITH_TOY, wish)
    decoder = build(folder, format, 100, WITH_TOY, layers)
    gc.collect()
    cpu, gpu = made.devices
    tables = 100 * made.model.rotary_dim // 2 * 8
    assert toy.nbytes == gpu.bytes.weights + tables
    assert decoder.bytes_by_part()[0] == cpu.bytes.weights + gpu.bytes.weights
    cache = decoder.new_cache(100)
    assert toy.nbytes == gpu.bytes.weights + tables + gpu.bytes.kv_reserved
    assert cache.nbytes == cpu.bytes.kv_reserved + gpu.bytes.kv_reserved
    del decoder, cache
    gc.collect()
    assert toy.nbytes == 0


def test_a_cache_is_trimmed_and_filled_anew_on_all_devices(folder: Path, toy: ToyDevice) -> None:
    decoder = build(folder, hardware=WITH_TOY, gpu_layers=1)
    ids, other = some_ids(30), some_ids(30, seed=9)
    cache = decoder.new_cache(64)
    with torch.inference_mode():
        decoder.forward([Segment(cache, ids[:12] + other[12:])])
        assert cache.used_nbytes == 30 * cache.nbytes // 64
        cache.trim(12)
        found = decoder.forward([Segment(cache, ids[12:], wants_all_logits=True)])
    torch.testing.assert_close(toy.read(found), run(build(folder), ids, [30])[12:], **EXACT)
    cache.trim(0)
    assert (cache.length, cache.capacity) == (0, 64)


def test_two_runs_on_the_processor_are_no_other_model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = (
        Run(CPU, range(1), torch.float32, torch.float32),
        Run(torch.device("cpu", 0), range(1, LAYERS), torch.float32, torch.float32),
    )
    ids, expected = some_ids(20), run(build(folder), some_ids(20), [12])
    monkeypatch.setattr("engine.models.load.planned_runs", lambda _: runs)
    assert torch.equal(run(build(folder), ids, [12]), expected)


@pytest.mark.parametrize("format", ["f32", "bf16"])
def test_a_device_without_numbers_shows_the_right_shapes(format: str, folder: Path) -> None:
    """torch's own meta device: every operation of a pass has to know what it returns."""
    decoder = build(folder, format, hardware=WITH_TOY, gpu_layers=LAYERS)
    cache = decoder.new_cache(32)
    with torch.inference_mode():
        for rows, wants_all in ((9, True), (1, False)):
            found = decoder.forward([Segment(cache, some_ids(rows), wants_all)])
            assert found.shape == (rows if wants_all else 1, read_spec(str(folder)).vocab_size)
            assert (found.dtype, found.device.type) == (torch.float32, "meta")
    assert cache.length == 10


def test_a_plan_without_a_gpu_is_one_run_on_the_processor(folder: Path) -> None:
    made = plan(read_spec(str(folder)), TORCH, LoadSpec(str(folder), format="bf16"))
    assert placement.planned_runs(made) == (Run(CPU, range(LAYERS), torch.bfloat16, torch.bfloat16),)
