"""The designed states of chats as a whole: folders, search, branches, edits, temporary ones, imports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.ui.states import CHATS, MESSAGES, finish
from ui.chat_values import ChatRow, FolderRow, MessageView, SearchHit, SearchView
from ui.main_window import MainWindow
from ui.values import NoticeView

FOLDERS = (FolderRow("f1", "Garden", 2, True), FolderRow("f2", "Work at the institute for soil", 7, False))


def _sort_chats(window: MainWindow) -> None:
    """Pinned chats, folders and one that is not stored."""
    finish(window)
    rows = [
        ChatRow("t", "What is this rash", "", "Temporary", is_temporary=True),
        replace(CHATS[0], is_writing=False, is_pinned=True, group="Pinned"),
        replace(CHATS[1], is_writing=True, is_pinned=True, group="Pinned"),
        replace(CHATS[2], title="Compost in a small yard", folder_id="f1"),
        replace(CHATS[4], title="Which apple trees like clay", folder_id="f1"),
        replace(CHATS[7], folder_id="f2"),
        *CHATS[3:4],
        *CHATS[5:7],
        *CHATS[8:],
    ]
    window.chats.set_folders(FOLDERS)
    window.set_chats(rows, "1")


def _find(window: MainWindow) -> None:
    """A search with results; the words are marked."""
    finish(window)
    window.body.sidebar.search.field.setText("csv mean")
    window.chats.set_search(
        SearchView(
            "csv mean",
            (
                SearchHit("1", "Mean of one column in a CSV file", "", "", ((0, 4), (24, 27)), (), 0),
                SearchHit(
                    "5",
                    "Letter to the landlord",
                    "m",
                    "… the CSV with the readings, whose mean is far above what was agreed in …",
                    (),
                    ((6, 9), (35, 39)),
                    3,
                ),
                SearchHit("6", "Regex for ISO dates", "m2", "A CSV of means", (), ((2, 5), (9, 13)), 1),
            ),
        )
    )


def _find_nothing(window: MainWindow) -> None:
    finish(window)
    window.body.sidebar.search.field.setText("zeppelin")
    window.chats.set_search(SearchView("zeppelin"))


def _branch(window: MainWindow) -> None:
    """Other wordings of a question and other answers to it."""
    finish(window)
    question = replace(MESSAGES[2], branch=1, branches=2)
    answer = replace(
        MESSAGES[3], status="done", stats="44 tokens · 90.1 tok/s · first token 0.21 s", branch=2, branches=3
    )
    window.show_chat((*MESSAGES[:2], question, answer))


def _edit(window: MainWindow) -> None:
    """A question gets another wording."""
    _branch(window)
    window.chats.begin_edit("m3", is_answer=False)
    window.set_composer_text(MESSAGES[2].text + " In a progress bar.")


def _be_temporary(window: MainWindow) -> None:
    finish(window)
    rows = [ChatRow("t", "What is this rash", "", "Temporary", is_temporary=True), *CHATS[1:]]
    window.set_chats(rows, "t")
    window.show_chat((MessageView("t1", "user", "What is this rash?"),))
    window.chats.set_temporary(True)


def _import(window: MainWindow) -> None:
    finish(window)
    details = 'export.zip: "Old": it has no message with text.\nuser.json: there is no chat in it.'
    text = "1,204 messages in all. Left out: images and files (3), 2 files or chats."
    window.show_notice(NoticeView("warning", "41 chats imported.", text, (), details))


CHAT_STATES: dict[str, Callable[[MainWindow], None]] = {
    "folders": _sort_chats,
    "search": _find,
    "search-none": _find_nothing,
    "branches": _branch,
    "editing": _edit,
    "temporary": _be_temporary,
    "imported": _import,
}
