"""The folders, and the one variable that moves them all."""

from __future__ import annotations

from pathlib import Path

import pytest

from app import paths

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
