"""The safetensors header reader: what a good file says, and refusals of everything else (B037)."""

from __future__ import annotations

import json
import struct
import tracemalloc
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import torch as oracle

from engine.errors import EngineError, ModelFileError, UnsafeModelError, UnsupportedModelError
from engine.models import safetensors_header
from tests.engine.models.writers import safetensors_bytes

TENSORS = {"a": torch.arange(6.0).view(2, 3), "b": torch.arange(4.0).bfloat16()}


def read(tmp_path: Path, raw: bytes) -> safetensors_header.SafetensorsHeader:
    path = tmp_path / "m.safetensors"
    path.write_bytes(raw)
    return safetensors_header.read(str(path))


def with_header(text: str | bytes, data: bytes = b"") -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(raw)) + raw + data


def test_a_file_of_the_format_authors_writer_is_read(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    oracle.save_file(TENSORS, path, metadata={"format": "pt"})
    header = safetensors_header.read(str(path), 3)
    assert header.metadata == {"format": "pt"}
    raw = path.read_bytes()
    for info in header.tensors:
        want = TENSORS[info.name].contiguous().view(torch.uint8).numpy().tobytes()
        assert raw[info.offset : info.offset + info.nbytes] == want
        assert (info.shape, info.file) == (tuple(TENSORS[info.name].shape), 3)
    assert {info.name: info.type for info in header.tensors} == {"a": "F32", "b": "BF16"}


def test_an_empty_tensor_is_legal(tmp_path: Path) -> None:
    header = read(tmp_path, safetensors_bytes({"none": torch.zeros(0, 4), **TENSORS}))
    assert {info.name: info.nbytes for info in header.tensors}["none"] == 0


ENTRY = '{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}%s}'


@pytest.mark.parametrize(
    ("raw", "kind", "reason"),
    [
        (b"version https://git-lfs.github.com/spec/v1\n", ModelFileError, "Git LFS pointer"),
        (b"<!DOCTYPE html>", ModelFileError, "web page"),
        (b"PK\x03\x04" + b"." * 30 + b"archive/data.pkl", UnsafeModelError, "pickle"),
        (b"\x80\x02}q\x00X\x01\0\0\0aq\x01K\x01s.", UnsafeModelError, "pickle"),
        (b"GGUF\3\0\0\0" + b"\0" * 16, ModelFileError, "GGUF file"),
        (b"", ModelFileError, "empty"),
        (b"\0" * 100, ModelFileError, "zeros"),
        (struct.pack("<Q", 1 << 62) + b"{}", ModelFileError, "claims 4,611,686"),
        (struct.pack("<Q", 50) + b"{}", ModelFileError, "claims 50 bytes"),
        (with_header("not json"), ModelFileError, "not a JSON object"),
        (with_header("{not json}"), ModelFileError, "not valid JSON"),
        (with_header("[1]"), ModelFileError, "not a JSON object"),
        (with_header('{"a":' * 50_000), ModelFileError, "not valid JSON"),
        (with_header(b'{"\xff":1}'), ModelFileError, "not valid JSON"),
        (with_header('{"a":' + "9" * 5000 + "}"), ModelFileError, "not valid JSON"),
        (with_header('{"a":5}'), ModelFileError, "'a' is not an object"),
        (with_header('{"a":{}}'), ModelFileError, "'a' lacks"),
        (with_header('{"__metadata__":[1]}'), ModelFileError, "__metadata__"),
        (with_header(ENTRY % ',"a":{}', b"\0" * 8), ModelFileError, "appears twice"),
        (with_header(ENTRY % "", b"\0" * 7), ModelFileError, "1 bytes short: tensor 'a'"),
        (with_header(ENTRY % "", b"\0" * 9), ModelFileError, "belong to no tensor"),
    ],
)
def test_other_and_damaged_files_are_refused_in_one_sentence(
    tmp_path: Path, raw: bytes, kind: type[EngineError], reason: str
) -> None:
    with pytest.raises(kind, match=reason) as caught:
        read(tmp_path, raw)
    assert type(caught.value) is kind
    assert "m.safetensors" in caught.value.message


def entry(dtype: object = "F32", shape: object = (2,), places: object = (8, 16)) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": places}


@pytest.mark.parametrize(
    ("changed", "kind", "reason"),
    [
        (entry(places=[4, 12]), ModelFileError, "'a' and 'b' overlap"),
        (entry(places=[12, 20]), ModelFileError, "hole of 4 bytes"),
        (entry(places=[8, 20]), ModelFileError, "takes 12 bytes, but its shape needs 8"),
        (entry(places=[16, 8]), ModelFileError, "takes -8 bytes"),
        (entry(places=[8]), ModelFileError, "lacks"),
        (entry(places=[-8, 0]), ModelFileError, "lacks"),
        (entry(shape=[True]), ModelFileError, "lacks"),
        (entry(shape=[2.0]), ModelFileError, "lacks"),
        (entry(shape=[1 << 62, 1 << 62]), ModelFileError, "larger than any file"),
        (entry(shape=[1 << 64]), ModelFileError, "lacks"),
        (entry(dtype="F8_NEW"), UnsupportedModelError, "'b' has the unknown type 'F8_NEW'"),
        (entry(dtype=5), ModelFileError, "lacks"),
    ],
)
def test_impossible_entries_are_refused(
    tmp_path: Path, changed: object, kind: type[EngineError], reason: str
) -> None:
    two = {"a": torch.zeros(2), "b": torch.zeros(2)}
    with pytest.raises(kind, match=reason):
        read(tmp_path, safetensors_bytes(two, {"b": changed}))


def test_a_legal_header_of_110_mb_is_refused_without_reading_it(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    with path.open("wb") as file:
        file.write(struct.pack("<Q", 110_000_000) + b"{")
        file.truncate(120_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match="110,000,000 bytes is beyond the limit"):
            safetensors_header.read(str(path))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


def test_every_shorter_piece_of_a_file_is_refused(tmp_path: Path) -> None:
    raw = safetensors_bytes(TENSORS)
    for size in range(len(raw)):
        with pytest.raises(EngineError):
            read(tmp_path, raw[:size])


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.binary(max_size=60), key=st.text(max_size=5))
def test_any_header_gives_a_header_or_a_typed_error(tmp_path: Path, text: bytes, key: str) -> None:
    for raw in (with_header(b"{" + text), with_header(json.dumps({key: text.hex()})), text):
        with pytest.raises(EngineError):
            read(tmp_path, raw + b"x")
