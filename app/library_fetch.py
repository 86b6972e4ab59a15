"""One model from the hub onto the disk: all its files, one after another, as one count of bytes.

Knows files, folders and ``download.fetch``; nothing of queues, windows and of what a model is.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from app import download, stamp
from app.hub import Hub, RemoteFile, Variant
from app.hub_transport import explain_hub
from app.progress import DownloadProgress, Report
from app.transport import DownloadCancelledError
from engine.words import tr


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be fetched and where to. ``folder`` is the model's own, inside our models folder."""

    repo: str
    commit: str
    label: str
    files: tuple[RemoteFile, ...]
    folder: str
    is_gguf: bool

    @property
    def key(self) -> str:
        """The same for the same files."""
        return f"{self.repo}/{self.files[0].name}"

    @property
    def name(self) -> str:
        """For the screen."""
        return self.repo.rpartition("/")[2]

    @property
    def size_bytes(self) -> int:
        """Of all files."""
        return sum(file.size_bytes for file in self.files)

    @property
    def target(self) -> Path:
        """What is loaded when all is there: the first GGUF file, or the folder."""
        return self.place(self.files[0]) if self.is_gguf else Path(self.folder)

    def place(self, file: RemoteFile) -> Path:
        """Where a file goes: parts of a split model lie side by side, whatever folder they had."""
        return Path(self.folder) / file.name.rpartition("/")[2]

    @property
    def places(self) -> tuple[Path, ...]:
        """Where all files go."""
        return tuple(self.place(file) for file in self.files)


def order_of(repo: str, commit: str, variant: Variant, models_dir: Path) -> Order:
    """The order for a variant. Its folder is named as the Hugging Face cache does, owner and name."""
    folder = models_dir / repo.replace("/", "--")
    return Order(repo, commit, variant.label, variant.files, str(folder), variant.is_gguf)


def fetched_bytes(order: Order) -> int:
    """How much of an order is on the disk."""
    done = 0
    for file, place in zip(order.files, order.places, strict=True):
        with contextlib.suppress(OSError):
            done += min(place.stat().st_size, file.size_bytes)
            continue
        done += min(download.part_bytes(place), file.size_bytes)
    return done


def fetch_order(hub: Hub, order: Order, report: Report, cancel: threading.Event) -> Path:
    """Fetch what is missing of an order and return what is to be loaded.

    Raises DownloadError and DownloadCancelledError; what has arrived is kept and goes on next time.
    """
    Path(order.folder).mkdir(parents=True, exist_ok=True)
    missing = [file for file in order.files if not _is_here(order.place(file), file)]
    waiting = sum(file.size_bytes - download.part_bytes(order.place(file)) for file in missing)
    download.require_space([(Path(order.folder), max(0, waiting))])
    done = order.size_bytes - sum(file.size_bytes for file in missing)
    for file in missing:
        place = order.place(file)
        try:
            download.fetch(
                hub.url(order.repo, order.commit, file.name),
                place,
                progress=_part_of_all(report, done, order.size_bytes),
                cancel=cancel,
                size=file.size_bytes,
                sha256=file.sha256,
                client=hub.client,
                headers=hub.headers(),
                explain=explain_hub,
            )
        except DownloadCancelledError as error:
            raise DownloadCancelledError(tr("The download was paused."), error.hint) from error
        if file.sha256 is not None:
            stamp.write(place, file.sha256)
        done += file.size_bytes
    return order.target


def _is_here(place: Path, file: RemoteFile) -> bool:
    """A file of an earlier run: by its hash, or by its size where the hub told no hash of a small text."""
    with contextlib.suppress(OSError):
        if file.sha256 is not None:
            return stamp.is_right(place, file.size_bytes, file.sha256)
        return place.stat().st_size == file.size_bytes
    return False


def _part_of_all(report: Report, before: int, total: int) -> Report:
    """Progress of one file as progress of all; while it is checked, what was checked does not count."""

    def tell(progress: DownloadProgress) -> None:
        is_count = progress.phase != "checking"
        done = min(total, before + progress.done_bytes) if is_count else before + progress.total_bytes
        rate = progress.rate_bps if progress.phase == "running" else None
        left = (total - done) / rate if rate else None
        report(replace(progress, done_bytes=done, total_bytes=total, rate_bps=rate, seconds_left=left))

    return tell


def discard(order: Order) -> None:
    """Give back the space of an unfinished order: its parts, and those of its files that are whole. Other
    models in the same folder stay. Raises OSError.
    """
    for place in order.places:
        for each in (place, download.part_of(place), stamp.stamp_of(place)):
            each.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        os.rmdir(order.folder)  # only an empty one goes


def free_bytes(folder: Path) -> int | None:
    """What is free on the disk of a folder that need not be there yet; None where that cannot be told."""
    for each in (folder, *folder.parents):
        with contextlib.suppress(OSError):
            return shutil.disk_usage(each).free
    return None


def to_json(order: Order) -> dict[str, Any]:
    """An order as plain values."""
    return asdict(order)


def from_json(value: Mapping[str, Any], models_dir: Path) -> Order:
    """An order that was kept. Raises ValueError, TypeError or KeyError for what is none, and for files that
    would lie outside of our models folder.
    """
    files = tuple(RemoteFile(**file) for file in value["files"])
    order = Order(**{**value, "files": files})
    texts = (order.repo, order.commit, order.label, order.folder)
    are_texts = all(isinstance(text, str) for text in texts) and isinstance(order.is_gguf, bool)
    are_files = all(isinstance(file.name, str) and isinstance(file.size_bytes, int) for file in files)
    if not files or not are_texts or not are_files or Path(order.folder).parent != models_dir:
        raise ValueError("not an order")
    if any(place.parent != Path(order.folder) or place.name in ("", ".", "..") for place in order.places):
        raise ValueError("files outside of the folder")
    return order
