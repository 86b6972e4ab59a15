"""Layers on the disk: what is read of the files and how, and the rate that is told of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.fit.disk import disk_bytes, disk_layers
from engine.models import generic_disk, generic_load
from engine.models.generic_disk import DiskLayers
from engine.models.generic_placement import LayerWeights, device_map
from engine.models.generic_weights import GenericWeights
from engine.quant.linear import DENSE_TYPES
from engine.types import ModelSpec
from tests.engine.models.disk import Disk, disk
from tests.engine.models.generic_models import generic_folder, plan_for

__all__ = ["disk"]

LAYERS = 3  # all that there are


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generic_folder(tmp_path_factory.mktemp("m") / "m", "mixtral")


@pytest.fixture(autouse=True)
def _small_layers_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generic_disk, "LEAST_BYTES", 1)


class Clock:
    """Seconds that pass while bytes are read, at a rate that may change, and at no other time."""

    def __init__(self, disk: Disk) -> None:
        self.gbps = 1.0
        self._disk = disk
        self._read = disk.num_bytes
        self._now_s = 0.0

    def __call__(self) -> float:
        self._now_s += (self._disk.num_bytes - self._read) / self.gbps / 1e9
        self._read = self._disk.num_bytes
        return self._now_s


class Layers:
    """All layers of a model, to be read as passes do."""

    def __init__(self, folder: Path, disk: Disk, format: str) -> None:
        made = plan_for(folder, format, disk_layers=LAYERS)
        self.spec: ModelSpec = made.model
        model = generic_load._make(made.model, DENSE_TYPES[format])
        weights = GenericWeights(model, made.model, DENSE_TYPES[format])
        list(weights.compare())
        places = device_map(model, made)
        _, targets = generic_load._parted(weights, places)
        self.clock = Clock(disk)
        self.disk = DiskLayers(made.model, weights, list(targets.values()), self.clock)
        prefixes = [f"{places.layer_name(index)}." for index in targets]
        self.weights: list[LayerWeights] = [
            self.disk.layer(each, prefix) for each, prefix in zip(targets.values(), prefixes, strict=True)
        ]

    def read(self, *rates: float) -> None:
        """A pass, with layers that come at so many GB/s."""
        for gbps, weights in zip(rates, self.weights, strict=True):
            self.clock.gbps = gbps
            assert [weights[name] for name in weights]


@pytest.fixture
def layers(folder: Path, disk: Disk, request: pytest.FixtureRequest) -> Iterator[Layers]:
    made = Layers(folder, disk, getattr(request, "param", "f32"))
    yield made
    made.disk.close()


@pytest.mark.parametrize("layers", ["f32", "bf16", "f16"], indirect=True)
def test_the_rate_is_that_of_the_second_reading_in_bytes_of_the_files(layers: Layers, disk: Disk) -> None:
    before = disk.num_bytes
    assert layers.disk.gbps is None
    layers.read(9.0, 9.0, 9.0)
    assert layers.disk.gbps is None
    layers.read(0.5, 0.5, 0.5)
    assert layers.disk.gbps == pytest.approx(0.5)
    layers.read(7.0, 7.0, 7.0)
    assert layers.disk.gbps == pytest.approx(0.5)
    assert disk.num_bytes - before == 3 * disk_bytes(layers.spec, LAYERS)


def test_a_layer_that_was_held_up_does_not_count(layers: Layers) -> None:
    layers.read(1.0, 1.0, 1.0)
    layers.read(2.0, 0.01, 2.1)
    assert layers.disk.gbps == pytest.approx(2.0)


def test_layers_that_are_too_small_tell_nothing(layers: Layers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generic_disk, "LEAST_BYTES", disk_bytes(layers.spec, LAYERS) + 1)
    for _ in range(3):
        layers.read(1.0, 1.0, 1.0)
    assert layers.disk.gbps is None
    monkeypatch.setattr(generic_disk, "LEAST_BYTES", disk_bytes(layers.spec, LAYERS))
    assert layers.disk.gbps == pytest.approx(1.0)


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="the system cannot be told here")
def test_the_system_holds_nothing_of_a_layer_up_to_the_reading_that_is_timed(
    layers: Layers, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where memory is short; later it may keep what it has room for."""
    told: list[tuple[int, int]] = []
    reads: list[int] = []  # how many there had been

    def advise(descriptor: int, offset: int, nbytes: int, advice: int) -> None:
        assert advice == os.POSIX_FADV_DONTNEED
        told.append((offset, nbytes))
        reads.append(len(disk.sizes))

    monkeypatch.setattr(os, "posix_fadvise", advise)
    expected = [
        (min(tensor.offset for tensor in layer), sum(tensor.nbytes for tensor in layer))
        for layer in disk_layers(layers.spec, LAYERS)
    ]
    begun = len(disk.sizes)
    for told_times in (1, 2, 2):
        layers.read(1.0, 1.0, 1.0)
        assert told == told_times * expected
    tensors = [len(layer) for layer in disk_layers(layers.spec, LAYERS)]
    assert reads == [begun + sum((tensors * 2)[:turn]) for turn in range(2 * LAYERS)]  # each time before it


def test_a_system_that_cannot_be_told_so_is_no_error(layers: Layers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "posix_fadvise", raising=False)
    for _ in range(2):
        layers.read(1.0, 1.0, 1.0)
    assert layers.disk.gbps == pytest.approx(1.0)


def test_the_files_are_read_forwards(layers: Layers, disk: Disk) -> None:
    """The experts lie in another order than in the model."""
    before = len(disk.places)
    layers.read(1.0, 1.0, 1.0)
    places = disk.places[before:]
    assert places == sorted(places)
    tensors = [tensor for layer in disk_layers(layers.spec, LAYERS) for tensor in layer]
    assert places == [tensor.offset for tensor in tensors]
