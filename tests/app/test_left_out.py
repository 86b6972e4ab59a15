"""What a full context left out: above the question, set back in the transcript, kept with the answer."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app import paths
from app.conversation import Conversation, Turn
from app.left_out import LeftOut, left_out_of
from app.store import Store
from engine.events import ContextShifted
from engine.types import LoadSpec
from tests.app.program import MODEL, Desk
from tests.fakes import FakeEngine
from ui.values import ModelState


@pytest.fixture
def desk(qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    made = Desk(qtbot, qapp, monkeypatch, FakeEngine())
    made.start_ready()
    yield made
    made.stop()


def ask(desk: Desk, text: str) -> None:
    number = len(desk.answers())
    desk.send(text)
    desk.wait(lambda: len(desk.answers()) == number + 1 and desk.answers()[-1].status == "done")


def ask_shifted(desk: Desk, text: str, *shifts: tuple[int, int]) -> None:
    """A question whose answer is written with so many turns and tokens left out."""
    number = len(desk.answers())
    desk.fake.held.add(text)
    desk.send(text)
    desk.wait(lambda: len(desk.answers()) == number + 1 and desk.answers()[-1].status == "writing")
    for turns, tokens in shifts:
        desk.fake.tell(ContextShifted(desk.fake.requests[-1].request_id, turns, tokens))
    desk.fake.held.clear()
    desk.wait_for_answer()


def markers(desk: Desk) -> list[tuple[str, str]]:
    return [(view.text, view.left_out) for view in desk.messages.values() if view.left_out]


def test_the_sentences_are_those_of_the_design() -> None:
    assert LeftOut(7, 14, 2310).sentence == "Context full: 14 earlier messages (2,310 tokens) left out"
    assert LeftOut(1, 1, 1).sentence == "Context full: 1 earlier message (1 token) left out"
    assert LeftOut(0, 0, 1200).sentence == "Context full: 1,200 tokens in the middle left out"


@pytest.mark.parametrize("kept", [None, 7, "x", {}, {"turns": "1", "messages": 1, "tokens": 1}])
def test_what_cannot_be_read_is_nothing_left_out(kept: object) -> None:
    assert left_out_of({"left_out": kept}) is None


def test_what_is_left_out_is_said_above_the_question_and_set_back(desk: Desk) -> None:
    ask(desk, "one")
    ask(desk, "two")
    ask_shifted(desk, "three", (2, 310))
    assert markers(desk) == [("three", "Context full: 4 earlier messages (310 tokens) left out")]
    assert desk.left_out == {view.message_id for view in list(desk.messages.values())[:4]}


def test_what_is_left_out_while_the_answer_grows_is_added_up(desk: Desk) -> None:
    ask(desk, "one")
    ask(desk, "two")
    ask_shifted(desk, "three", (1, 100), (2, 60))
    assert markers(desk) == [("three", "Context full: 4 earlier messages (160 tokens) left out")]


def test_the_middle_is_named_and_nothing_is_set_back(desk: Desk) -> None:
    ask(desk, "one")
    ask_shifted(desk, "two", (0, 1200))
    assert markers(desk) == [("two", "Context full: 1,200 tokens in the middle left out")]
    assert desk.left_out == frozenset()


def test_it_is_there_again_after_a_restart(
    desk: Desk, qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(desk, "one")
    ask_shifted(desk, "two", (1, 99))
    before, left_out, chat = markers(desk), desk.left_out, desk.rows[0].chat_id
    desk.stop()
    again = Desk(qtbot, qapp, monkeypatch, FakeEngine())
    again.start()
    again.wait(lambda: bool(again.rows))
    again.window.chat_selected.emit(chat)
    again.wait(lambda: len(again.messages) == 4)
    assert (markers(again), again.left_out) == (before, left_out)
    assert len(before) == 1
    assert len(left_out) == 2
    again.stop()


def test_an_answer_that_has_room_again_brings_all_of_it_forward(desk: Desk) -> None:
    ask(desk, "one")
    ask_shifted(desk, "two", (1, 99))
    assert desk.left_out
    ask(desk, "three")
    assert desk.left_out == frozenset()
    chat = desk.rows[0].chat_id
    desk.window.new_chat_requested.emit()
    desk.window.chat_selected.emit(chat)
    assert desk.left_out == frozenset()
    assert len(markers(desk)) == 1  # what was left out of that answer stays said


def test_the_policy_travels_with_the_request(desk: Desk) -> None:
    ask(desk, "one")
    assert (desk.fake.requests[-1].when_full, desk.fake.requests[-1].speculate) == ("oldest", "auto")
    desk.program.controller._preferences.change(when_full="middle", speculate="off")
    ask(desk, "two")
    assert (desk.fake.requests[-1].when_full, desk.fake.requests[-1].speculate) == ("middle", "off")


def test_make_room_loads_the_next_larger_context(
    qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(qtbot, qapp, monkeypatch, FakeEngine(), LoadSpec(MODEL, context=1024))
    desk.start_ready()
    desk.window.body.centre.transcript.room_clicked.emit()
    assert desk.tuning is not None
    assert (desk.tuning.loaded_context, desk.tuning.chosen_context, desk.tuning.apply) == (
        1024,
        2048,
        "ready",
    )
    assert len(desk.fake.loads) == 1  # nothing is loaded before Apply
    desk.window.apply_requested.emit()
    desk.wait(lambda: len(desk.fake.loads) == 2 and desk.chip.state == ModelState.READY)
    assert desk.fake.loads[-1].context == 2048
    desk.stop()


def turn(role: str, content: str, parent: str | None) -> Turn:
    return Turn(content or f"empty after {parent}", "c", parent, role, content)


def test_turns_are_counted_as_the_model_is_given_them() -> None:
    turns = [
        turn("system", "be brief", None),
        turn("user", "one", "be brief"),
        turn("assistant", "", "one"),
        turn("user", "again", "empty after one"),  # goes to the model together with the one before
        turn("assistant", "yes", "again"),
        turn("user", "two", "yes"),
        turn("assistant", "well", "two"),
        turn("user", "three", "well"),
    ]
    conversation = Conversation("c", turns)
    assert [message.role for message in conversation.messages()][:3] == ["system", "user", "assistant"]
    assert [t.content for t in conversation.oldest(1)] == ["one", "", "again", "yes"]
    assert [t.content for t in conversation.oldest(2)] == ["one", "", "again", "yes", "two", "well"]
    assert conversation.oldest(0) == ()


def test_a_store_of_the_version_before_opens_and_shows_what_it_has(
    qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(paths.chats_db())
    store.create_chat("Old", "c")
    store.add_message(Turn("q", "c", None, "user", "Hi", created_s=1.0))
    store.add_message(Turn("a", "c", "q", "assistant", "Hello", "stopped", created_s=2.0))
    store.close()
    figures = {"line": "9 tokens · 41.0 tok/s", "decode_tps": 41.0, "ttft_s": 0.2, "tokens": 9, "seed": 1}
    with closing(sqlite3.connect(paths.chats_db())) as database:
        database.execute("UPDATE messages SET stats = ? WHERE id = 'a'", (json.dumps(figures),))
        database.commit()
    desk = Desk(qtbot, qapp, monkeypatch, FakeEngine((", friend",)))
    desk.start_ready()
    desk.wait(lambda: bool(desk.rows))
    desk.window.chat_selected.emit("c")
    desk.wait(lambda: bool(desk.answers()))
    assert desk.answers()[-1].stats == "9 tokens · 41.0 tok/s"
    assert markers(desk) == []
    assert (desk.speed.decode_tps, desk.speed.ttft_s, desk.speed.drafts_accepted) == (41.0, 0.2, None)
    desk.window.continue_requested.emit("a")
    answer = desk.wait_for_answer()
    assert (answer.text, answer.stats.split(" · ")[0]) == ("Hello, friend", "10 tokens")
    desk.stop()
