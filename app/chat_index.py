"""The full-text index of the chat database: FTS5 with trigrams, filled behind the writing, never in its way.

A trigram index costs about a second for each megabyte, so no message waits for it: triggers note which rows
are not in it yet, ``index_some`` adds them later, and the search reads those rows itself. The index can be
thrown away at any time. Knows rowids and texts; not chats, nor what is searched.
"""

from __future__ import annotations

import sqlite3

INDEX_DAMAGED = sqlite3.SQLITE_CORRUPT_VTAB  # SQLite's code where the index alone is damaged
_OPEN = "('reading', 'writing')"  # answers that still grow are not worth an entry
# detail=none keeps which messages hold a trigram, not where: the search looks at the text itself.
_INDEX = (
    "CREATE VIRTUAL TABLE search USING fts5(content, content='messages', content_rowid='rowid',"
    " tokenize='trigram', detail=none, columnsize=0)"
)
_IS_INDEXED = "WHERE old.rowid NOT IN (SELECT id FROM unindexed)"
_FORGET = f"INSERT INTO search(search, rowid, content) SELECT 'delete', old.rowid, old.content {_IS_INDEXED};"
_MAKE = (
    "CREATE TABLE IF NOT EXISTS unindexed (id INTEGER PRIMARY KEY)",
    "DELETE FROM unindexed",
    "INSERT INTO unindexed SELECT rowid FROM messages",
    _INDEX,
    """CREATE TRIGGER messages_added AFTER INSERT ON messages BEGIN
        INSERT OR IGNORE INTO unindexed VALUES (new.rowid);
    END""",
    f"""CREATE TRIGGER messages_changed AFTER UPDATE OF content ON messages
        WHEN old.content IS NOT new.content BEGIN
        {_FORGET}
        INSERT OR IGNORE INTO unindexed VALUES (new.rowid);
    END""",
    f"""CREATE TRIGGER messages_removed AFTER DELETE ON messages BEGIN
        {_FORGET}
        DELETE FROM unindexed WHERE id = old.rowid;
    END""",
)
# A row with a NUL, where FTS5 stops to read, always waits.
_WAITING = (
    "FROM unindexed u LEFT JOIN messages ON messages.rowid = u.id"
    f" WHERE status IS NULL OR (status NOT IN {_OPEN} AND instr(content, char(0)) = 0)"
)
_PARTS = frozenset({"search", "unindexed", "messages_added", "messages_changed", "messages_removed"})
_MERGE_PAGES = 100  # at a time


def has_index(database: sqlite3.Connection) -> bool:
    """Whether all of the index is there. Raises sqlite3.Error."""
    return _names(database) >= _PARTS


def can_index(database: sqlite3.Connection) -> bool:
    """Whether this SQLite has FTS5 with trigrams (3.34 of 2020, where it was built in)."""
    modules = {str(row[0]) for row in database.execute("SELECT name FROM pragma_module_list")}
    return "fts5" in modules and sqlite3.sqlite_version_info >= (3, 34)


def make_index(database: sqlite3.Connection) -> None:
    """Begin the index anew, without an entry; without FTS5 there is none. Raises sqlite3.Error."""
    drop_index(database)
    if can_index(database):
        for statement in _MAKE:
            database.execute(statement)


def drop_index(database: sqlite3.Connection) -> None:
    """Take away what there is of the index. Raises sqlite3.Error."""
    there = _names(database)
    for name in sorted(_PARTS & there):
        kind = "TABLE" if name in ("search", "unindexed") else "TRIGGER"
        database.execute(f"DROP {kind} {name}")


def has_waiting(database: sqlite3.Connection) -> bool:
    """Whether ``index_some`` would find a row to add. Only reads. Raises sqlite3.Error."""
    found = f"SELECT EXISTS (SELECT 1 {_WAITING})"
    return has_index(database) and bool(database.execute(found).fetchone()[0])


def index_some(database: sqlite3.Connection, most_chars: int) -> bool:
    """Add some of the rows that wait, inside a transaction; whether more are waiting.

    Raises sqlite3.Error. A row that holds no text is passed over.
    """
    if not has_index(database):
        return False
    rows = database.execute(f"SELECT u.id, content {_WAITING} ORDER BY u.id DESC")
    taken, ids = 0, []
    for rowid, content in rows:
        if taken > most_chars:
            break
        ids.append((rowid,))
        if isinstance(content, str):
            database.execute("INSERT INTO search(rowid, content) VALUES (?, ?)", (rowid, content))
            taken += len(content)
    rows.close()
    database.executemany("DELETE FROM unindexed WHERE id = ?", ids)
    return taken > most_chars


def forget_some(database: sqlite3.Connection, *, is_first: bool) -> bool:
    """Rewrite a part of the index without what was deleted; whether it is worth another call.

    FTS5 keeps deleted entries until its segments are merged; a first negative number merges them all
    (https://www.sqlite.org/fts5.html#the_merge_command). Raises sqlite3.Error.
    """
    if not has_index(database):
        return False
    before = database.total_changes
    pages = -_MERGE_PAGES if is_first else _MERGE_PAGES
    database.execute("INSERT INTO search(search, rank) VALUES ('merge', ?)", (pages,))
    return database.total_changes - before >= 2


def _names(database: sqlite3.Connection) -> frozenset[str]:
    return frozenset(str(row[0]) for row in database.execute("SELECT name FROM sqlite_master"))
