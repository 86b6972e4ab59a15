"""Folders of the program's own that cannot be written to, or have odd names: it works, and says what goes."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app import chat_opening, cli, paths, settings
from app.atomic_file import StorageError, disk_sentence
from app.settings import Settings, load, save
from app.store import Store
from engine.models.spec import scan_folder
from tests.app.program import Desk
from tests.engine.models.test_troubled_files import NAMES, write
from tests.engine.tiny import tiny_folder
from tests.fakes import FakeEngine
from ui.values import ModelRow, ModelState


@pytest.fixture
def no_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home where not one file or folder can be made, by nobody: a file is in its way."""
    (tmp_path / "file").write_text("")
    home = tmp_path / "file" / "home"
    monkeypatch.setenv("DECODECK_HOME", str(home))
    return home


@pytest.fixture
def shown(
    qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Desk, list[str], list[ModelRow]]]:
    """A program, the notices and the rows of models that it has shown."""
    desk = Desk(qtbot, qapp, monkeypatch, FakeEngine())
    notices: list[str] = []
    rows: list[ModelRow] = []
    desk._after(monkeypatch, "show_notice", lambda view: notices.append(f"{view.title} {view.text}"))
    desk._after(monkeypatch, "set_models", lambda found: rows.__setitem__(slice(None), found))
    yield desk, notices, rows
    desk.stop()


def test_the_window_answers_and_says_what_is_not_kept(
    no_home: Path, shown: tuple[Desk, list[str], list[ModelRow]]
) -> None:
    desk, notices, rows = shown
    desk.start_ready()
    desk.send("hi")
    assert desk.wait_for_answer().text == "Hello there."
    desk.send("and again")
    desk.wait(lambda: len(desk.answers()) == 2 and desk.answers()[-1].status == "done")
    desk.wait(lambda: any("only until the program ends" in text for text in notices))
    desk.window.theme_chosen.emit("dark")
    desk.wait(lambda: any("settings could not be saved" in text for text in notices))
    desk.window.picker_opened.emit()
    desk.wait(lambda: bool(rows))
    assert [row.is_loaded for row in rows] == [True]
    assert desk.chip.state == ModelState.READY
    desk.wait(lambda: desk.notice is not None and "list of models could not" in desk.notice.text)
    assert desk.notice is not None
    assert desk.notice.title == "Chats are not stored: what is new ends with this window."
    assert desk.notice.text.count("chats.db") == 1, "one notice says all that is not kept"
    assert "settings could not be saved" in desk.notice.text
    desk.window.clear_notice()
    desk.window.body.centre.notice.dismiss()
    desk.window.new_chat_requested.emit()
    assert desk.notice is not None and desk.notice.is_lasting


def test_a_window_whose_chats_are_not_stored_asks_before_it_closes(
    no_home: Path, shown: tuple[Desk, list[str], list[ModelRow]]
) -> None:
    desk = shown[0]
    closed: list[bool] = []
    desk.window.closing.connect(lambda: closed.append(True))
    desk.start_ready()
    desk.wait(lambda: desk.notice is not None)
    assert desk.window.close_question() is None, "nothing was said yet"
    desk.send("precious")
    desk.wait_for_answer()
    assert not desk.window.close()
    assert desk.notice is not None
    assert desk.notice.title == "These chats are not stored: they end with this window."
    assert not closed
    assert desk.window.close()
    assert closed == [True]


def test_settings_that_cannot_be_saved_are_said_until_they_can(
    shown: tuple[Desk, list[str], list[ModelRow]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(settings: Settings) -> None:
        raise StorageError(*disk_sentence(OSError(errno.EROFS, "read-only"), paths.settings_file()))

    desk = shown[0]
    desk.start_ready()
    desk.flush()
    with monkeypatch.context() as broken:
        broken.setattr(settings, "save", refuse)
        desk.window.theme_chosen.emit("dark")
        desk.wait(lambda: desk.notice is not None)
        desk.send("hi")
        desk.wait_for_answer()
        assert desk.notice is not None
        assert desk.notice.title == "The settings could not be saved."
    desk.window.theme_chosen.emit("light")
    desk.wait(lambda: desk.notice is None)


def test_a_file_that_can_only_be_read_is_said_for_as_long_as_it_is(
    qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        error = sqlite3.OperationalError("attempt to write a readonly database")
        error.sqlite_errorcode = sqlite3.SQLITE_READONLY
        raise error

    with contextlib.closing(Store(paths.chats_db())) as store:
        store.create_chat("old", "c")
    monkeypatch.setattr(chat_opening, "require_writable", refuse)
    desk = Desk(qtbot, qapp, monkeypatch, FakeEngine())
    desk.start_ready()
    desk.send("precious")
    desk.wait_for_answer()
    desk.flush()
    assert desk.notice is not None and desk.notice.is_lasting
    assert "Chats can be read, not changed." in desk.notice.text
    assert not desk.window.close()
    assert desk.window.close()


def test_the_command_line_answers(no_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tiny_folder(tmp_path / "m")
    arguments = ["chat", "hi", "--model", str(place), "--max-tokens", "2", "--seed", "1", "--json"]
    assert cli.main(arguments) == 0
    assert json.loads(capsys.readouterr().out)["generated_tokens"] == 2


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="permissions do not bind here")
def test_a_read_only_home_is_a_home_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, place = tmp_path / "home", tiny_folder(tmp_path / "m")
    home.mkdir()
    home.chmod(0o555)
    monkeypatch.setenv("DECODECK_HOME", str(home))
    try:
        assert cli.main(["chat", "hi", "--model", str(place), "--max-tokens", "2"]) == 0
    finally:
        home.chmod(0o755)
    assert list(home.iterdir()) == []


# -- odd names ---------------------------------------------------------------------------------------------

HOMES = ["домівка é🙂", "50%20off #1 & more", "trailing dot.", "<b>&amp;</b>"]


@pytest.mark.parametrize("name", HOMES)
def test_a_home_of_any_name_keeps_everything(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """B032: settings, and the models in it."""
    if os.name == "nt":
        pytest.skip("Windows forbids some of these names")
    monkeypatch.setenv("DECODECK_HOME", str(tmp_path / name))
    save(Settings(theme="dark"))
    write(paths.models_dir() / "m #1 é.gguf")
    [(path, _)] = scan_folder(str(paths.models_dir()))
    assert cli.main(["chat", "hi", "--model", path, "--max-tokens", "2", "--json", "--seed", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["model"] == path
    assert load()[0].theme == "dark"


def test_chats_are_kept_in_a_home_of_an_odd_name(
    tmp_path: Path, qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:  # B032
    monkeypatch.setenv("DECODECK_HOME", str(tmp_path / HOMES[0] / HOMES[1]))
    desk = Desk(qtbot, qapp, monkeypatch, FakeEngine())
    desk.start_ready()
    desk.send("hi")
    desk.wait_for_answer()
    assert desk.stored()[-1] == ("assistant", "Hello there.", "done")
    desk.stop()


def test_names_with_markup_are_shown_as_they_are(
    shown: tuple[Desk, list[str], list[ModelRow]],
) -> None:  # B032
    desk, _, rows = shown
    wanted = [name for name in NAMES if "/" not in name and len(name) < 100]
    for name in wanted:
        write(paths.models_dir() / name)
    desk.start()
    desk.window.picker_opened.emit()
    desk.wait(lambda: len(rows) >= len(wanted))
    by_file = {Path(row.path).name: row for row in rows if not row.reason}
    for name in wanted:
        stem = " ".join(name.removesuffix(".gguf").split())
        assert by_file[name].name == stem, "literally, on one line"
