"""Deleting models: ours alone, put back until the program closes, then gone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import stamp
from app.atomic_file import StorageError
from app.library_trash import FOLDER, Trash


@pytest.fixture
def models(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    folder.mkdir()
    return folder


@pytest.fixture
def trash(models: Path) -> Iterator[Trash]:
    trash = Trash(models)
    yield trash
    trash.empty()


def put(path: Path, data: bytes = b"weights") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_a_model_and_its_stamp_go_and_come_back(models: Path, trash: Trash) -> None:
    parts = tuple(put(models / "big" / f"big-0000{n}-of-00002.gguf") for n in (1, 2))
    note = put(stamp.stamp_of(parts[0]))
    deleted = trash.delete("big", parts[0], parts)
    assert not any(path.exists() for path in (*parts, note))
    trash.undo(deleted)
    assert all(path.read_bytes() == b"weights" for path in (*parts, note))


def test_a_folder_goes_as_a_whole(models: Path, trash: Trash) -> None:
    put(models / "whole" / "config.json")
    deleted = trash.delete("whole", models / "whole", (models / "whole" / "config.json",))
    assert not (models / "whole").exists()
    trash.undo(deleted)
    assert (models / "whole" / "config.json").exists()


def test_closing_frees_the_space_and_leaves_no_empty_folder(models: Path, trash: Trash) -> None:
    kept, gone = put(models / "a" / "a.gguf"), put(models / "b" / "b.gguf")
    trash.delete("b", gone, (gone,))
    trash.empty()
    assert sorted(path.name for path in models.iterdir()) == ["a"] and kept.exists()


def test_what_an_ended_run_left_is_freed_and_what_a_running_one_holds_is_not(
    models: Path, trash: Trash
) -> None:
    put(models / FOLDER / "0123" / "1" / "old.gguf")
    held = put(models / "new.gguf")
    deleted = trash.delete("new", held, (held,))
    Trash(models).empty_abandoned()
    assert not (models / FOLDER / "0123").exists()
    trash.undo(deleted)
    assert held.exists()


def test_another_programs_file_is_refused(models: Path, trash: Trash, tmp_path: Path) -> None:
    other = put(tmp_path / "elsewhere" / "x.gguf")
    with pytest.raises(StorageError, match="another program"):
        trash.delete("x", other, (other,))
    assert other.exists()


def test_a_link_is_deleted_and_what_it_leads_to_stays(models: Path, trash: Trash, tmp_path: Path) -> None:
    other = put(tmp_path / "elsewhere" / "x.gguf")
    os.symlink(other, models / "x.gguf")
    trash.delete("x", models / "x.gguf", (models / "x.gguf",))
    trash.empty()
    assert other.exists() and list(models.iterdir()) == []


def test_nothing_is_overwritten_by_putting_back(models: Path, trash: Trash) -> None:
    path = put(models / "x.gguf")
    deleted = trash.delete("x", path, (path,))
    put(path, b"newer")
    with pytest.raises(StorageError, match="there again"):
        trash.undo(deleted)
    assert path.read_bytes() == b"newer"


def test_where_one_file_cannot_be_moved_none_is(
    models: Path, trash: Trash, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = tuple(put(models / f"x-{n}.gguf") for n in (1, 2))
    rename = os.rename

    def refusing(source: Path, target: Path) -> None:
        if Path(source) == parts[1]:
            raise PermissionError(13, "in use")
        rename(source, target)

    monkeypatch.setattr(os, "rename", refusing)
    with pytest.raises(StorageError):
        trash.delete("x", parts[0], parts)
    assert all(path.exists() for path in parts)
