"""Remembers beside a large file that its hash was right, so that it is not hashed at every start.

Knows sizes, times and hashes; not what a file is for.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path

from app.atomic_file import StorageError, write_atomic


def stamp_of(path: Path) -> Path:
    """Where the stamp of ``path`` lies."""
    return path.with_name(path.name + ".checked")


def is_right(path: Path, size: int, sha256: str) -> bool:
    """Whether ``path`` has this content: by its stamp, else (missing, or the file changed) by its hash.

    Hashing takes about 0.3 s for 100 MB. Raises OSError where the file cannot be read.
    """
    status = path.stat()
    if status.st_size != size:
        return False
    with contextlib.suppress(OSError):
        if stamp_of(path).read_bytes() == _text(status, sha256):
            return True
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != sha256:
            return False
    _write(path, status, sha256)
    return True


def write(path: Path, sha256: str) -> None:
    """Keep that ``path`` was found to have this hash. Where that cannot be kept it is hashed again."""
    with contextlib.suppress(OSError):
        _write(path, path.stat(), sha256)


def _write(path: Path, status: os.stat_result, sha256: str) -> None:
    with contextlib.suppress(StorageError):
        write_atomic(stamp_of(path), _text(status, sha256))


def _text(status: os.stat_result, sha256: str) -> bytes:
    state = {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "sha256": sha256}
    return json.dumps(state).encode()
