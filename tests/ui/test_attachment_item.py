"""Attached texts in the transcript: a chip above the bubble, folded until someone opens it."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from ui.attachment_item import SHOWN_LINES, AttachmentItem, MoreLinesItem, opened
from ui.attachment_text import attached, compose
from ui.bubble import BubbleItem
from ui.chat_values import MessageView
from ui.code_block import CodeItem
from ui.message_actions import COPY_MESSAGE, EDIT
from ui.transcript import Transcript

SALES, NOTES = attached("sales.csv", "a,b\n1,2\n"), attached("notes.md", "# One")


@pytest.fixture
def transcript(qtbot: QtBot) -> Transcript:
    made = Transcript()
    qtbot.addWidget(made)
    made.resize(800, 600)
    made.show()
    return made


def show(transcript: Transcript, content: str, status: str = "done") -> None:
    transcript.show_messages([MessageView("m", "user", content, status)])


def kinds(transcript: Transcript) -> list[type]:
    return [type(item) for item in transcript.flow.items]


def test_files_stand_as_chips_above_what_was_typed(transcript: Transcript) -> None:
    show(transcript, compose((SALES, NOTES), "Sum up"))
    assert kinds(transcript) == [AttachmentItem, AttachmentItem, BubbleItem]
    assert transcript.message_text("m") == "Sum up"
    names = [control.name for item in transcript.flow.items for control in item.controls()]
    assert names[:2] == ["Attached sales.csv, collapsed", "Attached notes.md, collapsed"]


def test_a_chip_opens_what_is_in_the_file_and_closes_it(transcript: Transcript) -> None:
    show(transcript, compose((SALES, NOTES), "Sum up"))
    transcript.toggle_file("m", 0)
    assert kinds(transcript) == [AttachmentItem, CodeItem, AttachmentItem, BubbleItem]
    code = transcript.flow.items[1]
    assert isinstance(code, CodeItem)
    assert code.source.text() == "a,b\n1,2"
    transcript.set_message(MessageView("m", "user", compose((SALES, NOTES), "Sum up"), "queued"))
    assert CodeItem in kinds(transcript)  # another state of the message closes nothing
    transcript.toggle_file("m", 0)
    assert CodeItem not in kinds(transcript)


def test_files_without_words_bear_the_messages_buttons(transcript: Transcript) -> None:
    show(transcript, compose((SALES, NOTES), ""))
    assert kinds(transcript) == [AttachmentItem, AttachmentItem]
    first, last = transcript.flow.items
    assert [control.action for control in first.controls()] == ["toggle-file"]
    assert [control.action for control in last.controls()] == [COPY_MESSAGE, EDIT, "toggle-file"]


def test_a_long_text_is_shown_in_part_and_copied_whole() -> None:
    text = "\n".join(map(str, range(SHOWN_LINES + 5)))
    items = opened(attached("numbers.txt", text))
    assert isinstance(items[-1], MoreLinesItem)
    assert items[-1].sentence.startswith("5 more lines")
    code = items[0]
    assert isinstance(code, CodeItem)
    assert code.source.text() == text
    assert sum(item.length for item in items if isinstance(item, CodeItem)) < len(text)


def test_the_keys_open_a_chip(transcript: Transcript, qtbot: QtBot) -> None:
    from PySide6.QtCore import Qt

    show(transcript, compose((SALES,), "Sum up"))
    transcript.setFocus()
    qtbot.keyClick(transcript, Qt.Key.Key_Up)
    qtbot.keyClick(transcript, Qt.Key.Key_Tab)
    qtbot.keyClick(transcript, Qt.Key.Key_Return)
    assert CodeItem in kinds(transcript)
