"""Files that are old or new, never in between."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from app.atomic_file import StorageError, read_object, set_aside, write_atomic


def failing(code: int) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    return fail


@pytest.mark.parametrize("step", ["fsync", "replace", "fdopen"])
@pytest.mark.parametrize(
    ("code", "words"),
    [(errno.ENOSPC, "The disk is full"), (errno.EROFS, "read-only"), (errno.EACCES, "no permission")],
)
def test_a_failed_step_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, code: int, words: str
) -> None:
    path = tmp_path / "settings.json"
    write_atomic(path, b"old")
    with monkeypatch.context() as patch:
        patch.setattr(os, step, failing(code))
        with pytest.raises(StorageError, match=words):
            write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_new_content_is_on_the_disk_before_it_takes_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync, replace = os.fsync, os.replace

    def noted_fsync(handle: int) -> None:
        steps.append("fsync")
        fsync(handle)

    def noted_replace(source: Path, goal: Path) -> None:
        steps.append("replace")
        replace(source, goal)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "replace", noted_replace)
    write_atomic(tmp_path / "new folder" / "file", b"x")
    assert steps[:2] == ["fsync", "replace"]


def test_files_set_aside_never_replace_each_other(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    names = []
    for number in range(3):
        path.write_text(str(number))
        names.append(set_aside(path))
    assert not path.exists()
    assert [name.read_text() for name in names] == ["0", "1", "2"]
    assert all(".broken-" in name.name and name.suffix == ".json" for name in names)


def test_an_object_is_read_up_to_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(b'{"a": 1}')
    assert read_object(path, 8) == {"a": 1}
    with pytest.raises(ValueError, match="larger than 7 bytes"):
        read_object(path, 7)


@pytest.mark.parametrize("content", [b"", b"[1]", b"{", b"\xff{}", b'{"a":' + b"[" * 200_000])
def test_what_is_no_object_is_a_value_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(content)
    with pytest.raises(ValueError):  # noqa: PT011 - whatever its words
        read_object(path, 1_000_000)
    with pytest.raises(FileNotFoundError):
        read_object(tmp_path / "none", 10)
