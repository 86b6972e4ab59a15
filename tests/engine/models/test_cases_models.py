"""Cases of public reports about model files, as the scan of a folder and a loader meet them."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from engine.errors import EngineError, ModelFileError
from engine.models.checkpoint import Checkpoint
from engine.models.spec import read_spec, scan_folder
from engine.types import ModelSpec
from tests.engine.models.writers import (
    TINY,
    byte_vocabulary,
    text,
    tiny_state,
    value_bytes,
    write_folder,
    write_llama_gguf,
)

# What is claimed, in a file of less than a hundred bytes.
HUGE = {
    "array.gguf": "47475546030000000000000000000000010000000000000001000000000000006109000000"
    "040000000000000000000080",
    "keys.gguf": "474755460300000000000000000000000000000000000080",
    "string.gguf": "47475546030000000000000000000000010000000000000001000000000000006108000000"
    "0000000000000080",
    "gigabyte.gguf": "47475546030000000000000000000000010000000000000001000000000000006108000000"
    "00000040000000",
    "tensors.gguf": "474755460300000000000000000000800000000000000000",
}


def model(path: Path) -> Path:
    return write_llama_gguf(path, tiny_state(), TINY, metadata=byte_vocabulary(["<s>", "</s>"]))


def test_a_scan_passes_huge_claims_by_and_goes_on(tmp_path: Path) -> None:  # B023
    for name, claim in HUGE.items():
        (tmp_path / name).write_bytes(bytes.fromhex(claim))
    model(tmp_path / "zz good.gguf")
    tracemalloc.start()
    try:
        found = dict(scan_folder(str(tmp_path)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10_000_000
    assert isinstance(found.pop(str(tmp_path / "zz good.gguf")), ModelSpec)
    assert len(found) == len(HUGE)
    for path, error in found.items():
        assert isinstance(error, ModelFileError)
        assert path in str(error)
        assert "\n" not in str(error)


@pytest.mark.parametrize("kind", ["u8", "u64", "f64", "bool", "str"])
@pytest.mark.parametrize("count", [1 << 63, (1 << 64) - 1, 1 << 61, (1 << 64) // 8 + 1, 1 << 32])
def test_no_count_of_any_element_type_is_believed(tmp_path: Path, kind: str, count: int) -> None:  # B023
    numbers = {"u8": 0, "u64": 10, "f64": 12, "bool": 7, "str": 8}
    array = b"\x09\0\0\0" + numbers[kind].to_bytes(4, "little") + count.to_bytes(8, "little")
    path = tmp_path / "m.gguf"
    path.write_bytes(b"GGUF\x03\0\0\0" + bytes(8) + b"\x01" + bytes(7) + text("a.list") + array)
    with pytest.raises(ModelFileError, match=r"a\.list"):
        read_spec(str(path))


def test_sizes_of_a_tensor_that_wrap_are_refused(tmp_path: Path) -> None:  # B023
    header = b"GGUF\x03\0\0\0" + (1).to_bytes(8, "little") + (1).to_bytes(8, "little")
    header += text("general.architecture") + value_bytes("llama")
    sizes = (1 << 32).to_bytes(8, "little") * 2
    tensor = text("w") + (2).to_bytes(4, "little") + sizes + bytes(4) + bytes(8)
    path = tmp_path / "m.gguf"
    path.write_bytes(header + tensor + bytes(64))
    with pytest.raises(ModelFileError, match="'w'"):
        read_spec(str(path))


def test_a_cut_model_is_refused_at_open_wherever_it_was_cut(tmp_path: Path) -> None:  # B027
    whole = model(tmp_path / "whole.gguf").read_bytes()
    spec = read_spec(str(tmp_path / "whole.gguf"))
    data = min(tensor.offset for tensor in spec.tensors)
    first_name = whole.index(b"token_embd.weight")
    places = {
        "end": len(whole) - 1,
        "weights": data + 1000,
        "infos": first_name + 30,
        "header": 40,
        "zero": 0,
    }
    for name, size in places.items():
        path = tmp_path / f"{name}.gguf"
        path.write_bytes(whole[:size])
        with pytest.raises(EngineError) as caught:
            read_spec(str(path))
        said = str(caught.value)
        assert path.name in said
        assert "ownload" in said  # what to do
        if name in ("end", "weights"):
            assert f"{len(whole) - size:,} bytes short: tensor " in said


def test_a_model_cut_after_it_was_examined_gives_no_zero_weights(tmp_path: Path) -> None:  # B027
    path = model(tmp_path / "m.gguf")
    spec = read_spec(str(path))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ModelFileError):
        Checkpoint(spec)


@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "case", "folder"])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_shard_that_is_not_all_there_is_named_before_weights_are_read(
    tmp_path: Path, damage: str, number: int
) -> None:  # B035
    place = write_folder(tmp_path / "m", tiny_state(), shards=3)
    shard = place / f"model-0000{number}-of-00003.safetensors"
    raw = shard.read_bytes()
    if damage == "case":
        shard.rename(place / shard.name.replace("model", "MODEL"))
    else:
        shard.unlink()
    if damage == "folder":
        shard.mkdir()
    elif damage in ("empty", "cut"):
        shard.write_bytes(b"" if damage == "empty" else raw[:-1])
    with pytest.raises(ModelFileError, match=shard.name):
        read_spec(str(place))
    [(_, error)] = scan_folder(str(tmp_path))
    assert isinstance(error, ModelFileError)
