"""The library in the whole program: what is listed, chosen, deleted, found and fetched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app import hub_desk, model_choice, paths
from app.hub import RemoteFile, Variant
from app.hub_token import HubToken
from app.library_fetch import order_of
from tests.app.file_server import fixed
from tests.app.hub_server import COMMIT, PlayedHub, PlayedRepo
from tests.app.model_bytes import gguf_model
from tests.app.program import Desk, models_folder
from tests.fakes import FakeEngine, make_spec
from ui.library import FIND
from ui.library_values import FileRow, FindView, LibraryRow, LibraryView
from ui.navigation import PageRow
from ui.values import ModelState
from ui.window_view import LIBRARY

REPO = "maker/tiny-GGUF"


class Shelf:
    """The program with its library, and what its page was told to show."""

    def __init__(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        self.desk, self.page = desk, desk.window.library
        self.view, self.find = LibraryView(), FindView()
        set_library, set_find = self.page.set_library, self.page.set_find

        def library(view: LibraryView) -> None:
            self.view = view
            set_library(view)

        def find(view: FindView) -> None:
            self.find = view
            set_find(view)

        monkeypatch.setattr(self.page, "set_library", library)
        monkeypatch.setattr(self.page, "set_find", find)

    def wait(self, is_true: Callable[[], bool]) -> None:
        """Longer than the desk does: a first question imports huggingface_hub."""
        self.desk.qtbot.waitUntil(is_true, timeout=30_000)

    def open(self) -> None:
        self.desk.window.show_library()

    def row(self, name: str) -> LibraryRow | None:
        return next((row for row in self.view.rows if row.name == name), None)

    def file(self, label: str) -> FileRow | None:
        return next((row for row in self.find.files if row.label == label), None)

    def wait_for_row(self, name: str) -> LibraryRow:
        self.wait(lambda: self.row(name) is not None)
        row = self.row(name)
        assert row is not None
        return row


@pytest.fixture
def desk(qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setattr(HubToken, "get", lambda self: self._value or "")
    made = Desk(qtbot, qapp, monkeypatch, FakeEngine())
    yield made
    made.stop()


@pytest.fixture
def shelf(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    return Shelf(desk, monkeypatch)


def put(name: str, data: bytes) -> Path:
    path = models_folder() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_the_page_lists_models_with_fit_and_speed_and_broken_ones_with_their_reason(shelf: Shelf) -> None:
    put("tiny.gguf", gguf_model("Q8_0"))
    put("notes.gguf", b"<!doctype html>")
    shelf.desk.start_ready()
    shelf.open()
    row = shelf.wait_for_row("tiny")
    shelf.wait(lambda: bool((found := shelf.row("tiny")) and found.fit.speed))
    assert "llama" in row.detail and "8.6\u00a0bits" in row.detail and row.can_delete
    broken = shelf.wait_for_row("notes")
    assert "web page" in broken.reason and not broken.fit.title


def test_changes_on_the_disk_are_seen_while_the_page_is_open(shelf: Shelf, qtbot: QtBot) -> None:
    first = put("first.gguf", gguf_model("Q8_0"))
    shelf.desk.start_ready()
    shelf.desk.program.controller.library._poll.setInterval(20)
    shelf.open()
    shelf.wait_for_row("first")
    put("second.gguf", gguf_model("F16"))
    shelf.wait_for_row("second")
    first.unlink()
    shelf.wait(lambda: shelf.row("first") is None)
    shelf.desk.window.body.show_page("")
    assert not shelf.desk.program.controller.library._poll.isActive()


def test_use_loads_the_model_and_shows_the_chat(shelf: Shelf) -> None:
    path = put("tiny.gguf", gguf_model())
    shelf.desk.start_ready()
    shelf.open()
    shelf.wait_for_row("tiny")
    shelf.page.triggered.emit(str(path), "use")
    shelf.wait(lambda: shelf.desk.fake.loads[-1].model.path == str(path))
    shelf.wait(lambda: shelf.desk.chip.state == ModelState.READY)
    assert shelf.desk.window.body.page == ""
    shelf.open()
    shelf.wait(lambda: bool((row := shelf.row("tiny")) and row.is_loaded and row.used == "used today"))
    row = shelf.row("tiny")
    assert row is not None and not row.can_delete


def test_a_deleted_model_can_be_put_back(shelf: Shelf) -> None:
    path = put("tiny.gguf", gguf_model())
    shelf.desk.start_ready()
    shelf.open()
    shelf.wait_for_row("tiny")
    shelf.page.triggered.emit(str(path), "delete")
    shelf.wait(lambda: shelf.row("tiny") is None)
    assert not path.exists()
    shelf.page.undo_clicked.emit()
    shelf.wait_for_row("tiny")
    assert path.exists()


def test_what_was_deleted_is_gone_when_the_program_closes(shelf: Shelf) -> None:
    path = put("tiny.gguf", gguf_model())
    shelf.desk.start_ready()
    shelf.open()
    shelf.wait_for_row("tiny")
    shelf.page.triggered.emit(str(path), "delete")
    shelf.wait(lambda: shelf.row("tiny") is None)
    shelf.desk.stop()
    assert list(models_folder().iterdir()) == []


def test_an_added_folder_is_listed_and_remembered_and_nothing_in_it_can_be_deleted(
    shelf: Shelf, tmp_path: Path
) -> None:
    (tmp_path / "mine.gguf").write_bytes(gguf_model())
    shelf.desk.start_ready()
    shelf.open()
    shelf.page.folder_chosen.emit(str(tmp_path))
    row = shelf.wait_for_row("mine")
    assert not row.can_delete and row.added_folder == str(tmp_path)
    shelf.page.triggered.emit(row.path, "delete")
    shelf.desk.flush()
    assert str(tmp_path) in (paths.data_dir() / "library.json").read_text()
    shelf.page.triggered.emit(row.path, "leave-out")
    shelf.wait(lambda: shelf.row("mine") is None)
    assert (tmp_path / "mine.gguf").exists()


def test_the_picker_shows_the_same_models(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    put("tiny.gguf", gguf_model())
    names: list[str] = []
    monkeypatch.setattr(shelf.desk.window, "set_models", lambda rows: names.extend(row.name for row in rows))
    shelf.desk.start_ready()
    shelf.desk.window.open_picker()
    shelf.wait(lambda: "tiny" in names and len(names) == 2)  # and the loaded one, which lies elsewhere


def test_nothing_is_asked_of_the_hub_before_a_search(shelf: Shelf, played: PlayedHub) -> None:
    shelf.desk.start_ready()
    shelf.open()
    shelf.page.show_tab(FIND)
    shelf.wait(lambda: not shelf.view.is_looking)
    assert played.plan.requests == []


def test_a_search_its_files_and_a_download_end_as_a_row(shelf: Shelf, played: PlayedHub) -> None:
    played.repos[REPO] = PlayedRepo({"tiny-Q8_0.gguf": gguf_model("Q8_0"), "bad-F16.gguf": b"<html>" * 99})
    shelf.desk.start_ready()
    shelf.open()
    search = shelf.page.search
    search.searched.emit("tiny", "gguf")
    shelf.wait(lambda: [row.repo for row in shelf.find.repos] == [REPO])
    search.opened.emit(REPO)
    shelf.wait(lambda: bool((row := shelf.file("Q8_0")) and row.fit.speed))
    shelf.wait(lambda: bool((row := shelf.file("F16")) and row.state == "blocked"))
    row = shelf.file("Q8_0")
    assert row is not None and row.state == "offered"
    search.triggered.emit(row.key, "download")
    shelf.wait_for_row("tiny")
    shelf.wait(lambda: bool((row := shelf.file("Q8_0")) and row.state == "here"))
    search.triggered.emit("tiny-Q8_0.gguf", "use")
    target = models_folder() / "maker--tiny-GGUF" / "tiny-Q8_0.gguf"
    shelf.wait(lambda: shelf.desk.fake.loads[-1].model.path == str(target))


def test_a_download_that_gets_on_changes_its_card_and_nothing_else(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf.desk.start_ready()
    downloads, stack = shelf.desk.program.controller.library.downloads, shelf.page.transfers
    variant = Variant("Q8_0", (RemoteFile("tiny-Q8_0.gguf", 1_000_000_000, "0" * 64),), True)
    order = order_of(REPO, COMMIT, variant, models_folder())
    downloads._on_restored([(order, 100_000_000)])
    before, transfer = stack.cards[order.key].texts, downloads._transfers[order.key]
    rebuilt: list[object] = []
    monkeypatch.setattr(shelf.page, "set_find", rebuilt.append)
    monkeypatch.setattr(shelf.page, "set_transfers", rebuilt.append)
    downloads._show(transfer, replace(transfer.progress, done_bytes=900_000_000))
    assert stack.cards[order.key].texts != before
    assert rebuilt == []
    downloads._show(transfer, replace(transfer.progress, state="failed"))
    assert len(rebuilt) == 2


def test_while_something_is_asked_the_status_bar_says_so(shelf: Shelf, played: PlayedHub) -> None:
    played.repos[REPO] = PlayedRepo({})
    shelf.desk.start_ready()
    said: list[bool] = []
    models = shelf.desk.program.controller.models
    original = models.set_fetching
    models.set_fetching = lambda on: (said.append(on), original(on))  # type: ignore[method-assign, assignment]
    shelf.page.search.searched.emit("tiny", "gguf")
    shelf.wait(lambda: shelf.find.state == "results")
    assert said[0] is True and said[-1] is False


def test_a_gated_model_asks_for_a_token_and_goes_on_with_it(
    shelf: Shelf, played: PlayedHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def keep(self: HubToken, text: str) -> bool:
        self._value = text
        played.mood = None
        return False

    monkeypatch.setattr(HubToken, "keep", keep)
    played.repos[REPO] = PlayedRepo({"tiny-Q8_0.gguf": gguf_model("Q8_0")}, gated="manual")
    played.mood = fixed(b"{}", 401, X_Error_Code="GatedRepo")
    shelf.desk.start_ready()
    shelf.page.search.opened.emit(REPO)
    shelf.wait(lambda: shelf.find.state == "failed")
    assert shelf.find.page.endswith(REPO) and "licence" in shelf.find.title
    shelf.page.search.token_given.emit("hf_a_secret_token")
    shelf.wait(lambda: shelf.find.state == "files")
    assert played.plan.logins[-1] == "Bearer hf_a_secret_token"


def test_offline_says_that_models_here_still_work(
    shelf: Shelf, plain_network: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    shelf.desk.start_ready()
    shelf.page.search.searched.emit("tiny", "gguf")
    shelf.wait(lambda: shelf.find.state == "failed")
    assert "No connection" in shelf.find.title and "still work" in shelf.find.text and not shelf.find.page


def test_a_later_question_takes_the_place_of_one_that_is_waiting(
    shelf: Shelf, played: PlayedHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    played.repos["maker/second-GGUF"] = PlayedRepo({})
    played.repos["maker/first-GGUF"] = PlayedRepo({})
    shelf.desk.start_ready()
    shelf.page.search.searched.emit("first", "gguf")
    shelf.page.search.searched.emit("second", "gguf")
    shelf.wait(lambda: shelf.find.state == "results")
    assert [row.repo for row in shelf.find.repos] == ["maker/second-GGUF"]


def test_the_first_start_offers_models_without_asking_a_server(shelf: Shelf, played: PlayedHub) -> None:
    shelf.desk.start(None)
    offers = shelf.desk.window.body.centre.first_start.offers
    shelf.wait(lambda: bool(offers.list.model_.rows))
    assert played.plan.requests == []
    assert all(row.fit.speed for row in offers.list.model_.rows)


def test_a_model_without_a_name_of_its_own_is_called_what_the_library_calls_it(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_choice, "read_spec", make_spec)
    path = put("Qwen3/model.gguf", gguf_model())
    shelf.desk.start_ready()
    shelf.open()
    shelf.wait_for_row("Qwen3")
    shelf.page.triggered.emit(str(path), "use")
    shelf.wait(lambda: shelf.desk.chip.name == "Qwen3")


def test_control_m_goes_from_chat_to_picker_to_library_and_back(shelf: Shelf) -> None:
    window = shelf.desk.window
    shelf.desk.start_ready()
    window.open_picker()
    assert window.picker.isVisible()
    window.open_picker()
    assert window.picker.isHidden() and window.body.page == LIBRARY
    window.open_picker()
    assert window.body.page == ""


def test_counts_and_files_have_words() -> None:
    assert hub_desk._downloads(1_234_567) == "1.2 million downloads"
    assert hub_desk._downloads(1) == "1 download" and hub_desk._downloads(None) == ""


def test_a_model_that_the_list_does_not_have_is_looked_for_when_it_is_ready(shelf: Shelf) -> None:
    shelf.desk.start(None)
    row = shelf.desk.window.body.sidebar.navigation.row(LIBRARY)
    assert isinstance(row, PageRow)
    shelf.wait(lambda: row.note == "empty")
    path = models_folder() / "starter.gguf"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gguf_model("Q8_0"))
    shelf.desk.window.model_chosen.emit(str(path))
    shelf.wait(lambda: row.note == "1 model")
