"""The header of a model that lies on a server, read by ranges: what it would need here, before a download.

Knows HTTP ranges and the header readers; a server that ignores ranges is not read whole.
"""

from __future__ import annotations

import io
import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import BinaryIO, cast

from app import hub_transport
from app.hub import Files, Hub, RemoteFile, Variant
from app.transport import DownloadError, host_of, open_reply
from engine.errors import EngineError
from engine.models import gguf, gguf_parts, hf_folder, safetensors_header
from engine.models.spec import from_config, from_gguf
from engine.types import ModelSpec
from engine.words import tr

FIRST_BYTES = 1 << 18
MOST_STEP_BYTES = 1 << 22
MOST_HEADER_BYTES = 1 << 26
MOST_PARTS = 200
_SPAN = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")


class RangeFile(io.RawIOBase):
    """A file on a server that is read as if it lay here. ``fetch(start, count)`` gives exactly those bytes.

    It reads half as far ahead as it has come, so that a header of several megabytes takes a few requests.
    """

    def __init__(self, size: int, fetch: Callable[[int, int], bytes]) -> None:
        super().__init__()
        self._size, self._fetch = size, fetch
        self._held = bytearray()  # the file's start
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, count: int = -1) -> bytes:
        """At most ``count`` bytes, all there are of them. Raises DownloadError beyond what a header takes."""
        end = self._size if count < 0 else min(self._size, self._at + count)
        self._hold(end)
        data = bytes(self._held[self._at : end])
        self._at = max(self._at, end)
        return data

    def _hold(self, end: int) -> None:
        if end > MOST_HEADER_BYTES:
            raise DownloadError(tr("The header of this model is too large to look at before a download."))
        while len(self._held) < end:
            start = len(self._held)
            ahead = min(max(FIRST_BYTES, start // 2), MOST_STEP_BYTES)
            wanted = min(max(end - start, ahead), self._size - start)
            self._held += self._fetch(start, wanted)


@dataclass(slots=True)
class Spent:
    """Bytes that looks at headers have taken."""

    num_bytes: int = 0


def peek(hub: Hub, files: Files, variant: Variant, cancel: threading.Event, spent: Spent) -> ModelSpec:
    """The spec of a model that is not here. Raises EngineError: DownloadError where it could not be looked
    at, else what ``read_spec`` would say of it. What was read is added to ``spent``.
    """
    if len(variant.files) > MOST_PARTS:
        raise DownloadError(tr("This model lies in too many files to look at them before a download."))
    if variant.is_gguf:
        parts = [
            gguf.read_from(file.name, _opened(hub, files, file, cancel, spent), file.size_bytes)
            for file in variant.files
        ]
        return from_gguf(gguf_parts.joined(parts) if len(parts) > 1 else parts[0])
    config = next(file for file in variant.files if file.name == "config.json")
    raw = _opened(hub, files, config, cancel, spent).read(hf_folder.MOST_JSON_BYTES)
    try:
        values = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        words = tr("config.json of {repo} is not what it should be.")
        raise DownloadError(words.format(repo=files.repo))
    weights = [file for file in variant.files if file.name.endswith(".safetensors")]
    tensors = [
        tensor
        for number, file in enumerate(weights)
        for tensor in safetensors_header.read_from(
            file.name, _opened(hub, files, file, cancel, spent), file.size_bytes, number
        ).tensors
    ]
    return from_config(
        PurePosixPath(files.repo).name, values, tuple(file.name for file in weights), tuple(tensors)
    )


def _opened(hub: Hub, files: Files, file: RemoteFile, cancel: threading.Event, spent: Spent) -> BinaryIO:
    url = hub.url(files.repo, files.commit, file.name)

    def fetch(start: int, count: int) -> bytes:
        spent.num_bytes += count
        return fetch_range(hub, url, start, count, file.size_bytes, cancel)

    return cast(BinaryIO, RangeFile(file.size_bytes, fetch))


def fetch_range(hub: Hub, url: str, start: int, count: int, size: int, cancel: threading.Event) -> bytes:
    """Exactly ``count`` bytes from ``start`` of a file of ``size`` bytes. One more try where the connection
    breaks; DownloadError where the server sends something else.
    """
    try:
        return _fetch_once(hub, url, start, count, size, cancel)
    except DownloadError as error:
        if not error.may_pass or error.wait_s:
            raise
    return _fetch_once(hub, url, start, count, size, cancel)


def _fetch_once(hub: Hub, url: str, start: int, count: int, size: int, cancel: threading.Event) -> bytes:
    headers = {"Range": f"bytes={start}-{start + count - 1}", "Accept-Encoding": "identity"} | hub.headers()
    body = bytearray()
    with open_reply(hub.client, url, headers, cancel) as reply:
        if reply.status not in (200, 206):
            raise hub_transport.explain_hub(reply, url)
        found = _SPAN.fullmatch(reply.headers.get("content-range", ""))
        total = found[3] if found else str(reply.content_bytes)
        if (found and int(found[1]) != start) or (reply.status == 206 and not found) or reply.is_encoded:
            words = tr("{host} sent another part of the file than was asked for.")
            raise DownloadError(words.format(host=host_of(url)))
        if total not in ("*", "None", str(size)):
            words = tr("The file has {bytes} bytes on {host} instead of {expected}.")
            raise DownloadError(words.format(bytes=total, host=host_of(url), expected=size))
        skipped = start if reply.status == 200 else 0  # a server that ignores Range begins at the start
        for chunk in reply.chunks:
            body += chunk
            if len(body) >= skipped + count:
                break  # and is read no further than was asked for
    if len(body) < skipped + count:
        words = tr("The connection to {host} broke off.").format(host=host_of(url))
        raise DownloadError(words, may_pass=True)
    return bytes(body[skipped : skipped + count])


def reason_of(error: EngineError) -> str:
    """Why a model that is not here cannot run here, without the name of its file."""
    text = re.sub(r"^[^:\s]+\.(gguf|safetensors|json): ", "", error.message)
    return f"{text[:1].upper()}{text[1:]}"
