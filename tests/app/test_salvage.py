"""What is read of a damaged database: what SQLite would read of a whole one, and never what was deleted."""

from __future__ import annotations

import contextlib
import random
import shutil
import sqlite3
from pathlib import Path

import pytest

from app.chat_rows import CHAT_COLUMNS, FOLDER_COLUMNS, TURN_COLUMNS
from app.conversation import Turn
from app.salvage import Salvaged, salvage
from app.sqlite_pages import has_known_header, table_rows
from app.store import UNDO_S, Store

_LENGTHS = (0, 1, 200, 470, 480, 4040, 4061, 4062, 4100, 9000, 60_000)  # also along overflow pages


def filled(path: Path, num_chats: int = 6) -> Salvaged:
    """A database, and what is in it by SQLite's own word."""
    with contextlib.closing(Store(path, lambda: 1000.5)) as store:
        store._db.execute("PRAGMA synchronous = OFF")
        for number in range(num_chats):
            chat = store.create_chat(f"Über {number}", f"c{number}", "model" * number)
            for index, length in enumerate(_LENGTHS):
                parent = f"{chat.id}-{index - 1}" if index else None
                stats = {"decode_tps": index / 3}
                content = "wörd" * (length // 4) + "x" * (length % 4)
                thoughts = ("hm" * index, content[::-1]) if index % 2 else ("", None)
                turn_id = f"{chat.id}-{index}"
                store.add_message(
                    Turn(turn_id, chat.id, parent, "user", content, "done", stats, index, *thoughts)
                )
            store.save_draft(chat.id, "unsent " * number)
        return content_of(store)


def content_of(store: Store) -> Salvaged:
    chats = sorted(store.list_chats(), key=lambda chat: chat.id)
    return Salvaged(
        tuple(chats), tuple(turn for chat in chats for turn in store.messages(chat.id)), store.drafts()
    )


def damaged(path: Path, start: int, data: bytes) -> None:
    whole = bytearray(path.read_bytes())
    whole[start : start + len(data)] = data
    path.write_bytes(bytes(whole))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chats.db"


def test_a_whole_file_is_read_as_sqlite_reads_it(path: Path) -> None:
    assert salvage(path) == Salvaged((), (), {})
    content = filled(path)
    before = path.read_bytes()
    assert salvage(path) == content
    assert path.read_bytes() == before


@pytest.mark.parametrize("page_bytes", [512, 1024, 4096, 65536])
def test_every_value_and_page_size_is_read(path: Path, page_bytes: int) -> None:
    values = [
        None,
        0,
        1,
        -1,
        127,
        -128,
        1 << 15,
        -(1 << 23),
        1 << 31,
        1 << 47,
        -(1 << 63),
        0.5,
        "",
        "ß",
        b"\0",
    ]
    values += ["a" * length for length in range(0, 2000, 37)] + [b"b" * 200_000]
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute(f"PRAGMA page_size = {page_bytes}")
        database.execute("CREATE TABLE t(a, b)")
        database.executemany("INSERT INTO t VALUES (?, 'x')", [(value,) for value in values])
        expected = database.execute("SELECT rowid, a FROM t ORDER BY rowid").fetchall()
    assert [(rowid, row[0]) for rowid, row in sorted(table_rows(path))] == expected


def test_what_is_still_in_the_log_is_read_from_there(path: Path, tmp_path: Path) -> None:
    with contextlib.closing(Store(path)) as store:
        store.create_chat("first", "a")
        store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        store.rename_chat("a", "second")
        store._db.execute("BEGIN")
        store._db.execute("UPDATE chats SET title = 'never finished'")
        copy = tmp_path / "copy.db"
        for suffix in ("", "-wal"):
            shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
    assert [chat.title for chat in salvage(copy).chats] == ["second"]
    copy.with_name("copy.db-wal").write_bytes(b"junk" * 5000)
    assert [chat.title for chat in salvage(copy).chats] == ["first"]


def test_the_first_page_is_not_needed(path: Path) -> None:
    content = filled(path)
    damaged(path, 0, bytes(4096))
    assert salvage(path) == content


def test_upper_pages_of_a_tree_are_not_needed(path: Path) -> None:
    content = filled(path, num_chats=40)
    data = path.read_bytes()
    upper = [start for start in range(4096, len(data), 4096) if data[start] in (2, 5)]
    assert upper
    for start in upper:
        damaged(path, start, bytes(4096))
    found = salvage(path)
    assert {chat.id for chat in found.chats} == {chat.id for chat in content.chats}
    assert set(found.turns) == set(content.turns)


def test_deleted_chats_stay_deleted(path: Path) -> None:
    now = [1000.0]
    with contextlib.closing(Store(path, lambda: now[0])) as store:
        for name in ("kept", "undoable", "final"):
            store.create_chat(name, name)
            store.add_message(Turn(f"{name}-0", name, None, "user", "text " * 3000))
        store.delete_chat("final")
    now[0] += UNDO_S + 1
    with contextlib.closing(Store(path, lambda: now[0])) as store:
        store.delete_chat("undoable")
    found = salvage(path)
    assert [chat.id for chat in found.chats] == ["kept"]
    assert [turn.id for turn in found.turns] == ["kept-0"]


def test_messages_whose_chat_is_lost_are_gathered(path: Path) -> None:
    filled(path, num_chats=2)
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE chats SET title = x'00' WHERE id = 'c0'")
    found = salvage(path)
    assert [chat.title for chat in found.chats] == ["Über 1", "Recovered chat"]
    assert len(found.turns) == 2 * len(_LENGTHS)


def test_any_damage_costs_little_and_never_more_than_rows(path: Path) -> None:
    content = filled(path)
    whole = path.read_bytes()
    chance = random.Random(1)
    for _ in range(60):
        path.write_bytes(whole)
        damaged(path, chance.randrange(len(whole)), chance.randbytes(1))
        found = salvage(path)
        assert len(found.turns) >= len(content.turns) - 12  # a page of turns, its chats are made up for
    for num_bytes in (0, 1, 17, 99, 4096, 5000, len(whole) // 2):
        path.write_bytes(whole[:num_bytes])
        salvage(path)
    for _ in range(20):
        path.write_bytes(whole[:4096] + chance.randbytes(len(whole) - 4096))
        assert salvage(path) == Salvaged((), (), {})


def test_a_chain_of_overflow_pages_without_an_end_is_left(path: Path) -> None:
    filled(path, num_chats=1)
    data = path.read_bytes()
    for start in range(4096, len(data), 4096):
        if data[start] == 0:  # an overflow page: follow itself
            damaged(path, start, (start // 4096 + 1).to_bytes(4, "big"))
    assert {turn.id for turn in salvage(path).turns} <= {f"c0-{index}" for index in range(len(_LENGTHS))}


def test_a_header_is_known_by_its_fixed_bytes(path: Path) -> None:
    filled(path, num_chats=1)
    assert has_known_header(path)
    for place in (0, 15, 18, 19, 21, 22, 23):
        damaged(path, place, b"\x63")
        assert not has_known_header(path)
        damaged(path, 0, b"SQLite format 3\x00\x10\x00\x02\x02\x00\x40\x20\x20")
    path.write_bytes(b"SQLite")
    assert not has_known_header(path)


def test_rows_are_told_apart_by_their_length_and_third_value() -> None:
    """What ``salvage`` relies on; a changed table must change it."""
    # with deleted_s; 10 before a chat had options, and 8 before there were pins and folders
    assert len(CHAT_COLUMNS) + 1 == 11
    assert len(TURN_COLUMNS) + 1 == 11  # with the writer, 10 before that, and 8 in files of the first version
    assert len(FOLDER_COLUMNS) == 4
    assert CHAT_COLUMNS[2] == "created_s"
    assert TURN_COLUMNS[2] == "parent_id"
