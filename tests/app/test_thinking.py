"""What a model thinks, from the engine's chunks to the window, the disk and the next question."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app import paths
from app.answer_printer import AnswerPrinter
from app.conversation import Turn
from app.store import Store
from engine.errors import NoTemplateError
from tests.app.program import Desk
from tests.fakes import FakeEngine
from ui.values import ModelState


@pytest.fixture
def desk(qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    made = Desk(qtbot, qapp, monkeypatch, FakeEngine())
    made.fake.thoughts = ("I should", " greet.")
    made.fake.thinking = "on"
    yield made
    made.stop()


def stored_answers() -> list[Turn]:
    store = Store(paths.chats_db())
    turns = [turn for chat in store.list_chats() for turn in store.messages(chat.id)]
    store.close()
    return [turn for turn in turns if turn.role == "assistant"]


def switch_is_shown(desk: Desk) -> bool:
    return not desk.window.body.centre.composer._thinking.isHidden()


def test_thinking_is_shown_stored_and_given_back_apart_from_the_answer(desk: Desk) -> None:
    desk.start_ready()
    desk.send("Hi")
    answer = desk.wait_for_answer()
    assert (answer.text, answer.thinking) == ("Hello there.", "I should greet.")
    assert answer.thinking_s is not None
    assert answer.stats.startswith("5 tokens")  # thinking counts
    desk.flush()
    [turn] = stored_answers()
    assert (turn.content, turn.thinking) == ("Hello there.", "I should greet.")
    assert turn.raw == "<think>I should greet.</think>Hello there."
    desk.send("And?")
    desk.wait(lambda: len(desk.fake.requests) == 2)
    assert desk.fake.requests[-1].messages[1].thinking == "I should greet."


def test_a_chat_that_is_opened_again_has_its_thoughts(desk: Desk) -> None:
    desk.start_ready()
    desk.send("Hi")
    before = desk.wait_for_answer()
    chat = desk.rows[0].chat_id
    desk.window.new_chat_requested.emit()
    desk.window.chat_selected.emit(chat)
    after = desk.answers()[-1]
    assert (after.thinking, after.text) == (before.thinking, before.text)
    assert after.thinking_s == pytest.approx(before.thinking_s)


def test_an_answer_without_thoughts_is_its_own_whole_reply(desk: Desk) -> None:
    desk.fake.thoughts = ()
    desk.start_ready()
    desk.send("Hi")
    answer = desk.wait_for_answer()
    assert (answer.thinking, answer.thinking_s) == ("", None)
    desk.flush()
    [turn] = stored_answers()
    assert (turn.thinking, turn.raw) == ("", None)


def test_a_reply_that_was_stopped_while_thinking_leaves_the_next_question_whole(desk: Desk) -> None:  # B019
    desk.fake.hold.clear()
    desk.start_ready()
    desk.send("one")
    desk.wait(lambda: bool(desk.answers()) and bool(desk.answers()[-1].thinking))
    desk.window.stop_requested.emit()
    stopped = desk.wait_for_answer("stopped")
    assert (stopped.text, stopped.thinking) == ("", "I should")
    desk.fake.hold.set()
    desk.send("two")
    desk.wait(lambda: len(desk.fake.requests) == 2)
    assert [(m.role, m.content) for m in desk.fake.requests[-1].messages] == [("user", "one\n\ntwo")]


def test_thoughts_that_are_written_when_the_program_ends_are_kept(desk: Desk) -> None:
    desk.fake.hold.clear()
    desk.start_ready()
    desk.send("one")
    desk.wait(lambda: bool(desk.answers()) and bool(desk.answers()[-1].thinking))
    desk.fake.hold.set()
    assert desk.stop()
    [turn] = stored_answers()
    assert turn.thinking.startswith("I should")


def test_the_switch_shows_what_the_template_does_and_tells_it_what_to_do(desk: Desk) -> None:
    desk.start_ready()
    composer = desk.window.body.centre.composer
    assert switch_is_shown(desk)
    assert composer._thinking.isChecked()
    desk.send("Hi")
    desk.wait_for_answer()
    assert desk.fake.requests[-1].template.thinking is None  # nobody chose: as the template has it
    composer._thinking.click()
    desk.send("Again")
    desk.wait(lambda: len(desk.fake.requests) == 2)
    assert desk.fake.requests[-1].template.thinking is False
    desk.wait(lambda: len(desk.answers()) == 2 and desk.answers()[-1].status == "done")
    desk.window.model_chosen.emit("/models/other.gguf")
    desk.wait(lambda: len(desk.fake.loads) == 2 and desk.chip.state == ModelState.READY)
    assert not composer._thinking.isChecked()  # the choice is kept


def test_a_template_without_a_switch_shows_none(desk: Desk) -> None:
    desk.fake.thinking = ""
    desk.start_ready()
    assert not switch_is_shown(desk)


def test_a_model_without_a_template_offers_to_continue_the_text(desk: Desk) -> None:  # B013
    desk.start_ready()
    desk.fake.fail_request = NoTemplateError()
    desk.send("Once upon")
    desk.wait(lambda: desk.notice is not None)
    assert desk.notice is not None
    assert "no chat template" in desk.notice.title
    assert [action.label for action in desk.notice.actions] == ["Continue my text"]
    assert desk.window.composer_text() == "Once upon"
    assert not desk.fake.requests[-1].template.is_plain
    desk.window.notice_action.emit(desk.notice.actions[0].key)
    assert desk.wait_for_answer().text == "Hello there."
    assert desk.fake.requests[-1].template.is_plain
    assert desk.fake.requests[-1].messages[-1].content == "Once upon"
    assert desk.window.composer_text() == ""


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


REPLY = (("thinking", "I sh"), ("thinking", "ould."), ("answer", "Hel"), ("answer", "lo"))


def printed(out: io.StringIO | None, notes: io.StringIO | None, num_pieces: int = 4) -> None:
    printer = AnswerPrinter(out, notes)
    for kind, text in REPLY[:num_pieces]:
        printer.text(kind, text)
    printer.close()


def test_thinking_is_dimmed_on_a_terminal_and_never_on_standard_output() -> None:
    out, notes = io.StringIO(), Terminal()
    printed(out, notes)
    assert out.getvalue() == "Hello"
    assert notes.getvalue() == "\x1b[2mI should.\x1b[0m\n\n"


def test_a_terminal_is_left_as_it_was_when_thinking_is_cut_short() -> None:
    notes = Terminal()
    printed(io.StringIO(), notes, num_pieces=1)
    assert notes.getvalue() == "\x1b[2mI sh\x1b[0m\n\n"


@pytest.mark.parametrize("notes", [io.StringIO(), None])
def test_thinking_goes_nowhere_without_a_terminal(notes: io.StringIO | None) -> None:
    out = io.StringIO()
    printed(out, notes)
    assert out.getvalue() == "Hello"
    assert not (notes and notes.getvalue())


def test_where_the_answer_is_not_printed_thinking_is_not_either() -> None:
    notes = Terminal()
    printed(None, notes)
    assert notes.getvalue() == ""
