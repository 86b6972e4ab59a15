"""How a chat is answered: its own values reach the engine, stay with it, and come from presets and files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app import paths, presets
from app.presets_desk import answer_s
from app.store import Store
from engine.fit.speed import step_s
from tests.app.program import Desk
from tests.fakes import FakeEngine, make_plan


@pytest.fixture
def desk(qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    made = Desk(qtbot, qapp, monkeypatch, FakeEngine())
    yield made
    made.stop()


def ask(desk: Desk, text: str) -> None:
    desk.send(text)
    desk.wait(lambda: any(each.messages[-1].content == text for each in desk.fake.requests))
    desk.wait_for_answer()


def test_what_is_chosen_before_the_first_message_belongs_to_that_chat_alone(desk: Desk) -> None:
    desk.start_ready()
    intents = desk.window.composing
    intents.option_changed.emit("system_prompt", "Be brief")
    intents.option_changed.emit("temperature", 1.5)
    intents.length_chosen.emit(256)
    ask(desk, "one")
    request = desk.fake.requests[-1]
    assert [(m.role, m.content) for m in request.messages] == [("system", "Be brief"), ("user", "one")]
    assert (request.sampling.temperature, request.sampling.seed, request.max_tokens) == (1.5, 7, 256)
    first = desk.rows[0].chat_id
    desk.window.new_chat_requested.emit()
    ask(desk, "two")
    assert [m.role for m in desk.fake.requests[-1].messages] == ["user"]
    assert desk.fake.requests[-1].max_tokens == 1024
    desk.window.chat_selected.emit(first)
    ask(desk, "three")
    assert desk.fake.requests[-1].messages[0].content == "Be brief"


def test_a_chats_own_values_are_on_the_disk(desk: Desk) -> None:
    desk.start_ready()
    desk.window.composing.length_chosen.emit(None)
    ask(desk, "one")
    assert desk.fake.requests[-1].max_tokens is None
    desk.window.composing.option_changed.emit("top_k", 3)
    desk.flush()
    store = Store(paths.chats_db())
    assert [chat.options for chat in store.list_chats()] == [{"max_tokens": None, "top_k": 3}]
    store.close()


def test_what_is_out_of_range_is_brought_into_it_and_shown_so(desk: Desk) -> None:
    desk.start_ready()
    desk.window.composing.option_changed.emit("temperature", 99.0)
    assert desk.window.composing.popover.lines["temperature"].text() == "5"


def test_reset_goes_back_to_the_settings(desk: Desk) -> None:
    desk.start_ready()
    desk.window.composing.option_changed.emit("top_k", 3)
    assert desk.window.body.centre.top_bar.has_own_options
    desk.window.composing.options_reset.emit()
    assert not desk.window.body.centre.top_bar.has_own_options
    ask(desk, "one")
    assert desk.fake.requests[-1].sampling.top_k == 40


def test_a_preset_is_saved_chosen_in_another_chat_and_deleted(desk: Desk) -> None:
    desk.start_ready()
    intents = desk.window.composing
    intents.option_changed.emit("temperature", 1.5)
    intents.preset_saved.emit("  Poet\n")
    assert intents.popover.preset.text() == "Preset: Poet"
    ask(desk, "one")
    desk.window.new_chat_requested.emit()
    assert intents.popover.preset.text() == "Preset: none"
    intents.preset_chosen.emit("Poet")
    ask(desk, "two")
    assert desk.fake.requests[-1].sampling.temperature == 1.5
    desk.wait(lambda: "Poet" in presets.read(paths.presets_file()))
    intents.preset_deleted.emit("Poet")
    desk.wait(lambda: presets.read(paths.presets_file()) == {})


def test_a_preset_goes_to_a_file_and_comes_from_one(desk: Desk, tmp_path: Path) -> None:
    desk.start_ready()
    intents = desk.window.composing
    intents.option_changed.emit("system_prompt", "Rhyme")
    intents.preset_exported.emit(str(tmp_path / "poet.json"))
    desk.wait((tmp_path / "poet.json").exists)
    intents.options_reset.emit()
    intents.presets_imported.emit(str(tmp_path / "poet.json"))
    desk.wait(lambda: intents.popover.preset.text() == "Preset: poet")
    assert intents.popover.instructions.toPlainText() == "Rhyme"


def test_a_file_that_is_no_preset_is_refused(desk: Desk, tmp_path: Path) -> None:
    desk.start_ready()
    (tmp_path / "x.json").write_text("{}")
    desk.window.composing.presets_imported.emit(str(tmp_path / "x.json"))
    desk.wait(lambda: desk.notice is not None)
    assert desk.notice is not None and desk.notice.title == "x.json is not a preset."


def test_the_expected_time_is_that_of_the_predicted_steps() -> None:
    made = make_plan()
    assert answer_s(None, 512, 0) is None
    assert answer_s(made, None, 0) is None
    assert answer_s(made, 100, 50) == pytest.approx(100 * step_s(made, 100))
    later, sooner = answer_s(made, 100, 2000), answer_s(made, 100, 0)
    assert later is not None and sooner is not None and later > sooner


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("temperature", "abc", "a number from 0 to 5"),
        ("top_p", "7", "a number from 0 to 1"),
        ("repeat_penalty", "99", "a number from 0.1 to 10"),
        ("max_tokens", "0", "a whole number from 1 to 16,777,216 or none"),
        ("top_k", "-5", "a whole number from 0 to 1,048,576"),
    ],
)
def test_what_was_typed_is_refused_in_place_and_stays(desk: Desk, name: str, text: str, words: str) -> None:
    desk.start_ready()
    popover, typed = desk.window.composing.popover, desk.window.composing.option_typed
    before = popover.lines[name].text()
    popover.lines[name].setText(text)
    popover.lines[name].editingFinished.emit()
    assert popover.errors[name].text == f"{text} cannot be used. It must be {words}."
    assert popover.lines[name].text() == text
    assert not desk.window.body.centre.top_bar.has_own_options
    desk.window.composing.options_reset.emit()
    assert (popover.errors[name].text, popover.lines[name].text()) == ("", before)
    typed.emit("seed", "9007199254740993")
    assert popover.lines["seed"].text() == "9007199254740993"
