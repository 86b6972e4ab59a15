"""Pinned chats, folders and their menus in the list."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import QModelIndex, QPoint, Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QLineEdit, QMenu
from pytestqt.qtbot import QtBot

from ui.chat_list import ChatList
from ui.chat_values import ChatRow, FolderRow

FOLDERS = (FolderRow("f", "Garden", 2), FolderRow("g", "Work", 1, is_open=False))
SORTED = (
    ChatRow("t", "Secret", "", "Temporary", is_temporary=True),
    ChatRow("p", "Pinned one", "m", "Pinned", is_pinned=True, folder_id="f"),
    ChatRow("a", "Apples", "m", "Today", folder_id="f"),
    ChatRow("w", "Letter", "m", "Today", folder_id="g"),
    ChatRow("z", "Other", "m", "Earlier", folder_id="gone"),
)


@pytest.fixture
def chats(qtbot: QtBot) -> ChatList:
    view = ChatList()
    qtbot.addWidget(view)
    view.resize(228, 600)
    view.show()
    return view


def submenu(action: QAction) -> dict[str, QAction]:
    menu = action.menu()
    assert isinstance(menu, QMenu)
    return {each.text(): each for each in menu.actions()}


def shown(chats: ChatList) -> list[str]:
    model = chats.chats
    return [model.data(model.index(row)) for row in range(model.rowCount())]


def test_pinned_chats_folders_and_days_follow_each_other(chats: ChatList) -> None:
    chats.set_folders(FOLDERS)
    chats.set_rows(SORTED, "a")
    assert shown(chats) == [
        *("Temporary", "Secret", "Pinned", "Pinned one"),
        *("Garden", "Apples", "Work", "Earlier", "Other"),
    ]
    chats.set_folders([replace(FOLDERS[0], is_open=False), replace(FOLDERS[1], is_open=True)])
    assert shown(chats)[4:7] == ["Garden", "Work", "Letter"]


def test_signs_are_spoken_and_told(chats: ChatList) -> None:
    chats.set_folders(FOLDERS)
    chats.set_rows(SORTED, "a")
    model = chats.chats

    def spoken(index: QModelIndex) -> str:
        return str(model.data(index, Qt.ItemDataRole.AccessibleTextRole))

    assert spoken(model.index_of("p")) == "Pinned one, m, pinned"
    assert spoken(model.index_of("t")) == "Secret, not stored"
    assert spoken(model.index_of_folder("f")) == "Garden, folder, 2 chats, open"
    assert spoken(model.index_of_folder("g")) == "Work, folder, 1 chat, closed"


def test_keys_open_close_rename_and_delete_a_folder(chats: ChatList, qtbot: QtBot) -> None:
    chats.set_folders(FOLDERS)
    chats.set_rows(SORTED, "a")
    chats.setCurrentIndex(chats.chats.index_of_folder("f"))
    for key in (Qt.Key.Key_Return, Qt.Key.Key_Left):
        with qtbot.waitSignal(chats.folder_toggled) as asked:
            qtbot.keyClick(chats, key)
        assert asked.args == ["f"]
    with qtbot.assertNotEmitted(chats.folder_toggled):
        qtbot.keyClick(chats, Qt.Key.Key_Right)  # it is open
    with qtbot.waitSignal(chats.folder_delete_requested):
        qtbot.keyClick(chats, Qt.Key.Key_Delete)
    chats.rename(chats.chats.index_of_folder("f"))
    editor = chats.findChild(QLineEdit, "rename")
    assert isinstance(editor, QLineEdit)
    editor.setText("  My   garden ")
    with qtbot.waitSignal(chats.folder_renamed) as renamed:
        qtbot.keyClick(editor, Qt.Key.Key_Return)
    assert renamed.args == ["f", "My garden"]


def test_the_menu_pins_moves_and_exports(chats: ChatList, qtbot: QtBot) -> None:
    chats.set_folders(FOLDERS)
    chats.set_rows(SORTED, "a")
    chats.show_menu(chats.chats.index_of("a"), chats.mapToGlobal(QPoint(5, 5)))
    menu = next(each for each in chats.findChildren(QMenu) if each.isVisible())
    actions = {action.text(): action for action in menu.actions()}
    with qtbot.waitSignal(chats.pin_requested) as asked:
        actions["Pin"].trigger()
    assert asked.args == ["a"]
    folders = submenu(actions["Move to folder"])
    assert folders["Garden"].isChecked()
    with qtbot.waitSignal(chats.chat_moved) as asked:
        folders["Work"].trigger()
    assert asked.args == ["a", "g"]
    with qtbot.waitSignal(chats.chat_moved) as asked:
        folders["No folder"].trigger()
    assert asked.args == ["a", ""]
    export = submenu(actions["Export"])
    with qtbot.waitSignal(chats.export_requested) as asked:
        export["As JSON…"].trigger()
    assert asked.args == ["a", "json"]
    menu.close()


def test_a_new_folder_is_given_its_name_where_it_stands(chats: ChatList, qtbot: QtBot) -> None:
    chats.set_rows(SORTED, "a")
    with qtbot.waitSignal(chats.folder_added) as asked:
        chats.new_folder("a")
    assert asked.args == ["New folder", "a"]
    chats.set_folders([FolderRow("n", "New folder", 1)])
    assert isinstance(chats.findChild(QLineEdit, "rename"), QLineEdit)
