"""What the tests of downloads share: the file, the call and its progress."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from pathlib import Path

from app import download
from app.download import fetch
from app.progress import DownloadProgress
from tests.app.file_server import Plan

DATA = hashlib.shake_128(b"a model").digest(3_000_000)
SHA256 = hashlib.sha256(DATA).hexdigest()


class Reports(list[DownloadProgress]):
    """Collects progress and lets a test act on it."""

    def __init__(self, act: Callable[[DownloadProgress], None] = lambda _: None) -> None:
        super().__init__()
        self.act = act

    def __call__(self, progress: DownloadProgress) -> None:
        self.append(progress)
        self.act(progress)

    def phases(self) -> list[str]:
        return list(dict.fromkeys(progress.phase for progress in self))


def get(
    server: Plan,
    target: Path,
    *,
    reports: Reports | None = None,
    cancel: threading.Event | None = None,
    size: int | None = len(DATA),
    sha256: str | None = SHA256,
    path: str = "/model.gguf",
    delays: tuple[float, ...] = (0.0, 0.0, 0.0),
) -> Path:
    return fetch(
        server.url + path,
        target,
        size=size,
        sha256=sha256,
        progress=reports if reports is not None else Reports(),
        cancel=cancel or threading.Event(),
        retry_delays_s=delays,
    )


def put_part(target: Path, data: bytes) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    part = download.part_of(target)
    part.write_bytes(data)
    return part
