"""What the library remembers between runs: folders that were added, and when a model was used last."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, field, replace
from pathlib import Path

from app.atomic_file import read_object, write_atomic

MOST_BYTES = 1_000_000
MOST_USES = 500  # models whose last use is kept, the newest
_VERSION = 1


@dataclass(frozen=True, slots=True)
class LibraryRecord:
    """``used`` are seconds since 1970 by path."""

    folders: tuple[str, ...] = ()
    used: dict[str, float] = field(default_factory=dict)

    def with_folder(self, folder: str) -> LibraryRecord:
        """The same with one more folder."""
        return self if folder in self.folders else replace(self, folders=(*self.folders, folder))

    def without_folder(self, folder: str) -> LibraryRecord:
        """The same without a folder; nothing in it is touched."""
        return replace(self, folders=tuple(each for each in self.folders if each != folder))

    def with_use(self, path: str, when_s: float) -> LibraryRecord:
        """The same after ``path`` was used."""
        used = sorted((self.used | {path: when_s}).items(), key=lambda each: each[1])
        return replace(self, used=dict(used[-MOST_USES:]))


def load(path: Path) -> LibraryRecord:
    """What an earlier run kept; a file that is not as it should be counts as empty."""
    raw: dict[str, object] = {}
    with contextlib.suppress(OSError, ValueError):
        raw = read_object(path, MOST_BYTES)
    folders, used = raw.get("folders"), raw.get("used")
    texts = tuple(each for each in folders if isinstance(each, str)) if isinstance(folders, list) else ()
    times = used.items() if isinstance(used, dict) else ()
    return LibraryRecord(texts, {key: float(value) for key, value in times if isinstance(value, int | float)})


def save(path: Path, record: LibraryRecord) -> None:
    """Raises StorageError."""
    value = {"version": _VERSION, "folders": list(record.folders), "used": record.used}
    write_atomic(path, json.dumps(value, ensure_ascii=False, indent=1).encode())
