"""What tells one model's content from another's, at the cost of a megabyte of reading. Knows no format.

Standard library only. Names, folders and times play no part: a file that is fetched again is the same model,
and another file under the same name is another one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from engine.models.signature import open_regular, readable
from engine.types import ModelSpec

_SAMPLE_BYTES = 1 << 16
_SAMPLES = 16  # of a model in one file
_LEAST_SAMPLES = 2  # of each file: both its ends
_BESIDE = ("config.json", "tokenizer.json")  # in a folder they decide too what the weights mean


def fingerprint(spec: ModelSpec) -> str:
    """SHA-256 over the size of each file of the model and samples spread evenly over it, in hexadecimal.

    Other weights differ nearly everywhere, so samples tell them apart; one changed byte between two samples
    goes unseen. Waits for the disk. Raises ModelFileError.
    """
    digest = hashlib.sha256()
    files = (*spec.files, *_files_beside(Path(spec.path)))
    count = max(_LEAST_SAMPLES, _SAMPLES // len(files))
    for path in files:
        file, size = open_regular(path)
        digest.update(f"{size} bytes".encode())
        with readable(path), file:
            for place in _places(size, count):
                file.seek(place)
                digest.update(file.read(_SAMPLE_BYTES))
    return digest.hexdigest()


def _files_beside(path: Path) -> Iterator[str]:
    yield from (str(path / name) for name in _BESIDE if (path / name).is_file())


def _places(size: int, count: int) -> list[int]:
    """Where samples begin, each once: the first at the start, the last at the end."""
    last = max(0, size - _SAMPLE_BYTES)
    return sorted({last * number // (count - 1) for number in range(count)})
