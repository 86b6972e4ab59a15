"""The composer: keys, the button with two roles, the counter, and text that is never lost."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QMimeData, Qt, QUrl
from PySide6.QtGui import QInputMethodEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ui.composer import BOX_MAX, BOX_MIN, Composer
from ui.composer_parts import GUARD_S
from ui.values import CounterView


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def composer(qtbot: QtBot, clock: Clock) -> Composer:
    made = Composer(clock=clock)
    qtbot.addWidget(made)
    made.resize(640, made.sizeHint().height())
    made.show()
    clock.now_s += 1
    return made


@pytest.fixture
def sent(composer: Composer) -> list[str]:
    texts: list[str] = []
    composer.submitted.connect(texts.append)
    return texts


def click(composer: Composer, qtbot: QtBot) -> None:
    qtbot.mouseClick(composer._button, Qt.MouseButton.LeftButton)


def test_enter_sends_and_empties_the_field(composer: Composer, sent: list[str], qtbot: QtBot) -> None:
    qtbot.keyClicks(composer._edit, "Hello")
    qtbot.keyClick(composer._edit, Qt.Key.Key_Return)
    assert sent == ["Hello"]
    assert composer.text() == ""


def test_shift_enter_begins_a_new_line(composer: Composer, sent: list[str], qtbot: QtBot) -> None:
    qtbot.keyClicks(composer._edit, "a")
    qtbot.keyClick(composer._edit, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    qtbot.keyClicks(composer._edit, "b")
    assert composer.text() == "a\nb"
    assert sent == []


def test_nothing_but_spaces_is_not_sent(composer: Composer, sent: list[str], qtbot: QtBot) -> None:
    composer.set_text(" \n ")
    qtbot.keyClick(composer._edit, Qt.Key.Key_Return)
    assert sent == []
    assert composer.text() == " \n "
    assert not composer._button.isEnabled()


def test_undo_brings_back_what_was_sent(composer: Composer, qtbot: QtBot) -> None:
    composer.set_text("A long thought\nof two lines")
    composer.submit()
    composer._edit.undo()
    assert composer.text() == "A long thought\nof two lines"


def test_text_that_does_not_fit_stays_and_an_empty_field_is_not_blamed(
    composer: Composer, sent: list[str], qtbot: QtBot
) -> None:
    composer.set_counter(CounterView(518, 512))
    assert composer._hints.error == ""
    composer.set_text("Hello")
    qtbot.keyClick(composer._edit, Qt.Key.Key_Return)
    assert (sent, composer.text()) == ([], "Hello")
    assert composer._hints.error.startswith("6 tokens too long.")


def test_up_in_the_empty_field_asks_for_the_waiting_message(composer: Composer, qtbot: QtBot) -> None:
    with qtbot.waitSignal(composer.recall_requested):
        qtbot.keyClick(composer._edit, Qt.Key.Key_Up)
    composer.set_text("typed")
    with qtbot.assertNotEmitted(composer.recall_requested):
        qtbot.keyClick(composer._edit, Qt.Key.Key_Up)


def test_the_button_stops_while_an_answer_is_written(
    composer: Composer, sent: list[str], qtbot: QtBot, clock: Clock
) -> None:
    stops: list[bool] = []
    composer.stop_clicked.connect(lambda: stops.append(True))
    composer.set_text("Next")
    composer.set_generating(True)
    clock.now_s += 1
    assert composer._button.accessibleName() == "Stop"
    click(composer, qtbot)
    assert (len(stops), sent, composer.text()) == (1, [], "Next")


def test_the_second_click_of_a_double_click_on_send_does_not_stop(
    composer: Composer, sent: list[str], qtbot: QtBot, clock: Clock
) -> None:
    stops: list[bool] = []
    composer.stop_clicked.connect(lambda: stops.append(True))
    composer.submitted.connect(lambda: composer.set_generating(True))
    composer.set_text("Hello")
    click(composer, qtbot)
    clock.now_s += GUARD_S - 0.01
    click(composer, qtbot)
    assert (sent, stops) == (["Hello"], [])
    clock.now_s += 0.02
    click(composer, qtbot)
    assert len(stops) == 1


def test_a_click_on_stop_that_comes_too_late_does_not_send(
    composer: Composer, sent: list[str], qtbot: QtBot, clock: Clock
) -> None:
    composer.set_text("Half a thought")
    composer.set_generating(True)
    clock.now_s += 5
    composer.set_generating(False)
    click(composer, qtbot)
    assert (sent, composer.text()) == ([], "Half a thought")


def test_enter_while_an_answer_is_written_still_submits(
    composer: Composer, sent: list[str], qtbot: QtBot
) -> None:
    composer.set_generating(True)
    composer.set_text("Next")
    qtbot.keyClick(composer._edit, Qt.Key.Key_Return)
    assert sent == ["Next"]


def test_the_end_of_an_answer_keeps_text_and_focus(composer: Composer, qtbot: QtBot) -> None:
    composer.setFocus()
    qtbot.waitUntil(composer._edit.hasFocus)
    composer.set_generating(True)
    composer.set_text("typing")
    composer.set_generating(False)
    assert composer._edit.hasFocus()
    assert composer.text() == "typing"


def test_too_many_tokens_turn_sending_off_and_say_how_many(composer: Composer, sent: list[str]) -> None:
    composer.set_text("Hello")
    composer.set_counter(CounterView(8_410, 8_192))
    composer.submit()
    assert sent == []
    assert composer._hints.error == "218 tokens too long. Shorten it or raise the context length."
    composer.set_counter(CounterView(8_000, 8_192))
    composer.submit()
    assert sent == ["Hello"]


def test_the_counter_reads_as_a_sentence(composer: Composer) -> None:
    composer.set_counter(CounterView(7_431, 8_192))
    assert composer._counter.accessibleName() == "7,431 of 8,192 tokens"
    composer.set_counter(CounterView(None, None))
    assert not composer._counter.isVisibleTo(composer)


def test_it_grows_with_its_lines_from_96_to_240(composer: Composer) -> None:
    assert composer.box_height == BOX_MIN
    composer.set_text("\n".join("line" for _ in range(4)))
    between = composer.box_height
    assert BOX_MIN < between < BOX_MAX
    composer.set_text("line\n" * 100)
    assert composer.box_height == BOX_MAX
    composer.set_text("")
    assert composer.box_height == BOX_MIN
    assert composer.height() == composer.sizeHint().height()


def test_every_line_keeps_the_line_height_after_set_undo_and_paste(composer: Composer) -> None:
    composer.set_text("a\nb")
    two = composer._edit.text_height()
    composer.set_text("")
    composer.set_text("c\nd")
    assert composer._edit.text_height() == two == 44
    composer._edit.undo()
    composer._edit.redo()
    assert composer._edit.text_height() == two


def test_only_plain_text_is_pasted(composer: Composer) -> None:
    mime = QMimeData()
    mime.setHtml("<b>bold</b><img src='http://127.0.0.1:9/x.png'>")
    mime.setText("bold <i>words</i>\r\nsecond")
    composer._edit.insertFromMimeData(mime)
    assert composer.text() == "bold <i>words</i>\nsecond"
    assert "font-weight:700" not in composer._edit.toHtml()
    files = QMimeData()
    files.setUrls([QUrl("file:///etc/passwd")])
    assert not composer._edit.acceptDrops()


def test_no_break_spaces_and_emoji_are_sent_as_they_were_typed(composer: Composer, sent: list[str]) -> None:
    composer.set_text("a\u00a0b 🧊\tc")
    composer.submit()
    assert sent == ["a\u00a0b 🧊\tc"]


def test_enter_that_confirms_an_input_method_does_not_send(
    composer: Composer, sent: list[str], qtbot: QtBot
) -> None:
    composer.set_text("x")
    QApplication.sendEvent(composer._edit, QInputMethodEvent("にほん", []))
    qtbot.keyClick(composer._edit, Qt.Key.Key_Return)
    assert sent == []


def test_typing_is_told_with_all_of_the_text(composer: Composer, qtbot: QtBot) -> None:
    with qtbot.waitSignal(composer.text_changed) as caught:
        composer.insert("Hi")
    assert caught.args == ["Hi"]
    assert composer.text() == "Hi"


def test_taking_the_text_empties_the_field(composer: Composer, sent: list[str]) -> None:
    composer.set_text("Hello")
    assert composer.take_text() == "Hello"
    assert (composer.text(), sent) == ("", [])


def test_the_hints_say_what_enter_does_now(composer: Composer) -> None:
    composer.set_enter_verb("send when ready")
    assert composer._hints.accessibleName() == "Enter: send when ready, Shift Enter: new line"
    composer.set_generating(True)
    assert composer._hints.accessibleName() == "Enter: queue, Shift Enter: new line, Esc: stop"


def test_esc_is_left_to_the_window(composer: Composer, qtbot: QtBot) -> None:
    composer.set_text("kept")
    qtbot.keyClick(composer._edit, Qt.Key.Key_Escape)
    assert composer.text() == "kept"


def test_a_click_on_the_button_leaves_the_keyboard_in_the_field(composer: Composer, qtbot: QtBot) -> None:
    composer.activateWindow()
    composer.setFocus()
    composer.set_text("Hello")
    click(composer, qtbot)
    assert composer._edit.hasFocus()


def test_lines_are_as_wide_with_the_scroll_bar_as_without(composer: Composer) -> None:
    composer.set_text("one")
    width = composer._edit.viewport().width()
    assert composer.width() - 16 - width <= 18  # as much room on the right as on the left
    composer.set_text("line\n" * 30)
    assert composer._edit.verticalScrollBar().maximum() > 0
    assert composer._edit.viewport().width() == width
