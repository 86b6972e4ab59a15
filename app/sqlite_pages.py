"""Rows out of the pages of an SQLite file without SQLite, for files that it refuses.

Knows the file format (https://www.sqlite.org/fileformat2.html), not whose rows they are. Never writes.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

Row = tuple[object, ...]

_MAGIC = b"SQLite format 3\x00"
_TABLE_LEAF = 0x0D
_USUAL_PAGE_BYTES = 4096
_WAL_MAGIC = (0x377F0682, 0x377F0683)
_INTEGER_BYTES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}  # by serial type
_CONSTANTS = {0: None, 8: 0, 9: 1}
_BROKEN = (ValueError, IndexError, struct.error)


def has_known_header(path: Path) -> bool:
    """Whether the file begins as SQLite 3 begins it. Raises OSError."""
    with path.open("rb") as file:
        header = file.read(100)
    is_version_known = len(header) == 100 and header[18] in (1, 2) and header[19] in (1, 2)
    return is_version_known and header.startswith(_MAGIC) and header[21:24] == b"\x40\x20\x20"


def table_rows(path: Path) -> list[tuple[int, Row]]:
    """(rowid, values) of the rows on all intact pages of tables, the log beside the file included.

    Needs neither the schema nor the upper pages of a tree. Deleted rows are not found where they were
    written with ``secure_delete``. The list of tables itself is left out. Never raises.
    """
    best: list[tuple[int, Row]] = []
    with contextlib.suppress(OSError), path.open("rb") as file:
        for page_bytes in _page_sizes(file):
            pages = _Pages(file, path.with_name(path.name + "-wal"), page_bytes)
            rows = [row for number in pages.numbers() for row in _leaf_rows(pages, number)]
            best = max(best, rows, key=len)
    return best


def _page_sizes(file: BinaryIO) -> list[int]:
    """The usual size and what the header says, if that can be."""
    size = int.from_bytes(file.read(18)[16:], "big")
    size = 65536 if size == 1 else size
    is_possible = 512 <= size <= 65536 and size & (size - 1) == 0
    return [_USUAL_PAGE_BYTES, size] if is_possible and size != _USUAL_PAGE_BYTES else [_USUAL_PAGE_BYTES]


class _Pages:
    """Pages by number, from 1, as the last finished transaction left them."""

    def __init__(self, file: BinaryIO, log: Path, page_bytes: int) -> None:
        self._file = file
        self.page_bytes = page_bytes
        self.file_bytes = file.seek(0, os.SEEK_END)
        self._newer = _logged_pages(log, page_bytes)
        self._count = -(-self.file_bytes // page_bytes)

    def numbers(self) -> list[int]:
        """All but the first page, which holds the list of tables."""
        return sorted({*range(1, self._count + 1), *self._newer} - {1})

    def read(self, number: int) -> bytes:
        """Raises ValueError for a page that is not there; the last one may be cut off."""
        newer = self._newer.get(number)
        if newer is not None:
            return newer
        if not 1 <= number <= self._count:
            raise ValueError("no such page")
        self._file.seek((number - 1) * self.page_bytes)
        return self._file.read(self.page_bytes)


def _logged_pages(log: Path, page_bytes: int) -> dict[int, bytes]:
    """The newest version of each page in the finished transactions of a write-ahead log."""
    finished: dict[int, bytes] = {}
    begun: dict[int, bytes] = {}
    with contextlib.suppress(OSError, struct.error), log.open("rb") as file:
        magic, _, logged_bytes, _, salts, _ = struct.unpack(">IIII8s8s", file.read(32))
        if magic not in _WAL_MAGIC or logged_bytes != page_bytes:
            return {}
        while len(frame := file.read(24 + page_bytes)) == 24 + page_bytes:
            number, last_page, frame_salts = struct.unpack(">II8s", frame[:16])
            if frame_salts != salts:  # from before the log was begun anew
                break
            begun[number] = frame[24:]
            if last_page:  # the end of a transaction
                finished |= begun
                begun = {}
    return finished


def _leaf_rows(pages: _Pages, number: int) -> Iterator[tuple[int, Row]]:
    """Rows of a page; none of a page of another kind. A damaged row costs itself alone."""
    page = pages.read(number)
    if len(page) < 8 or page[0] != _TABLE_LEAF:
        return
    num_cells = int.from_bytes(page[3:5], "big")
    for place in range(8, min(8 + 2 * num_cells, len(page) - 1), 2):
        with contextlib.suppress(*_BROKEN):
            length, start = _varint(page, int.from_bytes(page[place : place + 2], "big"))
            rowid, start = _varint(page, start)
            yield rowid, _values(_payload(pages, page, start, length))


def _payload(pages: _Pages, page: bytes, start: int, length: int) -> bytes:
    """The bytes of a row: on its page, and what does not fit there along a chain of overflow pages."""
    usable = pages.page_bytes
    if length <= usable - 35:
        return page[start : start + length]
    if length > pages.file_bytes + len(page):
        raise ValueError("longer than the file")
    at_least = (usable - 12) * 32 // 255 - 23
    local = at_least + (length - at_least) % (usable - 4)
    local = at_least if local > usable - 35 else local
    payload = bytearray(page[start : start + local])
    following = page[start + local : start + local + 4]
    seen: set[int] = set()
    while len(payload) < length:
        number = int.from_bytes(following, "big")
        if number in seen:
            raise ValueError("a chain without an end")
        seen.add(number)
        overflow = pages.read(number)
        following = overflow[:4]
        payload += overflow[4 : 4 + length - len(payload)]
    return bytes(payload)


def _values(payload: bytes) -> Row:
    """The values of a record; they must fill it exactly."""
    header_bytes, at = _varint(payload, 0)
    values: list[object] = []
    start = header_bytes
    while at < header_bytes:
        kind, at = _varint(payload, at)
        value, length = _value(kind, payload, start)
        values.append(value)
        start += length
    if at != header_bytes or start != len(payload):
        raise ValueError("a record of another length")
    return tuple(values)


def _value(kind: int, payload: bytes, start: int) -> tuple[object, int]:
    """The value of serial type ``kind`` at ``start``, and its length in bytes."""
    if kind >= 12:
        length = (kind - 12) // 2
        data = payload[start : start + length]
        return (data.decode("utf-8", "replace") if kind % 2 else data), length
    if start > len(payload):
        raise ValueError("a record of another length")
    if kind in _INTEGER_BYTES:
        length = _INTEGER_BYTES[kind]
        return int.from_bytes(payload[start : start + length], "big", signed=True), length
    if kind == 7:
        return struct.unpack_from(">d", payload, start)[0], 8
    if kind in _CONSTANTS:
        return _CONSTANTS[kind], 0
    raise ValueError("a reserved type")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """An integer of one to nine bytes, and where it ends. Raises IndexError at the end of ``data``."""
    value = 0
    for place in range(at, at + 8):
        value = value << 7 | data[place] & 0x7F
        if data[place] < 0x80:
            return value, place + 1
    return value << 8 | data[at + 8], at + 9
