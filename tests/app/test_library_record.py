"""What the library remembers: folders and last uses, whatever the file looks like."""

from __future__ import annotations

from pathlib import Path

import pytest

from app import library_record
from app.library_record import LibraryRecord


def test_it_comes_back_as_it_was(tmp_path: Path) -> None:
    record = LibraryRecord().with_folder("/mnt/ü").with_folder("/mnt/ü").with_use("/a.gguf", 12.5)
    library_record.save(tmp_path / "library.json", record)
    assert library_record.load(tmp_path / "library.json") == record
    assert record.folders == ("/mnt/ü",) and record.without_folder("/mnt/ü").folders == ()


def test_only_the_newest_uses_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library_record, "MOST_USES", 2)
    record = LibraryRecord()
    for when, path in enumerate("abc"):
        record = record.with_use(path, when)
    assert record.used == {"b": 1, "c": 2}


@pytest.mark.parametrize(
    "data", [b"", b"\0" * 99, b"[]", b'{"folders": 3, "used": [1]}', b'{"used": {"a": "x"}}', b"[" * 99_999]
)
def test_a_file_that_is_not_as_it_should_be_counts_as_empty(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "library.json").write_bytes(data)
    assert library_record.load(tmp_path / "library.json") == LibraryRecord()
