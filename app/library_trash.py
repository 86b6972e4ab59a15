"""Deleted models, kept until the program closes so that Delete can be undone; then their space is free.

Knows files of our own folder alone; whoever calls says which those are. A folder of an ended run is emptied
by the next one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path

from app import stamp
from app.atomic_file import StorageError, disk_sentence
from app.file_lock import FileLock
from engine.words import tr

FOLDER = ".deleted"


@dataclass(frozen=True, slots=True)
class Deleted:
    """One deletion: what was moved where (from, to)."""

    name: str
    moves: tuple[tuple[Path, Path], ...]


class Trash:
    """Renames files into a folder beside the models, on the same disk: it takes no time and no space."""

    def __init__(self, models_dir: Path) -> None:
        self._models = models_dir
        self._root = models_dir / FOLDER
        self._own = self._root / uuid.uuid4().hex
        self._lock: FileLock | None = None
        self._count = 0
        self._emptied: set[Path] = set()  # folders that models were moved out of

    def delete(self, name: str, path: Path, files: tuple[Path, ...]) -> Deleted:
        """Move a model away: its folder, or its files with what was noted beside them.

        Raises StorageError where one cannot be moved; nothing is moved then. A link is moved itself, what it
        leads to stays.
        """
        sources = [path] if path.is_dir() and not path.is_symlink() else list(files)
        for source in sources:
            self._require_ours(source)
        sources += [note for source in sources if (note := stamp.stamp_of(source)).is_file()]
        self._hold()
        self._count += 1
        away = self._own / str(self._count)
        moved: list[tuple[Path, Path]] = []
        try:
            away.mkdir(parents=True)
            for source in sources:
                os.rename(source, away / source.name)
                moved.append((source, away / source.name))
        except OSError as error:
            for source, target in reversed(moved):
                os.rename(target, source)
            raise StorageError(*disk_sentence(error, path)) from error
        self._emptied |= {source.parent for source in sources} - {self._models}
        return Deleted(name, tuple(moved))

    def undo(self, deleted: Deleted) -> None:
        """Put a model back. Raises StorageError where something else has taken its place."""
        for source, _ in deleted.moves:
            if os.path.lexists(source):
                raise StorageError(
                    tr("{path} is there again: {model} was not put back.").format(
                        path=source, model=deleted.name
                    )
                )
        try:
            for source, target in deleted.moves:
                source.parent.mkdir(parents=True, exist_ok=True)
                os.rename(target, source)
        except OSError as error:
            raise StorageError(*disk_sentence(error, deleted.moves[0][0])) from error

    def empty(self) -> None:
        """Free the space of this run's deletions."""
        shutil.rmtree(self._own, ignore_errors=True)
        self._remove_empty_folders()
        if self._lock is not None:
            self._lock.release()
            self._lock = None
        with contextlib.suppress(OSError):
            self._root.rmdir()

    def empty_abandoned(self) -> None:
        """Free the space of runs that ended without doing so: nobody holds their lock any more."""
        try:
            folders = [folder for folder in self._root.iterdir() if folder.is_dir() and folder != self._own]
        except OSError:
            return
        for folder in folders:
            with contextlib.suppress(OSError):
                lock = FileLock(folder)
                if lock.acquire():
                    with lock:
                        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            self._root.rmdir()

    def _require_ours(self, source: Path) -> None:
        inside = source.parent.resolve()
        root = self._models.resolve()
        if root != inside and root not in inside.parents:
            raise StorageError(
                tr("{path} belongs to another program.").format(path=source),
                tr("Delete it there, or in its folder by hand."),
            )

    def _hold(self) -> None:
        """Tell other runs that this one lives."""
        if self._lock is None:
            self._own.mkdir(parents=True, exist_ok=True)
            self._lock = FileLock(self._own)
            self._lock.acquire()

    def _remove_empty_folders(self) -> None:
        """Of models that were the last in their folder."""
        for folder in self._emptied:
            with contextlib.suppress(OSError):
                folder.rmdir()  # only an empty one goes
