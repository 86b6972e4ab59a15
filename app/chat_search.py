"""Finds words in the titles and messages of all chats. Knows the tables and the index; not who asked.

Every word must be in the title, or in one message; upper and lower case are the same. Words of three
letters and more are looked up in the index, shorter ones (most Chinese and Japanese words) in the text
itself: to read 450 MB of it takes about a second. What the index finds is looked at: it may be behind, never
wrong.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

from app.chat_index import INDEX_DAMAGED, has_index
from app.conversation import shown_title
from engine.foreign import one_line
from ui.chat_values import SearchHit

MOST_HITS = 100  # chats
MOST_WORDS, MOST_QUERY_CHARS = 12, 200
_MOST_ROWS = 20_000  # looked at in one search
_MOST_GRAMS = 40
_BEFORE, _SNIPPET = 24, 140  # characters
_LOOK_EVERY = 64  # rows between two questions whether the search is still wanted
_STEPS = 20_000  # of SQLite's machine between two such questions
_FOUND = "m.chat_id, m.id, m.content FROM {} JOIN chats c ON c.id = m.chat_id WHERE c.deleted_s IS NULL"

Row = Sequence[object]


@dataclass(slots=True)
class _Found:
    """What was found in a chat; the newest message stands for the others."""

    title: str
    has_title: bool = False
    message_id: str = ""
    snippet: str = ""
    ids: set[str] = field(default_factory=set)


def words_of(query: str) -> tuple[str, ...]:
    """The different words of a query, folded; quotes hold words together."""
    parts = re.findall(r'"([^"]+)"|(\S+)', query[:MOST_QUERY_CHARS])
    words = (folded(" ".join((phrase or word).split())) for phrase, word in parts)
    return tuple(dict.fromkeys(word for word in words if word.strip('"')))[:MOST_WORDS]


def folded(text: str) -> str:
    """``text`` without the difference of cases, of the same length, so that places in it stay the same."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(low if len(low := char.lower()) == 1 else char for char in text)


def find(
    database: sqlite3.Connection, query: str, is_stale: Callable[[], bool] = lambda: False
) -> tuple[SearchHit, ...]:
    """Chats with the words of ``query``: those named so first, then the one with the newest message.

    Stops early once ``is_stale`` says so; what it returns is then of no use. Raises sqlite3.Error.
    """
    words = words_of(query)
    if not words:
        return ()
    database.set_progress_handler(lambda: int(is_stale()), _STEPS)
    try:
        return _find(database, words, is_stale, has_index(database))
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", 0)
        if code == sqlite3.SQLITE_INTERRUPT and is_stale():
            return ()
        if code == INDEX_DAMAGED:
            return _find(database, words, is_stale, is_indexed=False)
        raise
    finally:
        database.set_progress_handler(None, 0)


def _find(
    database: sqlite3.Connection, words: Sequence[str], is_stale: Callable[[], bool], is_indexed: bool
) -> tuple[SearchHit, ...]:
    found = _titles(database, words)
    for number, (chat_id, message_id, content) in enumerate(_candidates(database, words, is_indexed)):
        if number >= _MOST_ROWS or (number % _LOOK_EVERY == 0 and is_stale()):
            break
        _look_at(found, words, chat_id, message_id, content)
    return tuple(_hits(found, words))


def _titles(database: sqlite3.Connection, words: Sequence[str]) -> dict[str, _Found]:
    """All chats by id, the last used first, with whether their title has the words."""
    rows = database.execute("SELECT id, title FROM chats WHERE deleted_s IS NULL ORDER BY updated_s DESC")
    titles = {
        chat_id: shown_title(title)
        for chat_id, title in rows
        if isinstance(chat_id, str) and isinstance(title, str)
    }
    return {
        chat_id: _Found(title, all(word in folded(title) for word in words))
        for chat_id, title in titles.items()
    }


def _candidates(database: sqlite3.Connection, words: Sequence[str], is_indexed: bool) -> Iterator[Row]:
    """Messages that may have all the words, the newest first."""
    grams = [word[at : at + 3] for word in words for at in range(len(word) - 2)]
    if is_indexed and grams:
        match = " AND ".join('"{}"'.format(gram.replace('"', '""')) for gram in grams[:_MOST_GRAMS])
        waiting = _FOUND.format("unindexed u JOIN messages m ON m.rowid = u.id")
        yield from database.execute(f"SELECT {waiting} ORDER BY u.id DESC")
        indexed = _FOUND.format("search s JOIN messages m ON m.rowid = s.rowid")
        yield from database.execute(f"SELECT {indexed} AND search MATCH ? ORDER BY s.rowid DESC", (match,))
        return
    spellings = sorted(_spellings(min(words, key=len)))
    tests = " OR ".join("instr(m.content, ?) > 0" for _ in spellings)
    everything = _FOUND.format("messages m")
    yield from database.execute(f"SELECT {everything} AND ({tests}) ORDER BY m.rowid DESC", spellings)


def _spellings(word: str) -> Iterable[str]:
    """The ways to write a short word in large and small letters; of a longer one, its first letters."""
    letters = [{char, char.upper(), char.title()} for char in word[:3]]
    return {"".join(each) for each in product(*letters)}


def _look_at(
    found: dict[str, _Found], words: Sequence[str], chat_id: object, message_id: object, content: object
) -> None:
    """Keep a message if all the words are in it."""
    chat = found.get(chat_id) if isinstance(chat_id, str) else None
    if chat is None or not isinstance(content, str) or not isinstance(message_id, str):
        return
    text = folded(content)
    if message_id in chat.ids or not all(word in text for word in words):
        return
    if not chat.ids:
        chat.message_id, chat.snippet = message_id, _snippet(content, text, words)
    chat.ids.add(message_id)


def _hits(found: dict[str, _Found], words: Sequence[str]) -> Iterator[SearchHit]:
    chats = [(chat_id, chat) for chat_id, chat in found.items() if chat.has_title or chat.ids]
    chats.sort(key=lambda each: not each[1].has_title)  # stable: in each half the last used stays first
    for chat_id, chat in chats[:MOST_HITS]:
        yield SearchHit(
            chat_id,
            chat.title,
            chat.message_id,
            chat.snippet,
            _marks(chat.title, words) if chat.has_title else (),
            _marks(chat.snippet, words),
            len(chat.ids),
        )


def _snippet(content: str, text: str, words: Sequence[str]) -> str:
    """The text around the first word that is found, in one line."""
    at = min(text.find(word) for word in words)
    start = max(0, at - _BEFORE)
    if start:  # not in the middle of a word, where there is a space
        space = content.find(" ", start, at)
        start = space + 1 if space >= 0 else start
    end = start + _SNIPPET
    line = " ".join(one_line(content[start:end]).split())
    return f"{'… ' if start else ''}{line}{' …' if end < len(content) else ''}"


def _marks(text: str, words: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Places (start, end) of the words in ``text``, in order and apart."""
    lowered = folded(text)
    places = sorted(
        (match.start(), match.end()) for word in words for match in re.finditer(re.escape(word), lowered)
    )
    apart: list[tuple[int, int]] = []
    for start, end in places:
        if apart and start <= apart[-1][1]:
            apart[-1] = apart[-1][0], max(end, apart[-1][1])
        else:
            apart.append((start, end))
    return tuple(apart)
