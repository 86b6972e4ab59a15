"""The list of chats: what it shows and what it emits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, QRectF, Qt
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import QLineEdit
from pytestqt.qtbot import QtBot

from ui.chat_list import ROW_ROLE, ChatList
from ui.chat_values import ChatRow

ROWS = (
    ChatRow("a", "First chat", "SmolLM2 · 90 tok/s", "Today", is_writing=True),
    ChatRow("b", "Second <b>chat</b>", "", "Today"),
    ChatRow("c", "Third chat", "", "Yesterday"),
)


@pytest.fixture
def chats(qtbot: QtBot) -> ChatList:
    view = ChatList()
    qtbot.addWidget(view)
    view.resize(228, 400)
    view.set_rows(ROWS, "a")
    view.show()
    return view


def texts(view: ChatList) -> list[str]:
    return [view.chats.index(row).data() for row in range(view.chats.rowCount())]


def center(view: ChatList, chat_id: str) -> QPoint:
    return view.visualRect(view.chats.index_of(chat_id)).center()


def test_rows_stand_under_their_headings(chats: ChatList) -> None:
    assert texts(chats) == ["Today", "First chat", "Second <b>chat</b>", "Yesterday", "Third chat"]


def test_a_heading_can_be_neither_chosen_nor_edited(chats: ChatList) -> None:
    assert chats.chats.index(0).flags() == Qt.ItemFlag.NoItemFlags


def test_a_row_reads_out_title_model_speed_and_writing(chats: ChatList) -> None:
    spoken = chats.chats.index_of("a").data(Qt.ItemDataRole.AccessibleTextRole)
    assert spoken == "First chat, SmolLM2, 90 tok/s, an answer is being written"


def test_a_title_is_never_rich_text_in_its_tooltip(chats: ChatList) -> None:
    assert "&lt;b&gt;" in chats.chats.index_of("b").data(Qt.ItemDataRole.ToolTipRole)


def test_a_click_opens_the_chat(chats: ChatList, qtbot: QtBot) -> None:
    with qtbot.waitSignal(chats.chat_selected) as caught:
        qtbot.mouseClick(chats.viewport(), Qt.MouseButton.LeftButton, pos=center(chats, "b"))
    assert caught.args == ["b"]


def test_arrows_move_over_headings_and_enter_opens(chats: ChatList, qtbot: QtBot) -> None:
    opened: list[str] = []
    chats.chat_selected.connect(opened.append)
    chats.setCurrentIndex(chats.chats.index_of("b"))
    qtbot.keyClick(chats, Qt.Key.Key_Down)
    assert opened == []
    qtbot.keyClick(chats, Qt.Key.Key_Return)
    assert opened == ["c"]


def test_delete_asks_for_the_focused_chat(chats: ChatList, qtbot: QtBot) -> None:
    chats.setCurrentIndex(chats.chats.index_of("c"))
    with qtbot.waitSignal(chats.chat_delete_requested) as caught:
        qtbot.keyClick(chats, Qt.Key.Key_Delete)
    assert caught.args == ["c"]


def rename(chats: ChatList, qtbot: QtBot, text: str, key: Qt.Key) -> None:
    chats.setCurrentIndex(chats.chats.index_of("b"))
    qtbot.keyClick(chats, Qt.Key.Key_F2)
    editor = chats.findChild(QLineEdit, "rename")
    assert isinstance(editor, QLineEdit)
    editor.setText(text)
    qtbot.keyClick(editor, key)


def test_f2_renames_and_single_spaces_remain(chats: ChatList, qtbot: QtBot) -> None:
    with qtbot.waitSignal(chats.chat_renamed) as caught:
        rename(chats, qtbot, "  a new\ttitle ", Qt.Key.Key_Return)
    assert caught.args == ["b", "a new title"]
    assert chats.chats.index_of("b").data() == "a new title"


@pytest.mark.parametrize(("text", "key"), [("other", Qt.Key.Key_Escape), ("  ", Qt.Key.Key_Return)])
def test_escape_or_an_empty_title_renames_nothing(
    chats: ChatList, qtbot: QtBot, text: str, key: Qt.Key
) -> None:
    with qtbot.assertNotEmitted(chats.chat_renamed):
        rename(chats, qtbot, text, key)
    assert chats.chats.index_of("b").data() == "Second <b>chat</b>"


def test_changed_texts_rebuild_no_row(chats: ChatList, qtbot: QtBot) -> None:
    chats.setCurrentIndex(chats.chats.index_of("c"))
    with qtbot.assertNotEmitted(chats.chats.modelReset):
        chats.set_rows([replace(row, detail="new", is_writing=False) for row in ROWS], "c")
    assert chats.chats.index_of("a").data(ROW_ROLE).detail == "new"
    assert chats.currentIndex() == chats.chats.index_of("c")


def test_the_focused_chat_stays_focused_when_the_order_changes(
    chats: ChatList, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chats, "underMouse", lambda: False)
    chats.setCurrentIndex(chats.chats.index_of("b"))
    chats.set_rows([ROWS[1], ROWS[0], ROWS[2]], "a")
    assert chats.currentIndex() == chats.chats.index_of("b")
    assert chats.chats.chat_ids() == ["b", "a", "c"]


def test_no_row_moves_under_the_pointer(chats: ChatList, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chats, "underMouse", lambda: True)
    chats.set_rows([replace(ROWS[1], title="Second"), ROWS[0], ROWS[2]], "b")
    assert chats.chats.chat_ids() == ["a", "b", "c"]
    assert chats.chats.index_of("b").data() == "Second"
    chats.put_in_order()
    assert chats.chats.chat_ids() == ["b", "a", "c"]


def test_a_letter_is_left_for_the_composer(chats: ChatList, qtbot: QtBot) -> None:
    chats.setCurrentIndex(chats.chats.index_of("a"))
    qtbot.keyClick(chats, Qt.Key.Key_T)
    assert chats.currentIndex() == chats.chats.index_of("a")


def test_the_enter_that_ends_a_rename_does_not_open_the_chat(chats: ChatList, qtbot: QtBot) -> None:
    chats.setFocus()
    chats.setCurrentIndex(chats.chats.index_of("b"))
    chats.rename(chats.currentIndex())
    editor = chats.findChild(QLineEdit, "rename")
    assert isinstance(editor, QLineEdit)
    editor.setText("Another title")
    with qtbot.assertNotEmitted(chats.chat_selected), qtbot.waitSignal(chats.chat_renamed):
        qtbot.keyClick(editor, Qt.Key.Key_Return)


def test_a_title_takes_the_whole_row_while_no_menu_is_shown(
    chats: ChatList, monkeypatch: pytest.MonkeyPatch
) -> None:
    widths: dict[str, float] = {}
    draw = QPainter.drawText

    def watch(painter: QPainter, box: QRectF, flags: int, text: str) -> None:
        widths[text] = box.width()
        draw(painter, box, flags, text)

    monkeypatch.setattr(QPainter, "drawText", watch)
    chats.grab()
    assert widths["Third chat"] == widths["First chat"] + 28  # the open chat shows its menu
