"""Search of titles and messages: every word, any length, any case; the index may be behind and never lies."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app import chat_index, chat_search
from app.chat_search import folded, words_of
from app.conversation import Turn
from app.store import UNDO_S, Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with contextlib.closing(Store(tmp_path / "chats.db", lambda: 1000.0)) as opened:
        yield opened


def add(store: Store, chat_id: str, *texts: str, title: str = "Untitled") -> None:
    store.create_chat(title, chat_id)
    for number, text in enumerate(texts):
        store.add_message(Turn(f"{chat_id}-{number}", chat_id, None, "user", text, created_s=float(number)))


def index_all(store: Store) -> None:
    while store.tidy():
        pass


def ids(store: Store, query: str) -> list[str]:
    return [hit.chat_id for hit in store.find(query)]


TEXTS = {
    "latin": "The quick brown Fox jumps over naïve lions",
    "chinese": "把平均值算出来。机器学习很有意思",
    "japanese": "データベースの平均を計算する",
    "german": "Größe und Straße ÄRGERN sich",
    "code": "def column_mean(path):\n    return csv.DictReader(path)",
    "nul": "before\x00hidden treasure",
}


@pytest.mark.parametrize("is_indexed", [False, True])
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("fox", {"latin"}),
        ("FOX", {"latin"}),
        ("ick bro", {"latin"}),
        ("平", {"chinese", "japanese"}),
        ("平均", {"chinese", "japanese"}),
        ("平均值", {"chinese"}),
        ("ース", {"japanese"}),
        ("机器学习", {"chinese"}),
        ("ärgern", {"german"}),
        ("gröSSe", set()),
        ("GRÖ", {"german"}),
        ("ä", {"german"}),
        ("dictreader mean", {"code"}),
        ('"column_mean(path"', {"code"}),
        ("brown x", {"latin"}),
        ("hidden treasure", {"nul"}),
        ("%", set()),
        ('"', set()),
        ("zz", set()),
        ("nothing here", set()),
    ],
)
def test_words_are_found_whether_they_are_in_the_index_yet_or_not(
    store: Store, query: str, found: set[str], is_indexed: bool
) -> None:
    for name, text in TEXTS.items():
        add(store, name, text)
    if is_indexed:
        index_all(store)
    assert set(ids(store, query)) == found


def test_a_title_is_found_and_comes_before_messages(store: Store) -> None:
    add(store, "a", "about gardens")
    add(store, "b", title="Gardens in spring")
    index_all(store)
    first, second = store.find("garden")
    assert (first.chat_id, first.message_id, first.title_marks) == ("b", "", ((0, 6),))
    assert (second.chat_id, second.message_id, second.count) == ("a", "a-0", 1)


def test_a_chat_comes_once_with_its_newest_message_and_the_words_marked(store: Store) -> None:
    add(store, "a", "word one", "no", "x" * 500 + " the word two stands  here\nfor long")
    index_all(store)
    [hit] = store.find("word")
    assert (hit.message_id, hit.count) == ("a-2", 2)
    assert [hit.snippet[start:end] for start, end in hit.marks] == ["word"]
    assert "\n" not in hit.snippet


def test_what_changed_is_found_by_its_new_words_alone(store: Store) -> None:
    add(store, "a", "elephant")
    index_all(store)
    [turn] = store.messages("a")
    store.update_message(Turn(turn.id, "a", None, "user", "giraffe", created_s=0.0))
    assert (ids(store, "elephant"), ids(store, "giraffe")) == ([], ["a"])
    index_all(store)
    assert (ids(store, "elephant"), ids(store, "giraffe")) == ([], ["a"])


def test_an_answer_is_found_while_it_is_written_and_indexed_when_it_is_done(store: Store) -> None:
    add(store, "a")
    writing = Turn("w", "a", None, "assistant", "half a sentence", "writing", created_s=1.0)
    store.add_message(writing)
    index_all(store)
    assert store._db.execute("SELECT count(*) FROM unindexed").fetchone() == (1,)
    assert ids(store, "sentence") == ["a"]
    store.update_message(Turn("w", "a", None, "assistant", "a whole sentence", "done", created_s=1.0))
    index_all(store)
    assert store._db.execute("SELECT count(*) FROM unindexed").fetchone() == (0,)
    assert ids(store, "whole") == ["a"]


def test_deleted_chats_are_not_found_and_leave_the_index(tmp_path: Path) -> None:
    path, now = tmp_path / "chats.db", [1000.0]
    with contextlib.closing(Store(path, lambda: now[0])) as store:
        add(store, "a", "unforgettable words")
        index_all(store)
        store.delete_chat("a")
        assert ids(store, "unforgettable") == []
    now[0] += UNDO_S + 1
    with contextlib.closing(Store(path, lambda: now[0])) as store:
        index_all(store)
        assert ids(store, "unforgettable") == []
        blocks = store._db.execute("SELECT block FROM search_data").fetchall()
    assert not any(b"unf" in block[0] for block in blocks)


def test_a_damaged_index_costs_no_message_and_is_made_anew(store: Store, tmp_path: Path) -> None:
    add(store, "a", "findable words")
    index_all(store)
    with contextlib.closing(sqlite3.connect(tmp_path / "chats.db")) as database, database:
        database.execute("UPDATE search_data SET block = x'ffffffffff'")
    assert ids(store, "findable") == ["a"]
    for number in range(3):
        with contextlib.suppress(Exception):
            store.add_message(Turn(f"n{number}", "a", None, "user", "more", created_s=9.0))
            store.tidy()
    store.add_message(Turn("last", "a", None, "user", "more", created_s=9.0))
    index_all(store)
    assert ids(store, "more") == ["a"]
    assert store.notice is None


def test_with_nothing_to_index_another_window_can_write_undisturbed(store: Store, tmp_path: Path) -> None:
    add(store, "a", "findable words", TEXTS["nul"])
    index_all(store)
    with contextlib.closing(sqlite3.connect(tmp_path / "chats.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert store.tidy() is False  # asks for no lock, which it could not have
        other.execute("ROLLBACK")
    add(store, "b", "more")
    assert store._has_untidy()


def test_without_fts5_the_text_itself_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.closing(Store(tmp_path / "chats.db")) as store:
        add(store, "a", "findable words")
        index_all(store)
    monkeypatch.setattr("app.chat_index.can_index", lambda _: False)
    monkeypatch.setattr("app.chat_file.can_index", lambda _: False)
    with contextlib.closing(Store(tmp_path / "chats.db")) as store:
        assert not chat_index.has_index(store._db)
        add(store, "b", "findable too")
        assert ids(store, "findable") == ["b", "a"]
        assert store.tidy() is False
    monkeypatch.undo()
    with contextlib.closing(Store(tmp_path / "chats.db")) as store:
        index_all(store)
        assert sorted(ids(store, "findable")) == ["a", "b"]


def test_a_search_that_nobody_waits_for_ends(store: Store) -> None:
    for number in range(300):
        add(store, f"c{number}", "some common words")
    asked: list[int] = []

    def is_stale() -> bool:
        asked.append(1)
        return len(asked) > 1

    hits = store.find("common", is_stale)
    assert len(hits) <= chat_search.MOST_HITS
    assert ids(store, "common")  # and the connection is as before


def test_a_second_connection_finds_what_the_first_wrote(store: Store) -> None:
    add(store, "a", "findable words")
    assert store.place is not None
    with contextlib.closing(store.reader_at(store.place)) as reader:
        assert [hit.chat_id for hit in reader.find("findable")] == ["a"]
        add(store, "b", "findable later")
        assert {hit.chat_id for hit in reader.find("findable")} == {"a", "b"}


@given(st.text(max_size=40), st.text(min_size=1, max_size=5))
@settings(deadline=None, max_examples=150)
def test_folding_keeps_places_and_marks_stand_where_the_words_are(text: str, word: str) -> None:
    assert len(folded(text)) == len(text)
    line, words = f"{text} {word}", words_of(word)
    marks = chat_search._marks(line, words)
    assert all(any(each in folded(line)[start:end] for each in words) for start, end in marks)
    assert marks or not any(each in folded(line) for each in words)


def test_a_query_has_a_bounded_number_of_words() -> None:
    assert len(words_of(" ".join(map(str, range(200))))) == chat_search.MOST_WORDS


@given(
    st.lists(st.text(alphabet="abcÄä平均 ", max_size=12), max_size=6),
    st.text("abcÄä平均", min_size=1, max_size=4),
)
@settings(deadline=None, max_examples=60)
def test_the_index_finds_what_reading_everything_finds(texts: list[str], word: str) -> None:
    with contextlib.closing(Store(None, lambda: 1000.0)) as store:
        for number, text in enumerate(texts):
            add(store, f"c{number}", text)
        index_all(store)
        expected = {f"c{number}" for number, text in enumerate(texts) if folded(word) in folded(text)}
        assert set(ids(store, word)) == expected
