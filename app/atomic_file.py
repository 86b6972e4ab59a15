"""Files that are either the old or the new version, whatever happens in between.

Knows the steps (write, flush to disk, rename) and their errors, and what JSON is; not what is in the files.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from engine.errors import EngineError
from engine.words import tr


class StorageError(EngineError):
    """Something could not be kept on the disk."""

    kind = "storage"


def disk_sentence(error: OSError, path: Path) -> tuple[str, str]:
    """What went wrong with ``path`` and what to do about it, for a person."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        words = tr("The disk is full: {file} could not be written.").format(file=path.name)
        return words, tr("Free some space and try again.")
    if error.errno in (errno.EACCES, errno.EPERM):
        words = tr("{path} cannot be written: no permission.").format(path=path)
        return words, tr("Check who owns the folder.")
    if error.errno == errno.EROFS:
        words = tr("{path} cannot be written: the disk is read-only.").format(path=path)
        return words, tr("Set DECODECK_HOME to another folder.")
    reason = error.strerror or error
    return tr("{path} cannot be written: {reason}.").format(path=path, reason=reason), ""


def unread_sentence(error: OSError, path: Path) -> str:
    """Why ``path`` could not be read, for a person."""
    if error.errno in (errno.EACCES, errno.EPERM):
        return tr("{path} cannot be read: no permission.").format(path=path)
    return tr("{path} cannot be read: {reason}.").format(path=path, reason=error.strerror or error)


def sync_folder(folder: Path) -> None:
    """Make a rename in ``folder`` last through a power cut, where the system can do that."""
    if sys.platform == "win32":
        return  # a folder cannot be opened there, and a rename is journalled
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def move_into_place(part: Path, target: Path) -> None:
    """Replace ``target`` by the finished ``part`` of the same folder. Raises OSError; ``part`` then stays."""
    with part.open("rb+") as file:
        os.fsync(file.fileno())
    os.replace(part, target)
    sync_folder(target.parent)


def write_atomic(path: Path, data: bytes) -> None:
    """Write ``data`` as ``path``; after any interruption the old or the new file is there, whole.

    Raises StorageError with a sentence; the old file is then as it was.
    """
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=path.name + ".", suffix=".tmp", dir=path.parent)
        temporary = Path(name)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        if temporary is not None:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
        raise StorageError(*disk_sentence(error, path)) from error


def read_object(path: Path, most_bytes: int) -> dict[str, object]:
    """The JSON object in a file. Raises OSError, and ValueError where it holds anything else or is larger."""
    with path.open("rb") as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise ValueError(f"larger than {most_bytes} bytes")
    try:
        held = json.loads(data.decode())
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(held, dict):
        raise ValueError("no object")
    return held


def set_aside(path: Path) -> Path:
    """Rename a damaged file so that it is kept and no longer in the way; returns its new path.

    Raises OSError where the folder refuses.
    """
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for number in range(1, 1000):
        suffix = "" if number == 1 else f"-{number}"
        aside = path.with_name(f"{path.stem}.broken-{stamp}{suffix}{path.suffix}")
        if not aside.exists():
            os.replace(path, aside)
            return aside
    raise OSError(errno.EEXIST, "too many files set aside", str(path))
