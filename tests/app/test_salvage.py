"""Reading a damaged database: all that can be read, nothing that was deleted, and never a write."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from app.conversation import Turn
from app.salvage import salvage
from app.store import Store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Two chats, "a" with three turns and "b" with one."""
    place = tmp_path / "chats.db"
    with contextlib.closing(Store(place)) as store:
        for chat_id, count in (("a", 3), ("b", 1)):
            store.create_chat(f"chat {chat_id}", chat_id)
            for number in range(count):
                store.add_message(Turn(f"{chat_id}{number}", chat_id, None, "user", f"text {number}"))
    return place


def change(path: Path, sql: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute(sql)


def found(path: Path) -> tuple[list[str], list[str]]:
    """Titles and ids of turns, in order."""
    chats, turns = salvage(path)
    return [chat.title for chat in chats], [turn.id for turn in turns]


def test_a_sound_file_is_read_whole_and_in_order(path: Path) -> None:
    assert found(path) == (["chat a", "chat b"], ["a0", "a1", "a2", "b0"])


def test_the_file_is_never_written(path: Path) -> None:
    before = path.read_bytes()
    salvage(path)
    assert path.read_bytes() == before


def test_deleted_chats_stay_deleted_with_their_turns(path: Path) -> None:
    change(path, "UPDATE chats SET deleted_s = 5 WHERE id = 'a'")
    assert found(path) == (["chat b"], ["b0"])


def test_turns_of_a_lost_chat_are_gathered(path: Path) -> None:
    change(path, "DELETE FROM chats WHERE id = 'a'")
    assert found(path) == (["chat b", "Recovered chat"], ["a0", "a1", "a2", "b0"])


@pytest.mark.parametrize("column", ["role", "content", "created_s"])
def test_a_row_that_is_no_turn_costs_no_other(path: Path, column: str) -> None:
    change(path, f"UPDATE messages SET {column} = x'00ff' WHERE id = 'a1'")
    assert found(path)[1] == ["a0", "a2", "b0"]


def test_damaged_figures_do_not_cost_the_text(path: Path) -> None:
    change(path, "UPDATE messages SET stats = x'00ff' WHERE id = 'a1'")
    (turn,) = (turn for turn in salvage(path)[1] if turn.id == "a1")
    assert (turn.content, turn.stats) == ("text 1", {})


def test_a_lost_table_costs_no_other(path: Path) -> None:
    change(path, "DROP TABLE chats")
    assert found(path) == (["Recovered chat", "Recovered chat"], ["a0", "a1", "a2", "b0"])


@pytest.mark.parametrize("content", [b"", b"no database at all", b"SQLite format 3\0" + bytes(5000)])
def test_a_file_without_anything_to_read_gives_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.db").write_bytes(content)
    assert salvage(tmp_path / "x.db") == ([], [])
    assert salvage(tmp_path / "none.db") == ([], [])
