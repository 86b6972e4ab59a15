"""The model picker: which rows can be chosen, and how it closes."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from ui.card import Card
from ui.controls import Button
from ui.picker import DraftPicker, ModelPicker
from ui.values import ModelRow

ROWS = (
    ModelRow("/m/one.gguf", "one", "4-bit"),
    ModelRow("/m/two.gguf", "two", "8-bit", is_loaded=True),
    ModelRow("/m/three.gguf", "three", reason='This model type ("mamba") is not supported yet.'),
)


@pytest.fixture
def picker(qtbot: QtBot) -> ModelPicker:
    host = QWidget()
    qtbot.addWidget(host)
    host.resize(900, 700)
    host.show()
    picker = ModelPicker(host)
    picker.keep_host = host  # type: ignore[attr-defined]
    picker.open_under(QRect(100, 8, 200, 32))
    picker.set_models(ROWS)
    return picker


def test_the_loaded_model_is_marked_at_first(picker: ModelPicker) -> None:
    assert picker.list.currentIndex().row() == 1


def test_enter_chooses_and_closes(picker: ModelPicker, qtbot: QtBot) -> None:
    qtbot.keyClick(picker.list, Qt.Key.Key_Up)
    with qtbot.waitSignals([picker.model_chosen, picker.closed]):
        qtbot.keyClick(picker.list, Qt.Key.Key_Return)
    assert picker.isHidden()


def test_a_model_that_cannot_run_is_shown_with_its_reason_and_not_chosen(
    picker: ModelPicker, qtbot: QtBot
) -> None:
    row = picker.list.models.index(2)
    picker.list.setCurrentIndex(row)
    with qtbot.assertNotEmitted(picker.model_chosen):
        qtbot.keyClick(picker.list, Qt.Key.Key_Return)
    assert "mamba" in row.data(Qt.ItemDataRole.AccessibleTextRole)
    assert picker.isVisible()


def test_a_click_beside_it_closes_it(picker: ModelPicker, qtbot: QtBot) -> None:
    with qtbot.waitSignal(picker.closed):
        qtbot.mouseClick(picker, Qt.MouseButton.LeftButton, pos=QPoint(880, 680))


def test_escape_closes_it_without_a_choice(picker: ModelPicker, qtbot: QtBot) -> None:
    with qtbot.assertNotEmitted(picker.model_chosen), qtbot.waitSignal(picker.closed):
        qtbot.keyClick(picker.list, Qt.Key.Key_Escape)


def test_its_panel_stays_inside_the_window(picker: ModelPicker) -> None:
    picker.open_under(QRect(800, 8, 90, 32))
    assert picker.rect().adjusted(-12, 0, 12, 12).contains(picker.panel.geometry())


def test_without_models_it_says_what_to_do(picker: ModelPicker) -> None:
    picker.set_models(())
    assert picker.list.isHidden()
    assert picker.note_text.startswith("No models here yet")


@pytest.fixture
def drafts(qtbot: QtBot) -> DraftPicker:
    host = QWidget()
    qtbot.addWidget(host)
    host.resize(900, 700)
    host.show()
    picker = DraftPicker(host)
    picker.keep_host = host  # type: ignore[attr-defined]
    picker.open_under(QRect(560, 600, 240, 28))
    picker.set_models(ROWS)
    return picker


def test_where_there_is_no_room_below_it_opens_above(drafts: DraftPicker) -> None:
    box = drafts.panel.geometry()
    assert box.top() >= 0
    assert box.bottom() - Card.SHADOW < 600
    assert box.right() - Card.SHADOW < 900


def test_a_list_of_draft_models_offers_no_files(drafts: DraftPicker, qtbot: QtBot) -> None:
    buttons = drafts.findChildren(Button)
    assert buttons and not any(button.isVisible() for button in buttons)
    drafts.set_models(())
    assert "same family" in drafts.note_text
    with qtbot.waitSignal(drafts.closed):
        qtbot.keyClick(drafts, Qt.Key.Key_Escape)


def test_esc_closes_it_before_it_does_anything_else(drafts: DraftPicker, qtbot: QtBot) -> None:
    told: list[bool] = []
    shortcut = QShortcut(QKeySequence("Esc"), drafts.window())
    shortcut.activated.connect(lambda: told.append(True))
    drafts.window().activateWindow()
    drafts.list.setFocus()
    qtbot.waitUntil(drafts.list.hasFocus)
    qtbot.keyClick(drafts.list, Qt.Key.Key_Escape)
    assert not drafts.isVisible()
    assert told == []


def test_a_window_that_changes_its_size_closes_it(drafts: DraftPicker) -> None:
    drafts.window().resize(800, 600)
    assert not drafts.isVisible()


def test_the_starter_is_offered_where_there_is_no_model(picker: ModelPicker, qtbot: QtBot) -> None:
    picker.offer_starter("Download the starter")
    picker.set_models(())
    button = next(each for each in picker.findChildren(Button) if each.text() == "Download the starter")
    assert button.hasFocus()
    with qtbot.waitSignals([picker.starter_requested, picker.closed]):
        button.click()
    picker.offer_starter("")
    assert button.isHidden()
