"""Opens the file of chats whatever state it is in: to write, else to read, else in memory; mends damage.

Knows the file and its troubles; not what is done with the chats afterwards.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from app.atomic_file import disk_sentence, set_aside
from app.chat_file import (
    FAILURES,
    LARGEST_VERSION,
    DamagedError,
    check,
    code_of,
    link,
    prepare,
    require_writable,
    sentence,
    shows_damage,
    version_of,
)
from app.chat_reader import read_only_place
from app.chat_rows import count_unreadable, insert_chat, insert_folder, insert_turn
from app.chat_tables import VERSION
from app.salvage import Salvaged, salvage
from engine.words import tr


@dataclass(slots=True)
class OpenedChats:
    """``notice`` is a sentence for the user about what was found, or None.

    With ``read_only_reason`` nothing can be written. ``place`` is where a second connection can read, None
    for chats in memory.
    """

    database: sqlite3.Connection
    notice: str | None = None
    read_only_reason: str | None = None
    place: str | None = None


def open_chats(path: Path, marker: Path) -> OpenedChats:
    """Open for writing, else for reading, else in memory: the program starts in every case.

    ``marker`` is a file that is there when damage was met while the chats were last in use.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            return open_in_memory(tr("{path} is not a file.").format(path=path))
        if _take(marker) and path.exists():
            return _replace_damaged(path)
        return _connect(path)
    except FAILURES as error:
        if shows_damage(error, path):
            return _replace_damaged(path)
        return _open_without_writing(path, error)
    except OSError as error:
        return open_in_memory(disk_sentence(error, path)[0])


def open_in_memory(reason: str = "", saved: Salvaged | None = None) -> OpenedChats:
    """Chats that end with the program; with what was ``saved`` of a file."""
    database = link(":memory:")
    prepare(database)
    if saved is not None:
        with contextlib.suppress(sqlite3.Error):
            _fill(database, saved)
    lasts = tr("What is new is kept only until the program ends.")
    return OpenedChats(database, f"{reason} {lasts}" if reason else None)


def _connect(path: Path) -> OpenedChats:
    database = link(str(path))
    try:
        version = version_of(database)
        if version > LARGEST_VERSION:
            raise DamagedError("user_version")
        if version <= VERSION:
            is_checked = check(database, path, version)
            prepare(database)
            require_writable(database)
            notice = _rows_sentence(*count_unreadable(database)) if is_checked else None
            return OpenedChats(database, notice, place=read_only_place(path))
    except BaseException:
        database.close()
        raise
    database.close()
    place = read_only_place(path)
    newer = tr("These chats were written by a newer version of this program: they can be read, not changed.")
    return OpenedChats(link(place, is_uri=True), read_only_reason=newer, place=place)


def _open_without_writing(path: Path, error: Exception) -> OpenedChats:
    """In a read-only folder SQLite needs ``immutable``: it then makes no log there, and reads none."""
    code, reason = code_of(error), sentence(error)[0]
    options = ("mode=ro",) if code == sqlite3.SQLITE_BUSY else ("mode=ro", "immutable=1")
    for option in options:
        with contextlib.suppress(*FAILURES):
            place = read_only_place(path, option)
            database = link(place, is_uri=True)
            try:
                database.execute("SELECT count(*) FROM chats").fetchone()
            except BaseException:
                database.close()
                raise
            if code == sqlite3.SQLITE_CANTOPEN:
                reason = tr("The folder of the chats is read-only.")
            reason = " ".join((reason, tr("Chats can be read, not changed.")))
            log = path.with_name(path.name + "-wal")
            if option == "immutable=1" and log.exists() and log.stat().st_size:
                reason = " ".join((reason, tr("The newest messages may be missing.")))
            return OpenedChats(database, read_only_reason=reason, place=place)
    return open_in_memory(reason, salvage(path))


def _replace_damaged(path: Path) -> OpenedChats:
    """Set the damaged file aside and begin a new one with whatever can be read of it."""
    saved = salvage(path)
    try:
        aside = set_aside(path)
        for suffix in ("-wal", "-shm", "-journal"):
            beside = path.with_name(path.name + suffix)
            if beside.exists():
                os.replace(beside, aside.with_name(aside.name + suffix))
        opened = _connect(path)
        try:
            _fill(opened.database, saved)
        except BaseException:
            opened.database.close()
            raise
    except (OSError, *FAILURES):
        return open_in_memory(tr("The file of chats is damaged and could not be replaced."), saved)
    opened.notice = _saved_sentences(aside.name, saved)
    return opened


def _take(marker: Path) -> bool:
    """Whether damage was met when the file was last in use: not every check finds it. Forgets it."""
    if not marker.exists():
        return False
    with contextlib.suppress(OSError):
        marker.unlink()
    return True


def _fill(database: sqlite3.Connection, saved: Salvaged) -> None:
    """Write what was salvaged; a row that does not fit costs itself alone. Raises sqlite3.Error."""
    database.execute("BEGIN IMMEDIATE")
    for folder in saved.folders:
        with contextlib.suppress(sqlite3.IntegrityError):
            insert_folder(database, folder)
    for chat in saved.chats:
        with contextlib.suppress(sqlite3.IntegrityError):
            insert_chat(database, chat)
    for turn in saved.turns:
        with contextlib.suppress(sqlite3.IntegrityError):
            insert_turn(database, turn)
    database.executemany("INSERT OR REPLACE INTO drafts VALUES (?, ?)", saved.drafts.items())
    database.execute("COMMIT")


def _saved_sentences(aside: str, saved: Salvaged) -> str:
    if not saved.chats:
        words = tr(
            'The file of chats was damaged. It was set aside as "{file}"; no chat in it could be read.'
        )
        return words.format(file=aside)
    words = tr(
        'The file of chats was damaged. It was set aside as "{file}"; {chats} with {messages} could be read '
        "and are here."
    )
    return words.format(file=aside, chats=_chats(len(saved.chats)), messages=_messages(len(saved.turns)))


def _rows_sentence(num_chats: int, num_turns: int) -> str | None:
    if num_chats and num_turns:
        words = tr("The file of chats is damaged in places: {chats} and {messages} in it cannot be shown.")
        return words.format(chats=_chats(num_chats), messages=_messages(num_turns))
    if not num_chats and not num_turns:
        return None
    lost = _chats(num_chats) if num_chats else _messages(num_turns)
    words = tr("The file of chats is damaged in places: {lost} in it cannot be shown.")
    return words.format(lost=lost)


def _chats(number: int) -> str:
    return tr("%n chat(s)", "", number)


def _messages(number: int) -> str:
    return tr("%n message(s)", "", number)
