"""A model's content tells it from others, whatever its name, folder and age."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path

import pytest

from app.fingerprint import fingerprint
from engine.errors import ModelFileError
from engine.types import ModelSpec
from tests.fakes import make_spec

SIZE = 3_000_000


def model(path: Path, seed: int = 0, size: int = SIZE) -> ModelSpec:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(random.Random(seed).randbytes(size))
    return make_spec(str(path))


def test_a_copy_under_another_name_and_of_another_time_is_the_same_model(tmp_path: Path) -> None:
    first, second = model(tmp_path / "a.gguf"), model(tmp_path / "sub" / "b.gguf")
    os.utime(second.path, (1, 1))
    assert fingerprint(first) == fingerprint(second)


def test_other_weights_of_the_same_size_are_another_model(tmp_path: Path) -> None:
    before = fingerprint(model(tmp_path / "a.gguf"))
    assert fingerprint(model(tmp_path / "a.gguf", seed=1)) != before


@pytest.mark.parametrize("place", [0, SIZE - 1])
def test_both_ends_are_looked_at(tmp_path: Path, place: int) -> None:
    spec = model(tmp_path / "a.gguf")
    before = fingerprint(spec)
    with open(spec.path, "r+b") as file:
        file.seek(place)
        old = file.read(1)
        file.seek(place)
        file.write(bytes([old[0] ^ 1]))
    assert fingerprint(spec) != before


@pytest.mark.parametrize("size", [0, 1, 65_536, 65_537])
def test_a_byte_more_or_less_is_another_model(tmp_path: Path, size: int) -> None:
    first = fingerprint(model(tmp_path / "a.gguf", size=size))
    assert fingerprint(model(tmp_path / "b.gguf", size=size)) == first
    assert fingerprint(model(tmp_path / "c.gguf", size=size + 1)) != first


def test_every_part_of_a_split_model_counts(tmp_path: Path) -> None:
    first, second = model(tmp_path / "1.gguf"), model(tmp_path / "2.gguf", seed=2)
    both = replace(first, files=(first.path, second.path))
    before = fingerprint(both)
    assert before != fingerprint(first)
    model(tmp_path / "2.gguf", seed=3)
    assert fingerprint(both) != before


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_a_folder_is_another_model_with_another_description(tmp_path: Path, name: str) -> None:
    weights = model(tmp_path / "model.safetensors").path
    spec = replace(make_spec(str(tmp_path)), files=(weights,))
    (tmp_path / name).write_text('{"rope_theta": 1}')
    before = fingerprint(spec)
    (tmp_path / name).write_text('{"rope_theta": 2}')
    assert fingerprint(spec) != before


def test_a_file_that_is_gone_is_said(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="no such file"):
        fingerprint(make_spec(str(tmp_path / "gone.gguf")))
