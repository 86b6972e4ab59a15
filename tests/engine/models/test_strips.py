"""Tensors read in strips by several threads: every row once, in whole tiles, and errors come through."""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from engine.errors import ModelFileError
from engine.models import strips as module
from engine.models.checkpoint import Checkpoint
from engine.models.spec import read_spec
from engine.models.strips import StripReader, strips
from tests.engine.models.writers import TINY, tiny_state, write_llama_gguf

UP = "blk.1.ffn_up.weight"  # [96, 64]: 40 bytes a row as Q4_1
EMBEDDING = "token_embd.weight"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Iterator[Checkpoint]:
    config = TINY | {"vocab_size": 201}
    path = write_llama_gguf(tmp_path / "a.gguf", tiny_state(config), config, "Q4_1")
    with Checkpoint(read_spec(str(path))) as opened:
        yield opened


@pytest.mark.parametrize("threads", [1, 2, 3, 16])
@pytest.mark.parametrize(("piece_bytes", "strip_bytes"), [(1, 1), (700, 2000), (1 << 20, 1 << 20)])
@pytest.mark.parametrize("name", [UP, EMBEDDING])
def test_every_row_is_used_once_with_its_own_bytes(
    name: str,
    piece_bytes: int,
    strip_bytes: int,
    threads: int,
    checkpoint: Checkpoint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_PIECE_BYTES", piece_bytes)
    monkeypatch.setattr(module, "_STRIP_BYTES", strip_bytes)
    whole = checkpoint.raw(name)
    rows, row_bytes = checkpoint.info(name).shape[0], whole.numel() // checkpoint.info(name).shape[0]
    got = torch.zeros_like(whole)
    seen: list[slice] = []

    def use(address: int, part: slice) -> None:
        count = (part.stop - part.start) * row_bytes
        source = (ctypes.c_uint8 * count).from_address(address)
        got[part.start * row_bytes : part.stop * row_bytes] = torch.frombuffer(source, dtype=torch.uint8)
        seen.append(part)

    with StripReader(checkpoint, threads) as reader:
        done = list(reader.use(name, use))
    assert torch.equal(got, whole)
    assert all(part.start % 16 == 0 for part in seen)
    assert sum(part.stop - part.start for part in seen) == rows
    assert done == sorted(done)
    assert done[-1] == rows


@pytest.mark.parametrize("piece_bytes", [1, 100, 1 << 20])
def test_a_tensor_is_copied_to_its_place(
    piece_bytes: int, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PIECE_BYTES", piece_bytes)
    out = torch.empty(checkpoint.info(UP).nbytes, dtype=torch.uint8)
    with StripReader(checkpoint, 2) as reader:
        assert list(reader.copy(UP, out))[-1] == 96
    assert torch.equal(out, checkpoint.raw(UP))


def test_a_file_that_is_cut_while_it_is_read_is_an_error(checkpoint: Checkpoint, tmp_path: Path) -> None:
    os.truncate(tmp_path / "a.gguf", checkpoint.info(UP).offset + 10)
    with StripReader(checkpoint, 2) as reader, pytest.raises(ModelFileError, match="changed"):
        list(reader.use(UP, lambda address, part: None))


def test_no_thread_is_left_behind(checkpoint: Checkpoint) -> None:
    before = threading.active_count()
    with StripReader(checkpoint, 3) as reader:
        reading = reader.use(EMBEDDING, lambda address, part: None)
        next(reading)
        assert threading.active_count() > before
        reading.close()
    assert threading.active_count() == before


def test_a_thousand_threads_are_wished_for_and_a_few_read(checkpoint: Checkpoint) -> None:
    before = threading.active_count()
    with StripReader(checkpoint, 1024) as reader:
        assert threading.active_count() - before <= 16
        assert list(reader.use("output.weight", lambda address, rows: None))


def test_strips_cover_all_rows_and_are_small() -> None:
    for rows, cols in ((1, 32), (5000, 4096), (49_152, 576), (3, 1 << 23)):
        parts = list(strips(rows, cols))
        assert [parts[0].start, parts[-1].stop] == [0, rows]
        assert all(a.stop == b.start for a, b in itertools.pairwise(parts))
        assert all((part.stop - part.start) * cols <= max(cols, module.STRIP_ELEMENTS) for part in parts)
