"""The sidebar: panel and rail, with and without chats."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QAbstractButton
from pytestqt.qtbot import QtBot

from ui.chat_values import ChatRow
from ui.label import Label
from ui.sidebar import Sidebar, logo_pixmap


@pytest.fixture
def sidebar(qtbot: QtBot) -> Sidebar:
    sidebar = Sidebar()
    qtbot.addWidget(sidebar)
    sidebar.resize(240, 600)
    sidebar.show()
    return sidebar


def texts(sidebar: Sidebar) -> list[str]:
    return [label.text() for label in sidebar.findChildren(Label) if label.isVisible()]


def names(sidebar: Sidebar) -> list[str]:
    buttons = sidebar.findChildren(QAbstractButton)
    return sorted(button.accessibleName() for button in buttons if button.isVisible())


def test_without_chats_it_says_where_they_will_be(sidebar: Sidebar) -> None:
    assert "No chats yet" in texts(sidebar)
    sidebar.set_chats([ChatRow("a", "A chat")], "a")
    assert "No chats yet" not in texts(sidebar)
    assert sidebar.list.isVisible()


def test_the_rail_has_the_same_actions_and_no_list(sidebar: Sidebar) -> None:
    sidebar.set_chats([ChatRow("a", "A chat")], "a")
    assert names(sidebar) == ["Close sidebar", "New chat"]
    sidebar.set_rail(True)
    assert names(sidebar) == ["New chat", "Open sidebar", "Search chats"]
    assert sidebar.width() == 56
    assert not sidebar.list.isVisible()


@pytest.mark.parametrize("is_rail", [False, True])
def test_new_chat_is_asked_for_from_both(sidebar: Sidebar, qtbot: QtBot, is_rail: bool) -> None:
    sidebar.set_rail(is_rail)
    button = next(
        button
        for button in sidebar.findChildren(QAbstractButton)
        if button.isVisible() and button.accessibleName() == "New chat"
    )
    with qtbot.waitSignal(sidebar.new_chat_clicked):
        button.click()


def test_the_mark_is_painted_at_any_size(qtbot: QtBot) -> None:
    image = logo_pixmap(64).toImage()
    assert image.pixelColor(55, 40).alpha() == 255
    assert image.pixelColor(8, 8).alpha() == 0
