"""Stamps: a file is read again exactly when it may have changed."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from app import stamp

CONTENT = b"weights" * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "model.gguf"
    place.write_bytes(CONTENT)
    return place


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Gets an entry whenever a file is hashed."""
    seen: list[str] = []
    original = hashlib.file_digest

    def digest(file: object, name: str) -> object:
        seen.append(name)
        return original(file, name)  # type: ignore[arg-type,type-var]

    monkeypatch.setattr(hashlib, "file_digest", digest)
    return seen


def is_right(path: Path, sha256: str = SHA256) -> bool:
    return stamp.is_right(path, len(CONTENT), sha256)


def test_a_file_that_was_right_is_not_read_again(path: Path, reads: list[str]) -> None:
    assert [is_right(path) for _ in range(3)] == [True] * 3
    assert len(reads) == 1


def test_what_was_just_written_need_not_be_read(path: Path, reads: list[str]) -> None:
    stamp.write(path, SHA256)
    assert is_right(path)
    assert reads == []


def test_another_size_needs_no_reading(path: Path, reads: list[str]) -> None:
    path.write_bytes(CONTENT[:-1])
    assert not is_right(path)
    assert reads == []


def test_a_changed_file_is_read_again_and_found_wrong(path: Path) -> None:
    assert is_right(path)
    path.write_bytes(CONTENT[:-100] + bytes(100))
    os.utime(path, ns=(0, 1))  # a clock can be too coarse to tell two writes apart
    assert not is_right(path)
    assert not is_right(path)  # the old stamp does not come back into force


def test_a_touched_file_is_read_once_more(path: Path, reads: list[str]) -> None:
    assert is_right(path)
    os.utime(path, ns=(0, 1))
    assert is_right(path)
    assert is_right(path)
    assert len(reads) == 2


def test_a_stamp_counts_for_its_own_hash_alone(path: Path) -> None:
    assert is_right(path)
    assert not is_right(path, "0" * 64)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", bytes(100)])
def test_a_broken_stamp_is_no_stamp(path: Path, reads: list[str], content: bytes) -> None:
    stamp.stamp_of(path).write_bytes(content)
    assert is_right(path)
    assert len(reads) == 1


def test_a_folder_that_takes_no_stamp_costs_only_time(path: Path, reads: list[str]) -> None:
    stamp.stamp_of(path).mkdir()
    assert is_right(path)
    assert is_right(path)
    stamp.write(path, SHA256)
    assert len(reads) == 2


def test_a_file_that_is_not_there_is_the_callers_matter(path: Path) -> None:
    path.unlink()
    with pytest.raises(FileNotFoundError):
        is_right(path)
    stamp.write(path, SHA256)
    assert not stamp.stamp_of(path).exists()
