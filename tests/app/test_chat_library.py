"""Whole chats in the window: pins, folders, search, temporary ones, other windows, export and import."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLineEdit, QMenu
from pytestqt.qtbot import QtBot

from app import logs, paths
from app.conversation import Turn
from app.store import UNDO_S, Folder, Store
from tests.app.imports import files
from tests.app.program import Desk
from tests.fakes import FakeEngine
from ui.chat_values import ChatRow, FolderRow, SearchView
from ui.values import NoticeView


@pytest.fixture
def desk(qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    made = Desk(qtbot, qapp, monkeypatch, FakeEngine())
    yield made
    made.stop()


@pytest.fixture
def folders(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> list[FolderRow]:
    """The folders that the window shows."""
    shown: list[FolderRow] = []
    original = desk.window.chats.set_folders

    def both(rows: list[FolderRow]) -> None:
        shown[:] = rows
        original(rows)

    monkeypatch.setattr(desk.window.chats, "set_folders", both)
    return shown


def ask(desk: Desk, *texts: str) -> list[str]:
    """A chat for each text; their ids."""
    ids = []
    for text in texts:
        desk.window.new_chat_requested.emit()
        desk.send(text)
        desk.wait_for_answer()
        desk.wait(lambda: not desk.is_generating)
        ids.append(next(row.chat_id for row in desk.rows if row.title == text))
    return ids


def titles(desk: Desk) -> list[str]:
    return [row.title for row in desk.rows]


@contextlib.contextmanager
def disk() -> Iterator[Store]:
    with contextlib.closing(Store(paths.chats_db())) as store:
        yield store


def test_pinned_chats_come_first_and_stay_so(desk: Desk) -> None:
    desk.start_ready()
    first, second, _ = ask(desk, "one", "two", "three")
    desk.window.chats.pin_requested.emit(first)
    desk.window.chats.pin_requested.emit(second)
    assert [(row.title, row.group, row.is_pinned) for row in desk.rows] == [
        ("one", "Pinned", True),
        ("two", "Pinned", True),
        ("three", "Today", False),
    ]
    desk.window.chats.pin_requested.emit(first)
    assert titles(desk) == ["two", "three", "one"]
    desk.flush()
    with disk() as store:
        assert [chat.title for chat in store.list_chats() if chat.pinned_s] == ["two"]


def test_the_key_pins_the_shown_chat(desk: Desk) -> None:
    desk.start_ready()
    ask(desk, "one")
    desk.window.chats.pin_requested.emit("")
    assert desk.rows[0].is_pinned


def test_folders_hold_chats_and_their_deletion_can_be_undone(desk: Desk, folders: list[FolderRow]) -> None:
    desk.start_ready()
    chat_id, _ = ask(desk, "one", "two")
    controls = desk.window.chats
    controls.folder_added.emit("New folder", chat_id)
    [folder] = folders
    assert (folder.name, folder.count) == ("New folder", 1)
    controls.folder_renamed.emit(folder.folder_id, "  My\nwork ")
    controls.folder_toggled.emit(folder.folder_id)
    assert folders == [FolderRow(folder.folder_id, "My work", 1, is_open=False)]
    assert next(row for row in desk.rows if row.chat_id == chat_id).folder_id == folder.folder_id
    controls.folder_delete_requested.emit(folder.folder_id)
    assert (folders, {row.folder_id for row in desk.rows}) == ([], {""})
    desk.window.notice_action.emit("undo-delete")
    assert [row.name for row in folders] == ["My work"]
    desk.flush()
    with disk() as store:
        assert [(each.name, each.is_open) for each in store.folders()] == [("My work", False)]
        assert [chat.title for chat in store.list_chats() if chat.folder_id] == ["one"]


def test_search_finds_and_opens_the_message_in_its_branch(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.start_ready()
    chat_id, _ = ask(desk, "about whales", "about ships")
    desk.window.chat_selected.emit(chat_id)
    desk.fake.words = ("Krill", ".")
    desk.window.chats.regenerate_requested.emit("")
    desk.wait(lambda: [view.text for view in desk.messages.values()] == ["about whales", "Krill."])
    answer = list(desk.messages.values())[1]
    desk.wait(lambda: not desk.is_generating)
    desk.window.chats.branch_requested.emit(answer.message_id, -1)
    desk.window.new_chat_requested.emit()
    found: list[SearchView | None] = []
    monkeypatch.setattr(desk.window.chats, "set_search", found.append)
    desk.flush()
    desk.window.chats.search_changed.emit("kri")
    desk.window.chats.search_changed.emit("kril")
    desk.wait(lambda: bool(found))
    assert found[-1] is not None
    [hit] = found[-1].hits
    assert (found[-1].query, hit.chat_id, hit.message_id) == ("kril", chat_id, answer.message_id)
    desk.window.chats.hit_chosen.emit(hit.chat_id, hit.message_id)
    desk.wait(lambda: [view.text for view in desk.messages.values()] == ["about whales", "Krill."])
    desk.window.chats.search_changed.emit(" ")
    assert found[-1] is None


def test_of_a_temporary_chat_nothing_reaches_the_disk(desk: Desk) -> None:
    logs.start()
    desk.start_ready()
    ask(desk, "an ordinary chat")
    desk.fake.words = ("unutterable", " answer")
    desk.window.chats.temporary_requested.emit()
    desk.window.set_composer_text("unspeakable draft")
    desk.program.controller.chats._keep_draft()
    desk.send("unmentionable question")
    desk.wait_for_answer()
    row = desk.rows[0]
    assert (row.title, row.group, row.is_temporary) == ("unmentionable question", "Temporary", True)
    desk.window.chats.regenerate_requested.emit("")
    desk.wait(lambda: not desk.is_generating and desk.answers()[-1].branches == 2)
    desk.window.chat_renamed.emit(row.chat_id, "unprintable title")
    desk.window.chat_selected.emit(desk.rows[1].chat_id)
    desk.window.chat_selected.emit(row.chat_id)
    assert [view.text for view in desk.messages.values()] == ["unmentionable question", "unutterable answer"]
    desk.window.chat_delete_requested.emit(row.chat_id)
    desk.window.notice_action.emit("undo-delete")
    assert "unprintable title" in titles(desk)
    desk.program.controller.chats._watch.look()
    desk.flush()
    assert "unprintable title" in titles(desk)
    desk.stop()
    logs.stop()
    words = (b"unutterable", b"unspeakable", b"unmentionable", b"unprintable")
    written = {path: path.read_bytes() for path in paths.data_dir().rglob("*") if path.is_file()}
    assert paths.chats_db() in written
    assert {path.name for path, data in written.items() if any(word in data for word in words)} == set()
    with disk() as store:
        assert [chat.title for chat in store.list_chats()] == ["an ordinary chat"]


def test_what_another_window_does_is_seen_after_a_moment(
    desk: Desk, folders: list[FolderRow]
) -> None:  # B090
    desk.start_ready()
    mine, gone = ask(desk, "mine", "gone")
    desk.window.chat_selected.emit(mine)
    desk.flush()
    with disk() as other:
        other.create_chat("theirs", "t")
        other.add_message(Turn("t1", "t", None, "user", "hello", created_s=5e9))
        other.add_folder(Folder("f", "Shared", 1.0))
        other.delete_chat(gone)
        [question, answer] = other.messages(mine)
        other.add_message(Turn("m3", mine, answer.id, "user", "from there", created_s=4.9e9))
    desk.program.controller.chats._watch.look()
    desk.wait(lambda: titles(desk) == ["theirs", "mine"])
    assert [row.name for row in folders] == ["Shared"]
    desk.wait(lambda: [view.text for view in desk.messages.values()][-1:] == ["from there"])
    assert question.content == "mine"
    desk.window.chat_selected.emit("t")
    desk.wait(lambda: [view.text for view in desk.messages.values()] == ["hello"])


def test_a_shown_chat_that_another_window_deletes_goes(desk: Desk) -> None:
    desk.start_ready()
    [chat_id] = ask(desk, "one")
    desk.flush()
    with disk() as other:
        other.delete_chat(chat_id)
    desk.program.controller.chats._watch.look()
    desk.wait(lambda: desk.rows == [])
    assert desk.messages == {}


def test_export_writes_what_is_shown_or_everything(desk: Desk, tmp_path: Path) -> None:
    desk.start_ready()
    chat_id, _ = ask(desk, "one", "two")
    markdown, whole = tmp_path / "one.md", tmp_path / "all.json"
    desk.window.chats.export_requested.emit(chat_id, "md", str(markdown))
    desk.wait(lambda: desk.notice is not None and desk.notice.title == "The chat was written to one.md.")
    assert "## You\n\none\n\n## Answer\n\nHello there.\n" in markdown.read_text(encoding="utf-8")
    desk.window.chats.export_requested.emit("", "json", str(whole))
    desk.wait(lambda: desk.notice is not None and desk.notice.title == "2 chats were written to all.json.")
    assert len(json.loads(whole.read_text(encoding="utf-8"))["chats"]) == 2
    desk.window.chats.export_requested.emit(chat_id, "md", str(tmp_path / "absent" / "\0" / "x.md"))
    desk.wait(lambda: desk.notice is not None and desk.notice.kind == "error")


def test_import_says_what_came_and_what_was_left_out(desk: Desk, tmp_path: Path) -> None:  # B089
    desk.start_ready()
    good, bad = tmp_path / "conversations.json", tmp_path / "bad.json"
    good.write_text(json.dumps([files.chatgpt_chat(), {"title": "Empty", "mapping": {}}]), encoding="utf-8")
    bad.write_text("[", encoding="utf-8")
    desk.window.chats.import_requested.emit([str(good), str(bad)])
    desk.wait(lambda: desk.notice is not None and desk.notice.title == "1 chat imported.")
    assert desk.notice is not None
    assert desk.notice.kind == "warning"
    assert "4 messages in all. Left out: images and files (1), messages of tools (1), 2 files or chats." in (
        desk.notice.text
    )
    assert 'conversations.json: "Empty": it has no message with text.' in desk.notice.details
    desk.wait(lambda: titles(desk) == ["The sky"])
    desk.window.chats.import_requested.emit([str(good)])
    desk.wait(lambda: desk.notice is not None and desk.notice.title == "1 chat was here already.")
    desk.window.chats.import_requested.emit([str(bad)])
    desk.wait(lambda: desk.notice is not None and desk.notice.title == "No chat was imported.")
    desk.window.chat_selected.emit(desk.rows[0].chat_id)
    desk.wait(lambda: [view.text for view in desk.messages.values()][-1:] == ["And this?"])


def test_the_list_is_made_once_for_what_is_done_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, folders: list[FolderRow]
) -> None:
    desk.start_ready()
    chat_ids = ask(desk, "one", "two", "three")
    controls, library = desk.window.chats, desk.program.controller.chats.library
    controls.folder_added.emit("Work", chat_ids[0])
    for chat_id in chat_ids[1:]:
        controls.moved.emit(chat_id, folders[0].folder_id)
    controls.folder_delete_requested.emit(folders[0].folder_id)
    made: list[int] = []
    rows = library.list.rows

    def counted(*args: Any) -> list[ChatRow]:
        made.append(1)
        return rows(*args)

    monkeypatch.setattr(library.list, "rows", counted)
    desk.window.notice_action.emit("undo-delete")
    assert (len(made), folders[0].count) == (1, 3)
    desk.fake.hold.clear()
    made.clear()
    desk.window.message_sent.emit("again")
    assert len(made) == 1 and next(row for row in desk.rows if row.title == "three").is_writing
    desk.fake.hold.set()
    desk.wait_for_answer()


@pytest.mark.parametrize(("slug", "detail"), [("gpt-4o", "gpt-4o"), (None, "ChatGPT")])
def test_an_imported_chat_says_who_answered(
    desk: Desk, tmp_path: Path, slug: str | None, detail: str
) -> None:
    desk.start_ready()
    chat = files.chatgpt_chat()
    chat["mapping"]["second"]["message"]["metadata"] = {"model_slug": slug}
    (tmp_path / "conversations.json").write_text(json.dumps([chat]), encoding="utf-8")
    desk.window.chats.import_requested.emit([str(tmp_path / "conversations.json")])
    desk.wait(lambda: titles(desk) == ["The sky"])
    assert desk.rows[0].detail == detail


def test_own_chats_come_back_into_their_folder(desk: Desk, tmp_path: Path, folders: list[FolderRow]) -> None:
    desk.start_ready()
    [chat_id] = ask(desk, "one")
    desk.window.chats.folder_added.emit("Work", chat_id)
    path = tmp_path / "one.json"
    desk.flush()
    desk.window.chats.export_requested.emit(chat_id, "json", str(path))
    desk.wait(path.exists)
    desk.window.chat_delete_requested.emit(chat_id)
    desk.window.chats.folder_delete_requested.emit(folders[0].folder_id)
    desk.window.chats.import_requested.emit([str(path)])
    desk.wait(lambda: titles(desk) == ["one"])
    assert [row.name for row in folders] == ["Work"]


def test_an_import_can_be_cancelled(desk: Desk, tmp_path: Path) -> None:
    desk.start_ready()
    many = tmp_path / "many.json"
    chats = [files.open_webui_chat() | {"id": str(number)} for number in range(400)]
    many.write_text(json.dumps(chats), encoding="utf-8")
    desk.window.chats.import_requested.emit([str(many)])
    desk.window.notice_action.emit("cancel-import")
    desk.wait(lambda: desk.notice is not None and "was stopped" in desk.notice.text)
    desk.flush()
    assert len(desk.rows) < 400


def test_a_new_folder_is_named_before_anything_else_is_typed(desk: Desk, folders: list[FolderRow]) -> None:
    desk.start_ready()
    desk.window.resize(1440, 900)
    [chat_id] = ask(desk, "one")
    chats = desk.window.body.sidebar.list
    chats.show_menu(chats.chats.index_of(chat_id), chats.mapToGlobal(QPoint(5, 5)))
    menu = next(each for each in chats.findChildren(QMenu) if each.isVisible())
    actions = [action for each in menu.findChildren(QMenu) for action in each.actions()]
    menu.close()
    next(action for action in actions if action.text() == "New folder…").trigger()
    editor = chats.findChild(QLineEdit, "rename")
    assert isinstance(editor, QLineEdit)
    assert (editor.text(), editor.selectedText()) == ("New folder", "New folder")
    QTest.keyClicks(editor, "Gar")
    desk.program.controller.chats.library.rename(chat_id, "another")  # the list is shown anew meanwhile
    QTest.keyClicks(editor, "den")
    QTest.keyClick(editor, Qt.Key.Key_Return)
    desk.wait(lambda: chats.findChild(QLineEdit, "rename") is None)
    assert [(row.name, row.count) for row in folders] == [("Garden", 1)]
    model = chats.chats
    assert [model.data(model.index(row)) for row in range(model.rowCount())] == ["Garden", "another"]
    assert "Garden" not in [text for _, text, _ in desk.shown()]


def test_a_deleted_chat_can_be_had_back_as_long_as_the_store_keeps_it(desk: Desk) -> None:
    desk.start_ready()
    desk.window.resize(1440, 900)
    chat_id, _ = ask(desk, "one", "two")
    undo = desk.program.controller.chats.library.undo
    assert not undo._timer.isActive()
    desk.window.chat_delete_requested.emit(chat_id)
    assert undo._timer.remainingTime() > 1000 * (UNDO_S - 5)
    desk.window.show_notice(NoticeView("info", "Something else"))
    desk.window.body.centre.notice.dismiss()  # and what it hid is there again
    desk.window.clear_notice()
    assert desk.notice is not None
    assert desk.notice.title == "Chat deleted: one"
    QTest.keyClick(desk.window.body.sidebar.list, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert sorted(titles(desk)) == ["one", "two"]
    assert desk.notice is None
    desk.window.chat_delete_requested.emit(chat_id)
    undo._timer.timeout.emit()
    assert desk.notice is None
    QTest.keyClick(desk.window.body.sidebar.list, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert titles(desk) == ["two"]


@pytest.mark.parametrize("is_by_key", [True, False])
def test_a_new_chat_ends_the_search(desk: Desk, is_by_key: bool) -> None:
    desk.start_ready()
    desk.window.resize(1440, 900)
    chat_id, _ = ask(desk, "about whales", "about ships")
    desk.flush()
    sidebar = desk.window.body.sidebar
    if not is_by_key:
        desk.window.new_chat_requested.emit()
    sidebar.search.field.setText("whales")
    desk.wait(lambda: sidebar.search.is_searching)
    if is_by_key:
        desk.window.chats.hit_chosen.emit(chat_id, "")
        assert sidebar.search.is_searching  # there may be another hit to look at
        desk.window.new_chat()
    else:
        desk.send("about sails")
        assert "about sails" in titles(desk)
    assert (sidebar.search.field.text(), sidebar.search.is_searching) == ("", False)
    assert sidebar.list.isVisible()


def test_the_one_chat_that_was_imported_is_opened(desk: Desk, tmp_path: Path) -> None:
    desk.start_ready()
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([files.chatgpt_chat()]), encoding="utf-8")
    desk.window.toggle_lab()
    desk.window.chats.import_requested.emit([str(path)])
    desk.wait(lambda: [view.text for view in desk.messages.values()][-1:] == ["And this?"])
    assert (desk.window.body.page, titles(desk)) == ("", ["The sky"])
    assert desk.notice is not None
    assert desk.notice.title == "1 chat imported."
    grown = files.chatgpt_chat()
    reply = files.chatgpt_message("assistant", "A cloud.")
    grown["mapping"]["new"] = {"message": reply, "parent": "more"}
    path.write_text(json.dumps([grown]), encoding="utf-8")
    desk.window.chats.import_requested.emit([str(path)])
    desk.wait(lambda: desk.notice is not None and "got new messages" in desk.notice.title)
    desk.wait(lambda: not desk.program.controller.chats.is_reading)  # the shown chat is read again


def test_of_several_imported_chats_none_is_opened(desk: Desk, tmp_path: Path) -> None:
    desk.start_ready()
    path = tmp_path / "many.json"
    path.write_text(json.dumps([files.open_webui_chat() | {"id": str(each)} for each in range(2)]), "utf-8")
    desk.window.chats.import_requested.emit([str(path)])
    desk.wait(lambda: len(desk.rows) == 2)
    assert desk.program.controller.chats.current_id is None
