"""A folder is moved whole or not at all, whatever happens in between."""

from __future__ import annotations

import os
import sqlite3
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from app import data_move, paths, settings
from app.data_move import DATA, MARK, MODELS, Move, MoveCancelledError, MoveError
from app.setting_table import Settings

CONTENT = {"a.gguf": b"a" * 100, "folder/b.safetensors": b"b" * 50, "folder/config.json": b"{}"}


def fill(folder: Path) -> None:
    for name, data in CONTENT.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def held(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def move(name: str, target: Path, cancel: threading.Event | None = None) -> str:
    planned = data_move.planned(name, str(target))
    after = data_move.settings_after(settings.load()[0], planned)
    return data_move.run(planned, lambda: settings.save(after), lambda *_: None, cancel or threading.Event())


@pytest.fixture(params=["linked", "copied"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """On the same disk files get a second name; elsewhere they are copied."""
    if request.param == "copied":

        def other_disk(*_: object) -> None:
            raise OSError(18, "Invalid cross-device link")

        monkeypatch.setattr(os, "link", other_disk)
    return str(request.param)


def test_models_are_there_and_no_longer_here(way: str, tmp_path: Path) -> None:
    old = paths.models_dir()
    fill(old)
    (old / "link").symlink_to("a.gguf")
    target = tmp_path / "models"
    assert move(MODELS, target) == ""
    assert held(target) == CONTENT | {"link": CONTENT["a.gguf"]}
    assert (target / "link").is_symlink()
    assert not old.exists()
    assert paths.models_dir() == target
    assert settings.load()[0].models_folder == str(target)


def test_the_data_go_and_the_settings_stay(way: str, tmp_path: Path) -> None:
    base = paths.data_dir()
    settings.save(Settings(theme="dark"))
    fill(paths.models_dir())
    paths.cache_dir()
    with sqlite3.connect(paths.chats_db()) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE words (word)")
        database.execute("INSERT INTO words VALUES ('kept')")
    database.close()
    target = tmp_path / "data"
    move(DATA, target)
    assert paths.data_dir() == target and paths.models_dir() == target / "models"
    assert held(paths.models_dir()) == CONTENT
    with sqlite3.connect(paths.chats_db()) as database:
        assert database.execute("SELECT word FROM words").fetchall() == [("kept",)]
    database.close()
    assert paths.settings_file().parent == base
    assert {each.name for each in base.iterdir()} <= {"settings.json", "settings.json.bak", "cache", "logs"}


def test_back_to_where_they_were_at_first(tmp_path: Path) -> None:
    base = paths.data_dir()
    fill(paths.models_dir())
    settings.save(Settings())
    move(DATA, tmp_path / "data")
    move(DATA, base)
    assert settings.load()[0].data_folder is None
    assert held(paths.models_dir()) == CONTENT
    assert not (tmp_path / "data").exists()


def test_settings_that_cannot_be_written_leave_everything(way: str, tmp_path: Path) -> None:
    fill(paths.models_dir())
    old, target = paths.models_dir(), tmp_path / "models"

    def refuse() -> None:
        raise MoveError("no")

    with pytest.raises(MoveError):
        data_move.run(data_move.planned(MODELS, str(target)), refuse, lambda *_: None, threading.Event())
    assert paths.models_dir() == old and held(old) == CONTENT
    assert held(target) == {}


def test_a_disk_that_fills_leaves_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(paths.models_dir())
    old, target = paths.models_dir(), tmp_path / "models"

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", str(target))

    monkeypatch.setattr(os, "link", full)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(MoveError, match="The disk is full"):
        move(MODELS, target)
    assert held(old) == CONTENT and held(target) == {}


def test_one_that_is_stopped_leaves_everything(way: str, tmp_path: Path) -> None:
    fill(paths.models_dir())
    old, target, stop = paths.models_dir(), tmp_path / "models", threading.Event()
    stop.set()
    with pytest.raises(MoveCancelledError):
        move(MODELS, target, stop)
    assert held(old) == CONTENT and held(target) == {}


def test_what_an_interrupted_move_left_is_cleared_away(tmp_path: Path) -> None:
    fill(paths.models_dir())
    target = tmp_path / "models"
    target.mkdir()
    (target / MARK).touch()
    (target / "a.gguf").write_bytes(b"half")
    move(MODELS, target)
    assert held(target) == CONTENT


def test_progress_counts_every_byte(way: str, tmp_path: Path) -> None:
    fill(paths.models_dir())
    told: list[tuple[int, int]] = []
    planned = data_move.planned(MODELS, str(tmp_path / "models"))
    data_move.run(planned, lambda: None, lambda *amounts: told.append(amounts), threading.Event())
    total = sum(map(len, CONTENT.values()))
    assert told[0] == (0, total) and told[-1] == (total, total)
    assert told == sorted(told)


def test_a_target_that_cannot_be_is_refused(tmp_path: Path) -> None:
    fill(paths.models_dir())
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_bytes(b"mine")
    (tmp_path / "file").write_bytes(b"")
    for target, words in (
        (paths.models_dir(), "already"),
        (paths.models_dir() / "inner", "into itself"),
        (tmp_path / "no" / "such", "not in a folder"),
        (Path("relative"), "not in a folder"),
        (tmp_path / "full", "not empty"),
        (tmp_path / "file", "is a file"),
    ):
        with pytest.raises(MoveError, match=words):
            move(MODELS, target)
    assert held(paths.models_dir()) == CONTENT
    assert (tmp_path / "full" / "file").read_bytes() == b"mine"


def test_a_folder_named_for_this_run_is_not_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(paths.VARIABLES[MODELS], str(tmp_path))
    with pytest.raises(MoveError, match="this run"):
        data_move.planned(MODELS, str(tmp_path / "models"))


def test_chats_that_another_window_has_open_are_not_moved(tmp_path: Path) -> None:
    other = sqlite3.connect(paths.chats_db(), isolation_level=None)
    other.execute("PRAGMA journal_mode=WAL")
    other.execute("CREATE TABLE words (word)")
    with pytest.raises(MoveError, match="Another window"):
        move(DATA, tmp_path / "data")
    other.close()
    move(DATA, tmp_path / "data")


def test_paths_of_models_follow() -> None:
    models = paths.models_dir().resolve()
    inside, outside = str(models / "a.gguf"), "/elsewhere/b.gguf"
    before = Settings(last_model=inside, models={inside: {"draft": inside}, outside: {"draft": ""}})
    target = models.parent / "new"
    moved = str(target / "a.gguf")
    after = data_move.settings_after(before, Move(MODELS, models, target))
    assert after == replace(
        before,
        models_folder=str(target),
        last_model=moved,
        models={moved: {"draft": moved}, outside: {"draft": ""}},
    )


def test_a_folder_whose_disk_is_gone_is_not_made_anew(tmp_path: Path) -> None:
    settings.save(Settings(data_folder=str(tmp_path / "gone"), models_folder=str(tmp_path / "also")))
    assert paths.data_dir() == tmp_path / "gone" and paths.models_dir() == tmp_path / "also"
    assert not any(tmp_path.iterdir())
