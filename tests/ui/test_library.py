"""The library page: rows and their keys, the filter, downloads, the search and its failures."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QMenu
from pytestqt.qtbot import QtBot

from tests.ui.library_states import FILES, OFFERS, REPOS, ROWS, TRANSFERS
from ui.library import FIND, LOCAL, LibraryPage
from ui.library_rows import ROW_ROLE, RowList
from ui.library_values import FindView, LibraryView
from ui.offers import Offers
from ui.values import DownloadView

VIEW = LibraryView(ROWS, "6 models")


@pytest.fixture
def page(qtbot: QtBot) -> LibraryPage:
    page = LibraryPage()
    qtbot.addWidget(page)
    page.resize(1100, 700)
    page.show()
    page.set_library(VIEW)
    return page


def button_of(rows: RowList, place: int) -> QPoint:
    button = rows.places_of(rows.model_.index(place)).button
    assert button is not None
    return button.center().toPoint()


def choose(rows: RowList, place: int) -> None:
    rows.setCurrentIndex(rows.model_.index(place))
    rows.setFocus()


def test_a_press_on_use_carries_the_path(page: LibraryPage, qtbot: QtBot) -> None:
    rows = page.local.list
    with qtbot.waitSignal(page.triggered) as used:
        qtbot.mouseClick(rows.viewport(), Qt.MouseButton.LeftButton, pos=button_of(rows, 1))
    assert used.args == ["/m/b", "use"]


def test_a_press_beside_a_button_only_chooses_the_row(page: LibraryPage, qtbot: QtBot) -> None:
    rows = page.local.list
    with qtbot.assertNotEmitted(page.triggered):
        qtbot.mouseClick(
            rows.viewport(),
            Qt.MouseButton.LeftButton,
            pos=rows.visualRect(rows.model_.index(1)).topLeft() + QPoint(40, 20),
        )
    assert rows.current_key() == "/m/b"


def test_enter_uses_and_delete_deletes_only_what_can_be(page: LibraryPage, qtbot: QtBot) -> None:
    rows, seen = page.local.list, []
    page.triggered.connect(lambda path, action: seen.append((path, action)))
    for place in (0, 1, 3, 4):  # loaded, another program's, ours, broken
        choose(rows, place)
        qtbot.keyClick(rows, Qt.Key.Key_Return)
        qtbot.keyClick(rows, Qt.Key.Key_Delete)
    assert seen == [("/m/b", "use"), ("/m/d", "use"), ("/m/d", "delete")]


def test_the_menu_of_a_row_has_what_can_be_done_with_it(page: LibraryPage, qtbot: QtBot) -> None:
    rows = page.local.list
    rows.open_menu(rows.model_.index(3), rows.mapToGlobal(QPoint(0, 0)))
    (menu,) = [each for each in rows.findChildren(QMenu) if each.isVisible()]
    assert [entry.text() for entry in menu.actions()] == ["Show in folder", "Copy the path", "Delete"]
    with qtbot.waitSignal(page.triggered) as shown:
        menu.actions()[0].trigger()
    assert shown.args == ["/m/d", "show"]
    menu.close()


def test_a_row_says_all_of_it_to_screen_readers(page: LibraryPage) -> None:
    index = page.local.list.model_.index(1)
    said = index.data(Qt.ItemDataRole.AccessibleTextRole)
    for word in ("Qwen2.5-1.5B-Instruct", "LM Studio", "32k context", "Tight", "12\u00a0tok/s", "±12%"):
        assert word in said
    broken = page.local.list.model_.index(4).data(Qt.ItemDataRole.AccessibleTextRole)
    assert "web page" in broken


def test_a_broken_row_has_no_button(page: LibraryPage) -> None:
    rows = page.local.list
    assert rows.places_of(rows.model_.index(4)).button is None
    assert rows.model_.index(4).data(ROW_ROLE).action is None


def test_fit_marks_stand_in_one_column(page: LibraryPage) -> None:
    rows = page.local.list
    lefts = {rows.places_of(rows.model_.index(place)).fit.left() for place in range(4)}  # type: ignore[union-attr]
    assert len(lefts) == 1


@pytest.mark.parametrize(
    ("words", "paths"),
    [("qwen", ("/m/b", "/m/d")), ("ollama", ("/m/c",)), ("QWEN hugging", ("/m/d",)), ("zzz", ())],
)
def test_the_filter_finds_by_name_architecture_and_program(
    page: LibraryPage, words: str, paths: tuple[str, ...]
) -> None:
    page.local.filter.set_text(words)
    assert page.local.shown == paths


def test_escape_empties_the_filter_before_it_does_anything_else(page: LibraryPage, qtbot: QtBot) -> None:
    page.local.filter.set_text("qwen")
    qtbot.keyClick(page.local.filter.line, Qt.Key.Key_Escape)
    assert page.local.filter.text() == "" and len(page.local.shown) == len(ROWS)


def test_the_current_row_stays_when_the_list_changes(page: LibraryPage) -> None:
    choose(page.local.list, 2)
    page.set_library(replace(VIEW, rows=ROWS[1:]))
    assert page.local.list.current_key() == "/m/c"
    page.set_library(replace(VIEW, rows=(*ROWS[1:2], replace(ROWS[2], used="used today"))))
    assert page.local.list.current_key() == "/m/c"


def test_nothing_here_offers_to_find_a_model(page: LibraryPage, qtbot: QtBot) -> None:
    page.set_library(LibraryView())
    page.local.focus_region()
    assert not page.local.filter.isVisible()
    page.local.find_clicked.emit()
    assert page.tab == FIND


def test_hostile_names_are_plain_and_short(page: LibraryPage) -> None:
    name = "<b>x</b>\n" * 5000
    page.set_library(LibraryView((replace(ROWS[1], name=name, detail=name, place=name, tooltip=name),)))
    page.grab()
    page.set_library(VIEW)


def test_a_download_is_paused_resumed_and_cancelled(page: LibraryPage, qtbot: QtBot) -> None:
    page.set_transfers(TRANSFERS[:2])
    running, paused = page.transfers.cards["k1"], page.transfers.cards["k2"]
    with qtbot.waitSignal(page.transfers.pause_clicked) as pressed:
        running._pause.click()
    assert pressed.args == ["k1"]
    with qtbot.waitSignal(page.transfers.resume_clicked) as pressed:
        paused._pause.click()
    assert pressed.args == ["k2"]
    with qtbot.waitSignal(page.transfers.cancel_clicked) as pressed:  # 36 MB are soon fetched again
        paused._cancel.click()
    assert pressed.args == ["k2"]


def test_gigabytes_are_not_thrown_away_by_one_press(page: LibraryPage, qtbot: QtBot) -> None:
    page.set_transfers(TRANSFERS[:1])
    card = page.transfers.cards["k1"]
    with qtbot.assertNotEmitted(page.transfers.cancel_clicked):
        card._cancel.click()
    assert card._question.isVisible() and "1.90\u00a0GB" in card._asked.text()
    card._keep.click()
    assert not card._question.isVisible()


def test_a_card_stays_the_same_widget_and_goes_with_its_download(page: LibraryPage) -> None:
    page.set_transfers(TRANSFERS)
    card = page.transfers.cards["k1"]
    page.set_transfers([replace(TRANSFERS[0], progress=DownloadView("checking", 4, 4))])
    assert page.transfers.cards == {"k1": card} and card.texts[0] == "Checking the file…"
    page.set_transfers(())
    assert page.transfers.isHidden()


def test_a_failed_download_says_why(page: LibraryPage) -> None:
    page.set_transfers(TRANSFERS)
    assert "asked too often" in page.transfers.cards["k3"].texts[2]


def test_undo_names_what_was_deleted(page: LibraryPage, qtbot: QtBot) -> None:
    page.set_undo("tiny")
    assert page._undo.isVisible() and "tiny" in page._undo_text.text()
    page.set_undo("")
    assert not page._undo.isVisible()


def test_enter_searches_and_an_empty_line_does_not(page: LibraryPage, qtbot: QtBot) -> None:
    page.show_tab(FIND)
    search = page.search
    with qtbot.assertNotEmitted(search.searched):
        qtbot.keyClick(search.field.line, Qt.Key.Key_Return)
    QTest.keyClicks(search.field.line, "qwen")
    with qtbot.waitSignal(search.searched) as asked:
        qtbot.keyClick(search.field.line, Qt.Key.Key_Return)
    assert asked.args == ["qwen", "gguf"]


def test_what_was_found_opens_and_back_leads_to_it(page: LibraryPage, qtbot: QtBot) -> None:
    page.show_tab(FIND)
    search = page.search
    page.set_find(FindView("results", "qwen", REPOS))
    choose(search.repos, 0)
    with qtbot.waitSignal(search.opened) as opened:
        qtbot.keyClick(search.repos, Qt.Key.Key_Return)
    assert opened.args == [REPOS[0].repo]
    page.set_find(FindView("files", "qwen", REPOS, REPOS[0].repo, "", FILES))
    with qtbot.waitSignal(search.left):
        search.back.click()


def test_files_are_downloaded_used_or_blocked_with_a_reason(page: LibraryPage, qtbot: QtBot) -> None:
    page.show_tab(FIND)
    page.set_find(FindView("files", "qwen", REPOS, REPOS[0].repo, "", FILES))
    rows, seen = page.search.files, []
    page.search.triggered.connect(lambda key, action: seen.append((key, action)))
    for place in range(len(FILES)):
        choose(rows, place)
        qtbot.keyClick(rows, Qt.Key.Key_Return)
    assert seen == [("a-Q3_K_M.gguf", "use"), ("a-Q6_K.gguf", "download"), ("a-Q8_0.gguf", "download")]
    assert "free on this disk" in rows.model_.index(5).data(Qt.ItemDataRole.AccessibleTextRole)


def test_a_licence_opens_the_place_for_a_token_that_is_not_shown(page: LibraryPage, qtbot: QtBot) -> None:
    page.show_tab(FIND)
    failure = page.search.failure
    page.set_find(FindView("failed", title="No connection.", text="Try again."))
    assert failure.isVisible() and not failure.token.isVisible()
    page.set_find(FindView("failed", title="Licence.", page="https://huggingface.co/a/b"))
    assert failure.token.isVisible() and failure.token.line.displayText() == ""
    failure.token.set_text("hf_secret")
    assert "hf_secret" not in failure.token.line.displayText()
    with qtbot.waitSignal(page.search.token_given) as given:
        failure.save.click()
    assert given.args == ["hf_secret"] and failure.token.text() == ""


def test_the_first_offer_stands_out_and_carries_its_repository(qtbot: QtBot) -> None:
    offers = Offers()
    qtbot.addWidget(offers)
    offers.resize(700, 300)
    offers.set_offers(OFFERS)
    offers.show()
    rows = offers.list
    primary = [index.data(ROW_ROLE).action.is_primary for index in map(rows.model_.index, range(3))]
    assert primary == [True, False, False]
    with qtbot.waitSignal(offers.download_clicked) as pressed:
        qtbot.mouseClick(rows.viewport(), Qt.MouseButton.LeftButton, pos=button_of(rows, 2))
    assert pressed.args == ["q/7"]
    offers.set_offers(())
    assert offers.isHidden()


def test_tabs_change_with_the_keyboard(page: LibraryPage, qtbot: QtBot) -> None:
    assert page.tab == LOCAL
    page.tabs.segments[0].setFocus()
    qtbot.keyClick(page.tabs.segments[0], Qt.Key.Key_Right)
    assert page.tab == FIND
