"""One file from an address onto the disk: resumed, checked, and moved into place only when it is right.

Knows parts, sizes and hashes; not what the file is for. Every download of the program goes through here.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NoReturn

import httpx2

from app.atomic_file import disk_sentence, move_into_place
from app.file_lock import FileLock
from app.progress import DownloadProgress, ProgressMeter, Report
from app.transport import (
    DownloadCancelledError,
    DownloadError,
    Reply,
    explain_status,
    host_of,
    make_client,
    open_reply,
)
from engine.words import decimal, figure, tr

__all__ = ["DownloadCancelledError", "DownloadError", "DownloadProgress", "fetch"]

SPACE_MARGIN_BYTES = 64_000_000
# A network that is gone for two minutes does not end a download that had begun.
RETRY_DELAYS_S = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 30.0, 30.0)
_HASH_CHUNK_BYTES = 1 << 20


def fetch(
    url: str | Callable[[], str],
    target: Path,
    *,
    progress: Report,
    cancel: threading.Event,
    size: int | None = None,
    sha256: str | None = None,
    client: httpx2.Client | None = None,
    headers: Mapping[str, str] | None = None,
    explain: Callable[[Reply, str], DownloadError] = explain_status,
    retry_delays_s: tuple[float, ...] = RETRY_DELAYS_S,
    clock: Callable[[], float] = time.monotonic,
) -> Path:
    """Download ``url`` to ``target`` and return it; a target or part that is complete needs no request.

    ``url`` may be a function, asked only when a request is needed. ``<target>.part`` holds what has arrived;
    it is continued where ``sha256`` can decide whether the whole is right, else begun anew. ``headers`` go to
    the host of ``url`` (a login among them to no other host), ``explain`` words an answer without a file.
    Raises DownloadCancelledError (the part stays) and DownloadError (a wrong file never becomes ``target``).
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(target)
        is_free = lock.acquire()
    except OSError as error:
        raise DownloadError(*disk_sentence(error, target)) from error
    if not is_free:
        words = tr("{file} is already being downloaded.").format(file=target.name)
        raise DownloadError(words, tr("Wait for the other download, or stop it."))
    with lock, contextlib.ExitStack() as stack:

        def opened_client() -> httpx2.Client:
            return client if client is not None else stack.enter_context(make_client())

        meter = ProgressMeter(progress, clock, size or 0)
        asked = _Request(url, dict(headers or {}), explain)
        download = _Download(asked, target, size, sha256, meter, cancel, opened_client, retry_delays_s)
        return download.run()


def part_of(target: Path) -> Path:
    """Where the bytes of an unfinished download of ``target`` are."""
    return target.with_name(target.name + ".part")


def part_bytes(target: Path) -> int:
    """How much of ``target`` has arrived in an unfinished download."""
    try:
        return part_of(target).stat().st_size
    except OSError:
        return 0


def discard(target: Path) -> None:
    """Give back the space of an unfinished download."""
    with contextlib.suppress(OSError):
        part_of(target).unlink()


def require_space(
    needs: Iterable[tuple[Path, int]], margin_bytes: int = SPACE_MARGIN_BYTES, why: str = ""
) -> None:
    """Raise DownloadError where a disk has less free than the bytes needed in its folders, and a margin.

    ``why`` is a sentence about what the bytes are for.
    """
    by_disk: dict[int, tuple[Path, int, int]] = {}
    for folder, num_bytes in needs:
        disk, free = _disk_of(folder)
        _, before, _ = by_disk.get(disk, (folder, 0, 0))
        by_disk[disk] = (folder, before + num_bytes, free)
    for folder, num_bytes, free in by_disk.values():
        if num_bytes and free < num_bytes + margin_bytes:
            words = tr("{needed} needed, {free} free on this disk.")
            words = words.format(needed=size_words(num_bytes + margin_bytes), free=size_words(free))
            hint = tr("Free some space on the disk of {folder}; what has arrived is kept.")
            sentence = f"{words} {why}".strip()
            raise DownloadError(sentence, hint.format(folder=folder))


def _disk_of(folder: Path) -> tuple[int, int]:
    """(a number of the disk that ``folder`` is on, its free bytes)."""
    try:
        return folder.stat().st_dev, shutil.disk_usage(folder).free
    except OSError as error:
        raise DownloadError(*disk_sentence(error, folder)) from error


def hash_file(
    path: Path, on_bytes: Callable[[int], None], cancel: threading.Event, limit_bytes: int | None = None
) -> str:
    """SHA-256 of a file in hex, read piece by piece. Raises DownloadCancelledError and OSError."""
    digest, done = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(_HASH_CHUNK_BYTES):
            if cancel.is_set():
                words = tr("Checking was stopped; the file is kept and checked next time.")
                raise DownloadCancelledError(words)
            digest.update(chunk)
            done += len(chunk)
            on_bytes(done)
            if limit_bytes is not None and done > limit_bytes:
                break
    return digest.hexdigest()


class _WrongContentError(Exception):
    """The part is complete and has another hash than the one expected."""


@dataclass(frozen=True, slots=True)
class _Request:
    """What is asked for, and how an answer without a file is put in words."""

    url: str | Callable[[], str]
    headers: Mapping[str, str]
    explain: Callable[[Reply, str], DownloadError]


@dataclass(slots=True)
class _Download:
    """One call of ``fetch`` that holds the lock of its target."""

    asked: _Request
    target: Path
    size: int | None
    sha256: str | None
    meter: ProgressMeter
    cancel: threading.Event
    open_client: Callable[[], httpx2.Client]
    retry_delays_s: tuple[float, ...]
    was_resumed: bool = False
    received: int = 0  # bytes that arrived in this call: the network did work
    best: int = 0  # the furthest the part has come
    client: httpx2.Client | None = None
    address: str = ""

    @property
    def part(self) -> Path:
        return part_of(self.target)

    def run(self) -> Path:
        try:
            if self._is_target_right():
                return self.target
            self._drop_useless_part()
            require_space([(self.target.parent, (self.size or 0) - part_bytes(self.target))])
            self._complete_part()
            self._move()
        except DownloadCancelledError as error:
            raise self._paused() from error
        except FileNotFoundError as error:
            words = tr("{file} was removed while it was being downloaded.").format(file=self.target.name)
            raise DownloadError(words, tr("Try again.")) from error
        except OSError as error:
            raise DownloadError(*disk_sentence(error, self.target)) from error
        return self.target

    def _paused(self) -> DownloadCancelledError:
        done, total = part_bytes(self.target), self.meter.total
        if 0 < total < 1_000_000_000:
            words = tr("Paused at {done} of {total}.").format(
                done=decimal(done / 1e6, 0), total=size_words(total)
            )
        else:
            words = tr("Paused at {done}.").format(done=size_words(done))
        return DownloadCancelledError(words, tr("It goes on there next time."))

    def _is_target_right(self) -> bool:
        """A file of an earlier run whose hash is the expected one is not fetched again."""
        if self.sha256 is None or self.size is None or not self.target.is_file():
            return False
        if self.target.stat().st_size != self.size:
            return False
        return self._hash(self.target) == self.sha256

    def _drop_useless_part(self) -> None:
        done = part_bytes(self.target)
        if done and (self.sha256 is None or (self.size is not None and done > self.size)):
            discard(self.target)
        self.best = part_bytes(self.target)
        self.was_resumed = self.best > 0

    def _complete_part(self) -> None:
        """Fetch what is missing until the part has the expected hash."""
        while True:
            if self.size is None or part_bytes(self.target) != self.size:
                self._fill_part()
            try:
                self._verify()
                return
            except _WrongContentError:
                discard(self.target)
                if not self.was_resumed:
                    words = tr(
                        "{file} does not have the expected content: it was damaged on the way, or replaced."
                    )
                    self._fail(words, tr("It was not kept. Try again."))
                # A part of an earlier run may be damaged or of another file: once, begin at its start.
                self.was_resumed, self.best = False, 0

    def _verify(self) -> None:
        if self.sha256 is None:
            return
        if self._hash(self.part) != self.sha256:
            raise _WrongContentError

    def _hash(self, path: Path) -> str:
        self.meter.phase("checking", 0)
        return hash_file(path, self.meter.update, self.cancel, self.size)

    def _move(self) -> None:
        try:
            move_into_place(self.part, self.target)
        except FileNotFoundError:
            raise
        except OSError as error:
            words = tr("{file} is complete but could not be moved: {reason}.")
            raise DownloadError(
                words.format(file=self.target.name, reason=error.strerror or error),
                tr("Close the program that uses the file and try again; nothing is downloaded twice."),
            ) from error

    def _fill_part(self) -> None:
        """Requests, until all bytes are there or waiting no longer helps."""
        failures = 0
        while True:
            if self.cancel.is_set():
                raise DownloadCancelledError(tr("The download was stopped."))
            best_before = self.best
            try:
                self._request()
                return
            except DownloadError as error:
                failures = 0 if self.best > best_before else failures
                is_hopeless = not (error.may_pass or (error.is_offline and self.received))
                if is_hopeless or failures >= len(self.retry_delays_s):
                    raise
                delay = max(self.retry_delays_s[failures], error.wait_s)
                failures += 1
                reason = " ".join((error.message, tr("Trying again…")))
            self.meter.phase("waiting", part_bytes(self.target), reason)
            if self.cancel.wait(delay):
                raise DownloadCancelledError(tr("The download was stopped."))

    def _request(self) -> None:
        """One request for what is missing. Raises DownloadError; what has arrived stays in the part."""
        start = part_bytes(self.target)
        self.meter.phase("starting", start)
        if self.client is None:
            self.client = self.open_client()
        if not self.address:
            url = self.asked.url
            self.address = url() if callable(url) else url
        part = {"Range": f"bytes={start}-"} if start else {}
        headers = {"Accept-Encoding": "identity", **self.asked.headers, **part}
        with open_reply(self.client, self.address, headers, self.cancel) as reply:
            begin = self._begin_of(reply, start)
            self._write(reply, begin)
        if self.size is not None and part_bytes(self.target) < self.size:
            words = tr("The connection to {host} broke off.").format(host=host_of(self.address))
            raise DownloadError(words, may_pass=True)

    def _begin_of(self, reply: Reply, start: int) -> int:
        """Where in the file the body begins. Raises DownloadError for a reply without a file in it."""
        if start and (reply.status == 416 or (reply.status == 206 and not self._continues(reply, start))):
            discard(self.target)
            words = tr("{file} has another size on {host}.")
            raise DownloadError(
                words.format(file=self.target.name, host=host_of(self.address)), may_pass=True
            )
        if reply.status == 206 and start:
            return start
        if reply.status != 200:
            raise self.asked.explain(reply, self.address)
        if "text/html" in reply.headers.get("content-type", "") and self.target.suffix != ".html":
            self._fail_as_page()
        return 0

    def _continues(self, reply: Reply, start: int) -> bool:
        """The part of the file that was asked for, of a file of the expected size."""
        unit, _, rest = reply.headers.get("content-range", "").partition(" ")
        span, _, total = rest.partition("/")
        is_size = total == "*" or self.size is None or total == str(self.size)
        return unit == "bytes" and span.startswith(f"{start}-") and is_size and not reply.is_encoded

    def _write(self, reply: Reply, begin: int) -> None:
        """Write the body at ``begin``; a part is cut back only when the first bytes look like the file."""
        chunks = iter(reply.chunks)
        first = next(chunks, b"")
        self._check_first(reply, first, begin)
        if self.size is None and reply.content_bytes is not None:
            self.meter.total = begin + reply.content_bytes
            require_space([(self.target.parent, reply.content_bytes)])
        mode = "r+b" if begin else "wb"
        with self.part.open(mode) as file:
            file.seek(begin)
            file.truncate()
            self.meter.phase("running", begin)
            done = self._append(file, first, begin)
            for chunk in chunks:
                done = self._append(file, chunk, done)

    def _check_first(self, reply: Reply, first: bytes, begin: int) -> None:
        if not first and self.size != begin:
            words = tr("{file} could not be downloaded: the server sent an empty answer.")
            self._fail(words, tr("Try again later."))
        if begin:
            return
        if first[:512].lstrip().lower().startswith((b"<!doctype html", b"<html")):
            self._fail_as_page()
        offered = reply.content_bytes
        if self.size is not None and offered is not None and offered != self.size:
            words = tr("{file} has {offered} bytes on the server instead of {expected}.")
            sizes = {"offered": figure(offered), "expected": figure(self.size)}
            self._fail(words, tr("It was not downloaded."), **sizes)

    def _append(self, file: IO[bytes], chunk: bytes, done: int) -> int:
        done += len(chunk)
        if self.size is not None and done > self.size:
            file.truncate(0)
            self._fail(tr("{file} is longer on the server than expected."), tr("It was not kept."))
        file.write(chunk)
        self.received += len(chunk)
        self.best = max(self.best, done)
        self.meter.update(done)
        return done

    def _fail(self, words: str, hint: str, **values: str) -> NoReturn:
        """Raise it in ``words`` that name the ``{file}``, and what is in ``values``."""
        raise DownloadError(words.format(file=self.target.name, **values), hint)

    def _fail_as_page(self) -> NoReturn:
        self._fail(
            tr("{file} could not be downloaded: {host} sent a web page instead."),
            tr("The network may ask for a login: open a page in the browser, then try again."),
            host=host_of(self.address),
        )


def size_words(num_bytes: int) -> str:
    """Decimal units, as everywhere in the program."""
    if num_bytes >= 1_000_000_000:
        return f"{decimal(num_bytes / 1e9, 1)} GB"
    return f"{decimal(num_bytes / 1e6, 0)} MB"
