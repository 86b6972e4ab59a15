"""The notice bar: words, buttons, details, and closing."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QAbstractButton, QPlainTextEdit
from pytestqt.qtbot import QtBot

from ui.label import Label
from ui.notice import NoticeBar
from ui.values import NoticeAction, NoticeView

VIEW = NoticeView(
    "error",
    "Out of memory",
    "The answer so far is kept.",
    (NoticeAction("smaller", "Continue with 8k context"),),
    "line one\nline two",
)


@pytest.fixture
def bar(qtbot: QtBot) -> NoticeBar:
    bar = NoticeBar()
    qtbot.addWidget(bar)
    return bar


def press(bar: NoticeBar, text: str) -> None:
    buttons = {
        name: button
        for button in bar.findChildren(QAbstractButton)
        if not button.isHidden() and (name := button.text() or button.accessibleName())
    }
    buttons[text].click()


def test_it_is_hidden_until_there_is_something_to_say(bar: NoticeBar) -> None:
    assert bar.isHidden()
    bar.show_notice(VIEW)
    assert not bar.isHidden()
    assert bar.accessibleDescription() == "Out of memory The answer so far is kept."


def test_a_button_emits_its_key(bar: NoticeBar, qtbot: QtBot) -> None:
    bar.show_notice(VIEW)
    with qtbot.waitSignal(bar.action_clicked) as caught:
        press(bar, "Continue with 8k context")
    assert caught.args == ["smaller"]


def test_the_next_notice_leaves_no_button_of_the_last_one(bar: NoticeBar) -> None:
    bar.show_notice(VIEW)
    bar.show_notice(NoticeView("info", "Chat deleted", actions=(NoticeAction("undo", "Undo"),)))
    texts = [button.text() for button in bar.findChildren(QAbstractButton) if not button.isHidden()]
    assert "Continue with 8k context" not in texts
    assert "Details" not in texts
    assert "Undo" in texts


def test_details_are_shown_on_demand_and_can_be_copied_as_they_are(bar: NoticeBar) -> None:
    bar.show_notice(VIEW)
    details = bar.findChild(QPlainTextEdit)
    assert isinstance(details, QPlainTextEdit)
    assert details.isHidden()
    press(bar, "Details")
    assert not details.isHidden()
    press(bar, "Copy details")
    assert QGuiApplication.clipboard().text() == "line one\nline two"


def test_closing_says_so_once(bar: NoticeBar, qtbot: QtBot) -> None:
    bar.show_notice(VIEW)
    with qtbot.waitSignal(bar.closed):
        press(bar, "Close this notice")
    with qtbot.assertNotEmitted(bar.closed):
        bar.clear()
    assert bar.isHidden()


def test_a_very_long_text_is_cut_and_stands_in_full_behind_details(bar: NoticeBar) -> None:
    text = "a path that goes on " * 100
    bar.resize(560, bar.sizeHint().height())
    bar.show_notice(NoticeView("error", "Could not be read", text))
    details = bar.findChild(QPlainTextEdit)
    assert isinstance(details, QPlainTextEdit)
    assert text in details.toPlainText()
    assert bar.heightForWidth(560) < 260


FOLDER = NoticeView("warning", "The folder cannot be written.", key="folder")
DELETED = NoticeView("info", "Chat deleted")


def test_closing_a_notice_shows_the_warning_behind_it(bar: NoticeBar) -> None:
    bar.show_notice(FOLDER)
    bar.show_notice(VIEW)
    assert bar.view == VIEW
    assert [label.text() for label in bar.findChildren(Label) if not label.isHidden()][-1] == "1 more"
    press(bar, "Close this notice")
    assert bar.view == FOLDER
    press(bar, "Close this notice")
    assert bar.view is None
    assert bar.isHidden()


def test_an_information_is_not_shown_again_and_the_same_notice_once(bar: NoticeBar) -> None:
    for view in (DELETED, FOLDER, FOLDER, VIEW, FOLDER):
        bar.show_notice(view)
    assert bar.view == FOLDER
    bar.dismiss()
    assert bar.view == VIEW
    bar.dismiss()
    assert bar.view is None


def test_a_notice_is_taken_away_by_its_key_wherever_it_stands(bar: NoticeBar) -> None:
    bar.show_notice(FOLDER)
    bar.show_notice(VIEW)
    bar.take_away("folder")
    assert bar.view == VIEW
    bar.show_notice(FOLDER)
    bar.take_away("folder")
    assert bar.view == VIEW
    bar.take_away("another")
    bar.dismiss()
    assert bar.view is None


def test_clearing_forgets_those_behind_too(bar: NoticeBar) -> None:
    bar.show_notice(FOLDER)
    bar.show_notice(VIEW)
    bar.clear()
    assert bar.isHidden()
    bar.show_notice(DELETED)
    bar.dismiss()
    assert bar.view is None


def test_what_is_kept_outlives_newer_notices_and_their_moment(bar: NoticeBar) -> None:
    kept = NoticeView("info", "Chat deleted", key="undo", is_kept=True)
    bar.show_notice(kept)
    bar.show_notice(FOLDER)
    bar.show_notice(DELETED)
    assert bar.view == DELETED  # of the same title, it takes its place
    bar.clear()
    bar.show_notice(kept)
    bar.show_notice(VIEW)
    bar.clear()
    assert bar.view == kept
    bar.clear()
    assert bar.view == kept
    press(bar, "Close this notice")
    assert bar.view is None


LASTING = NoticeView("info", "Nothing is stored.", key="stored", is_lasting=True)


def test_a_lasting_notice_goes_by_its_key_alone(bar: NoticeBar) -> None:
    bar.show_notice(LASTING)
    close = next(each for each in bar.findChildren(QAbstractButton) if "Close" in each.accessibleName())
    assert close.isHidden()
    for number in range(10):
        bar.show_notice(NoticeView("error", f"Error {number}"))
    bar.clear()
    assert bar.view == LASTING
    bar.take_away("stored")
    assert bar.view is None


def test_a_lasting_notice_lets_those_behind_it_be_seen(bar: NoticeBar) -> None:
    bar.show_notice(FOLDER)
    bar.show_notice(LASTING)
    bar.dismiss()
    assert bar.view == FOLDER
    bar.dismiss()
    assert bar.view == LASTING
