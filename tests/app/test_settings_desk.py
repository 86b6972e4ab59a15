"""Settings in the whole program: applied at once, kept, refused in words; folders that move."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from PySide6.QtCore import QLocale
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app import hub_token, main, paths, settings
from app.hub_token import HubToken
from app.library_record import LibraryRecord
from app.settings import Settings
from app.settings_desk import apply_look
from app.settings_view import FORGET_TOKEN, MEASURE, RELOAD, RESET, UNDO_RESET
from engine import words
from engine.calibration import Calibration
from tests.app.program import Desk
from tests.fakes import FakeEngine
from ui import theme
from ui.settings import SettingsDialog
from ui.values import ModelState

CALIBRATION = Calibration(11.4, when=3000.0)


@pytest.fixture
def desk(qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    made = Desk(qtbot, qapp, monkeypatch, FakeEngine())
    yield made
    made.stop()
    theme.apply(qapp, "dark")
    QLocale.setDefault(QLocale.system())


def opened(desk: Desk) -> SettingsDialog:
    desk.window.settings_requested.emit()
    dialog = desk.program.controller.settings.dialog
    assert dialog is not None
    return dialog


def values(desk: Desk) -> Settings:
    return desk.program.controller.settings._preferences.value


def kept(desk: Desk) -> Settings:
    """What is on the disk, once everything before it was written."""
    done: list[Settings] = []
    desk.program.io.submit(settings.load, on_done=lambda loaded: done.append(loaded[0]))
    desk.wait(lambda: bool(done))
    return done[0]


def test_a_change_counts_at_once_and_is_kept(desk: Desk) -> None:
    desk.start_ready()
    dialog = opened(desk)
    dialog.changed.emit("theme", "light")
    assert theme.notifier().choice == "light"
    dialog.changed.emit("temperature", "0")
    desk.send("hello")
    desk.wait_for_answer()
    assert desk.fake.requests[-1].sampling.temperature == 0
    assert (kept(desk).theme, kept(desk).temperature) == ("light", 0.0)


def test_a_wrong_value_is_said_beside_its_field_and_not_kept(desk: Desk) -> None:
    dialog = opened(desk)
    dialog.changed.emit("top_p", "7")
    assert dialog.row("top_p").error == "7 cannot be used. It must be a number from 0 to 1."
    assert values(desk).top_p == Settings().top_p
    dialog.changed.emit("top_p", "0.5")
    assert dialog.row("top_p").error == "" and values(desk).top_p == 0.5


def test_numbers_are_read_as_the_system_writes_them(desk: Desk) -> None:
    dialog = opened(desk)
    QLocale.setDefault(QLocale(QLocale.Language.German, QLocale.Country.Germany))
    dialog.changed.emit("electricity_price", "0,32")
    assert values(desk).electricity_price == 0.32


def test_a_language_counts_from_the_next_start(desk: Desk) -> None:
    dialog = opened(desk)
    before = QLocale()
    dialog.changed.emit("language", "de")
    assert dialog.foot.words.text() == "Counts when Decodeck starts again."
    dialog.changed.emit("theme", "light")
    assert QLocale() == before and words.tr("Theme") == "Theme"
    assert kept(desk).language == "de"


@pytest.mark.parametrize(("language", "point"), [("en", "."), ("de", ",")])
def test_figures_are_written_as_the_language_does(desk: Desk, language: str, point: str) -> None:
    apply_look(Settings(language=language))
    assert QLocale().decimalPoint() == point
    apply_look(Settings())
    assert QLocale() == QLocale.system()


def test_what_counts_from_the_next_load_offers_it(desk: Desk) -> None:
    desk.start_ready()
    dialog = opened(desk)
    dialog.changed.emit("threads", "1")
    assert dialog.foot.button.text() == "Reload now"
    dialog.pressed.emit(RELOAD)
    desk.wait(lambda: desk.program.controller.models.plan is not None and not dialog.foot.isVisibleTo(dialog))
    plan = desk.program.controller.models.plan
    assert plan is not None and plan.wish.threads == 1


def test_reset_can_be_undone_and_leaves_what_is_remembered(desk: Desk) -> None:
    desk.start_ready()
    dialog = opened(desk)
    for name, text in (("theme", "light"), ("top_k", "3"), ("currency", "€")):
        dialog.changed.emit(name, text)
    before, last = values(desk), values(desk).last_model
    dialog.pressed.emit(RESET)
    first = values(desk)
    assert (first.theme, first.top_k, first.currency) == ("system", Settings().top_k, "$")
    assert first.last_model == last
    dialog.pressed.emit(UNDO_RESET)
    assert values(desk) == before


def test_the_command_line_goes_first_and_is_said(desk: Desk) -> None:
    dialog = opened(desk)  # this program was started with --set seed=7
    row = dialog.row("seed")
    assert not row.control.target.isEnabled()
    dialog.pressed.emit(RESET)
    assert values(desk).seed == 7


def test_measure_again_measures_and_says_so(desk: Desk) -> None:
    desk.start_ready()
    desk.fake.calibration = CALIBRATION
    dialog = opened(desk)
    dialog.pressed.emit(MEASURE)
    assert dialog.row(MEASURE).control.target.isEnabled() is False
    desk.wait(lambda: dialog.row(MEASURE).control.target.isEnabled())
    assert desk.notice is not None and desk.notice.title == "This computer was measured."


def test_an_idle_model_gives_its_memory_back_and_the_next_message_loads_it(desk: Desk) -> None:
    desk.start_ready()
    controller = desk.program.controller
    opened(desk).changed.emit("unload_after", "5")
    assert controller._rest.timer.interval() == 5 * 60_000 and controller._rest.timer.isActive()
    controller._rest.timer.timeout.emit()
    assert desk.chip.state == ModelState.UNLOADED and desk.chip.name == "tiny"
    assert not desk.is_first_start
    desk.send("wake up")
    assert desk.wait_for_answer().text == "Hello there."
    assert desk.chip.state == ModelState.READY


def test_a_model_that_is_used_is_not_unloaded(desk: Desk) -> None:
    desk.start_ready()
    controller = desk.program.controller
    opened(desk).changed.emit("unload_after", "1")
    desk.fake.hold.clear()
    desk.send("talk")
    desk.wait_for_answer("writing")
    controller._rest.timer.timeout.emit()
    assert desk.chip.state == ModelState.GENERATING and controller._rest.timer.isActive()
    desk.fake.hold.set()
    desk.wait_for_answer()
    opened(desk).changed.emit("unload_after", "")
    assert not controller._rest.timer.isActive()


def test_the_data_move_with_their_chats_while_the_program_runs(desk: Desk, tmp_path: Path) -> None:
    desk.start_ready()
    desk.send("before")
    desk.wait_for_answer()
    dialog, target = opened(desk), tmp_path / "data"
    was_locked: list[bool] = []
    desk.program.controller.folders.changed.connect(lambda: was_locked.append(not dialog.search.isEnabled()))
    dialog.changed.emit("data_folder", str(target))
    desk.wait(lambda: dialog.foot.words.text() == f"Moved to {target}.")
    assert was_locked[0] and dialog.search.isEnabled()
    assert paths.chats_db() == target / "chats.db" and paths.chats_db().is_file()
    desk.send("after")
    desk.wait(lambda: len(desk.answers()) == 2 and desk.answers()[-1].status == "done")
    assert [text for role, text, _ in desk.stored() if role == "user"] == ["before", "after"]
    assert kept(desk).data_folder == str(target)


def test_the_loaded_model_follows_the_models_folder(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = paths.models_dir() / "mine.gguf"
    old.write_bytes(b"weights")
    desk.start(str(old))
    desk.wait(lambda: desk.chip.state == ModelState.READY)
    dialog, target = opened(desk), tmp_path / "models"
    dialog.changed.emit("models_folder", str(target))
    models = desk.program.controller.models
    desk.wait(lambda: models.plan is not None and models.plan.model.path == str(target / "mine.gguf"))
    assert (target / "mine.gguf").read_bytes() == b"weights" and not old.exists()
    assert kept(desk).last_model == str(target / "mine.gguf")


def test_the_window_looks_up_no_path_of_a_move_itself(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.start_ready()
    desk.program.controller.library._record = LibraryRecord(used={"/models/used.gguf": 1.0})
    threads: set[str] = set()
    resolve = Path.resolve

    def watched(path: Path, strict: bool = False) -> Path:
        threads.add(threading.current_thread().name)
        return resolve(path, strict)

    monkeypatch.setattr(Path, "resolve", watched)
    dialog, target = opened(desk), tmp_path / "models"
    dialog.changed.emit("models_folder", str(target))
    desk.wait(lambda: dialog.foot.words.text() == f"Moved to {target}.")
    assert threads and threading.main_thread().name not in threads


def test_nothing_is_moved_while_an_answer_is_written(desk: Desk, tmp_path: Path) -> None:
    desk.start_ready()
    desk.fake.hold.clear()
    desk.send("talk")
    desk.wait_for_answer("writing")
    dialog = opened(desk)
    dialog.changed.emit("data_folder", str(tmp_path / "data"))
    desk.wait(lambda: dialog.row("data_folder").error.startswith("An answer is being written."))
    assert not (tmp_path / "data").exists()
    desk.fake.hold.set()
    desk.wait_for_answer()


def test_a_move_that_fails_leaves_the_chats_where_they_are(desk: Desk, tmp_path: Path) -> None:
    desk.start_ready()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_bytes(b"")
    dialog = opened(desk)
    dialog.changed.emit("data_folder", str(tmp_path / "full"))
    desk.wait(lambda: "is not empty" in dialog.row("data_folder").error)
    assert dialog.search.isEnabled()
    desk.send("still here")
    desk.wait_for_answer()
    assert desk.stored()[0][1] == "still here"


def test_the_token_is_removed(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    ring = {"token": "hf_0123456789"}
    played = SimpleNamespace(
        get_password=lambda *_: ring.get("token"), delete_password=lambda *_: ring.pop("token")
    )
    monkeypatch.setitem(__import__("sys").modules, "keyring", played)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    dialog = opened(desk)
    button = dialog.row(FORGET_TOKEN).control.target
    desk.wait(lambda: button.isEnabled())
    dialog.pressed.emit(FORGET_TOKEN)
    desk.wait(lambda: not button.isEnabled())
    assert not ring
    assert dialog.foot.words.text() == "The access token was removed."


def test_a_token_of_the_environment_stays_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_token, "_from_keyring", lambda: "")
    monkeypatch.setattr(hub_token, "_out_of_keyring", lambda: None)
    monkeypatch.setenv("HF_TOKEN", "hf_0123456789")
    assert HubToken().forget() is False


@pytest.mark.parametrize(
    ("given", "percent", "scale"), [("", 125, "1.25"), ("2", 150, "3"), ("none", 90, "0.9"), ("", 100, "")]
)
def test_everything_grows_with_the_text(
    given: str, percent: int, scale: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(main.SCALE_VARIABLE, given)
    main.scale(percent)
    assert os.environ[main.SCALE_VARIABLE] == scale
