"""Opens, checks and prepares the SQLite file of chats; knows SQLite's errors and says them for a person.

Knows nothing of chats and messages, nor what is done about damage.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from pathlib import Path

from app.chat_index import can_index, drop_index, has_index, make_index
from app.chat_rows import decode
from app.chat_tables import VERSION, has_all_tables, make_tables, tables_fit
from app.sqlite_pages import has_known_header
from engine.words import mark, tr

_BUSY_S = 5.0
_CHECK_UP_TO_BYTES = 64_000_000  # damage in larger files shows when it is read
LARGEST_VERSION = 255  # of the tables, in any program to come; a larger number is damage
FAILURES = (sqlite3.Error, UnicodeDecodeError)  # SQLite quotes damaged bytes, sqlite3 then trips over them
DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_SENTENCES = {
    sqlite3.SQLITE_FULL: (mark("The disk is full: the chat could not be saved."), mark("Free some space.")),
    sqlite3.SQLITE_READONLY: (mark("The file of chats is read-only."), mark("Check who owns it.")),
    sqlite3.SQLITE_CANTOPEN: (
        mark("The file of chats cannot be opened."),
        mark("Check who owns its folder."),
    ),
    sqlite3.SQLITE_PERM: (mark("The file of chats cannot be opened."), mark("Check who owns it.")),
    sqlite3.SQLITE_BUSY: (mark("Another program holds the file of chats."), mark("Close it and try again.")),
    sqlite3.SQLITE_IOERR: (mark("The disk reports an error at the file of chats."), mark("Check the disk.")),
    sqlite3.SQLITE_CORRUPT: (
        mark("The file of chats is damaged."),
        mark("It is repaired at the next start."),
    ),
}


class DamagedError(sqlite3.DatabaseError):
    """Damage that SQLite itself has not named."""

    sqlite_errorcode = sqlite3.SQLITE_CORRUPT


def link(place: str, is_uri: bool = False) -> sqlite3.Connection:
    """Raises sqlite3.Error; for most files only when they are read."""
    database = sqlite3.connect(place, timeout=_BUSY_S, isolation_level=None, uri=is_uri)
    database.text_factory = decode
    return database


def version_of(database: sqlite3.Connection) -> int:
    """The version of the tables; 0 in a new file. Raises sqlite3.Error."""
    return int(database.execute("PRAGMA user_version").fetchone()[0])


def check(database: sqlite3.Connection, path: Path, version: int) -> bool:
    """Raises sqlite3.DatabaseError for a damaged file; False for one too large to be read whole."""
    if not tables_fit(database, version):
        raise DamagedError("tables")
    if path.stat().st_size > _CHECK_UP_TO_BYTES:
        return False
    found = database.execute("PRAGMA quick_check(1)").fetchone()
    if found is not None and "search" in found[0]:  # newer SQLites look at the index too; it is made anew
        drop_index(database)
        found = database.execute("PRAGMA quick_check(1)").fetchone()
    if found is None or found[0] != "ok":
        raise DamagedError("quick_check")
    return True


def prepare(database: sqlite3.Connection) -> None:
    """Set the connection up; make tables, columns and index where they are missing. Raises sqlite3.Error."""
    _use_wal(database)
    for pragma in ("synchronous = FULL", "foreign_keys = ON", "secure_delete = ON", "temp_store = MEMORY"):
        database.execute(f"PRAGMA {pragma}")
    if _is_prepared(database):
        return
    database.execute("BEGIN IMMEDIATE")
    if not _is_prepared(database):  # another window may have been first
        make_tables(database)
        if has_index(database) != can_index(database):
            make_index(database)
        database.execute(f"PRAGMA user_version = {VERSION}")
    database.execute("COMMIT")


def _is_prepared(database: sqlite3.Connection) -> bool:
    has_all = version_of(database) == VERSION and has_all_tables(database)
    return has_all and has_index(database) == can_index(database)


def _use_wal(database: sqlite3.Connection) -> None:
    """Two programs that start at once may meet here, and SQLite does not wait by itself at this one place."""
    for is_last in (*[False] * 100, True):
        try:
            database.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if is_last or code_of(error) != sqlite3.SQLITE_BUSY:
                raise
            time.sleep(0.02)


def require_writable(database: sqlite3.Connection) -> None:
    """SQLite opens what it cannot write without a word; it speaks up here. A busy file counts as writable."""
    try:
        database.execute("DELETE FROM chats WHERE 0")  # BEGIN IMMEDIATE is content with reading there
    except sqlite3.OperationalError as error:
        if code_of(error) == sqlite3.SQLITE_READONLY:
            raise


def code_of(error: Exception) -> int:
    """SQLite's primary result code."""
    if isinstance(error, UnicodeDecodeError):
        return sqlite3.SQLITE_CORRUPT
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def shows_damage(error: Exception, path: Path) -> bool:
    """Whether the file is to blame for an error at its opening; not the disk, rights or other programs."""
    code = code_of(error)
    if code == sqlite3.SQLITE_READONLY:  # also SQLite's answer to a file format of the future
        with contextlib.suppress(OSError):
            return not has_known_header(path)
    return code in (*DAMAGE, sqlite3.SQLITE_ERROR)  # the statements are right, so the tables are not


def sentence(error: Exception) -> tuple[str, str]:
    """What went wrong and what to do about it, for a person."""
    code = code_of(error)
    known = _SENTENCES.get(sqlite3.SQLITE_CORRUPT if code == sqlite3.SQLITE_NOTADB else code)
    if known is None:
        return tr("The file of chats could not be used: {reason}.").format(reason=error), ""
    return tr(known[0]), tr(known[1])
