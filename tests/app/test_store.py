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

from app import chat_file, chat_opening
from app.atomic_file import StorageError
from app.chat_tables import VERSION
from app.conversation import Conversation, Turn
from app.salvage import Salvaged
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


def assert_repaired(path: Path) -> None:
    """The file made by ``filled`` with one chat was set aside, its rows are here; the next start is calm."""
    with opened(path) as store:
        assert "1 chat with 2 messages could be read" in (store.notice or "")
        assert store.read_only_reason is None
        (chat,) = store.list_chats()
        assert len(store.messages(chat.id)) == 2
        store.add_message(turn("new", chat.id))
    with opened(path) as store:
        assert store.notice is None
        assert len(store.messages("c0")) == 3


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
        with pytest.raises(StorageError, match="removed for good"):
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
    fill = chat_opening._fill

    def fail(database: sqlite3.Connection, saved: Salvaged) -> None:
        made.append(database)
        fill(database, replace(saved, chats=(), turns=()))
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(chat_opening, "_fill", fail)
    with opened(path) as store:
        assert "could not be replaced" in (store.notice or "")
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            made[0].execute("SELECT 1")


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


def test_a_newer_version_is_opened_for_reading_with_the_reason(path: Path) -> None:
    filled(path)
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute(f"PRAGMA user_version = {VERSION + 1}")
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
        patch.setattr(chat_opening, "prepare", refuse)
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


def test_undo_of_a_deletion_that_another_window_made_final_is_refused(path: Path, clock: Clock) -> None:
    """Its clock had jumped ahead, so the time to undo was over there."""
    with opened(path, clock) as store:
        store.create_chat("t", "c")
        store.delete_chat("c")
        ahead = Clock()
        ahead.now = clock.now + 10 * UNDO_S
        with opened(path, ahead):
            pass
        with pytest.raises(StorageError, match="removed for good by another window"):
            store.restore_chat("c")


@pytest.mark.parametrize(
    ("damage", "num_chats", "num_turns", "said"),
    [
        ("UPDATE chats SET title = x'41' WHERE id = 'c1'", 2, 4, "places: 1 chat in it"),
        ("UPDATE chats SET updated_s = 'abc' WHERE id = 'c1'", 2, 4, "places: 1 chat in it"),
        ("UPDATE messages SET content = x'41' WHERE chat_id = 'c1'", 3, 4, "places: 2 messages in it"),
        ("UPDATE messages SET parent_id = x'41' WHERE id = 'c1-0'", 3, 5, "places: 1 message in it"),
        ("UPDATE chats SET active_id = x'41', model = x'41', decode_tps = 'a'", 3, 6, None),
    ],
)
def test_a_damaged_row_costs_itself_alone_and_is_counted(
    path: Path, damage: str, num_chats: int, num_turns: int, said: str | None
) -> None:
    filled(path)
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute(damage)
    with opened(path) as store:
        chats = store.list_chats()
        assert len(chats) == num_chats
        assert sum(len(store.messages(chat.id)) for chat in chats) == num_turns
        assert (said is None) is (store.notice is None)
        assert (said or "") in (store.notice or "")
        store.add_message(turn("new", chats[0].id))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"CREATE TABLE messages", b"CREATE TABL\xff messages"),  # sqlite3 cannot decode its own complaint
        (b"CREATE TABLE messages", b"CREATE TABLX messages"),
        (b"tablechatschats", b"tablechatschatt"),
        (b"active_id TEXT", b"active_iX TEXT"),
        (b"active_id TEXT", b"active_\xffd TEXT"),
        (b"content TEXT NOT", b"content REAL NOT"),
        (b"REFERENCES chats(id)", b"REFERENCES chatX(id)"),
    ],
)
def test_damage_in_the_list_of_tables_is_repaired_without_loss(path: Path, old: bytes, new: bytes) -> None:
    filled(path, num_chats=1)
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new, 1))
    assert_repaired(path)


@pytest.mark.parametrize(
    ("place", "value"),
    [(0, 77), (16, 8), (18, 77), (19, 77), (20, 77), (21, 77), (47, 77), (59, 2), (60, 77)],
)
def test_damage_in_the_header_is_repaired_without_loss(path: Path, place: int, value: int) -> None:
    filled(path, num_chats=1)
    data = bytearray(path.read_bytes())
    data[place] = value
    path.write_bytes(bytes(data))
    assert_repaired(path)


def test_tables_that_are_missing_are_made_anew(path: Path) -> None:
    path.parent.mkdir()
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 1")
    with opened(path) as store:
        assert "no chat in it could be read" in (store.notice or "")
        store.create_chat("t")
    with opened(path) as store:
        assert store.notice is None
        assert len(store.list_chats()) == 1


def test_a_file_from_before_there_were_drafts_gets_their_table(path: Path) -> None:
    filled(path)
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("DROP TABLE drafts")
    with opened(path) as store:
        assert store.notice is None
        store.save_draft("c0", "unsent")
        assert store.drafts() == {"c0": "unsent"}
        assert len(store.list_chats()) == 3


def test_damage_that_shows_only_later_is_repaired_at_the_next_start(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(path, num_chats=30, num_turns=20)
    data = bytearray(path.read_bytes())
    middle = len(data) // 2 // 4096 * 4096
    data[middle : middle + 3 * 4096] = bytes(3 * 4096)
    path.write_bytes(bytes(data))
    monkeypatch.setattr(chat_file, "_CHECK_UP_TO_BYTES", 0)
    with opened(path) as store:
        assert store.notice is None
        with pytest.raises(StorageError, match="repaired at the next start"):
            [store.messages(f"c{number}") for number in range(30)]
    with opened(path) as store:
        assert "set aside" in (store.notice or "")
        for chat in store.list_chats():
            assert store.messages(chat.id)
    with opened(path) as store:
        assert store.notice is None


def test_damaged_chats_that_cannot_be_replaced_are_shown_all_the_same(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(path)
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE messages", b"CREATE TABLX messages", 1))

    def refuse(path: Path) -> Path:
        raise PermissionError(13, "held by another window", str(path))

    monkeypatch.setattr(chat_opening, "set_aside", refuse)
    with opened(path) as store:
        assert "could not be replaced" in (store.notice or "")
        assert "only until the program ends" in (store.notice or "")
        assert [len(store.messages(chat.id)) for chat in store.list_chats()] == [2, 2, 2]


@pytest.fixture
def read_only_folder(path: Path) -> Iterator[Path]:
    """The folder of a filled file, in which nothing can be made."""
    if not hasattr(os, "geteuid") or os.geteuid() == 0:
        pytest.skip("permissions do not bind here")
    filled(path)
    path.parent.chmod(0o555)
    yield path.parent
    path.parent.chmod(0o755)


def test_chats_in_a_read_only_folder_are_read(path: Path, read_only_folder: Path) -> None:
    with opened(path) as store:
        assert store.notice is None
        assert "is read-only. Chats can be read, not changed." in (store.read_only_reason or "")
        assert [len(store.messages(chat.id)) for chat in store.list_chats()] == [2, 2, 2]
        assert store.drafts() == {}
        with pytest.raises(StorageError, match="read-only"):
            store.create_chat("t")


def test_a_file_that_permits_no_writing_says_so_at_the_start(path: Path, read_only_folder: Path) -> None:
    path.chmod(0o444)
    read_only_folder.chmod(0o755)
    with opened(path) as store:
        assert "read-only" in (store.read_only_reason or "")
        assert len(store.list_chats()) == 3


def test_where_the_log_cannot_be_made_the_chats_are_read_without_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a read-only folder, also where permissions do not bind."""
    filled(path)
    link = chat_file.link

    def link_without_log(place: str, is_uri: bool = False) -> sqlite3.Connection:
        if place == ":memory:" or place.endswith("?immutable=1"):
            return link(place, is_uri)
        return link(str(path.parent / "absent" / "chats.db"))

    monkeypatch.setattr(chat_opening, "link", link_without_log)
    with opened(path) as store:
        assert (
            store.read_only_reason == "The folder of the chats is read-only. Chats can be read, not changed."
        )
        assert len(store.list_chats()) == 3


def test_damaged_chats_on_a_read_only_disk_are_shown_all_the_same(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk's refusal may come first and hide the damage."""
    filled(path)
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE messages", b"CREATE TABLX messages", 1))
    monkeypatch.setattr(chat_opening, "shows_damage", lambda error, path: False)
    with opened(path) as store:
        assert "only until the program ends" in (store.notice or "")
        assert len(store.list_chats()) == 3


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_what_is_no_file_is_not_opened(path: Path, kind: str) -> None:
    path.parent.mkdir()
    if kind == "folder":
        path.mkdir()
    elif hasattr(os, "mkfifo"):
        os.mkfifo(path)
    else:
        pytest.skip("no pipes in folders here")
    with opened(path) as store:
        assert "is not a file. What is new is kept only until" in (store.notice or "")
        store.create_chat("t")
        assert len(store.list_chats()) == 1
    assert path.exists()


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
