"""Recorded steps, on a tape that keeps the rules of a CUDA graph: they compute what a step computes."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.kv.cache import KVCache
from engine.models import decoder as decoder_module
from engine.models import graph
from engine.models.decoder import Decoder, Segment
from engine.models.graph import places
from tests.engine.models.built import EXACT, WITH_TOY, build, run, some_ids
from tests.engine.tape import Tape
from tests.engine.tiny import FAMILIES, tiny_folder
from tests.engine.toy_device import ToyDevice

WINDOWS: dict[str, Any] = {"sliding_window": 12}
KINDS: dict[str, dict[str, Any]] = {
    "llama with windows": WINDOWS,
    "gemma 2": FAMILIES["gemma 2"],
    "phi 4 mini": FAMILIES["phi 4 mini"],
    "olmo 3": FAMILIES["olmo 3"],
}
LENGTH = 24


@pytest.fixture
def toy() -> Iterator[ToyDevice]:
    with ToyDevice() as device:
        yield device


@pytest.fixture
def tape(monkeypatch: pytest.MonkeyPatch) -> Tape:
    """The toy device's recorder; a step reads 8 places at least."""
    made = Tape()
    monkeypatch.setattr(decoder_module, "AcceleratorRecorder", lambda _: made)
    monkeypatch.setattr(graph, "LEAST_PLACES", 8)
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("tiny") / "model", **WINDOWS)


def step(decoder: Decoder, caches: list[KVCache], ids: list[int]) -> Tensor:
    """Logits of one more token of each sequence."""
    with torch.inference_mode():
        return decoder.forward([Segment(c, [token]) for c, token in zip(caches, ids, strict=True)])


def filled(decoder: Decoder, ids: list[int]) -> KVCache:
    """A cache that holds ``ids``, and NaN wherever nothing is held."""
    cache = decoder.new_cache(LENGTH)
    with torch.inference_mode():
        for layer in range(3):
            for held in cache.layer(layer):
                held.fill_(torch.nan)
        decoder.forward([Segment(cache, ids)])
    return cache


@pytest.mark.parametrize(("kind", "gpu_layers"), list(zip(KINDS, (1, 3, 3, 1), strict=True)))
def test_replayed_steps_give_the_logits_of_plain_ones(
    kind: str, gpu_layers: int, tmp_path: Path, toy: ToyDevice, tape: Tape
) -> None:
    changes = KINDS[kind] | {"num_hidden_layers": 3}
    folder, ids = tiny_folder(tmp_path / "m", **changes), some_ids(LENGTH)
    expected = run(build(folder), ids, [LENGTH])
    decoder = build(folder, hardware=WITH_TOY, gpu_layers=gpu_layers)
    torch.testing.assert_close(toy.read(run(decoder, ids, [3])), expected, **EXACT)
    assert (tape.recorded, tape.replayed) == (3, LENGTH - 3)  # of 8, 16 and 32 places
    assert "recorded" not in decoder.kernels


def test_rows_of_a_batch_belong_to_their_own_caches(folder: Path, toy: ToyDevice, tape: Tape) -> None:
    """Each at its own length; in another order, or with another partner, they are recorded anew."""
    plain, decoder = build(folder), build(folder, hardware=WITH_TOY)
    texts = [some_ids(length, seed=length) for length in (5, 23, 11)]
    expected = {len(ids): run(plain, ids, [len(ids)])[-1] for ids in texts}
    caches = {len(ids): filled(decoder, ids[:-1]) for ids in texts}
    last = {len(ids): ids[-1] for ids in texts}
    for order in ([5, 23, 11], [11, 5, 23], [23, 11], [5, 23, 11]):
        found = toy.read(step(decoder, [caches[n] for n in order], [last[n] for n in order]))
        torch.testing.assert_close(found, torch.stack([expected[n] for n in order]), **EXACT)
        for n in order:
            caches[n].trim(n - 1)
    assert (tape.recorded, tape.replayed) == (3, 4)


def test_the_host_waits_for_nothing_in_a_step(folder: Path, toy: ToyDevice, tape: Tape) -> None:
    decoder = build(folder, hardware=WITH_TOY)
    caches = [filled(decoder, some_ids(9)), filled(decoder, some_ids(10))]
    toy.crossings.clear()
    toy.waits = 0
    for token in range(5):
        step(decoder, caches, [token, token])
    assert toy.waits == 0
    assert toy.crossings == {"to": 2 * 5 + tape.recorded}  # embeddings, and the lengths


def test_logits_of_a_step_outlive_the_next_one(folder: Path, toy: ToyDevice, tape: Tape) -> None:
    decoder = build(folder, hardware=WITH_TOY)
    cache = filled(decoder, some_ids(4))
    first = step(decoder, [cache], [1])
    kept = toy.read(first)
    step(decoder, [cache], [2])
    assert torch.equal(toy.read(first), kept)


def test_what_is_behind_a_trimmed_length_counts_for_nothing(folder: Path, toy: ToyDevice, tape: Tape) -> None:
    decoder, ids = build(folder, hardware=WITH_TOY), some_ids(20)
    cache = filled(decoder, ids)
    step(decoder, [cache], [7])
    cache.trim(10)
    for index in range(10, 20):
        found = step(decoder, [cache], [ids[index]])
    torch.testing.assert_close(toy.read(found[0]), run(build(folder), ids, [20])[-1], **EXACT)


def test_a_cache_is_given_back_though_steps_on_it_were_recorded(
    folder: Path, toy: ToyDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one that comes to lie at its address is recorded anew."""
    tape, held = Tape(), []

    def record(run: Any) -> Any:  # a tape would keep the tensors alive, which a driver's graph does not
        held.append(run())
        return held[-1], lambda: None

    monkeypatch.setattr(decoder_module, "AcceleratorRecorder", lambda _: record)
    decoder = build(folder, hardware=WITH_TOY)
    cache = filled(decoder, some_ids(4))
    step(decoder, [cache], [1])
    gone, before = weakref.ref(cache), toy.nbytes
    nbytes = cache.nbytes
    del cache
    gc.collect()
    assert gone() is None
    assert toy.nbytes == before - nbytes
    again = filled(decoder, some_ids(4))
    step(decoder, [again], [1])
    assert len(held) == 2
    assert tape.recorded == 0


def test_only_some_recordings_are_kept(
    folder: Path, toy: ToyDevice, tape: Tape, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph, "MOST_RECORDINGS", 2)
    decoder = build(folder, hardware=WITH_TOY)
    caches = [filled(decoder, some_ids(4)) for _ in range(3)]
    for cache in (*caches, caches[0], caches[2], caches[0]):
        step(decoder, [cache], [1])
        cache.trim(4)
    assert tape.recorded == 4  # the first one's was the oldest when the third came


def test_a_device_that_records_nothing_computes_each_step_and_says_why(
    folder: Path, toy: ToyDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def refuse(run: Any) -> Any:
        calls.append(run)
        raise NotImplementedError("no graphs here\nand a long trace")

    monkeypatch.setattr(decoder_module, "AcceleratorRecorder", lambda _: refuse)
    decoder, ids = build(folder, hardware=WITH_TOY), some_ids(12)
    torch.testing.assert_close(toy.read(run(decoder, ids, [3])), run(build(folder), ids, [3]), **EXACT)
    assert len(calls) == 1
    assert decoder.kernels.endswith(", steps not recorded: no graphs here")


def test_a_device_without_memory_for_a_recording_is_no_device_without_graphs(
    folder: Path, toy: ToyDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(run: Any) -> Any:
        raise torch.OutOfMemoryError("out of memory")

    monkeypatch.setattr(decoder_module, "AcceleratorRecorder", lambda _: refuse)
    decoder = build(folder, hardware=WITH_TOY)
    cache = filled(decoder, some_ids(3))
    with pytest.raises(torch.OutOfMemoryError):
        step(decoder, [cache], [1])
    assert "recorded" not in decoder.kernels


@pytest.mark.parametrize(("length", "expected"), [(1, 256), (256, 256), (257, 512), (512, 512), (513, 1024)])
def test_places_are_powers_of_two(length: int, expected: int) -> None:
    assert places(length) == expected
