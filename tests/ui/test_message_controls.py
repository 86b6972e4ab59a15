"""What can be pressed in a message: continue an answer, make room; by pointer, by keys, by menu."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from tests.ui import states
from ui import theme
from ui.blocks import Item, ProseItem
from ui.bubble import BubbleItem
from ui.chat_values import MessageView
from ui.control_focus import controls_of
from ui.main_window import MainWindow
from ui.marks import MAKE_ROOM, MarkerItem, StatsItem, WaitingItem
from ui.message_actions import CONTINUE, COPY_MESSAGE, EDIT, REGENERATE
from ui.transcript import Transcript
from ui.tuning_values import TuningView

FULL = "Context full: 14 earlier messages (2,310 tokens) left out"
QUESTION = MessageView("u", "user", "Tell me")
ANSWER = MessageView("a", "assistant", "Once upon", "stopped", "41 tokens · 90.1 tok/s")


@pytest.fixture
def transcript(qtbot: QtBot) -> Transcript:
    made = Transcript()
    qtbot.addWidget(made)
    made.resize(840, 600)
    made.show()
    made.show_messages([QUESTION, ANSWER])
    return made


BASIC = [COPY_MESSAGE, EDIT, REGENERATE]


def actions(transcript: Transcript, number: int = -1) -> list[str]:
    return [control.action for _, control in controls_of(transcript._messages[number])]


def press(transcript: Transcript, qtbot: QtBot, kind: type[Item], action: str) -> None:
    """Click the control of the last piece of that kind."""
    places = [place for place, item in enumerate(transcript.flow.items) if isinstance(item, kind)]
    item = transcript.flow.items[places[-1]]
    [rect] = [control.rect for control in item.controls() if control.action == action]
    at = transcript.item_rect(places[-1]).topLeft() + rect.center().toPoint()
    qtbot.mouseClick(transcript.viewport(), Qt.MouseButton.LeftButton, pos=at)


@pytest.mark.parametrize("kind", [StatsItem, MarkerItem])
def test_a_click_continues_the_last_answer(transcript: Transcript, qtbot: QtBot, kind: type[Item]) -> None:
    with qtbot.waitSignal(transcript.continue_clicked) as caught:
        press(transcript, qtbot, kind, CONTINUE)
    assert caught.args == ["a"]


@pytest.mark.parametrize(
    ("status", "text", "found"),
    [
        ("stopped", "Once", [*BASIC, CONTINUE, CONTINUE]),
        ("length", "Once", [*BASIC, CONTINUE, CONTINUE]),
        ("failed", "Once", [*BASIC, CONTINUE, CONTINUE]),
        ("context", "Once", [*BASIC, CONTINUE, MAKE_ROOM]),
        ("done", "Once", BASIC),
        ("writing", "Once", []),
        ("waiting", "Once", []),
        ("stopped", "", [REGENERATE]),  # there is nothing to go on from
    ],
)
def test_what_can_be_done_goes_by_how_an_answer_ended(
    transcript: Transcript, status: str, text: str, found: list[str]
) -> None:
    transcript.show_messages([QUESTION, replace(ANSWER, status=status, text=text)])
    assert actions(transcript) == found
    assert transcript.can_go_on("a") == (CONTINUE in found)


def test_only_the_last_answer_can_go_on(transcript: Transcript) -> None:
    transcript.append_message(replace(QUESTION, message_id="u2"))
    assert actions(transcript, 1) == BASIC
    transcript.show_messages([QUESTION, ANSWER, replace(QUESTION, message_id="u2")])
    assert actions(transcript, 1) == BASIC
    assert not transcript.can_go_on("a")


def test_a_thought_that_was_stopped_can_go_on(transcript: Transcript) -> None:
    transcript.show_messages([QUESTION, replace(ANSWER, text="", thinking="Hm", thinking_s=2.0)])
    assert actions(transcript) == ["toggle-thought", REGENERATE, CONTINUE, CONTINUE]


def test_an_answer_that_goes_on_grows_where_it_stands(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.set_message(replace(ANSWER, status="reading", stats=""))
    assert actions(transcript) == []
    transcript.append_text("a", " a time")
    qtbot.waitUntil(lambda: not transcript.is_busy)
    assert transcript.message_text("a") == "Once upon a time"
    transcript.set_message(replace(ANSWER, text="Once upon a time.", status="done"))
    assert sum(isinstance(item, ProseItem) for item in transcript.flow.items) == 1
    assert actions(transcript) == BASIC


def test_tab_goes_through_the_controls_and_enter_presses(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.setFocus(Qt.FocusReason.TabFocusReason)
    said: list[str] = []
    for _ in range(4):
        qtbot.keyClick(transcript, Qt.Key.Key_Tab)
        said.append(transcript.accessibleDescription())
    assert said == ["Copy", "Edit", "Regenerate", "Continue the answer"]
    with qtbot.waitSignal(transcript.continue_clicked):
        qtbot.keyClick(transcript, Qt.Key.Key_Return)
    qtbot.keyClick(transcript, Qt.Key.Key_Tab)
    with qtbot.waitSignal(transcript.continue_clicked):
        qtbot.keyClick(transcript, Qt.Key.Key_Space)
    for _ in range(4):
        qtbot.keyClick(transcript, Qt.Key.Key_Backtab)
    assert transcript.accessibleDescription() == "Copy"


def test_up_chooses_a_message_and_tab_what_is_in_it(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.show_messages([replace(QUESTION, left_out=FULL), ANSWER])
    for _ in range(2):
        qtbot.keyClick(transcript, Qt.Key.Key_Up)
    qtbot.keyClick(transcript, Qt.Key.Key_Tab)
    assert transcript.accessibleDescription() == "Make room"
    with qtbot.waitSignal(transcript.room_clicked):
        qtbot.keyClick(transcript, Qt.Key.Key_Return)
    qtbot.keyClick(transcript, Qt.Key.Key_Down)  # leaves the control
    with qtbot.assertNotEmitted(transcript.room_clicked):
        qtbot.keyClick(transcript, Qt.Key.Key_Return)


def test_tab_leaves_the_chat_behind_the_last_control(window: MainWindow, qtbot: QtBot) -> None:
    transcript = window.body.centre.transcript
    transcript.show_messages([QUESTION, replace(ANSWER, status="done")])
    window.activateWindow()
    transcript.setFocus(Qt.FocusReason.TabFocusReason)
    for _ in BASIC:
        qtbot.keyClick(transcript, Qt.Key.Key_Tab)
        assert QApplication.focusWidget() is transcript
    qtbot.keyClick(transcript, Qt.Key.Key_Tab)
    assert QApplication.focusWidget() is not transcript
    transcript.setFocus(Qt.FocusReason.TabFocusReason)
    qtbot.keyClick(transcript, Qt.Key.Key_Backtab)
    assert QApplication.focusWidget() is not transcript


def test_the_menu_of_an_unfinished_answer_continues_it(transcript: Transcript, qtbot: QtBot) -> None:
    item = next(item for item in transcript.flow.items if isinstance(item, ProseItem))
    menu = transcript.make_menu(item)
    [entry] = [action for action in menu.actions() if action.text() == "Continue"]
    with qtbot.waitSignal(transcript.continue_clicked):
        entry.trigger()
    bubble = next(item for item in transcript.flow.items if isinstance(item, BubbleItem))
    assert "Continue" not in [action.text() for action in transcript.make_menu(bubble).actions()]


def test_the_marker_stands_above_the_question(transcript: Transcript) -> None:
    transcript.show_messages([QUESTION, ANSWER, replace(QUESTION, message_id="u2")])
    transcript.set_message(replace(QUESTION, message_id="u2", left_out=FULL))
    marker, bubble = transcript.flow.items[-2:]
    assert isinstance(marker, MarkerItem)
    assert isinstance(bubble, BubbleItem)
    assert marker.sentence == FULL
    assert marker.gap == bubble.gap == 16


def test_a_narrow_marker_keeps_its_link_whole(transcript: Transcript) -> None:
    transcript.resize(330, 600)
    transcript.show_messages([replace(QUESTION, left_out=FULL)])
    marker = transcript.flow.items[0]
    [control] = marker.controls()
    assert control.rect.right() <= transcript.flow.width
    assert control.rect.left() > 0


def test_messages_that_are_left_out_are_set_back_and_brought_forward(transcript: Transcript) -> None:
    text = "Words.\n\n```python\nx = 1\n```\n\n|a|\n|-|\n|b|"
    transcript.show_messages([QUESTION, replace(ANSWER, text=text), replace(QUESTION, message_id="u2")])
    height = transcript.flow.height
    before = transcript.grab().toImage()
    transcript.set_left_out({"u", "a"})
    after = transcript.grab().toImage()
    assert after != before
    assert transcript.flow.height == height
    left_out = {item.owner for item in transcript.flow.items if item.is_left_out}
    assert left_out == {"u", "a"}
    transcript.append_message(replace(ANSWER, message_id="a2"))
    assert not any(item.is_left_out for item in transcript.flow.items if item.owner == "a2")
    transcript.set_left_out(())
    assert not any(item.is_left_out for item in transcript.flow.items)


def test_what_an_answer_waits_for_stands_in_its_place(transcript: Transcript) -> None:
    words = "Waiting for room: another chat is being answered"
    transcript.show_messages([QUESTION, replace(ANSWER, text="", status="waiting", stats=words)])
    last = transcript.flow.items[-1]
    assert isinstance(last, WaitingItem)
    assert last.sentence == words
    transcript.set_message(replace(ANSWER, status="waiting", stats=words))
    assert isinstance(transcript.flow.items[-1], StatsItem)
    assert transcript.flow.items[-1]._stats == words
    transcript.set_message(replace(ANSWER, status="reading", stats="1,204 tokens"))
    last = transcript.flow.items[-1]
    assert isinstance(last, StatsItem)
    assert last._stats == "Reading the chat… 1,204 tokens"


# In the window


@pytest.fixture
def window(qtbot: QtBot, qapp: QApplication) -> MainWindow:
    theme.apply(qapp, "dark")
    made = MainWindow()
    qtbot.addWidget(made)
    made.resize(1440, 900)
    made.show()
    states.fill(made)
    made.set_composer_text("")
    return made


WIDE = replace(
    states.TUNING,
    context_stops=(2048, 4096, 8192, 16384, 32768),
    loaded_context=4096,
    chosen_context=4096,
    trained_context=32768,
)


@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize("width", [1440, 1024, 800])
def test_make_room_opens_tuning_with_the_next_context_chosen(
    window: MainWindow, qtbot: QtBot, is_open: bool, width: int
) -> None:
    window.resize(width, 700)
    window.set_panels(True, is_open)
    window.set_tuning(WIDE)
    with qtbot.waitSignal(window.context_chosen) as caught:
        window.body.centre.transcript.room_clicked.emit()
    assert caught.args == [8192]
    assert window.body.tuning.isVisible()
    assert window.focusWidget() is window.body.tuning.settings.context


MEMORY, MODEL = "No longer context fits with room to spare.", "This model's context ends at 32,768 tokens."


@pytest.mark.parametrize(
    ("view", "title"),
    [
        (replace(WIDE, tight_from=8192), MEMORY),
        (replace(WIDE, no_fit_from=8192), MEMORY),
        (replace(WIDE, loaded_context=32768), MODEL),
    ],
)
def test_where_no_larger_context_fits_that_is_said(
    window: MainWindow, qtbot: QtBot, view: TuningView, title: str
) -> None:
    window.set_tuning(view)
    with qtbot.assertNotEmitted(window.context_chosen):
        window.body.centre.transcript.room_clicked.emit()
    notice = window.body.centre.notice.view
    assert notice is not None and notice.title == title
    assert ("precision" in notice.text) == (title == MEMORY)  # which moves no end of a model


def test_continue_leaves_as_an_intent_and_the_keyboard_goes_to_the_composer(
    window: MainWindow, qtbot: QtBot
) -> None:
    window.activateWindow()
    with qtbot.waitSignal(window.continue_requested) as caught:
        window.body.centre.transcript.continue_clicked.emit("m4")
    assert caught.args == ["m4"]
    composer = window.body.centre.composer
    assert window.focusWidget() is (composer.focusProxy() or composer)


def test_a_press_that_slips_off_the_link_does_nothing(transcript: Transcript, qtbot: QtBot) -> None:
    place = next(n for n, item in enumerate(transcript.flow.items) if isinstance(item, MarkerItem))
    [control] = transcript.flow.items[place].controls()
    at = transcript.item_rect(place).topLeft() + control.rect.center().toPoint()
    with qtbot.assertNotEmitted(transcript.continue_clicked):
        qtbot.mousePress(transcript.viewport(), Qt.MouseButton.LeftButton, pos=at)
        qtbot.mouseRelease(transcript.viewport(), Qt.MouseButton.LeftButton, pos=at - QPoint(200, 0))


def test_room_for_so_many_tokens_passes_over_contexts_that_are_too_short(
    window: MainWindow, qtbot: QtBot
) -> None:
    window.set_tuning(WIDE)
    with qtbot.waitSignal(window.context_chosen) as caught:
        window.make_room(8193)
    assert caught.args == [16384]
    with qtbot.assertNotEmitted(window.context_chosen):
        window.make_room(40_000)
    notice = window.body.centre.notice.view
    assert notice is not None and notice.title == MODEL
