"""An unfinished answer goes on: in the window, in the request, in the store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app import paths
from app.conversation import Turn
from app.store import Store
from engine.errors import TemplateError
from tests.app.program import Desk
from tests.fakes import FakeEngine

NBSP = "\u00a0"


@pytest.fixture
def desk(qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    made = Desk(qtbot, qapp, monkeypatch, FakeEngine(("Once", " upon")))
    made.start_ready()
    yield made
    made.stop()


def go_on(desk: Desk) -> None:
    desk.window.body.centre.transcript.continue_clicked.emit(desk.answers()[-1].message_id)


def stored_answers(desk: Desk) -> list[Turn]:
    desk.flush()
    store = Store(paths.chats_db())
    turns = [turn for chat in store.list_chats() for turn in store.messages(chat.id)]
    store.close()
    return [turn for turn in turns if turn.role == "assistant"]


@pytest.mark.parametrize("reason", ["length", "context"])
def test_an_unfinished_answer_goes_on_where_it_ended(desk: Desk, reason: str) -> None:
    desk.fake.reason, desk.fake.drafts = reason, (10, 8)
    desk.send("Tell me")
    desk.wait_for_answer(reason)
    desk.fake.words, desk.fake.reason, desk.fake.drafts = (" a", " time", "."), "stop", (10, 2)
    go_on(desk)
    answer = desk.wait_for_answer()
    assert answer.text == "Once upon a time."
    request = desk.fake.requests[-1]
    assert request.continues
    assert [(m.role, m.content) for m in request.messages] == [
        ("user", "Tell me"),
        ("assistant", "Once upon"),
    ]
    assert answer.stats == (
        f"5 tokens · 50.0{NBSP}tok/s · first token 0.10{NBSP}s · 50% of drafts accepted"
    )  # of all of it
    [turn] = stored_answers(desk)
    assert (turn.content, turn.status, turn.stats["tokens"]) == ("Once upon a time.", "done", 5)
    assert turn.raw is None
    assert not desk.fake.requests[0].continues


def test_a_stopped_answer_is_shown_growing_while_it_goes_on(desk: Desk) -> None:
    desk.fake.hold.clear()
    desk.send("Tell me")
    desk.wait(lambda: bool(desk.answers()) and desk.answers()[-1].text == "Once")
    desk.window.stop_requested.emit()
    desk.wait_for_answer("stopped")
    go_on(desk)
    assert desk.is_generating
    desk.wait(lambda: desk.answers()[-1].text == "OnceOnce")
    assert desk.window.body.centre.transcript.message_text(desk.answers()[-1].message_id) == "OnceOnce"
    desk.send("and then")
    assert desk.shown()[-1] == ("user", "and then", "queued")
    desk.window.stop_requested.emit()
    desk.wait(lambda: desk.answers()[0].status == "stopped")
    desk.fake.hold.set()
    desk.wait(lambda: len(desk.answers()) == 2 and desk.answers()[-1].status == "done")
    assert desk.answers()[0].text == "OnceOnce"


def test_a_thought_that_was_stopped_goes_on_as_a_thought(desk: Desk) -> None:
    desk.fake.thoughts = ("First", " this")
    desk.fake.hold.clear()
    desk.send("Think")
    desk.wait(lambda: bool(desk.answers()) and desk.answers()[-1].thinking == "First")
    desk.window.stop_requested.emit()
    before = desk.wait_for_answer("stopped")
    desk.fake.thoughts = (", then that",)
    desk.fake.hold.set()
    go_on(desk)
    answer = desk.wait_for_answer()
    assert (answer.thinking, answer.text) == ("First, then that", "Once upon")
    last = desk.fake.requests[-1].messages[-1]
    assert (last.role, last.content, last.thinking) == ("assistant", "", "First")
    assert answer.thinking_s is not None
    assert before.thinking_s is not None
    assert answer.thinking_s >= before.thinking_s  # both times together
    [turn] = stored_answers(desk)
    assert (
        turn.raw == "<think>First</think><think>, then that</think>Once upon"
    )  # as the fake wrote each part


def test_thoughts_stay_when_the_answer_behind_them_goes_on(desk: Desk) -> None:
    desk.fake.thoughts, desk.fake.reason = ("Hm",), "length"
    desk.send("Tell me")
    before = desk.wait_for_answer("length")
    desk.fake.thoughts, desk.fake.reason = (), "stop"
    go_on(desk)
    answer = desk.wait_for_answer()
    assert (answer.thinking, answer.text) == ("Hm", "Once uponOnce upon")
    assert answer.thinking_s == before.thinking_s
    [turn] = stored_answers(desk)
    assert turn.raw == "<think>Hm</think>Once uponOnce upon"


def test_an_answer_that_cannot_go_on_stays_as_it_was(desk: Desk) -> None:
    desk.fake.reason = "length"
    desk.send("Tell me")
    before = desk.wait_for_answer("length")
    desk.fake.fail_request = TemplateError("This template has no place for it.", "Answer anew.")
    go_on(desk)
    desk.wait(lambda: desk.notice is not None and not desk.is_generating)
    after = desk.wait_for_answer("length")
    assert (after.text, after.stats) == (before.text, before.stats)
    assert desk.window.composer_text() == ""  # the question does not come back: it has its answer
    [turn] = stored_answers(desk)
    assert (turn.content, turn.status) == ("Once upon", "length")


def test_only_the_last_answer_goes_on(desk: Desk) -> None:
    desk.fake.reason = "length"
    desk.send("one")
    first = desk.wait_for_answer("length")
    desk.send("two")
    desk.wait(lambda: len(desk.answers()) == 2 and desk.answers()[-1].status == "length")
    desk.window.continue_requested.emit(first.message_id)
    desk.window.continue_requested.emit("nothing like it")
    desk.window.new_chat_requested.emit()
    desk.window.continue_requested.emit(first.message_id)
    desk.flush()
    assert len(desk.fake.requests) == 2


def test_without_a_model_the_answer_waits_for_another_click(
    desk: Desk, qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.fake.reason = "length"
    desk.send("Tell me")
    desk.wait_for_answer("length")
    chat = desk.rows[0].chat_id
    desk.stop()
    again = Desk(qtbot, qapp, monkeypatch, FakeEngine((" a time.",)))
    again.fake.hold_load.clear()
    again.start()
    again.wait(lambda: bool(again.rows) and bool(again.fake.loads))
    again.window.chat_selected.emit(chat)
    again.wait(lambda: bool(again.answers()))
    go_on(again)
    assert again.notice is not None
    assert again.answers()[-1].status == "length"
    again.fake.hold_load.set()
    again.wait(lambda: again.chip.state == "ready")
    go_on(again)
    assert again.wait_for_answer().text == "Once upon a time."
    assert again.notice is None
    again.stop()


def test_what_the_program_ended_in_the_middle_of_going_on_is_kept(desk: Desk) -> None:
    desk.fake.reason = "length"
    desk.send("Tell me")
    desk.wait_for_answer("length")
    desk.fake.hold.clear()
    desk.fake.words = (" a", " time")
    go_on(desk)
    desk.wait(lambda: desk.answers()[-1].text == "Once upon a")
    assert desk.stop()
    store = Store(paths.chats_db())
    [turn] = [t for c in store.list_chats() for t in store.messages(c.id) if t.role == "assistant"]
    store.close()
    assert turn.content.startswith("Once upon a")
    assert turn.stats["tokens"] in (3, 4)


def test_what_comes_is_followed_also_where_a_message_was_held_in_view(desk: Desk) -> None:
    desk.fake.words, desk.fake.reason = tuple(f"line {each}\n\n" for each in range(5)), "length"
    desk.send("Tell me")
    desk.wait_for_answer("length")
    transcript = desk.window.body.centre.transcript
    transcript.reveal(desk.answers()[-1].message_id)  # as a step to another branch does
    assert not transcript.is_following
    desk.fake.words, desk.fake.reason = tuple(f"more {each}\n\n" for each in range(60)), "stop"
    go_on(desk)
    desk.wait_for_answer()
    desk.wait(lambda: not transcript.is_busy)
    bar = transcript.verticalScrollBar()
    assert transcript.is_following
    assert bar.value() == bar.maximum() > 0
