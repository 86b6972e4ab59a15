"""The model picker: which rows can be chosen, and how it closes."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from ui.picker import ModelPicker
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
