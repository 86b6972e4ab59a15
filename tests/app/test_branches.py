"""Edits and other answers in the window: each is a branch, and all of them are on the disk."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app import paths
from app.store import Store
from tests.app.program import Desk
from tests.fakes import FakeEngine
from ui.chat_values import MessageView


@pytest.fixture
def desk(qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    made = Desk(qtbot, qapp, monkeypatch, FakeEngine())
    yield made
    made.stop()


@pytest.fixture
def asked(desk: Desk) -> Desk:
    """A chat with one answer."""
    desk.start_ready()
    desk.send("How are you?")
    desk.wait_for_answer()
    return desk


def views(desk: Desk) -> list[MessageView]:
    return list(desk.messages.values())


def wait_for(desk: Desk, *texts: str) -> None:
    desk.wait(lambda: [view.text for view in views(desk)] == list(texts) and not desk.is_generating)


def test_another_answer_stands_beside_the_first(asked: Desk) -> None:
    asked.fake.words = ("Better", ".")
    asked.window.chats.regenerate_requested.emit("")
    wait_for(asked, "How are you?", "Better.")
    answer = views(asked)[1]
    assert (answer.branch, answer.branches) == (2, 2)
    assert [message.content for message in asked.fake.requests[-1].messages] == ["How are you?"]
    asked.window.chats.branch_requested.emit(answer.message_id, -1)
    assert [view.text for view in views(asked)] == ["How are you?", "Hello there."]
    assert (views(asked)[1].branch, views(asked)[1].branches) == (1, 2)
    asked.window.chats.branch_requested.emit(views(asked)[1].message_id, -1)  # there is none
    assert views(asked)[1].text == "Hello there."
    assert {text for _, text, _ in asked.stored()} == {"How are you?", "Hello there.", "Better."}


def test_the_shown_branch_is_there_after_a_restart(
    asked: Desk, qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked.fake.words = ("Better", ".")
    asked.window.chats.regenerate_requested.emit("")
    wait_for(asked, "How are you?", "Better.")
    asked.window.chats.branch_requested.emit(views(asked)[1].message_id, -1)
    asked.stop()
    again = Desk(qtbot, qapp, monkeypatch, FakeEngine())
    again.start()
    again.wait(lambda: bool(again.rows))
    again.window.chat_selected.emit(again.rows[0].chat_id)
    again.wait(lambda: [view.text for view in views(again)] == ["How are you?", "Hello there."])
    assert views(again)[1].branches == 2


def test_an_edited_question_is_asked_anew_and_the_old_one_stays(asked: Desk) -> None:
    asked.window.set_composer_text("half a thought")
    question = views(asked)[0]
    asked.window.chats.edit_requested.emit(question.message_id)
    assert asked.window.composer_text() == "How are you?"
    asked.fake.words = ("Fine", ".")
    asked.send("And you?")
    wait_for(asked, "And you?", "Fine.")
    assert asked.window.composer_text() == "half a thought"
    assert (views(asked)[0].branch, views(asked)[0].branches) == (2, 2)
    assert [message.content for message in asked.fake.requests[-1].messages] == ["And you?"]
    asked.window.chats.branch_requested.emit(views(asked)[0].message_id, -1)
    assert [view.text for view in views(asked)] == ["How are you?", "Hello there."]


def test_an_edited_answer_stands_beside_the_old_one(asked: Desk) -> None:
    asked.window.chats.edit_requested.emit(views(asked)[1].message_id)
    asked.send("Hello yourself.")
    assert [view.text for view in views(asked)] == ["How are you?", "Hello yourself."]
    assert views(asked)[1].branches == 2
    assert len(asked.fake.requests) == 1
    asked.send("next")
    asked.wait(lambda: len(asked.fake.requests) == 2)
    assert [m.content for m in asked.fake.requests[-1].messages] == [
        "How are you?",
        "Hello yourself.",
        "next",
    ]


def test_escape_leaves_the_message_and_gives_the_draft_back(asked: Desk, qtbot: QtBot) -> None:
    asked.window.set_composer_text("half a thought")
    asked.window.chats.edit_requested.emit(views(asked)[0].message_id)
    asked.window.set_composer_text("something else")
    qtbot.keyClick(asked.window, Qt.Key.Key_Escape)
    assert asked.window.composer_text() == "half a thought"
    assert [view.text for view in views(asked)] == ["How are you?", "Hello there."]


def test_a_chat_that_is_left_while_a_message_is_edited_keeps_its_draft(asked: Desk) -> None:
    asked.window.set_composer_text("half a thought")
    chat_id = asked.rows[0].chat_id
    asked.window.chats.edit_requested.emit(views(asked)[0].message_id)
    asked.window.new_chat_requested.emit()
    assert asked.window.composer_text() == ""
    asked.window.chat_selected.emit(chat_id)
    assert asked.window.composer_text() == "half a thought"
    asked.send("a new message")
    asked.wait(lambda: len(asked.messages) == 4)


def test_up_in_the_empty_field_edits_the_last_question(asked: Desk) -> None:
    asked.window.recall_requested.emit()
    assert asked.window.composer_text() == "How are you?"
    asked.window.chats.edit_cancelled.emit()
    assert asked.window.composer_text() == ""


def test_an_answer_goes_on_in_its_branch_while_another_is_begun(asked: Desk) -> None:
    asked.fake.words = ("one ", "two ", "three")
    asked.fake.hold.clear()
    asked.send("long one")
    asked.wait(lambda: any(view.status == "writing" for view in views(asked)))
    asked.window.chats.edit_requested.emit(views(asked)[2].message_id)
    asked.send("other one")  # waits behind the answer in the first branch
    assert [view.text for view in views(asked)] == ["How are you?", "Hello there.", "other one"]
    assert views(asked)[2].status == "queued"
    asked.fake.hold.set()
    wait_for(asked, "How are you?", "Hello there.", "other one", "one two three")
    assert [m.content for m in asked.fake.requests[-1].messages][-1] == "other one"
    asked.window.chats.branch_requested.emit(views(asked)[2].message_id, -1)
    assert [view.text for view in views(asked)] == [
        "How are you?",
        "Hello there.",
        "long one",
        "one two three",
    ]


def test_without_a_model_there_is_no_other_answer_and_nothing_is_lost(
    asked: Desk, qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked.stop()
    again = Desk(qtbot, qapp, monkeypatch, FakeEngine())
    again.start(None)
    again.wait(lambda: bool(again.rows))
    again.window.chat_selected.emit(again.rows[0].chat_id)
    again.wait(lambda: len(again.messages) == 2)
    again.window.chats.regenerate_requested.emit("")
    assert again.notice is not None
    assert "needs a model" in again.notice.text
    assert [view.text for view in views(again)] == ["How are you?", "Hello there."]


def test_a_waiting_message_can_be_edited_where_it_waits(desk: Desk) -> None:
    desk.start(None)
    desk.send("later")
    desk.wait(lambda: bool(desk.messages))
    desk.window.chats.edit_requested.emit(views(desk)[0].message_id)
    desk.send("much later")
    assert [(view.text, view.status) for view in views(desk)] == [("much later", "queued")]
    assert desk.stored() == [("user", "much later", "queued")]


def test_an_answer_that_another_window_goes_on_with_is_left_to_it(asked: Desk) -> None:  # B090
    asked.fake.words = ("one ", "two ", "three")
    asked.fake.hold.clear()
    asked.send("long one")
    asked.wait(lambda: any(view.status == "writing" for view in views(asked)))
    asked.window.stop_requested.emit()
    asked.wait(lambda: views(asked)[3].status == "stopped")
    stopped = views(asked)[3]
    asked.flush()
    with contextlib.closing(Store(paths.chats_db())) as other:
        chat_id = asked.rows[0].chat_id
        turn = next(turn for turn in other.messages(chat_id) if turn.id == stopped.message_id)
        assert other.continue_message(replace(turn, status="reading"))
        asked.window.continue_requested.emit(stopped.message_id)
        asked.wait(lambda: asked.notice is not None and "Another window" in asked.notice.title)
        assert len(asked.fake.requests) == 2
        other.update_message(replace(turn, content="one and on", status="writing"))
        asked.program.controller.chats._watch.look()
        asked.wait(lambda: views(asked)[3].text == "one and on")
        assert (views(asked)[3].status, views(asked)[3].stats) == (
            "waiting",
            "Being written in another window",
        )
        other.update_message(replace(turn, content="one and only", status="done"))
        asked.program.controller.chats._watch.look()
        asked.wait(lambda: views(asked)[3].text == "one and only")
        assert views(asked)[3].status == "done"


def test_another_branch_brings_its_own_figures(asked: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    controller = asked.program.controller
    monkeypatch.setattr(
        controller._counter, "count", lambda _, messages, __: sum(len(each.content) for each in messages)
    )
    counts: list[int | None] = []
    monkeypatch.setattr(asked.window, "set_counter", lambda view: counts.append(view.tokens))
    asked.fake.words, asked.fake.drafts = ("Better", "."), (10, 5)
    asked.window.chats.regenerate_requested.emit("")
    wait_for(asked, "How are you?", "Better.")
    asked.wait(lambda: counts[-1:] == [len("How are you?Better.")])
    assert asked.speed.drafts_accepted == 0.5
    asked.window.chats.branch_requested.emit(views(asked)[1].message_id, -1)
    assert asked.speed.drafts_accepted is None
    asked.wait(lambda: counts[-1:] == [len("How are you?Hello there.")])
    asked.window.chats.branch_requested.emit(views(asked)[1].message_id, 1)
    assert asked.speed.drafts_accepted == 0.5


def test_an_answer_in_another_branch_moves_nothing_in_view(
    asked: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[object] = []
    monkeypatch.setattr(asked.program.controller._counter, "count", lambda *_: counted.append(1) or 7)
    asked.fake.hold.clear()
    asked.window.chats.regenerate_requested.emit("")
    asked.wait(lambda: asked.speed.is_live)
    asked.window.chats.branch_requested.emit(views(asked)[1].message_id, -1)
    assert not asked.speed.is_live
    counted.clear()
    asked.wait(lambda: bool(counted))  # of this branch
    asked.fake.hold.set()
    asked.wait(lambda: not asked.is_generating)
    assert not asked.speed.is_live
    assert views(asked)[1].text == "Hello there."
