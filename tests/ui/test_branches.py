"""Branches and edits in the transcript: arrows, buttons, keys, and the line above the composer."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from PySide6.QtCore import QPointF, Qt
from pytestqt.qtbot import QtBot

from ui.blocks import Item
from ui.bubble import BubbleItem
from ui.chat_values import MessageView
from ui.edit_bar import EDITING, EDITING_ANSWER, TEMPORARY
from ui.main_window import MainWindow
from ui.marks import StatsItem
from ui.message_actions import COPY_MESSAGE, EDIT, NEXT, PREVIOUS, REGENERATE, MessageActions
from ui.transcript import Transcript

QUESTION = MessageView("u", "user", "Tell me", branch=1, branches=2)
ANSWER = MessageView("a", "assistant", "Once upon", stats="41 tokens", branch=2, branches=3)


@pytest.fixture
def window(qtbot: QtBot) -> MainWindow:
    made = MainWindow()
    qtbot.addWidget(made)
    made.resize(1400, 800)
    made.show()
    made.activateWindow()
    made.show_chat([QUESTION, ANSWER])
    return made


@pytest.fixture
def transcript(window: MainWindow) -> Transcript:
    return window.body.centre.transcript


def press(transcript: Transcript, qtbot: QtBot, kind: type[Item], action: str) -> None:
    [place] = [number for number, item in enumerate(transcript.flow.items) if isinstance(item, kind)]
    [control] = [each for each in transcript.flow.items[place].controls() if each.action == action]
    at = transcript.item_rect(place).topLeft() + control.rect.center().toPoint()
    qtbot.mouseClick(transcript.viewport(), Qt.MouseButton.LeftButton, pos=at)


@pytest.mark.parametrize(
    ("kind", "action", "signal", "args"),
    [
        (StatsItem, EDIT, "edit_requested", ["a"]),
        (StatsItem, REGENERATE, "regenerate_requested", ["a"]),
        (StatsItem, PREVIOUS, "branch_requested", ["a", -1]),
        (StatsItem, NEXT, "branch_requested", ["a", 1]),
        (BubbleItem, EDIT, "edit_requested", ["u"]),
        (BubbleItem, NEXT, "branch_requested", ["u", 1]),
    ],
)
def test_a_click_asks_for_what_the_button_says(
    window: MainWindow,
    transcript: Transcript,
    qtbot: QtBot,
    kind: type[Item],
    action: str,
    signal: str,
    args: list[object],
) -> None:
    with qtbot.waitSignal(getattr(window.chats, signal)) as asked:
        press(transcript, qtbot, kind, action)
    assert asked.args == args


def test_there_is_no_arrow_beyond_the_first_and_the_last_branch() -> None:
    def arrows(place: int, count: int) -> list[str]:
        return [each.action for each in MessageActions((), (place, count)).controls(300, 0)]

    assert arrows(1, 1) == []
    assert arrows(1, 3) == [NEXT]
    assert arrows(2, 3) == [PREVIOUS, NEXT]
    assert arrows(3, 3) == [PREVIOUS]


def test_buttons_stand_apart_and_where_their_targets_are() -> None:
    controls = MessageActions((COPY_MESSAGE, EDIT), (2, 12)).controls(300, 5)
    assert [control.action for control in controls] == [COPY_MESSAGE, EDIT, PREVIOUS, NEXT]
    for before, after in pairwise(controls):
        assert before.rect.right() < after.rect.left()
    assert controls[-1].rect.right() == 300
    assert {control.name for control in controls} >= {"Branch 1 of 12", "Branch 3 of 12"}


def test_a_bubble_leaves_room_for_its_buttons(transcript: Transcript, window: MainWindow) -> None:
    long = replace(QUESTION, text="long words " * 200, branch=2, branches=3)
    for width in (1400, 1024, 800):
        window.resize(width, 700)
        transcript.show_messages([long])
        bubble = transcript.flow.items[0]
        assert all(control.rect.left() >= 0 for control in bubble.controls())
        assert bubble.action_at(QPointF(bubble.controls()[0].rect.center())) == COPY_MESSAGE


def test_keys_regenerate_and_step_the_last_branching_message(window: MainWindow, qtbot: QtBot) -> None:
    with qtbot.waitSignal(window.chats.regenerate_requested) as asked:
        qtbot.keyClick(window, Qt.Key.Key_R, Qt.KeyboardModifier.ControlModifier)
    assert asked.args == [""]
    with qtbot.waitSignal(window.chats.branch_requested) as asked:
        qtbot.keyClick(window, Qt.Key.Key_Left, Qt.KeyboardModifier.AltModifier)
    assert asked.args == ["a", -1]


def test_keys_act_on_the_chosen_message(window: MainWindow, transcript: Transcript, qtbot: QtBot) -> None:
    transcript.setFocus()
    qtbot.keyClick(transcript, Qt.Key.Key_Up)
    qtbot.keyClick(transcript, Qt.Key.Key_Up)
    with qtbot.waitSignal(window.chats.edit_requested) as asked:
        qtbot.keyClick(transcript, Qt.Key.Key_E)
    assert asked.args == ["u"]
    with qtbot.waitSignal(window.chats.branch_requested) as asked:
        qtbot.keyClick(window, Qt.Key.Key_Right, Qt.KeyboardModifier.AltModifier)
    assert asked.args == ["u", 1]


def test_the_line_above_the_composer_says_what_is_edited(window: MainWindow, qtbot: QtBot) -> None:
    bar = window.body.centre.edit_bar
    assert not bar.isVisible()
    window.chats.begin_edit("u", is_answer=False)
    assert (bar.isVisible(), bar._text.text()) == (True, EDITING)
    with qtbot.waitSignal(window.chats.edit_cancelled):
        qtbot.keyClick(window, Qt.Key.Key_Escape)
    window.chats.begin_edit("a", is_answer=True)
    assert bar._text.text() == EDITING_ANSWER
    window.chats.end_edit()
    assert not bar.isVisible()
    window.chats.set_temporary(True)
    assert (bar.isVisible(), bar._text.text()) == (True, TEMPORARY)
    with qtbot.assertNotEmitted(window.chats.edit_cancelled):
        qtbot.keyClick(window, Qt.Key.Key_Escape)


def test_an_answer_that_is_written_has_arrows_and_no_buttons(transcript: Transcript) -> None:
    transcript.show_messages([QUESTION, replace(ANSWER, status="writing")])
    stats = next(item for item in transcript.flow.items if isinstance(item, StatsItem))
    assert [control.action for control in stats.controls()] == [PREVIOUS, NEXT]


def test_a_message_that_is_revealed_stands_near_the_top(transcript: Transcript, qtbot: QtBot) -> None:
    views = [MessageView(str(n), "user" if n % 2 else "assistant", f"text {n}\n\n" * 9) for n in range(120)]
    transcript.show_messages(views)
    transcript.reveal("20")
    qtbot.waitUntil(lambda: not transcript.is_busy)
    message = next(each for each in transcript._messages if each.view.message_id == "20")
    top = transcript.item_rect(message.start).top()
    assert 0 <= top <= transcript.viewport().height() // 2
    assert not transcript.is_following
    transcript.reveal("nobody")
