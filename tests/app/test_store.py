"""Chats on the disk: whole after a kill, a full disk, damage, and with two windows at once."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app import store as store_module
from app.atomic_file import StorageError
from app.conversation import Conversation, Turn
from app.salvage import salvage
from app.store import UNDO_S, Store

ROOT = Path(__file__).parents[2]


class Clock:
    """Seconds that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "chats.db"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(path: Path, clock: Clock) -> Iterator[Store]:
    with contextlib.closing(Store(path, clock)) as opened:
        yield opened


@contextlib.contextmanager
def opened(path: Path, clock: Clock | None = None) -> Iterator[Store]:
    with contextlib.closing(Store(path, clock or Clock())) as store:
        yield store


def turn(turn_id: str, chat_id: str = "c", content: str = "hello", created_s: float = 1.0) -> Turn:
    return Turn(turn_id, chat_id, None, "user", content, created_s=created_s)


def filled(path: Path, num_chats: int = 3, num_turns: int = 2) -> None:
    with opened(path) as store:
        store._db.execute("PRAGMA synchronous = OFF")
        for number in range(num_chats):
            chat = store.create_chat(f"chat {number}", f"c{number}")
            for index in range(num_turns):
                store.add_message(turn(f"{chat.id}-{index}", chat.id, "words " * 100))


def test_a_chat_comes_back_as_it_was(path: Path, store: Store) -> None:
    chat = store.create_chat("Über uns", model="SmolLM2")
    conversation = Conversation(chat.id)
    question = conversation.append("user", "a\x00b 🧊")
    store.add_message(question)
    answer = conversation.append("assistant", "", "writing")
    store.add_message(answer)
    final = conversation.update(answer.id, "text", "done", {"decode_tps": 42.1, "token_ids": [1, 2]})
    assert store.update_message(final)
    store.describe_chat(chat.id, "SmolLM2-135M", 42.1)
    with opened(path) as again:
        (found,) = again.list_chats()
        assert again.messages(chat.id) == (question, final)
    assert found == replace(
        chat, model="SmolLM2-135M", decode_tps=42.1, active_id=answer.id, updated_s=found.updated_s
    )
    assert store.notice is None


def test_the_last_used_chat_comes_first_and_a_new_name_moves_nothing(store: Store, clock: Clock) -> None:
    for name in "abc":
        store.create_chat(name, chat_id=name)
        clock.now += 1
    store.add_message(turn("1", "a", created_s=clock.now))
    store.rename_chat("b", "renamed")
    assert [(chat.id, chat.title) for chat in store.list_chats()] == [
        ("a", "a"),
        ("c", "c"),
        ("b", "renamed"),
    ]


def test_a_message_keeps_what_a_window_can_hold(store: Store) -> None:
    """Half a surrogate pair can be pasted; it is no text that a file can hold."""
    store.create_chat("t", "c")
    store.add_message(turn("1", content="a\ud83d"))
    assert store.messages("c")[0].content == "a?"


def test_the_shown_branch_is_kept(store: Store) -> None:
    store.create_chat("t", "c")
    store.add_message(turn("1"))
    store.add_message(turn("2"))
    assert store.list_chats()[0].active_id == "2"
    store.select_branch("c", "1")
    assert store.list_chats()[0].active_id == "1"


def test_a_deleted_chat_can_be_had_back(store: Store) -> None:
    store.create_chat("t", "c")
    store.add_message(turn("1"))
    store.delete_chat("c")
    assert store.list_chats() == ()
    store.restore_chat("c")
    assert len(store.list_chats()) == 1
    assert len(store.messages("c")) == 1


def test_a_deleted_chat_is_gone_from_the_disk_at_a_later_start(path: Path, clock: Clock) -> None:
    with opened(path, clock) as store:
        store.create_chat("t", "c")
        store.add_message(turn("1", content="unforgettable words"))
        store.delete_chat("c")
    with opened(path, clock) as store:  # too early: another window may still want it
        store.restore_chat("c")
        store.delete_chat("c")
    clock.now += UNDO_S + 1
    with opened(path, clock) as store:
        store.restore_chat("c")
        assert store.list_chats() == ()
        assert store.messages("c") == ()
    assert b"unforgettable" not in path.read_bytes()


def test_two_windows_see_each_others_chats_and_lose_nothing(path: Path, store: Store) -> None:
    store.create_chat("first", "a")
    with opened(path) as other:
        other.create_chat("second", "b")
        other.add_message(turn("1", "a"))
        store.add_message(turn("2", "a"))
    assert {chat.id for chat in store.list_chats()} == {"a", "b"}
    assert [each.id for each in store.messages("a")] == ["1", "2"]


def test_writing_into_a_chat_that_another_window_deleted_brings_it_back(path: Path, store: Store) -> None:
    store.create_chat("t", "c")
    with opened(path) as other:
        other.delete_chat("c")
    store.add_message(turn("1"))
    assert len(store.list_chats()) == 1


def test_writing_into_a_chat_that_is_gone_is_said(store: Store) -> None:
    with pytest.raises(StorageError, match="deleted in another window"):
        store.add_message(turn("1", "gone"))
    assert store.update_message(turn("1", "gone")) is False


def test_two_windows_may_start_at_the_same_moment(path: Path) -> None:
    path.parent.mkdir()
    start = threading.Barrier(4)
    problems: list[object] = []

    def begin(number: int) -> None:
        start.wait()
        try:
            with opened(path) as store:
                store.create_chat("t", f"c{number}")
                problems.extend(filter(None, [store.notice, store.read_only_reason]))
        except StorageError as error:
            problems.append(error)

    threads = [threading.Thread(target=begin, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    with opened(path) as store:
        assert len(store.list_chats()) == 4


def test_what_was_written_survives_a_kill(path: Path) -> None:
    """The writer says what it has written; after the kill at least that is there, and the file is whole."""
    code = (
        "import sys; from pathlib import Path; from app.store import Store\n"
        "from app.conversation import Turn\n"
        "store = Store(Path(sys.argv[1])); store.create_chat('t', 'c')\n"
        "for n in range(10**6):\n"
        "    store.add_message(Turn(str(n), 'c', None, 'user', 'x' * 5000)); print(n, flush=True)\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", code, str(path)], cwd=ROOT, stdout=subprocess.PIPE)
    with writer:
        assert writer.stdout is not None
        said = -1
        while said < 20:
            said = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)
        said = max([said, *map(int, writer.stdout.read().split())])
    with opened(path) as store:
        assert store.notice is None
        ids = [int(each.id) for each in store.messages("c")]
    assert ids == list(range(len(ids)))
    assert len(ids) > said


def test_a_failed_write_leaves_nothing_half_done(store: Store) -> None:
    store.create_chat("t", "c")
    store.add_message(turn("1", created_s=5.0))
    with pytest.raises(StorageError):
        store.add_message(turn("1", created_s=9000.0))  # the chat's time was changed, then the id was refused
    assert store.list_chats()[0].updated_s == 1000.0
    store.add_message(turn("2"))


def test_a_full_disk_is_said_and_the_old_rows_stay(store: Store) -> None:
    store.create_chat("t", "c")
    store.add_message(turn("1"))
    store._db.execute("PRAGMA max_page_count = 1")  # SQLite answers as for a full disk
    with pytest.raises(StorageError, match="The disk is full"):
        store.add_message(turn("2", content="x" * 200_000))
    assert [each.id for each in store.messages("c")] == ["1"]
    store._db.execute("PRAGMA max_page_count = 1000000")
    store.add_message(turn("2"))


@pytest.mark.parametrize("content", [bytes(50_000), b"SQLite format 3\x00" + b"junk" * 500, b"\xe2\x82"])
def test_a_damaged_file_is_set_aside_and_named(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    with opened(path) as store:
        (aside,) = path.parent.glob("chats.broken-*.db")
        assert aside.read_bytes() == content
        assert store.notice is not None
        assert aside.name in store.notice
        store.create_chat("t", "c")
    with opened(path) as store:
        assert store.notice is None
        assert len(store.list_chats()) == 1


def test_a_new_file_that_cannot_be_filled_is_closed_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(path)
    data = bytearray(path.read_bytes())
    data[4096:8192] = bytes(4096)
    path.write_bytes(bytes(data))
    made: list[sqlite3.Connection] = []
    fill = store_module._fill

    def fail(database: sqlite3.Connection, *rows: object) -> None:
        made.append(database)
        fill(database, (), ())
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(store_module, "_fill", fail)
    with opened(path) as store:
        assert "could not be replaced" in (store.notice or "")
        (database,) = made
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            database.execute("SELECT 1")


def test_an_empty_file_is_a_new_one(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"")
    with opened(path) as store:
        store.create_chat("t", "c")
        assert store.notice is None


def test_what_lies_outside_the_damage_is_read(path: Path) -> None:
    filled(path, num_chats=30, num_turns=20)
    with opened(path) as store:
        store.delete_chat("c7")
    data = bytearray(path.read_bytes())
    middle = len(data) // 2 // 4096 * 4096
    data[middle : middle + 3 * 4096] = bytes(3 * 4096)  # three pages lost
    path.write_bytes(bytes(data))
    with opened(path) as store:
        assert store.notice is not None
        chats = store.list_chats()
        num_turns = sum(len(store.messages(chat.id)) for chat in chats)
        assert {chat.title for chat in chats} >= {f"chat {number}" for number in range(30) if number != 7}
        assert all(chat.id != "c7" for chat in chats)
        assert 400 < num_turns < 600
        assert f"{len(chats)} chats with {num_turns} messages" in store.notice
        assert store._db.execute("PRAGMA quick_check").fetchone() == ("ok",)


def test_messages_whose_chat_is_lost_are_gathered(path: Path) -> None:
    filled(path, num_chats=2)
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE chats SET title = x'00' WHERE id = 'c0'")
    assert salvage(path)[0][-1].title == "Recovered chat"


def test_a_newer_version_is_opened_for_reading_with_the_reason(path: Path) -> None:
    filled(path)
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 2")
    before = path.read_bytes()
    with opened(path) as store:
        assert len(store.list_chats()) == 3
        assert store.read_only_reason is not None
        assert "newer version" in store.read_only_reason
        with pytest.raises(StorageError, match="newer version"):
            store.create_chat("t")
        with pytest.raises(StorageError, match="newer version"):
            store.delete_chat("c0")
    assert path.read_bytes() == before


def test_a_file_that_cannot_be_written_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(path)

    def refuse(database: sqlite3.Connection) -> None:
        database.execute("PRAGMA query_only = ON")
        database.execute("CREATE TABLE x(y)")

    with monkeypatch.context() as patch:
        patch.setattr(store_module, "_prepare", refuse)
        with opened(path) as store:
            assert len(store.list_chats()) == 3
            assert store.read_only_reason is not None
            assert "read-only" in store.read_only_reason


def test_without_a_place_on_the_disk_the_program_starts_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with opened(tmp_path / "file" / "chats.db") as store:
        assert store.notice is not None
        assert "only until the program ends" in store.notice
        store.create_chat("t", "c")
        store.add_message(turn("1"))
        assert len(store.messages("c")) == 1


def test_a_row_that_no_version_wrote_is_an_error_with_a_sentence(path: Path, store: Store) -> None:
    store.create_chat("t", "c")
    store._db.execute("UPDATE chats SET title = x'00'")
    with pytest.raises(StorageError, match="damaged"):
        store.list_chats()


def test_unreadable_figures_cost_no_message(store: Store) -> None:
    store.create_chat("t", "c")
    store.add_message(turn("1"))
    for stats in ("{", "[]", "", "[" * 10_000):
        store._db.execute("UPDATE messages SET stats = ?", (stats,))
        assert store.messages("c")[0].stats == {}


def test_five_thousand_chats_are_listed_without_reading_their_messages(path: Path, store: Store) -> None:
    store._db.execute("BEGIN")
    store._db.executemany(
        "INSERT INTO chats(id, title, created_s, updated_s) VALUES (?, 't', 0, ?)",
        [(str(number), number) for number in range(5000)],
    )
    store._db.execute("COMMIT")
    read: list[str] = []
    store._db.set_trace_callback(read.append)
    assert len(store.list_chats()) == 5000
    assert len(read) == 1
    assert "messages" not in read[0]


def test_streaming_into_a_long_chat_writes_little(path: Path, store: Store) -> None:
    """B088: the chat is not written whole for each save; 15 saves are ten seconds of an answer."""
    store.create_chat("t", "c")
    store.add_message(turn("long", content="x" * 2_000_000))
    store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    store.add_message(turn("answer", content=""))
    for number in range(15):
        store.update_message(turn("answer", content="word " * 100 * number))
    assert os.path.getsize(f"{path}-wal") < 1_500_000
