"""The window as a whole: intents, keys, panels, and what it must not know."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QSize, Qt, QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QAbstractButton, QAbstractSlider, QApplication, QFileDialog, QLineEdit, QWidget
from pytestqt.qtbot import QtBot

from tests.ui import states
from ui import theme
from ui.gauge_values import SpeedView
from ui.main_window import MainWindow
from ui.message_edit import MessageEdit
from ui.values import ChipView, DownloadView, ModelRow, ModelState, NoticeAction, NoticeView


@pytest.fixture
def window(qtbot: QtBot, qapp: QApplication) -> Iterator[MainWindow]:
    theme.apply(qapp, "dark")
    window = MainWindow()
    qtbot.addWidget(window)
    window.resize(1440, 900)
    window.show()
    states.fill(window)
    window.set_composer_text("")
    qtbot.waitUntil(window.isVisible)
    yield window
    window.close()


def composer_field(window: MainWindow) -> QWidget:
    composer = window.body.centre.composer
    return composer.focusProxy() or composer


def test_the_window_imports_neither_torch_nor_the_program() -> None:
    code = (
        "import sys, ui.main_window;"
        "print([m for m in sys.modules if m.split('.')[0] in"
        " {'torch', 'transformers', 'numpy', 'tokenizers', 'app'}])"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_is_typed_and_sent_leaves_as_an_intent(window: MainWindow, qtbot: QtBot) -> None:
    window.set_generating(False)
    qtbot.keyClicks(composer_field(window), "Hello")
    with qtbot.waitSignal(window.message_sent) as caught:
        qtbot.keyClick(composer_field(window), Qt.Key.Key_Return)
    assert caught.args == ["Hello"]


def test_a_letter_typed_outside_a_field_goes_to_the_composer(window: MainWindow, qtbot: QtBot) -> None:
    window.body.sidebar.list.setFocus()
    qtbot.keyClicks(window.body.sidebar.list, "why")
    assert window.composer_text() == "why"


def test_a_command_or_a_space_outside_a_field_types_nothing(window: MainWindow, qtbot: QtBot) -> None:
    for key, modifier in (
        (Qt.Key.Key_G, Qt.KeyboardModifier.ControlModifier),
        (Qt.Key.Key_G, Qt.KeyboardModifier.AltModifier),
        (Qt.Key.Key_Space, Qt.KeyboardModifier.NoModifier),
    ):
        qtbot.keyClick(window.body.sidebar, key, modifier)
    assert window.composer_text() == ""


def test_escape_closes_the_popup_first_and_only_then_stops(window: MainWindow, qtbot: QtBot) -> None:
    window.open_picker()
    with qtbot.assertNotEmitted(window.stop_requested):
        qtbot.keyClick(window, Qt.Key.Key_Escape)
    assert window.picker.isHidden()
    with qtbot.waitSignal(window.stop_requested):
        qtbot.keyClick(window, Qt.Key.Key_Escape)


def test_escape_stops_nothing_when_no_answer_is_written(window: MainWindow, qtbot: QtBot) -> None:
    window.set_generating(False)
    window.set_composer_text("kept")
    with qtbot.assertNotEmitted(window.stop_requested):
        qtbot.keyClick(window, Qt.Key.Key_Escape)
    assert window.composer_text() == "kept"


def test_control_n_asks_for_a_new_chat(window: MainWindow, qtbot: QtBot) -> None:
    with qtbot.waitSignal(window.new_chat_requested):
        qtbot.keyClick(window, Qt.Key.Key_N, Qt.KeyboardModifier.ControlModifier)


def test_control_m_opens_the_picker_and_asks_for_its_rows(window: MainWindow, qtbot: QtBot) -> None:
    with qtbot.waitSignal(window.picker_opened):
        qtbot.keyClick(window, Qt.Key.Key_M, Qt.KeyboardModifier.ControlModifier)
    window.set_models([ModelRow("/m/a.gguf", "a")])
    with qtbot.waitSignal(window.model_chosen) as caught:
        qtbot.keyClick(window.picker.list, Qt.Key.Key_Return)
    assert caught.args == ["/m/a.gguf"]


def test_the_panels_toggle_by_key_and_the_choice_is_told(window: MainWindow, qtbot: QtBot) -> None:
    told: list[tuple[bool, bool]] = []
    window.panels_changed.connect(lambda sidebar, tuning: told.append((sidebar, tuning)))
    qtbot.keyClick(window, Qt.Key.Key_B, Qt.KeyboardModifier.ControlModifier)
    qtbot.keyClick(window, Qt.Key.Key_T, Qt.KeyboardModifier.ControlModifier)
    assert told == [(False, True), (False, False)]
    assert window.body.sidebar.is_rail
    assert not window.body.tuning.isVisible()


def test_a_choice_of_an_earlier_run_is_taken_silently(window: MainWindow, qtbot: QtBot) -> None:
    with qtbot.assertNotEmitted(window.panels_changed):
        window.set_panels(False, False)
    assert window.body.sidebar.is_rail


@pytest.mark.parametrize("size", [(1440, 900), (1024, 700), (800, 600)])
def test_the_parts_fill_the_window_without_overlap(window: MainWindow, size: tuple[int, int]) -> None:
    window.resize(QSize(*size))
    body = window.body
    assert body.size() == QSize(*size)
    assert body.centre.x() == body.sidebar.width()
    right = body.tuning.x() if body.tuning.isVisible() else body.width()
    assert body.centre.geometry().right() + 1 == right
    assert body.status.geometry().bottom() + 1 == body.height()


def test_a_chat_chosen_from_the_drawer_closes_it(window: MainWindow, qtbot: QtBot) -> None:
    window.resize(1024, 700)
    window.body.toggle_sidebar()
    assert not window.body.sidebar.is_rail
    with qtbot.waitSignal(window.chat_selected):
        window.body.sidebar.chat_selected.emit("2")
    assert window.body.sidebar.is_rail


def test_the_composer_stands_under_the_text(window: MainWindow) -> None:
    from ui.column import column

    centre = window.body.centre
    left, width = column(centre.transcript.width())
    assert (centre.composer.x(), centre.composer.width()) == (left, width)


def test_with_tuning_closed_its_button_shows_the_speed(window: MainWindow) -> None:
    button = window.body.centre.top_bar.tuning
    assert button.text() == ""
    window.set_panels(True, False)
    assert button.text() == "90.1\u00a0tok/s"
    window.set_speed(SpeedView(None))
    assert button.text() == ""


def test_enter_in_an_empty_composer_starts_the_starters_download(window: MainWindow, qtbot: QtBot) -> None:
    window.set_generating(False)
    window.show_first_start(True)
    window.set_download(DownloadView("offered", 0, 98_362_432))
    with qtbot.waitSignal(window.starter_requested):
        qtbot.keyClick(composer_field(window), Qt.Key.Key_Return)


def test_a_first_message_can_be_sent_before_there_is_a_model(window: MainWindow, qtbot: QtBot) -> None:
    window.set_generating(False)
    window.show_first_start(True)
    window.set_download(DownloadView("running", 1, 98_362_432))
    qtbot.keyClicks(composer_field(window), "Hello")
    with qtbot.assertNotEmitted(window.starter_requested), qtbot.waitSignal(window.message_sent):
        qtbot.keyClick(composer_field(window), Qt.Key.Key_Return)


def test_a_notice_offers_another_file_by_itself_and_passes_other_actions_on(
    window: MainWindow, qtbot: QtBot
) -> None:
    actions = (NoticeAction("choose-file", "Choose another file"), NoticeAction("undo", "Undo"))
    window.show_notice(NoticeView("warning", "This file is not a model", "x", actions))
    window.body.centre.notice.action_clicked.emit("choose-file")
    dialog = window.findChild(QFileDialog)
    assert isinstance(dialog, QFileDialog)
    dialog.reject()
    with qtbot.waitSignal(window.notice_action) as caught:
        window.body.centre.notice.action_clicked.emit("undo")
    assert caught.args == ["undo"]


def test_a_file_chosen_in_the_dialog_leaves_as_a_model(window: MainWindow, qtbot: QtBot) -> None:
    window.choose_file()
    dialog = window.findChild(QFileDialog)
    assert isinstance(dialog, QFileDialog)
    with qtbot.waitSignal(window.model_chosen) as caught:
        dialog.fileSelected.emit("/m/a.gguf")
    assert caught.args == ["/m/a.gguf"]
    dialog.reject()


def test_a_dropped_file_that_is_no_model_is_named_in_a_notice(window: MainWindow) -> None:
    from ui.drop import Dropped

    window.drop.refused.emit(Dropped(None, (), ("notes.txt",)))
    view = window.body.centre.notice.view
    assert view is not None
    assert "notes.txt" in view.text


def test_the_menu_offers_the_three_themes_and_marks_the_chosen_one(window: MainWindow, qtbot: QtBot) -> None:
    themes = window.body.centre.top_bar.themes
    themes.aboutToShow.emit()
    assert [action.text() for action in themes.actions()] == ["System", "Light", "Dark"]
    assert [action.isChecked() for action in themes.actions()] == [False, False, True]
    with qtbot.waitSignal(window.theme_chosen) as caught:
        themes.actions()[1].trigger()
    assert caught.args == ["light"]


def region(window: MainWindow) -> str:
    focus = QApplication.focusWidget()
    assert focus is not None
    centre = window.body.centre
    named = {
        "sidebar": window.body.sidebar,
        "bar": centre.top_bar,
        "composer": centre.composer,
        "tuning": window.body.tuning,
        "chat": centre,
    }
    return next(name for name, part in named.items() if part is focus or part.isAncestorOf(focus))


def test_f6_goes_round_the_regions_and_shift_f6_back(window: MainWindow, qtbot: QtBot) -> None:
    window.activateWindow()
    qtbot.waitUntil(lambda: QApplication.focusWidget() is not None)
    window.focus_composer()
    seen = []
    for _ in range(5):
        qtbot.keyClick(window, Qt.Key.Key_F6)
        seen.append(region(window))
    assert seen == ["tuning", "sidebar", "bar", "chat", "composer"]
    qtbot.keyClick(window, Qt.Key.Key_F6, Qt.KeyboardModifier.ShiftModifier)
    assert region(window) == "chat"


def test_closing_says_so_once_and_closes_at_once(window: MainWindow, qtbot: QtBot) -> None:
    told: list[bool] = []
    window.closing.connect(lambda: told.append(True))
    window.close()
    assert window.isHidden()
    window.close()
    assert told == [True]


@pytest.mark.parametrize("state", sorted(states.STATES))
def test_every_control_has_a_name(window: MainWindow, state: str) -> None:
    states.STATES[state](window)
    for widget in window.findChildren(QWidget):
        if widget.isVisible() and isinstance(widget, QAbstractButton | QAbstractSlider | QLineEdit):
            if widget.parentWidget().objectName() == "qt_scrollarea_vcontainer":
                continue  # Qt's own scroll bars
            named = widget.accessibleName() or (isinstance(widget, QAbstractButton) and widget.text())
            assert named, f"{widget} has no accessible name"


def test_the_chip_says_what_state_the_model_is_in(window: MainWindow) -> None:
    window.set_chip(ChipView(ModelState.LOADING, "SmolLM2", "4-bit", 43))
    assert "43" in window.body.centre.top_bar.chip.accessibleName()


def test_two_windows_can_follow_each_other(qtbot: QtBot) -> None:
    for _ in range(2):
        window = MainWindow()
        qtbot.addWidget(window)
        window.show()
        states.fill(window)
        window.close()


def test_a_change_of_theme_recolours_what_is_already_shown(window: MainWindow, qapp: QApplication) -> None:
    for choice in ("light", "dark"):
        theme.apply(qapp, choice)
        picture = window.grab().toImage()
        colors = theme.palette()
        assert picture.pixelColor(120, 800) == colors.bg1  # sidebar
        assert picture.pixelColor(700, 4) == colors.bg0  # top bar
        assert picture.pixelColor(1086, 820) == colors.bg1  # Tuning


def test_a_confirmed_link_opens_in_the_browser(window: MainWindow, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[QUrl] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", opened.append)
    window.body.centre.transcript.link_clicked.emit("https://example.org/a%20b?c=d")
    assert [url.toEncoded().data() for url in opened] == [b"https://example.org/a%20b?c=d"]


def test_ctrl_shift_c_copies_the_last_code(window: MainWindow, qtbot: QtBot) -> None:
    keys = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
    window.activateWindow()
    qtbot.keyClick(composer_field(window), Qt.Key.Key_C, keys)
    assert QGuiApplication.clipboard().text() == states.CODE


def test_the_keyboard_stays_in_the_sidebar_when_its_last_chat_goes(window: MainWindow) -> None:
    sidebar = window.body.sidebar
    sidebar.focus_region()
    window.set_chats((), None)
    focus = window.focusWidget()
    assert focus is not None
    assert sidebar.isAncestorOf(focus)


def test_f2_renames_the_chat_in_the_transcript_from_anywhere(window: MainWindow, qtbot: QtBot) -> None:
    window.focus_composer()
    qtbot.keyClick(composer_field(window), Qt.Key.Key_F2)
    editor = QApplication.focusWidget()
    assert isinstance(editor, QLineEdit)
    editor.setText("Better title")
    with qtbot.waitSignal(window.chat_renamed) as caught:
        qtbot.keyClick(editor, Qt.Key.Key_Return)
    assert caught.args[1] == "Better title"


def test_esc_stops_a_load_too(window: MainWindow, qtbot: QtBot) -> None:
    window.set_generating(False)
    window.set_chip(ChipView(ModelState.LOADING, "tiny", "4-bit", 40))
    with qtbot.waitSignal(window.stop_requested):
        qtbot.keyClick(composer_field(window), Qt.Key.Key_Escape)
    window.set_chip(ChipView(ModelState.READY, "tiny", "4-bit"))
    with qtbot.assertNotEmitted(window.stop_requested):
        qtbot.keyClick(composer_field(window), Qt.Key.Key_Escape)


def test_the_undo_key_belongs_to_typing_as_long_as_there_is_some_to_undo(
    window: MainWindow, qtbot: QtBot
) -> None:
    undone: list[bool] = []
    window.chats.undo_requested.connect(lambda: undone.append(True))
    command = Qt.KeyboardModifier.ControlModifier
    edit = MessageEdit(window)  # nothing was typed in it
    search = window.body.sidebar.search.field
    for field in (edit, search):
        field.show()
        window.chats.can_undo = True
        QApplication.instance().focusChanged.emit(None, field)  # type: ignore[union-attr]
        qtbot.keyClicks(field, "a")
        qtbot.keyClick(field, Qt.Key.Key_Z, command)
        assert (undone, field.text()) == ([], "")
        qtbot.keyClick(field, Qt.Key.Key_Z, command)
        assert undone == [True]
        window.chats.can_undo = False
        qtbot.keyClick(field, Qt.Key.Key_Z, command)
        assert undone == [True]
        undone.clear()
