"""Cases of public reports about model files, as the scan of a folder and a loader meet them."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch

from app import readouts
from engine.errors import EngineError, ModelFileError, UnsupportedModelError
from engine.fit.bytes import kv_bytes
from engine.models import safetensors_header
from engine.models.checkpoint import Checkpoint
from engine.models.spec import read_spec, scan_folder
from engine.quant.dequantize import dequantize
from engine.quant.formats import TENSOR_TYPES
from engine.types import ModelSpec
from tests.engine.models.writers import (
    TINY,
    byte_vocabulary,
    llama_metadata,
    llama_tensors,
    safetensors_bytes,
    text,
    tiny_state,
    value_bytes,
    write_folder,
    write_gguf,
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


# -- B033: the name lies -----------------------------------------------------------------------------------


def shown(path: Path) -> str:
    """Name and detail of the model in the picker."""
    row = readouts.model_row(str(path), read_spec(str(path)), "")
    return f"{row.name}: {row.detail}"


def test_bits_are_those_of_the_tensors_whatever_the_name_says(tmp_path: Path) -> None:  # B033
    lying = write_llama_gguf(tmp_path / "x-q4_0.gguf", tiny_state(), TINY, "Q4_1")
    honest = write_llama_gguf(tmp_path / "x-Q8_0.gguf", tiny_state(), TINY, "Q8_0")
    assert "5.1 bits" in shown(lying)  # and the norms' 32
    assert "8.6 bits" in shown(honest)
    assert "q4_0" not in shown(lying)


def test_a_mix_of_types_is_shown_as_one(tmp_path: Path) -> None:  # B033
    low, high = (llama_tensors(tiny_state(), TINY, kind) for kind in ("Q4_0", "Q8_0"))
    mixed = [high[at] if at % 2 else tensor for at, tensor in enumerate(low)]
    path = write_gguf(tmp_path / "x-q4_0.gguf", llama_metadata(TINY), mixed)
    bits = read_spec(str(path)).weight_bits
    assert 5 < bits < 8
    assert f"{bits:.1f} bits" in shown(path)


def half(value: float) -> bytes:
    return np.float16(value).tobytes()


NIBBLES = bytes(low | (15 - low) << 4 for low in range(16))  # 0 .. 15, then 15 .. 0
COUNT = [*range(16), *range(15, -1, -1)]
ODD = sum(1 << at for at in range(1, 32, 2)).to_bytes(4, "little")  # the fifth bit of every other value
FIVE = [q + 16 * (at % 2) for at, q in enumerate(COUNT)]
BY_HAND = {
    "Q4_0": (half(0.5) + NIBBLES, [0.5 * (q - 8) for q in COUNT]),
    "Q4_1": (half(0.5) + half(-3) + NIBBLES, [0.5 * q - 3 for q in COUNT]),
    "Q5_0": (half(0.25) + ODD + NIBBLES, [0.25 * (q - 16) for q in FIVE]),
    "Q5_1": (half(0.25) + half(1) + ODD + NIBBLES, [0.25 * q + 1 for q in FIVE]),
    "Q8_0": (half(2) + bytes(range(240, 256)) + bytes(range(16)), [2.0 * q for q in range(-16, 16)]),
    "Q2_K": (b"\x13" * 16 + b"\xe4" * 64 + half(1) + half(2), [3 * q - 2.0 for q in (0, 1, 2, 3)]),
    "Q6_K": (b"\x21" * 128 + b"\xe4" * 64 + b"\x02" * 16 + half(0.5), [-31.0, -15.0, 2.0, 18.0]),
}


@pytest.mark.parametrize("kind", BY_HAND)
def test_a_block_made_by_hand_has_the_values_it_was_made_for(kind: str) -> None:  # B033
    raw, expected = BY_HAND[kind]
    size = TENSOR_TYPES[kind].block
    got = dequantize(torch.frombuffer(bytearray(raw), dtype=torch.uint8), kind, (1, size))[0].tolist()
    if size == 256:  # runs of 32 equal values, four after the other, twice
        assert got == [value for _ in range(2) for value in expected for _ in range(32)]
    else:
        assert got == expected


# -- B037, B038: headers of folders ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["F8_E4M3", "F8_E5M2", "F64", "I8"])
def test_a_type_the_engine_cannot_use_is_named_with_its_tensor(tmp_path: Path, kind: str) -> None:  # B037
    place = tmp_path / "m"
    write_folder(place, tiny_state())
    state = tiny_state()
    norm = state["model.norm.weight"]
    width = {"F64": 8}.get(kind, 1)
    wrong = {
        "dtype": kind,
        "shape": [norm.numel() * 4 // width],
        "data_offsets": offsets(state, "model.norm.weight"),
    }
    (place / "model.safetensors").write_bytes(safetensors_bytes(state, {"model.norm.weight": wrong}))
    with pytest.raises(UnsupportedModelError, match=rf"'model\.norm\.weight' has the type {kind}"):
        read_spec(str(place))


def offsets(state: dict[str, torch.Tensor], name: str) -> list[int]:
    at = sum(w.nbytes for w in list(state.values())[: list(state).index(name)])
    return [at, at + state[name].nbytes]


@pytest.mark.parametrize("size", [8, 99_993, 99_994, 99_999, 100_000, 100_001, 1 << 20])
def test_a_header_of_any_length_is_read_to_its_end(tmp_path: Path, size: int) -> None:
    """B038: no length is special, as one that a first read of fixed size just misses would be."""
    tensors = {} if size == 8 else {"a": torch.ones(2, 3), "b": torch.ones(4).bfloat16()}
    raw = safetensors_bytes(tensors)
    length = int.from_bytes(raw[:8], "little")
    text = raw[8 : 8 + length].strip()
    header = text + b" " * (size - len(text))
    path = tmp_path / "m.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + raw[8 + length :])
    found = safetensors_header.read(str(path))
    assert found.data_offset == 8 + size
    assert [(tensor.name, tensor.type) for tensor in found.tensors] == [("a", "F32"), ("b", "BF16")][
        : len(tensors)
    ]


# -- B043: the cache of odd heads --------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["gguf", "folder"])
@pytest.mark.parametrize(
    ("sizes", "head_dim"),
    [({"head_dim": 32}, 32), ({"hidden_size": 60, "num_attention_heads": 6, "head_dim": 16}, 16), ({}, 16)],
)
def test_the_cache_is_counted_with_the_stated_head_size(
    tmp_path: Path, sizes: dict[str, int], head_dim: int, source: str
) -> None:  # B043
    config = TINY | sizes
    if source == "gguf":
        place = write_llama_gguf(tmp_path / "m.gguf", tiny_state(config), config)
    else:
        place = write_folder(tmp_path / "m", tiny_state(config), config)
    spec = read_spec(str(place))
    assert spec.head_dim == head_dim
    assert (
        kv_bytes(spec, 100, 16) == 2 * 2 * 2 * head_dim * 100 * 2
    )  # keys and values, layers, heads, 2 bytes
