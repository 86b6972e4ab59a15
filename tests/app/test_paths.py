"""The folders, and the one variable that moves them all."""

from __future__ import annotations

from pathlib import Path

import pytest

from app import paths, settings
from app.settings import Settings

FOLDERS = (paths.data_dir, paths.models_dir, paths.cache_dir, paths.log_dir)


def test_one_variable_puts_everything_under_one_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "not there yet"
    monkeypatch.setenv("DECODECK_HOME", str(home))
    places = [folder() for folder in FOLDERS]
    assert all(place.is_dir() and place.is_relative_to(home) for place in places)
    assert len(set(places)) == len(places)
    assert paths.chats_db().parent == paths.settings_file().parent == paths.data_dir()


def test_a_folder_that_cannot_be_made_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("DECODECK_HOME", str(tmp_path / "file" / "home"))
    assert paths.models_dir() == tmp_path / "file" / "home" / "models"


def test_without_the_variable_the_system_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DECODECK_HOME")
    monkeypatch.setattr(paths, "_made", lambda folder: folder)
    assert all(folder().is_absolute() and "decodeck" in str(folder()) for folder in FOLDERS)


def test_the_settings_are_read_once_for_each_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DECODECK_HOME", str(tmp_path / "home"))
    reads: list[Path] = []
    read = paths.read_object

    def counted(path: Path, most_bytes: int) -> dict[str, object]:
        reads.append(path)
        return read(path, most_bytes)

    monkeypatch.setattr(paths, "read_object", counted)
    settings.save(Settings(data_folder=str(tmp_path / "one")))
    assert {paths.data_dir() for _ in range(3)} == {tmp_path / "one"}
    assert paths.models_dir() == tmp_path / "one" / "models" and len(reads) == 1
    settings.save(Settings(data_folder=str(tmp_path / "two")))
    assert {paths.data_dir() for _ in range(3)} == {tmp_path / "two"} and len(reads) == 2
    monkeypatch.setenv("DECODECK_HOME", str(tmp_path / "elsewhere"))
    assert paths.data_dir() == tmp_path / "elsewhere" and len(reads) == 2
    paths.settings_file().write_text("{")
    assert paths.data_dir() == tmp_path / "elsewhere"
