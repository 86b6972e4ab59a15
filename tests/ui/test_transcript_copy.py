"""What is copied: exact code, whole messages as they came, selections as text and as Markdown."""

from __future__ import annotations

from PySide6.QtCore import QMimeData, QPoint, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from tests.ui.transcripts import find, point_of, say, settle
from ui.blocks import ProseItem
from ui.code_block import COPY, CodeItem
from ui.marks import StatsItem
from ui.message_actions import COPY_MESSAGE
from ui.transcript import Transcript

RAW = "# Head\n\n**bold** $x^2$\n\n```\ncode\n```\n\n" + "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 300


def test_an_answer_is_shown_as_it_came_and_formatted_again(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.show_messages([say("user", "hi"), say("assistant", RAW), say("user", "more")])
    settle(transcript, qtbot)
    before = [item.text(0, item.length) for item in transcript.flow.items]
    actions = {action.text(): action for action in transcript.make_menu(transcript.flow.items[2]).actions()}
    actions["Show raw text"].trigger()
    settle(transcript, qtbot)
    raw = [
        item for item in transcript.flow.items if item.owner == "assistant" and isinstance(item, ProseItem)
    ]
    assert "\n".join(item.text(0, item.length) for item in raw) == RAW.removesuffix("\n")
    assert transcript.message_text("assistant") == RAW
    assert "Show formatted" in [action.text() for action in transcript.make_menu(raw[0]).actions()]
    transcript.toggle_raw("assistant")
    settle(transcript, qtbot)
    assert [item.text(0, item.length) for item in transcript.flow.items] == before


def test_all_of_a_chat_is_copied_as_text_and_as_markdown(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.show_messages([say("user", "hi"), say("assistant", "a **b** $x^2$")])
    settle(transcript, qtbot)
    qtbot.keyClick(transcript, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    qtbot.keyClick(transcript, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert clipboard() == "hi\n\na b x²"
    actions = {action.text(): action for action in transcript.make_menu(None).actions()}
    actions["Copy as Markdown"].trigger()
    assert clipboard() == "hi\n\na **b** $x^2$"


def clipboard() -> str:
    return QGuiApplication.clipboard().text()


def test_copy_takes_the_code_and_says_so_for_two_seconds(transcript: Transcript, qtbot: QtBot) -> None:
    code = "\tif x:\n\n\t\ty = '\u00a0'  "
    transcript.show_messages([say("assistant", f"```python\n{code}\n```")])
    index = find(transcript, CodeItem)
    item = transcript.flow.items[index]
    at = point_of(transcript, index, 680, 16)
    qtbot.mouseClick(transcript.viewport(), Qt.MouseButton.LeftButton, pos=at)
    mime: QMimeData = QGuiApplication.clipboard().mimeData()
    assert mime.hasText()
    assert clipboard() == code
    assert transcript._look(index, item).done == COPY
    transcript._done_timer.timeout.emit()
    assert transcript._look(index, item).done == ""


def test_copied_is_said_while_the_block_is_still_written(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.show_messages([say("assistant", "```python\nx = 1", "writing", "a")])
    assert transcript.copy_last_code()
    transcript.append_text("a", "\ny = 2")
    settle(transcript, qtbot)
    index = find(transcript, CodeItem)
    assert clipboard() == "x = 1"
    assert transcript._look(index, transcript.flow.items[index]).done == COPY


def test_the_copy_action_of_an_answer_takes_its_markdown(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.show_messages([say("assistant", "**bold** words")])
    index = find(transcript, StatsItem)
    [copy] = [each for each in transcript.flow.items[index].controls() if each.action == COPY_MESSAGE]
    at = point_of(transcript, index, round(copy.rect.center().x()), 14)
    qtbot.mouseClick(transcript.viewport(), Qt.MouseButton.LeftButton, pos=at)
    assert clipboard() == "**bold** words"


def test_actions_show_for_the_last_answer_and_the_one_under_the_pointer(
    transcript: Transcript, qtbot: QtBot
) -> None:
    transcript.show_messages([say("assistant", "one", name="1"), say("assistant", "two", name="2")])
    stats = [index for index, item in enumerate(transcript.flow.items) if isinstance(item, StatsItem)]
    shown = [transcript._look(index, transcript.flow.items[index]).shows_actions for index in stats]
    assert shown == [False, True]
    qtbot.mouseMove(transcript.viewport(), point_of(transcript, 0, 10, 5))
    qtbot.waitUntil(lambda: transcript._look(stats[0], transcript.flow.items[stats[0]]).shows_actions)


def drag(transcript: Transcript, qtbot: QtBot, start: QPoint, end: QPoint) -> None:
    view = transcript.viewport()
    qtbot.mousePress(view, Qt.MouseButton.LeftButton, pos=start)
    qtbot.mouseMove(view, end)
    QApplication.processEvents()
    qtbot.mouseRelease(view, Qt.MouseButton.LeftButton, pos=end)


def test_a_selection_over_blocks_is_copied_and_survives_new_text(writing: Transcript, qtbot: QtBot) -> None:
    index = writing.visible_range()[0] + 2
    drag(writing, qtbot, point_of(writing, index, 0, 5), point_of(writing, index + 1, 700, 15))
    text = writing.selected_text()
    assert text.startswith("Paragraph ")
    assert text.count("\n\n") == 1
    writing.append_text("a", "\n\nmore")
    settle(writing, qtbot)
    assert writing.selected_text() == text
    qtbot.keyClick(writing, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert clipboard() == text


def test_a_double_click_selects_a_word(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.show_messages([say("assistant", "Some words here")])
    qtbot.mouseDClick(transcript.viewport(), Qt.MouseButton.LeftButton, pos=point_of(transcript, 0, 60, 10))
    assert transcript.selected_text() == "words"


def test_the_menu_copies_message_and_code(transcript: Transcript) -> None:
    transcript.show_messages([say("assistant", "a\n\n```\ncode\n```")])
    menu = transcript.make_menu(transcript.flow.items[find(transcript, CodeItem)])
    actions = {action.text(): action for action in menu.actions()}
    assert not actions["Copy"].isEnabled()
    actions["Copy code"].trigger()
    assert clipboard() == "code"
    actions["Copy message"].trigger()
    assert clipboard() == "a\n\n```\ncode\n```"
