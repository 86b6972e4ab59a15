"""Tensors of files in the precision of a model: every byte is read once, whatever it becomes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.models import generic_files, strips
from engine.models.checkpoint import Checkpoint
from engine.models.generic_files import FilesAtOnce
from engine.models.spec import read_spec
from engine.waiting import drained
from tests.engine.models.disk import Disk, disk
from tests.engine.models.generic_models import generic_folder

__all__ = ["disk"]

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generic_folder(tmp_path_factory.mktemp("m") / "m", "mixtral")


@pytest.mark.parametrize("stored", DTYPES)
@pytest.mark.parametrize("wanted", DTYPES)
@pytest.mark.parametrize("is_strip_small", [True, False])
def test_a_tensor_is_read_once_and_rounded_as_torch_does(
    stored: torch.dtype,
    wanted: torch.dtype,
    is_strip_small: bool,
    folder: Path,
    disk: Disk,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if is_strip_small:
        monkeypatch.setattr(generic_files, "_SMALL_BYTES", 0)
        monkeypatch.setattr(strips, "STRIP_ELEMENTS", 200)
    path = folder / "model.safetensors"
    expected = {name: tensor.to(stored) for name, tensor in load_file(path).items()}
    save_file(expected, path, {"format": "pt"})
    with Checkpoint(read_spec(str(folder))) as checkpoint:
        files = FilesAtOnce(checkpoint)
        for tensor in checkpoint.spec.tensors:
            before, out = disk.num_bytes, torch.empty(tensor.shape, dtype=wanted)
            drained(files.fill(out, tensor))
            assert torch.equal(out, expected[tensor.name].to(wanted)), tensor.name
            assert disk.num_bytes - before == tensor.nbytes
