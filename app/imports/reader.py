"""Files with chats in them, of this program and of others: read whole, bounded, and never written to the
disk.

Knows files and archives; the formats are modules of their own. A file that cannot be read costs itself
alone.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from app.atomic_file import unread_sentence
from app.imports import chatgpt, jan, lm_studio, open_webui, own
from app.imports.shapes import ImportedChat, UnreadableError, list_of, mapping_of, text_of
from engine.words import tr

MOST_BYTES = 300_000_000  # of a file, and of all that is read of an archive
MOST_CHATS = 100_000
_MOST_MEMBERS = 20_000  # of an archive
_ENDINGS = (".json", ".jsonl")
_BESIDE = ("thread.json",)  # read with the file beside it


@dataclass(frozen=True, slots=True)
class Problem:
    """What could not be imported, and why: a clause without its subject."""

    name: str
    reason: str


Found = ImportedChat | Problem


def read_chats(path: Path, is_cancelled: Callable[[], bool] = lambda: False) -> Iterator[Found]:
    """Every chat in a file or an archive, and what of it could not be read. Raises nothing."""
    count = 0
    for found in _read_file(path, is_cancelled):
        if is_cancelled():
            return
        count += isinstance(found, ImportedChat)
        if count > MOST_CHATS:
            reason = tr("it has more than %n chat(s); the rest was left out", "", MOST_CHATS)
            yield Problem(path.name, reason)
            return
        yield found


def _read_file(path: Path, is_cancelled: Callable[[], bool]) -> Iterator[Found]:
    try:
        if path.stat().st_size > MOST_BYTES:
            yield Problem(path.name, tr("it is larger than {most} MB").format(most=MOST_BYTES // 1_000_000))
        elif zipfile.is_zipfile(path):
            yield from _read_archive(path, is_cancelled)
        else:
            beside = path.with_name("thread.json")
            thread = beside.read_bytes() if path.suffix == ".jsonl" and _is_small(beside) else b""
            yield from _read_data(path.name, path.read_bytes(), thread, path.parent.name)
    except OSError as error:
        yield Problem(path.name, unread_sentence(error, path))
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError):  # damaged, or with a password
        yield Problem(path.name, tr("the archive is damaged or locked"))


def _is_small(path: Path) -> bool:
    return path.is_file() and path.stat().st_size <= MOST_BYTES


def _read_archive(path: Path, is_cancelled: Callable[[], bool]) -> Iterator[Found]:
    """Members are read in memory; their names are only looked at, so that none can point elsewhere."""
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: info for info in archive.infolist()[:_MOST_MEMBERS]}
        left = MOST_BYTES
        for name, info in members.items():
            place = PurePosixPath(name)
            if is_cancelled() or place.suffix.lower() not in _ENDINGS or place.name in _BESIDE:
                continue
            if info.file_size > left:
                yield Problem(f"{path.name}: {place.name}", tr("it is too large"))
                continue
            left -= info.file_size
            beside = members.get(str(place.with_name("thread.json")))
            thread = _member(archive, beside, left) if beside and place.suffix == ".jsonl" else b""
            label = f"{path.name}: {place.name}"
            yield from _read_data(label, _member(archive, info, info.file_size), thread, place.parent.name)


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, most: int) -> bytes:
    """What a member says it holds, and not a byte more. Raises BadZipFile where it holds more."""
    with archive.open(info) as member:
        data = member.read(most + 1)
    if len(data) > most:
        raise zipfile.BadZipFile("more than it says")
    return data


def _read_data(name: str, data: bytes, thread: bytes, folder: str) -> Iterator[Found]:
    try:
        if PurePosixPath(name).suffix == ".jsonl":
            yield from _read_lines(name, data, thread, folder)
        else:
            yield from _read_value(name, _parsed(data))
    except UnreadableError as error:
        yield Problem(name, str(error))


def _parsed(data: bytes) -> object:
    """Raises UnreadableError for what is no JSON."""
    try:
        return json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise UnreadableError(tr("it is not UTF-8 text")) from None
    except RecursionError:
        raise UnreadableError(tr("it is nested too deeply")) from None
    except ValueError as error:
        raise UnreadableError(tr("it is not whole JSON ({reason})").format(reason=error)[:120]) from None


def _read_lines(name: str, data: bytes, thread: bytes, folder: str) -> Iterator[Found]:
    """A ``messages.jsonl`` of Jan; a line that cannot be read costs itself alone."""
    rows, broken = [], 0
    for line in data.splitlines():
        if not line.strip():
            continue
        try:
            row = mapping_of(_parsed(line))
        except UnreadableError:
            broken += 1
            continue
        if jan.is_message(row):
            rows.append(row)
        else:
            broken += 1
    if not rows:
        yield Problem(name, tr("no chat in a known format was found in it"))
        return
    about = mapping_of(_parsed(thread)) if thread else {}
    yield from _one(name, lambda: jan.read(about, rows, folder))
    if broken:
        yield Problem(name, tr("%n line(s) in it could not be read", "", broken))


def _read_value(name: str, value: object) -> Iterator[Found]:
    whole = mapping_of(value)
    entries = list_of(value)
    if whole and own.is_file(whole):
        for each in list_of(whole.get("chats")):
            yield from _one(_named(name, each), partial(own.read, mapping_of(each)))
        return
    if not entries and whole:
        entries = list_of(whole.get("conversations")) or list_of(whole.get("chats")) or [whole]
    if not entries:
        yield Problem(name, tr("there is no chat in it"))
    for each in entries:
        yield from _read_foreign(name, mapping_of(each))


def _read_foreign(name: str, value: Mapping[str, object]) -> Iterator[Found]:
    label = _named(name, value)
    if chatgpt.is_here(value):
        yield from _one(label, lambda: chatgpt.read(value))
    elif open_webui.is_here(value):
        yield from _one(label, lambda: open_webui.read(value))
    elif jan.is_here(value):
        yield from _one(label, lambda: jan.read(value))
    elif lm_studio.is_here(value):
        yield from _one(label, lambda: lm_studio.read(value, name))
    else:
        yield Problem(label, tr("no chat in a known format was found in it"))


def _one(label: str, read: Callable[[], ImportedChat]) -> Iterator[Found]:
    """A chat, or why it is none: all of it or nothing."""
    try:
        yield read()
    except UnreadableError as error:
        yield Problem(label, str(error))
    except RecursionError:
        yield Problem(label, tr("it is nested too deeply"))


def _named(name: str, value: object) -> str:
    title = text_of(mapping_of(value).get("title")) or text_of(mapping_of(value).get("name"))
    return f'{name}: "{" ".join(title.split())[:60]}"' if title.strip() else name
