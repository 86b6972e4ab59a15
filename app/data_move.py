"""Moves a folder of the program with its content: whole, or not at all.

The content is linked or copied to the new place first; then the settings name the new place, which is one
atomic write; only then is the old content removed. Whatever interrupts it, the folder that the settings name
is whole. Knows files and the names of settings; no window.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from app import paths
from app.atomic_file import disk_sentence, sync_folder
from app.setting_table import Settings
from engine.errors import EngineError
from engine.words import decimal, tr

DATA, MODELS = "data_folder", "models_folder"
MARK = ".decodeck-moving"  # in a folder that content is still being put into
_PIECE_BYTES = 8 << 20  # between two looks at whether to go on
_STAYS = ("settings.json", "settings.json.bak", "cache", "logs", MARK)
_SPARE_BYTES = 50_000_000  # that a disk keeps free


class MoveError(EngineError):
    """A folder was not moved; everything is where it was."""

    kind = "move"


class MoveCancelledError(MoveError):
    """Somebody stopped it."""

    kind = "cancelled"


@dataclass(frozen=True, slots=True)
class Move:
    """The setting (DATA or MODELS) and the two folders."""

    name: str
    source: Path
    target: Path


def planned(name: str, target: str) -> Move:
    """The move of a folder to ``target``. Raises MoveError where that cannot be."""
    if os.environ.get(paths.VARIABLES[name]):
        raise MoveError(
            tr("This folder was named for this run alone."), tr("Start Decodeck without naming it.")
        )
    source = (paths.data_dir() if name == DATA else paths.models_dir()).resolve()
    place = Path(target).expanduser().resolve()
    if not Path(target).expanduser().is_absolute() or not place.parent.is_dir():
        words = tr("{path} is not in a folder that exists.").format(path=target)
        raise MoveError(words, tr("Give the full path of a folder."))
    if place == source:
        raise MoveError(tr("It is there already."))
    if place.is_relative_to(source) and not _stays_put(name, source, place):
        raise MoveError(tr("A folder cannot be moved into itself."), tr("Choose one outside of it."))
    models = paths.models_dir().resolve()
    if name == DATA and models.is_relative_to(source) and models != source / "models":
        raise MoveError(
            tr("The models folder is inside the data folder."), tr("Move the models folder first.")
        )
    return Move(name, source, place)


def _stays_put(name: str, source: Path, place: Path) -> bool:
    """Whether a place inside the folder is in a part of it that is not moved."""
    return name == DATA and place.relative_to(source).parts[0] in ("cache", "logs")


def run(
    move: Move,
    commit: Callable[[], None],
    report: Callable[[int, int], None],
    cancel: threading.Event,
) -> str:
    """Move; ``commit`` makes the settings name the new place, ``report`` gets bytes done and to do.

    Waits for the disk. Returns "", or a sentence about what could not be removed at the old place. Raises
    MoveError, and whatever ``commit`` raises; nothing has changed then.
    """
    if move.name == DATA:
        _settle_database(move.source / "chats.db")
    try:
        _make_room(move)
        try:
            _copy_all(move, report, cancel)
            commit()
        except BaseException:
            _clear(move.target)
            raise
    except OSError as error:
        raise MoveError(*disk_sentence(error, Path(error.filename or move.target))) from error
    with contextlib.suppress(OSError):
        (move.target / MARK).unlink()
    return _remove_old(move)


def relocated(path: str, move: Move) -> str:
    """Where a file is after the move; the same path for what was not in the folder. Waits for the disk."""
    if not path:
        return path
    old = Path(path)
    try:
        resolved = old.parent.resolve() / old.name
    except (OSError, RuntimeError):  # a disk that fails, a circle of links
        return path
    if not resolved.is_relative_to(move.source):
        return path
    inner = resolved.relative_to(move.source)
    is_moved = bool(inner.parts) and not _is_left(move, inner.parts[0])
    return str(move.target / inner) if is_moved else path


def settings_after(settings: Settings, move: Move) -> Settings:
    """The settings as they are after the move: the folder, and all paths of models that were in it. Waits for
    the disk.
    """

    def of_model(kept: Mapping[str, Any]) -> dict[str, Any]:
        return dict(kept) | ({"draft": relocated(kept["draft"], move)} if "draft" in kept else {})

    models = {relocated(path, move): of_model(kept) for path, kept in settings.models.items()}
    last = relocated(settings.last_model, move) if settings.last_model else settings.last_model
    changed = replace(settings, models=models, last_model=last)
    default = paths.base_dir() if move.name == DATA else paths.data_dir() / "models"
    folder = None if move.target == default.resolve() else str(move.target)
    return (
        replace(changed, data_folder=folder) if move.name == DATA else replace(changed, models_folder=folder)
    )


def _is_left(move: Move, entry: str) -> bool:
    """Whether an entry of the old folder is none of what is moved."""
    if move.name == MODELS:
        return entry == MARK
    return entry in _STAYS or entry.startswith("settings.") or (move.source / entry).resolve() == move.target


def _entries(move: Move) -> list[Path]:
    if not move.source.is_dir():
        words = tr("{path} is not there.").format(path=move.source)
        raise MoveError(words, tr("Connect its disk and try again."))
    return [entry for entry in sorted(move.source.iterdir()) if not _is_left(move, entry.name)]


def _settle_database(database: Path) -> None:
    """Bring the log beside the database into it. Raises MoveError where somebody else has it open."""
    if not database.is_file():
        return
    try:
        with contextlib.closing(sqlite3.connect(database, timeout=1.0, isolation_level=None)) as link:
            mode = link.execute("PRAGMA journal_mode=DELETE").fetchone()[0]
    except sqlite3.OperationalError:
        mode = "busy"
    except sqlite3.DatabaseError:
        return  # damaged: it is moved as it is
    if mode != "delete":
        raise MoveError(tr("Another window has the chats open."), tr("Close it and try again."))


def _make_room(move: Move) -> None:
    """Have an empty target with room for everything. Raises MoveError and OSError."""
    target = move.target
    if target.exists() and not target.is_dir():
        raise MoveError(tr("{path} is a file.").format(path=target), tr("Choose a folder."))
    if (target / MARK).is_file() and target not in (paths.data_dir().resolve(), paths.models_dir().resolve()):
        _clear(target)  # what an interrupted move left
    target.mkdir(exist_ok=True)
    if any(not _is_kept(target, entry) for entry in target.iterdir()):
        words = tr("{path} is not empty.").format(path=target)
        raise MoveError(words, tr("Choose an empty folder, or a new one."))
    needed = sum(_size_bytes(entry) for entry in _entries(move))
    free = shutil.disk_usage(target).free
    is_same_disk = target.stat().st_dev == move.source.stat().st_dev
    if not is_same_disk and needed + _SPARE_BYTES > free:
        words = tr("{needed} needed, {free} free on this disk.")
        sizes = {"needed": f"{decimal(needed / 1e9, 2)} GB", "free": f"{decimal(free / 1e9, 2)} GB"}
        raise MoveError(words.format(**sizes), tr("Choose another folder."))
    (target / MARK).touch()


def _copy_all(move: Move, report: Callable[[int, int], None], cancel: threading.Event) -> None:
    entries = _entries(move)
    total, done = sum(_size_bytes(entry) for entry in entries), 0
    report(0, total)
    for entry in entries:
        for copied in _copied(entry, move.target / entry.name):
            done += copied
            report(done, total)
            if cancel.is_set():
                raise MoveCancelledError(tr("The move was stopped."), tr("Everything is where it was."))
    for entry in entries:
        if _size_bytes(move.target / entry.name) != _size_bytes(entry):
            words = tr("{file} changed while it was moved.").format(file=entry.name)
            raise MoveError(words, tr("Try again."))
    sync_folder(move.target)


def _copied(source: Path, target: Path) -> Iterator[int]:
    """Bytes of each piece of a file or folder that is now at ``target`` too. Raises OSError and MoveError."""
    mode = source.lstat().st_mode
    if stat.S_ISLNK(mode):
        target.symlink_to(os.readlink(source))
    elif stat.S_ISDIR(mode):
        target.mkdir()
        for entry in sorted(source.iterdir()):
            yield from _copied(entry, target / entry.name)
        shutil.copystat(source, target)
    elif stat.S_ISREG(mode):
        yield from _copied_file(source, target)
    else:
        words = tr("{name} is neither a file nor a folder.").format(name=source.name)
        raise MoveError(words, tr("Take it out and try again."))


def _copied_file(source: Path, target: Path) -> Iterator[int]:
    """A second name where the disk is the same, which takes no time and no space; else the bytes."""
    try:
        os.link(source, target)
    except OSError:
        with source.open("rb") as old, target.open("xb") as new:
            while piece := old.read(_PIECE_BYTES):
                new.write(piece)
                yield len(piece)
            new.flush()
            os.fsync(new.fileno())
        shutil.copystat(source, target)
    else:
        yield source.stat().st_size


def _size_bytes(entry: Path) -> int:
    """Of all files in it; links count as nothing."""
    mode = entry.lstat()
    if stat.S_ISDIR(mode.st_mode):
        return sum(_size_bytes(each) for each in entry.iterdir())
    return mode.st_size if stat.S_ISREG(mode.st_mode) else 0


def _clear(target: Path) -> None:
    """Take everything out of a folder that was empty before; its mark goes last."""
    with contextlib.suppress(OSError):
        for entry in sorted(target.iterdir(), key=lambda each: each.name == MARK):
            if entry.name == MARK or not _is_kept(target, entry):
                _remove(entry)


def _is_kept(target: Path, entry: Path) -> bool:
    """Whether it belongs where the data are by default, and is there even while they are elsewhere."""
    is_default = target == paths.base_dir().resolve()
    return is_default and (entry.name in _STAYS or entry.name.startswith("settings."))


def _remove(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry)
    else:
        entry.unlink()


def _remove_old(move: Move) -> str:
    failed = ""
    for entry in _entries(move):
        try:
            _remove(entry)
        except OSError as error:
            words = tr("{path} could not be removed: {reason}. It is not used any more.")
            failed = words.format(path=entry, reason=error.strerror or error)
    with contextlib.suppress(OSError):  # there where something was left in it
        move.source.rmdir()
    return failed
