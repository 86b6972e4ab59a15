"""What a pass reads from the disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.fit.disk import disk_bytes, disk_layers
from engine.fit.generic_bytes import layer_bytes
from engine.models.spec import read_spec
from engine.types import ModelSpec
from tests.engine.models.generic_models import generic_folder


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> ModelSpec:
    return read_spec(str(generic_folder(tmp_path_factory.mktemp("m") / "m", "qwen3_moe")))


def test_the_last_layers_come_from_the_disk_with_all_their_tensors(spec: ModelSpec) -> None:
    assert disk_layers(spec, 0) == []
    for count in range(1, spec.num_layers + 1):
        for layer, found in enumerate(disk_layers(spec, count), spec.num_layers - count):
            of_layer = [each for each in spec.tensors if each.name.startswith(f"model.layers.{layer}.")]
            assert found == of_layer != []


def test_bytes_are_those_of_the_files_whatever_the_format_is(spec: ModelSpec) -> None:
    """The file is in float32: as bf16 a layer is half of what is read for it."""
    for count in range(spec.num_layers + 1):
        held = layer_bytes(spec, "bf16")[spec.num_layers - count :]
        assert disk_bytes(spec, count) == sum(layer_bytes(spec, "f32")[spec.num_layers - count :])
        assert disk_bytes(spec, count) == 2 * sum(held)


def test_a_layer_whose_number_begins_like_another_ones_is_not_taken_for_it(tmp_path: Path) -> None:
    many = read_spec(str(generic_folder(tmp_path / "m", "mixtral", num_hidden_layers=12)))
    assert [{tensor.name.split(".")[2] for tensor in layer} for layer in disk_layers(many, 2)] == [
        {"10"},
        {"11"},
    ]
