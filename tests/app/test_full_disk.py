"""Chats on a disk that takes no more: what was written stays, the window keeps the rest for later."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app import paths
from app.atomic_file import StorageError
from app.conversation import Turn
from app.store import Store
from app.undo import UNDO
from tests.app.program import Desk
from tests.fakes import FakeEngine

ROOT = Path(__file__).parents[2]
FILLER = """
import resource, sys
from pathlib import Path
from app.atomic_file import StorageError
from app.conversation import Turn
from app.store import Store

store = Store(Path(sys.argv[1]))
store.create_chat("t", "c")
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
written = 0
try:
    for number in range(10_000):
        store.add_message(Turn(str(number), "c", None, "user", "x" * 3000))
        written = number + 1
except StorageError as error:
    print(error.message)
grown = Turn("0", "c", None, "user", "y" * 500_000)
try:
    store.update_message(grown)
except StorageError:
    print("refused")
print(written, len(store.messages("c")), len(store.messages("c")[0].content))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no limit on the size of files here")
@pytest.mark.parametrize("limit", [200_000, 400_000, 1_000_000])
def test_a_file_that_cannot_grow_keeps_every_message_it_took(tmp_path: Path, limit: int) -> None:  # B086
    path = tmp_path / "chats.db"
    command = [sys.executable, "-c", FILLER, str(path), str(limit)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    sentence, refused, counts = done.stdout.splitlines()
    assert "disk" in sentence
    assert refused == "refused"
    written, read, length = map(int, counts.split())
    assert written == read > 0
    assert length == 3000
    with contextlib.closing(Store(path)) as store:
        assert (store.notice, store.read_only_reason) == (None, None)
        assert [turn.id for turn in store.messages("c")] == [str(number) for number in range(written)]


@pytest.fixture
def desk(qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    made = Desk(qtbot, qapp, monkeypatch, FakeEngine())
    yield made
    made.stop()


def refuse(*_: object) -> None:
    raise StorageError("The disk is full: the chat could not be saved.", "Free some space.")


def test_a_chat_that_could_not_be_saved_is_saved_when_there_is_room(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:  # B086
    desk.start_ready()
    desk.flush()
    with monkeypatch.context() as full:
        for name in ("create_chat", "add_message", "update_message", "describe_chat", "keep_chat"):
            full.setattr(Store, name, refuse)
        desk.send("precious")
        desk.wait_for_answer()
        desk.flush()
        assert desk.notice is not None
        assert desk.notice.title == "The chat could not be saved."
        assert desk.stored() == []
        unsaved = desk.program.controller.chats._unsaved
        unsaved.try_again()
        desk.flush()
        assert desk.stored() == []
    unsaved.try_again()
    desk.flush()
    desk.wait(lambda: desk.notice is None)
    assert desk.stored() == [("user", "precious", "done"), ("assistant", "Hello there.", "done")]
    desk.send("and more")
    desk.wait(lambda: len(desk.answers()) == 2 and desk.answers()[1].status == "done")
    assert len(desk.stored()) == 4


def test_closing_tries_once_more(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:  # B086
    desk.start_ready()
    with monkeypatch.context() as full:
        full.setattr(Store, "add_message", refuse)
        desk.send("precious")
        desk.wait_for_answer()
        desk.flush()
    desk.stop()
    with contextlib.closing(Store(paths.chats_db())) as store:
        [chat] = store.list_chats()
        assert [turn.content for turn in store.messages(chat.id)] == ["precious", "Hello there."]


def test_a_chat_that_had_no_room_at_its_beginning_is_not_called_deleted(tmp_path: Path) -> None:
    with contextlib.closing(Store(tmp_path / "chats.db")) as store:
        with pytest.MonkeyPatch.context() as full:
            full.setattr("app.store.insert_chat", refuse)
            with pytest.raises(StorageError, match="disk is full"):
                store.create_chat("t", "c")
            with pytest.raises(StorageError, match="disk is full"):
                store.add_message(Turn("1", "c", None, "user", "x"))
            with pytest.raises(StorageError, match="disk is full"):
                store.restore_chat("c")
        store.add_message(Turn("2", "c", None, "user", "y"))
        assert [turn.id for turn in store.messages("c")] == ["2"]
        with pytest.raises(StorageError, match="deleted in another window"):
            store.add_message(Turn("3", "another", None, "user", "z"))


def test_a_draft_alone_that_was_not_saved_leaves_no_notice_when_there_is_room(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.start_ready()
    desk.flush()
    chats = desk.program.controller.chats
    with monkeypatch.context() as full:
        full.setattr(Store, "save_draft", refuse)
        desk.window.set_composer_text("not sent")
        chats._keep_draft()
        desk.wait(lambda: desk.notice is not None)
    chats._unsaved.try_again()
    desk.wait(lambda: desk.notice is None)
    with contextlib.closing(Store(paths.chats_db())) as store:
        assert store.drafts() == {"": "not sent"}


def test_names_and_deletions_that_were_not_saved_are_saved_when_there_is_room(
    qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.closing(Store(paths.chats_db())) as store:
        store.create_chat("before", "a")
        store.create_chat("gone", "b")
    desk = Desk(qtbot, qapp, monkeypatch, FakeEngine())
    desk.start_ready()
    desk.flush()
    chats = desk.program.controller.chats
    with monkeypatch.context() as full:
        full.setattr(Store, "rename_chat", refuse)
        full.setattr(Store, "delete_chat", refuse)
        chats.library.rename("a", "after")
        chats.library.delete("b")
        desk.flush()
    chats._unsaved.try_again()
    desk.flush()
    desk.wait(lambda: desk.notice is None or desk.notice.key == UNDO)
    with contextlib.closing(Store(paths.chats_db())) as store:
        assert [chat.title for chat in store.list_chats()] == ["after"]


def test_what_is_not_saved_is_said_through_the_next_message(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.start_ready()
    desk.flush()
    with monkeypatch.context() as full:
        full.setattr(Store, "save_draft", refuse)
        chats = desk.program.controller.chats
        desk.window.set_composer_text("half")
        chats._keep_draft()
        desk.wait(lambda: desk.notice is not None)
        chats.select("elsewhere")
        chats.new_chat()
        assert desk.notice is not None
        assert desk.notice.title == "The chat could not be saved."
