"""The weights by name: right bytes, right numbers, and errors where files change behind them."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch

from engine.errors import ModelFileError
from engine.models import checkpoint as module
from engine.models.checkpoint import Checkpoint
from engine.models.families import tensor_names
from engine.models.spec import read_spec
from tests.engine.models.writers import TINY, permuted, tiny_state, write_folder, write_llama_gguf

UP = "blk.1.ffn_up.weight"


def tiny_gguf(tmp_path: Path, type_name: str = "Q4_1") -> Checkpoint:
    path = write_llama_gguf(tmp_path / "a.gguf", tiny_state(), TINY, type_name)
    return Checkpoint(read_spec(str(path)))


@pytest.mark.parametrize("shards", [1, 3])
def test_every_tensor_of_a_folder_is_the_saved_one(tmp_path: Path, shards: int) -> None:
    state = tiny_state()
    spec = read_spec(str(write_folder(tmp_path / "m", state, TINY, shards)))
    with Checkpoint(spec) as checkpoint:
        for name in tensor_names(spec).values():
            assert torch.equal(checkpoint.tensor(name), state[name])
            assert torch.equal(checkpoint.dequantize(name), state[name])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_float_tensors_keep_their_type_until_asked(tmp_path: Path, dtype: torch.dtype) -> None:
    state = {name: weight.to(dtype) for name, weight in tiny_state().items()}
    spec = read_spec(str(write_folder(tmp_path / "m", state)))
    with Checkpoint(spec) as checkpoint:
        weight = checkpoint.tensor("lm_head.weight")
        assert weight.dtype == dtype
        assert torch.equal(weight, state["lm_head.weight"])
        assert torch.equal(checkpoint.dequantize("lm_head.weight"), state["lm_head.weight"].float())


@pytest.mark.parametrize("type_name", ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"])
def test_a_gguf_gives_the_numbers_its_writer_meant(tmp_path: Path, type_name: str) -> None:
    state = tiny_state()
    want = state["model.layers.1.mlp.up_proj.weight"].numpy()
    kind = gguf.GGMLQuantizationType[type_name]
    want = gguf.quants.dequantize(gguf.quants.quantize(want, kind), kind)
    with tiny_gguf(tmp_path, type_name) as checkpoint:
        assert np.array_equal(checkpoint.dequantize(UP).numpy(), want)
        assert checkpoint.info(UP).type == type_name


def test_query_rows_of_a_gguf_lie_pair_beside_pair(tmp_path: Path) -> None:
    with tiny_gguf(tmp_path, "F32") as checkpoint:
        stored = checkpoint.tensor("blk.0.attn_q.weight")
    original = tiny_state()["model.layers.0.self_attn.q_proj.weight"]
    assert torch.equal(stored, permuted(original, 4))
    assert torch.equal(stored[1], original[8])  # the second number of the first pair


def test_rows_are_a_part_of_the_whole(tmp_path: Path) -> None:
    with tiny_gguf(tmp_path) as checkpoint:
        whole = checkpoint.dequantize(UP)
        assert torch.equal(checkpoint.dequantize(UP, slice(5, 9)), whole[5:9])
        assert torch.equal(checkpoint.dequantize(UP, slice(90, 200)), whole[90:])
        assert checkpoint.dequantize(UP, slice(4, 4)).shape == (0, 64)
        assert torch.equal(checkpoint.raw(UP, slice(1, 2)), checkpoint.raw(UP)[40:80])


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="the system cannot be told here")
def test_what_is_forgotten_are_the_tensors_neighbours_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = read_spec(str(write_folder(tmp_path / "m", tiny_state(), TINY, 2)))
    by_file = [[each for each in spec.tensors if each.file == file] for file in (0, 1)]
    (first, second, _, fourth), others = by_file[0][:4], by_file[1]
    runs = [
        (first.offset, first.nbytes + second.nbytes),
        (fourth.offset, fourth.nbytes),
        (others[0].offset, sum(each.nbytes for each in others)),
    ]
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(
        os, "posix_fadvise", lambda file, offset, nbytes, advice: told.append((offset, nbytes))
    )
    with Checkpoint(spec) as checkpoint:
        checkpoint.forget(each.name for each in (*reversed(others), fourth, first, second))
    assert told == runs


def test_raw_bytes_are_the_file_s(tmp_path: Path) -> None:
    with tiny_gguf(tmp_path) as checkpoint:
        info = checkpoint.info(UP)
        raw = (tmp_path / "a.gguf").read_bytes()
        assert bytes(checkpoint.raw(UP).numpy()) == raw[info.offset : info.offset + info.nbytes]


def test_a_quantized_tensor_has_no_float_type(tmp_path: Path) -> None:
    with tiny_gguf(tmp_path) as checkpoint, pytest.raises(ValueError, match="Q4_1"):
        checkpoint.tensor(UP)


def test_tensors_outlive_the_checkpoint_and_the_file(tmp_path: Path) -> None:
    checkpoint = tiny_gguf(tmp_path, "F32")
    weight = checkpoint.tensor(UP)
    before = weight.clone()
    checkpoint.close()
    checkpoint.close()
    (tmp_path / "a.gguf").write_bytes(b"")
    assert torch.equal(weight, before)
    with pytest.raises(ValueError, match="closed"):
        checkpoint.raw(UP)


def test_a_file_cut_while_open_is_an_error_and_no_crash(tmp_path: Path) -> None:
    with tiny_gguf(tmp_path) as checkpoint:
        os.truncate(tmp_path / "a.gguf", checkpoint.info(UP).offset + 10)
        with pytest.raises(ModelFileError, match=r"a\.gguf: the file changed"):
            checkpoint.dequantize(UP)


def test_a_read_that_comes_back_short_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module._OpenFile, "has_changed", lambda _: False)  # the change comes later
    with tiny_gguf(tmp_path) as checkpoint:
        os.truncate(tmp_path / "a.gguf", checkpoint.info(UP).offset + 10)
        with pytest.raises(ModelFileError, match="changed while it was loaded"):
            checkpoint.raw(UP)


def test_a_file_written_to_while_open_is_an_error(tmp_path: Path) -> None:
    with tiny_gguf(tmp_path) as checkpoint:
        status = (tmp_path / "a.gguf").stat()
        os.utime(tmp_path / "a.gguf", ns=(status.st_atime_ns, status.st_mtime_ns + 1_000_000_000))
        with pytest.raises(ModelFileError, match="changed while it was loaded"):
            checkpoint.raw(UP)


def test_a_model_that_changed_since_its_spec_is_refused(tmp_path: Path) -> None:
    spec = read_spec(str(write_llama_gguf(tmp_path / "a.gguf", tiny_state(), TINY, "Q4_1")))
    write_llama_gguf(tmp_path / "a.gguf", tiny_state(), TINY, "Q4_0")
    with pytest.raises(ModelFileError, match="changed since"):
        Checkpoint(spec)


def test_a_model_whose_description_changed_since_its_spec_is_refused(tmp_path: Path) -> None:
    path = write_llama_gguf(tmp_path / "a.gguf", tiny_state(), TINY)
    spec = read_spec(str(path))
    raw = bytearray(path.read_bytes())
    key = b"llama.rope.freq_base"
    place = raw.index(key) + len(key) + 4
    raw[place : place + 4] = struct.pack("<f", 500_000.0)
    path.write_bytes(raw)
    assert read_spec(str(path)).tensors == spec.tensors
    with pytest.raises(ModelFileError, match="changed since"):
        Checkpoint(spec)


def test_a_file_that_changes_under_a_strange_name_is_told_in_one_line(tmp_path: Path) -> None:
    path = write_llama_gguf(tmp_path / "a\x1b[31m.gguf", tiny_state(), TINY)
    spec = read_spec(str(path))
    with Checkpoint(spec) as checkpoint:
        os.truncate(path, checkpoint.info(UP).offset + 10)
        with pytest.raises(ModelFileError, match=r"a \[31m\.gguf: the file changed") as caught:
            checkpoint.raw(UP)
    assert str(caught.value).isprintable()
    with pytest.raises(ModelFileError, match=r"a \[31m\.gguf"):
        Checkpoint(spec)


def test_a_model_that_went_away_is_refused(tmp_path: Path) -> None:
    spec = read_spec(str(write_llama_gguf(tmp_path / "a.gguf", tiny_state(), TINY)))
    (tmp_path / "a.gguf").unlink()
    with pytest.raises(ModelFileError, match="no such file"):
        Checkpoint(spec)


def test_opening_refuses_before_leaving_files_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = read_spec(str(write_folder(tmp_path / "m", tiny_state(), TINY, 3)))
    closed: list[str] = []
    close = module._OpenFile.close

    def count(self: module._OpenFile) -> None:
        close(self)
        assert self._file.closed
        closed.append(self._file.name)

    monkeypatch.setattr(module._OpenFile, "close", count)
    Path(spec.files[2]).unlink()
    with pytest.raises(ModelFileError):
        Checkpoint(spec)
    assert closed == list(spec.files[:2])


def test_weights_are_read_in_inference_mode_too(tmp_path: Path) -> None:
    with torch.inference_mode(), tiny_gguf(tmp_path) as checkpoint:
        assert checkpoint.dequantize(UP).shape == (96, 64)


def test_the_starter_unpacks_as_the_reference_does(starter_path: Path) -> None:
    spec = read_spec(str(starter_path))
    with Checkpoint(spec) as checkpoint:
        for name in ("token_embd.weight", "blk.0.ffn_down.weight", "blk.29.attn_norm.weight"):
            info = checkpoint.info(name)
            rows = slice(0, 64)
            raw = checkpoint.raw(name, rows).numpy().reshape(min(64, info.shape[0]), -1)
            want = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType[info.type])
            got = checkpoint.dequantize(name, rows).numpy()
            assert np.array_equal(got, want.reshape(got.shape))
