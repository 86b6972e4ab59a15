"""The composer: keys, the button with two roles, the counter, and text that is never lost."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QMimeData, QPoint, Qt, QUrl
from PySide6.QtGui import QInputMethodEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ui.attachment_text import attached, compose
from ui.chat_values import CounterView
from ui.composer import BOX_MAX, BOX_MIN, Composer
from ui.composer_parts import GUARD_S


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


def test_the_switch_for_thinking_is_shown_where_there_is_one(composer: Composer, qtbot: QtBot) -> None:
    switch, chosen = composer._thinking, list[bool]()
    composer.thinking_chosen.connect(chosen.append)
    assert switch.isHidden()
    for is_on in (True, False):
        composer.set_thinking(is_on)
        assert (switch.isVisible(), switch.isChecked()) == (True, is_on)
    assert chosen == []  # only a person chooses
    qtbot.mouseClick(switch, Qt.MouseButton.LeftButton)
    assert (chosen, switch.isChecked()) == ([True], True)
    assert (switch.accessibleName(), "thinks before" in switch.toolTip()) == ("Thinking", True)
    qtbot.keyClick(switch, Qt.Key.Key_Return)
    assert chosen == [True, False]
    composer.set_thinking(None)
    assert switch.isHidden()


def test_the_switch_lies_clear_of_the_counter_and_takes_no_keyboard(composer: Composer, qtbot: QtBot) -> None:
    composer.set_thinking(True)
    composer.set_counter(CounterView(8191, 8192))
    composer.resize(400, composer.sizeHint().height())
    assert composer._thinking.geometry().right() < composer._counter.geometry().left()
    composer._edit.setFocus()
    qtbot.mouseClick(composer._thinking, Qt.MouseButton.LeftButton)
    assert composer._edit.hasFocus()


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
    assert composer.take_content() == "Hello"
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


NOTES, SALES = attached("notes.md", "# Notes"), attached("sales.csv", "a,b\n1,2\n")


def test_what_is_attached_goes_with_the_message_and_comes_back_with_it(
    composer: Composer, sent: list[str]
) -> None:
    composer.files.add(NOTES)
    composer.files.add(SALES)
    composer.files.add(SALES)  # the same one again
    composer.set_text("Sum up")
    composer.submit()
    assert sent == [compose((NOTES, SALES), "Sum up")]
    assert (composer.content(), composer.files.row.isVisible()) == ("", False)
    composer.set_content(sent[0])
    assert (composer.text(), composer.files.files) == ("Sum up", (NOTES, SALES))


def test_a_file_alone_can_be_sent_but_not_while_it_is_being_read(composer: Composer, sent: list[str]) -> None:
    composer.files.begin("k", "notes.md")
    assert composer.files.row.chips[0].accessibleName() == "notes.md, reading…. Press to remove"
    composer.set_text("Sum up")
    assert not composer._button.isEnabled()
    composer.submit()
    assert sent == []
    composer.set_text("")
    composer.files.add(NOTES)
    composer.files.end("k")
    assert composer._button.isEnabled()
    composer.submit()
    assert sent == [compose((NOTES,), "")]


@pytest.mark.parametrize(
    "key", [Qt.Key.Key_Delete, Qt.Key.Key_Backspace, Qt.Key.Key_Return, Qt.Key.Key_Space]
)
def test_a_chip_is_removed_with_the_keys_and_the_field_has_them_again(
    composer: Composer, qtbot: QtBot, key: Qt.Key
) -> None:
    composer.set_content(compose((NOTES, SALES), "x"))
    composer.files.row.chips[0].setFocus(Qt.FocusReason.TabFocusReason)
    qtbot.keyClick(composer.files.row.chips[0], key)
    assert composer.files.files == (SALES,)
    assert composer._edit.hasFocus()


def test_only_the_cross_of_a_chip_removes_it_with_the_mouse(composer: Composer, qtbot: QtBot) -> None:
    composer.files.add(NOTES)
    chip = composer.files.row.chips[0]
    qtbot.mouseClick(chip, Qt.MouseButton.LeftButton, pos=QPoint(20, 14))
    assert composer.files.files == (NOTES,)
    qtbot.mouseClick(chip, Qt.MouseButton.LeftButton, pos=QPoint(chip.width() - 10, 14))
    assert composer.files.files == ()


def test_chips_say_what_they_cost_and_lie_inside_the_field(composer: Composer) -> None:
    files = [attached(f"a-file-with-a-long-name-{number}.json", str(number)) for number in range(10)]
    composer.set_content(compose(files, "x"))
    composer.files.set_costs({files[0]: 1204})
    chips = composer.files.row.chips
    assert "1,204" in chips[0].accessibleName()
    assert all(chip.geometry().right() < composer.files.row.width() for chip in chips)
    assert chips[-1].geometry().bottom() < composer._edit.geometry().top()
    assert composer._edit.height() >= 22
    assert composer._edit.geometry().bottom() <= composer._button.geometry().top()


def test_the_counter_blames_a_file_that_is_too_long(composer: Composer) -> None:
    composer.files.add(NOTES)
    composer.set_counter(CounterView(518, 512))
    assert composer._hints.error.startswith("6 tokens too long.")
    assert not composer._button.isEnabled()


def test_the_clip_asks_for_files_and_leaves_the_keyboard_to_the_field(
    composer: Composer, qtbot: QtBot
) -> None:
    composer._edit.setFocus()
    with qtbot.waitSignal(composer.attach_clicked):
        qtbot.mouseClick(composer._clip, Qt.MouseButton.LeftButton)
    assert composer._edit.hasFocus()
