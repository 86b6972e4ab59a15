"""The popover of a chat's own values: what is typed leaves as values, what is no number leaves nothing."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from ui.chat_values import PresetsView
from ui.presets_popover import FIELDS, PresetsPopover

VALUES = {
    "system_prompt": "Be brief",
    **{"temperature": 0.6, "top_k": 40, "top_p": 0.95, "min_p": 0.05, "repeat_penalty": 1.0},
    **{"presence_penalty": 0.0, "frequency_penalty": 0.0, "seed": None, "max_tokens": 512},
}


@pytest.fixture
def popover(qtbot: QtBot) -> PresetsPopover:
    window = QWidget()
    qtbot.addWidget(window)
    window.resize(1024, 700)
    made = PresetsPopover(window)
    made.set_view(PresetsView(VALUES, frozenset({"max_tokens"}), ("Careful", "Poet"), "Poet"))
    window.show()
    made.open_under(QRect(600, 8, 32, 32))
    return made


@pytest.fixture
def changed(popover: PresetsPopover) -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    popover.option_changed.connect(lambda name, value: found.append((name, value)))
    return found


def test_values_are_shown_as_people_write_them(popover: PresetsPopover) -> None:
    shown = {name: line.text() for name, line in popover.lines.items()}
    assert shown["temperature"] == "0.6"
    assert shown["repeat_penalty"] == "1"
    assert (shown["seed"], popover.lines["seed"].placeholderText()) == ("", "New each time")
    assert popover.instructions.toPlainText() == "Be brief"
    assert popover.preset.text() == "Preset: Poet"


@pytest.mark.parametrize(
    ("name", "typed"), [("temperature", "1.5"), ("temperature", "warm"), ("top_k", "-5"), ("max_tokens", "")]
)
def test_what_was_typed_leaves_when_it_is_complete(
    popover: PresetsPopover, qtbot: QtBot, name: str, typed: str
) -> None:
    found: list[tuple[str, str]] = []
    popover.option_typed.connect(lambda *args: found.append(args))
    line = popover.lines[name]
    line.selectAll()
    qtbot.keyClick(line, Qt.Key.Key_Delete)
    qtbot.keyClicks(line, typed)
    assert found == []
    qtbot.keyClick(line, Qt.Key.Key_Return)
    assert found == [(name, typed)]


def test_what_was_not_taken_stays_with_the_reason_until_it_is_right(popover: PresetsPopover) -> None:
    line, error = popover.lines["top_p"], popover.errors["top_p"]
    before = popover.panel.height()
    line.setText("7")
    line.editingFinished.emit()
    popover.set_view(PresetsView(VALUES, errors={"top_p": "7 cannot be used."}))
    assert (line.text(), error.text, error.isVisible()) == ("7", "7 cannot be used.", True)
    assert line.accessibleDescription() == "7 cannot be used."
    assert popover.panel.height() > before
    line.setText("0.50")
    line.editingFinished.emit()
    popover.set_view(PresetsView(VALUES | {"top_p": 0.5}))
    assert (line.text(), error.isVisible()) == ("0.5", False)


def test_instructions_leave_when_typing_pauses_or_the_popover_closes(
    popover: PresetsPopover, changed: list[tuple[str, object]], qtbot: QtBot
) -> None:
    popover.instructions.setPlainText("Rhyme")
    qtbot.waitUntil(lambda: changed == [("system_prompt", "Rhyme")])
    popover.instructions.setPlainText("Rhyme well")
    popover.close_popup()
    assert changed[-1] == ("system_prompt", "Rhyme well")


def test_text_that_is_being_typed_is_not_replaced(popover: PresetsPopover) -> None:
    popover.instructions.setFocus()
    popover.instructions.setPlainText("half a sen")
    popover.set_view(PresetsView(VALUES))
    assert popover.instructions.toPlainText() == "half a sen"


def test_tab_goes_round_inside_and_esc_leaves(popover: PresetsPopover, qtbot: QtBot) -> None:
    stops = 1 + len(FIELDS) + 2
    seen = set()
    for _ in range(stops):
        widget = popover.window().focusWidget()
        assert widget is not None and popover.isAncestorOf(widget)
        assert widget.accessibleName() or widget.toolTip() or widget.text()  # type: ignore[attr-defined]
        seen.add(widget)
        qtbot.keyClick(widget, Qt.Key.Key_Tab)
    assert len(seen) == stops
    with qtbot.waitSignal(popover.closed):
        qtbot.keyClick(popover, Qt.Key.Key_Escape)
    assert not popover.isVisible()


def test_a_click_beside_it_leaves(popover: PresetsPopover, qtbot: QtBot) -> None:
    with qtbot.waitSignal(popover.closed):
        qtbot.mouseClick(popover, Qt.MouseButton.LeftButton, pos=QPoint(5, 690))


def test_the_menu_lists_presets_and_what_can_be_done_with_them(popover: PresetsPopover, qtbot: QtBot) -> None:
    menu = popover.open_presets()
    actions = {each.text(): each for each in menu.actions() if each.text()}
    assert list(actions) == [
        *("Careful", "Poet", "Save as a preset…", "Delete “Poet”"),
        *("Import from a file…", "Export to a file…"),
    ]
    assert actions["Poet"].isChecked()
    for text, signal, args in (
        ("Careful", popover.preset_chosen, ["Careful"]),
        ("Delete “Poet”", popover.delete_clicked, ["Poet"]),
        ("Save as a preset…", popover.save_clicked, []),
    ):
        with qtbot.waitSignal(signal) as caught:
            actions[text].trigger()
        assert caught.args == args
    menu.close()
