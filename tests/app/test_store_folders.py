"""Pins, folders, who writes an answer, what other windows wrote, imports and retries: in the store."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.atomic_file import StorageError
from app.conversation import ELSEWHERE, Turn
from app.store import UNDO_S, Chat, Folder, Store

SECOND_VERSION = (  # the tables as they were before pins, folders and search
    """CREATE TABLE chats (id TEXT PRIMARY KEY, title TEXT NOT NULL, created_s REAL NOT NULL,
        updated_s REAL NOT NULL, model TEXT NOT NULL DEFAULT '', active_id TEXT, decode_tps REAL,
        deleted_s REAL)""",
    """CREATE TABLE messages (id TEXT PRIMARY KEY,
        chat_id TEXT NOT NULL REFERENCES chats(id) ON DELETE CASCADE, parent_id TEXT, role TEXT NOT NULL,
        content TEXT NOT NULL, status TEXT NOT NULL, stats TEXT NOT NULL DEFAULT '{}',
        created_s REAL NOT NULL, thinking TEXT NOT NULL DEFAULT '', raw TEXT)""",
    "CREATE TABLE drafts (chat_id TEXT PRIMARY KEY, content TEXT NOT NULL)",
    "CREATE INDEX messages_by_chat ON messages(chat_id)",
    "CREATE INDEX chats_by_time ON chats(updated_s)",
    "INSERT INTO chats VALUES ('c', 'Old chat', 1.0, 2.0, 'SmolLM2', 'b', 42.5, NULL)",
    "INSERT INTO messages VALUES ('a', 'c', NULL, 'user', 'hi', 'done', '{}', 1.0, '', NULL)",
    "INSERT INTO messages VALUES ('b', 'c', 'a', 'assistant', 'half of', 'writing', '{}', 2.0, 'hm', NULL)",
    "INSERT INTO drafts VALUES ('c', 'unsent')",
    "PRAGMA user_version = 2",
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chats.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with contextlib.closing(Store(path, lambda: 1000.0)) as opened:
        yield opened


@contextlib.contextmanager
def opened(path: Path, now_s: float = 1000.0) -> Iterator[Store]:
    with contextlib.closing(Store(path, lambda: now_s)) as store:
        yield store


def turn(turn_id: str, chat_id: str = "c", content: str = "text", status: str = "done") -> Turn:
    return Turn(turn_id, chat_id, None, "assistant", content, status, {}, 1.0)


def test_a_file_of_the_second_version_opens_whole(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        for statement in SECOND_VERSION:
            database.execute(statement)
    with opened(path) as store:
        assert (store.notice, store.read_only_reason) == (None, None)
        assert store.list_chats() == (Chat("c", "Old chat", 1.0, 2.0, "SmolLM2", "b", 42.5),)
        asked, cut_off = store.messages("c")
        assert (asked.content, cut_off.content, cut_off.status) == ("hi", "half of", "failed")
        assert cut_off.thinking == "hm"
        assert store.drafts() == {"c": "unsent"}
        store.tidy()
        assert [hit.message_id for hit in store.find("half")] == ["b"]
        store.pin_chat("c", 7.0)
        store.add_folder(Folder("f", "Work", 1.0))
        store.move_chat("c", "f")
    with opened(path) as store:
        [chat] = store.list_chats()
        assert (chat.pinned_s, chat.folder_id, store.notice) == (7.0, "f", None)


def test_folders_keep_name_and_state_and_let_their_chats_go(path: Path, store: Store) -> None:
    store.create_chat("t", "c")
    store.add_folder(Folder("f", "Work", 1.0))
    store.add_folder(Folder("f", "Again", 2.0))  # it is here already
    store.move_chat("c", "f")
    store.change_folder(Folder("f", "Private", 1.0, is_open=False))
    with opened(path) as other:
        assert other.folders() == (Folder("f", "Private", 1.0, is_open=False),)
    store.delete_folder("f")
    assert store.folders() == ()
    assert store.list_chats()[0].folder_id is None


def test_damaged_folders_cost_themselves_alone(path: Path, store: Store) -> None:
    store.add_folder(Folder("f", "Work", 1.0))
    store.add_folder(Folder("g", "Home", 2.0))
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE folders SET name = x'00' WHERE id = 'f'")
    assert [folder.id for folder in store.folders()] == ["g"]


def test_pins_and_folders_survive_damage(path: Path) -> None:
    with opened(path) as store:
        store.create_chat("t", "c")
        store.add_message(turn("a"))
        store.add_folder(Folder("f", "Work", 1.0))
        store.move_chat("c", "f")
        store.pin_chat("c", 9.0)
        before = store.list_chats(), store.folders(), store.messages("c")
        store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE messages", b"CREATE TABLX messages", 1))
    with opened(path) as store:
        assert "could be read and are here" in (store.notice or "")
        assert (store.list_chats(), store.folders(), store.messages("c")) == before


def test_an_answer_belongs_to_the_window_that_writes_it(path: Path, store: Store) -> None:
    store.create_chat("t", "c")
    store.add_message(turn("a", content="half", status="writing"))
    with opened(path) as other:
        [seen] = other.messages("c")
        assert (seen.status, seen.content) == (ELSEWHERE, "half")
        assert not other.continue_message(turn("a", content="half", status="reading"))
        assert store.update_message(turn("a", content="half of it", status="writing"))
        assert other.messages("c")[0].content == "half of it"
        store.update_message(turn("a", content="half of it", status="stopped"))
        assert not other.continue_message(turn("a", content="half", status="reading"))  # it has grown
        assert other.continue_message(turn("a", content="half of it", status="reading"))
        assert store.messages("c")[0].status == ELSEWHERE
        assert not store.continue_message(turn("a", content="half of it", status="reading"))
    assert store.messages("c")[0].status == "failed"  # its window is gone


def test_answers_of_windows_that_are_gone_have_failed_and_their_chats_can_be_removed(path: Path) -> None:
    with opened(path) as store:
        store.create_chat("t", "c")
        store.add_message(turn("a", content="half", status="writing"))
        with opened(path):
            pass  # the first window is still there
        assert store._db.execute("SELECT status FROM messages").fetchone() == ("writing",)
        store.delete_chat("c")
        with opened(path, 1000.0 + UNDO_S + 1):
            pass
        assert store.messages("c")  # somebody writes in it
    with opened(path, 1000.0 + UNDO_S + 1) as store:
        assert store.messages("c") == ()
    assert list(path.parent.glob("*.lock")) == []


def test_what_another_window_wrote_is_news_and_ones_own_is_not(path: Path, store: Store) -> None:
    store.create_chat("mine", "a")
    assert store.news() is None
    with opened(path) as other:
        other.create_chat("theirs", "b")
        other.add_folder(Folder("f", "Work", 1.0))
        news = store.news()
        assert news is not None
        assert {chat.id for chat in news.chats} == {"a", "b"}
        assert [folder.name for folder in news.folders] == ["Work"]
        assert store.news() is None
        assert store.news(is_wanted=True) is not None


def test_an_import_adds_what_is_new_and_overwrites_nothing(store: Store) -> None:
    chat = Chat("c", "Imported", 1.0, 2.0)
    assert store.import_chat(chat, [turn("a")]) == 1
    store.update_message(turn("a", content="mine now"))
    assert store.import_chat(chat, [turn("a")]) is None
    assert store.import_chat(chat, [turn("a"), turn("b")]) == 1
    assert [each.content for each in store.messages("c")] == ["mine now", "text"]
    store.delete_chat("c")
    assert store.import_chat(chat, [turn("a")]) is None
    assert len(store.list_chats()) == 1


def test_a_chat_is_imported_whole_or_not_at_all(store: Store) -> None:
    store.create_chat("t", "other")
    store.add_message(turn("a", "other"))
    with pytest.raises(StorageError):
        store.import_chat(Chat("c", "Imported", 1.0, 2.0), [turn("new"), turn("a")])  # an id of another chat
    assert [chat.id for chat in store.list_chats()] == ["other"]
    assert store.messages("c") == ()


def test_a_chat_that_could_not_be_written_is_kept_as_a_whole_later(store: Store) -> None:
    chat = Chat("c", "Late", 1.0, 2.0, active_id="b")
    turns = [turn("a"), replace(turn("b", status="writing"), parent_id="a")]
    store.keep_chat(chat, turns)
    assert [each.id for each in store.messages("c")] == ["a", "b"]
    assert store.list_chats()[0].active_id == "b"
    store.keep_chat(replace(chat, active_id="a"), [turn("a", content="longer"), turns[1]])
    assert store.messages("c")[0].content == "longer"
    assert len(store.messages("c")) == 2


def test_chats_in_memory_leave_nothing_on_the_disk(tmp_path: Path) -> None:
    with contextlib.closing(Store(None)) as store:
        store.create_chat("t", "c")
        store.add_message(turn("a", content="secret"))
        store.tidy()
        assert [hit.chat_id for hit in store.find("secret")] == ["c"]
        assert (store.place, store.notice, store.read_only_reason) == (None, None, None)
    assert list(tmp_path.iterdir()) == []
