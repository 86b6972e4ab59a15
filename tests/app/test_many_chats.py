"""Several chats that are answered at the same time: each keeps its own text, figures and state."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from engine.events import Failed, Paused, Prefilled
from engine.fit.plan import MAX_SEQUENCES
from tests.app.program import Desk
from tests.fakes import FakeEngine

NBSP = "\u00a0"
WORDS = tuple(f"w{number} " for number in range(12))


@pytest.fixture
def desk(qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    made = Desk(qtbot, qapp, monkeypatch, FakeEngine(WORDS))
    made.start_ready()
    yield made
    made.stop()


def begin(desk: Desk, text: str) -> str:
    """A new chat whose answer stands still after its first word; returns the chat's id."""
    desk.fake.held.add(text)
    desk.window.new_chat_requested.emit()
    desk.send(text)
    desk.wait(lambda: bool(desk.answers()) and desk.answers()[-1].status == "writing")
    return next(row.chat_id for row in desk.rows if row.title == text)


def select(desk: Desk, chat_id: str) -> None:
    desk.window.chat_selected.emit(chat_id)
    desk.wait(lambda: bool(desk.messages))


def writing(desk: Desk) -> set[str]:
    return {row.title for row in desk.rows if row.is_writing}


def test_a_second_chat_is_answered_while_the_first_still_is(desk: Desk) -> None:
    first, second = begin(desk, "first"), begin(desk, "second")
    assert writing(desk) == {"first", "second"}
    desk.fake.held.discard("second")
    desk.wait(lambda: desk.answers()[-1].status == "done")
    assert writing(desk) == {"first"}
    assert not desk.is_generating
    assert desk.chip.state == "generating"  # the model is still at work
    select(desk, first)
    assert desk.is_generating
    assert desk.answers()[-1].text == "w0 "
    desk.fake.held.clear()
    assert desk.wait_for_answer().text == "".join(WORDS)
    assert writing(desk) == set()
    select(desk, second)
    assert desk.answers()[-1].text == "".join(WORDS)


def test_more_chats_than_the_model_serves_wait_for_the_first_that_ends(desk: Desk) -> None:
    for number in range(MAX_SEQUENCES):
        begin(desk, f"chat {number}")
    desk.window.new_chat_requested.emit()
    desk.send("one more")
    assert desk.shown() == [("user", "one more", "queued")]
    assert len(desk.fake.requests) == MAX_SEQUENCES
    desk.fake.held.discard("chat 0")
    assert desk.wait_for_answer().text == "".join(WORDS)


def test_a_second_message_in_the_same_chat_waits(desk: Desk) -> None:
    begin(desk, "first")
    desk.send("and then")
    assert desk.shown()[-1] == ("user", "and then", "queued")
    begin(desk, "another")  # that another chat may begin does not let it go
    assert len(desk.fake.requests) == 2
    desk.fake.held.discard("another")
    desk.wait_for_answer()
    assert [request.messages[-1].content for request in desk.fake.requests] == ["first", "another"]
    desk.fake.held.clear()
    desk.wait(lambda: len(desk.fake.requests) == 3)
    assert desk.fake.requests[-1].messages[-1].content == "and then"


def test_stop_ends_the_answer_of_the_shown_chat_alone(desk: Desk) -> None:
    first, second = begin(desk, "first"), begin(desk, "second")
    desk.window.stop_requested.emit()
    desk.wait_for_answer("stopped")
    assert len(desk.fake.cancelled) == 1
    assert writing(desk) == {"first"}
    select(desk, first)
    desk.fake.held.clear()
    assert desk.wait_for_answer().text == "".join(WORDS)
    select(desk, second)
    assert desk.answers()[-1].status == "stopped"


def test_switching_shows_what_each_chat_has_so_far_with_its_figures(desk: Desk) -> None:
    first = begin(desk, "first")
    begin(desk, "second")
    for _ in range(3):
        select(desk, first)
        [answer] = desk.answers()
        assert (answer.text, answer.status) == ("w0 ", "writing")
        assert answer.stats.startswith("1 token so far")
        desk.window.chat_selected.emit(next(row.chat_id for row in desk.rows if row.title == "second"))


def test_the_gauge_has_the_figures_of_the_shown_chat(desk: Desk) -> None:
    desk.fake.drafts = (10, 7)
    first = begin(desk, "first")
    assert desk.speed.is_live
    desk.window.new_chat_requested.emit()
    assert (desk.speed.decode_tps, desk.speed.is_live, desk.speed.ttft_s) == (None, False, None)
    desk.fake.drafts = (0, 0)
    second = begin(desk, "second")
    assert desk.speed.drafts_accepted is None
    select(desk, first)
    assert desk.speed.is_live
    assert desk.speed.drafts_accepted == pytest.approx(0.7)
    desk.fake.held.discard("second")  # its end is no news for the gauge of the first
    desk.wait(lambda: writing(desk) == {"first"})
    assert desk.speed.is_live
    select(desk, second)
    assert (desk.speed.decode_tps, desk.speed.is_live) == (50.0, False)
    assert desk.speed.is_new_answer


def test_speeds_are_added_up_under_a_name_of_their_own(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    first = begin(desk, "first")
    assert desk.speed.together == ""
    gauge = desk.program.controller.chats.answers.gauge
    monkeypatch.setattr(gauge, "_clock", lambda: 0.0)
    monkeypatch.setattr(gauge, "_added_s", -1.0)
    begin(desk, "second")
    assert desk.speed.together == ""  # one token is no speed yet
    for chat_id, tps in list(gauge._rates.items()):
        assert tps is None
        gauge._rates[chat_id] = 30.5
    gauge._add_up(except_for="")
    assert desk.speed.together == f"2 chats · 61.0{NBSP}tok/s together"
    assert desk.speed.decode_tps is None  # its own figure is none of the sum
    desk.fake.held.clear()
    desk.wait(lambda: writing(desk) == set())
    assert desk.speed.together == ""
    select(desk, first)
    assert desk.speed.together == ""


def test_an_answer_that_waits_for_room_says_so_and_goes_on(desk: Desk) -> None:
    first = begin(desk, "first")
    begin(desk, "second")
    request = desk.fake.requests[0].request_id
    select(desk, first)
    desk.fake.tell(Paused(request))
    desk.wait(lambda: desk.answers()[-1].status == "waiting")
    assert desk.answers()[-1].stats == "Waiting for room: another chat is being answered"
    assert desk.answers()[-1].text == "w0 "
    assert desk.is_generating
    assert desk.speed.decode_tps is None
    desk.fake.tell(Prefilled(request, 21, 0, 21))  # there is room again: what it had is read anew
    desk.wait(lambda: desk.answers()[-1].status == "writing")
    assert desk.answers()[-1].stats.startswith("1 token so far")
    desk.fake.held.clear()
    answer = desk.wait_for_answer()
    assert answer.text == "".join(WORDS)
    assert answer.stats.startswith("12 tokens")


def test_an_answer_that_waits_can_be_stopped_and_is_found_waiting_again(desk: Desk) -> None:
    first = begin(desk, "first")
    desk.fake.tell(Paused(desk.fake.requests[0].request_id))
    desk.wait(lambda: desk.answers()[-1].status == "waiting")
    desk.window.new_chat_requested.emit()
    select(desk, first)
    assert desk.answers()[-1].status == "waiting"
    desk.window.stop_requested.emit()
    assert desk.wait_for_answer("stopped").text == "w0 "


def test_what_fails_in_a_chat_behind_is_said_to_be_there(desk: Desk) -> None:
    begin(desk, "first")
    desk.window.new_chat_requested.emit()
    desk.fake.tell(Failed(desk.fake.requests[0].request_id, "numerics", "The model gave no numbers."))
    desk.fake.reason = "error"
    desk.fake.held.clear()
    desk.wait(lambda: desk.notice is not None)
    assert desk.notice is not None
    assert desk.notice.title == "In another chat: The model gave no numbers."


def test_a_full_context_in_a_chat_behind_says_nothing_here(desk: Desk) -> None:
    first = begin(desk, "first")
    desk.window.new_chat_requested.emit()
    desk.fake.reason = "context"
    desk.fake.held.clear()
    desk.wait(lambda: writing(desk) == set())
    assert desk.notice is None
    select(desk, first)
    assert desk.answers()[-1].status == "context"
