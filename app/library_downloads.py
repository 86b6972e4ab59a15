"""The downloads of the library: several at once, paused and resumed, also in the next run.

Knows orders and their states; the window shows what ``views`` says.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app import library_fetch
from app.atomic_file import read_object, write_atomic
from app.hub import Hub
from app.io_thread import IoThread
from app.library_fetch import Order
from app.progress import DownloadProgress
from engine.events import Failed
from ui.library_values import TransferView
from ui.values import DownloadView

AT_ONCE = 3
LANE = "library"
_MOST_RECORD_BYTES = 4_000_000
_VERSION = 1


@dataclass(slots=True)
class _Transfer:
    """One order. ``cancel`` is there while it runs; ``is_dropped``: it goes when it has stopped."""

    order: Order
    progress: DownloadView
    cancel: threading.Event | None = None
    slot: str = ""
    is_dropped: bool = False


class Downloads(QObject):
    """``changed`` fires when a download comes, goes or has another state, ``moved`` with the key of one that
    only got on, ``done`` with the path of a model that is here, ``refused`` with an order that needs a login
    and the page where its licence is.
    """

    changed = Signal()
    moved = Signal(str)
    done = Signal(str)
    refused = Signal(str, str)

    def __init__(self, io: IoThread, hub: Hub, record: Path, models_dir: Path) -> None:
        super().__init__()
        self._io, self._hub = io, hub
        self._record, self._models_dir = record, models_dir
        self._transfers: dict[str, _Transfer] = {}
        self.on_error: Callable[[Failed], None] = lambda _: None

    def use_folders(self, record: Path, models_dir: Path) -> None:
        """Keep the list and the files elsewhere from now on; only while nothing is unfinished."""
        self._record, self._models_dir = record, models_dir

    @property
    def views(self) -> tuple[TransferView, ...]:
        """All downloads that are not done, in the order they were begun."""
        return tuple(self.view_of(key) for key in self._transfers)

    def view_of(self, key: str) -> TransferView:
        """One of them."""
        order, progress = self._transfers[key].order, self._transfers[key].progress
        return TransferView(key, order.name, f"{order.label} · {order.repo}", progress)

    @property
    def is_running(self) -> bool:
        """Whether bytes are being asked for."""
        return any(each.cancel is not None for each in self._transfers.values())

    @property
    def unfinished(self) -> frozenset[str]:
        """Files that are no models yet."""
        return frozenset(
            str(place)
            for each in self._transfers.values()
            for place in (*each.order.places, each.order.target)
        )

    def state_of(self, key: str) -> str:
        """The state of an order, "" where there is none."""
        return self._transfers[key].progress.state if key in self._transfers else ""

    def restore(self) -> None:
        """Show what an earlier run left, as paused."""

        def read() -> list[tuple[Order, int]]:
            orders = load(self._record, self._models_dir)
            return [(order, library_fetch.fetched_bytes(order)) for order in orders]

        self._io.submit(read, on_done=self._on_restored, on_error=self.on_error, lane=LANE)

    def start(self, order: Order) -> None:
        """Begin an order, or go on with it; one that is on its way already is left alone."""
        transfer = self._transfers.get(order.key)
        if transfer is None:
            transfer = self._transfers[order.key] = _Transfer(
                order, DownloadView("queued", 0, order.size_bytes)
            )
            self._keep()
        elif transfer.cancel is not None:
            return
        transfer.progress = replace(transfer.progress, state="queued", message="")
        self._run_waiting()

    def resume(self, key: str) -> None:
        """Go on with a paused or failed order."""
        if key in self._transfers:
            self.start(self._transfers[key].order)

    def pause(self, key: str) -> None:
        """Stop for now; what is here is kept."""
        transfer = self._transfers.get(key)
        if transfer is None:
            return
        if transfer.cancel is not None:
            transfer.cancel.set()
        elif transfer.progress.state == "queued":
            self._show(transfer, replace(transfer.progress, state="paused"))

    def cancel(self, key: str) -> None:
        """Give an order up and free its space."""
        transfer = self._transfers.get(key)
        if transfer is None:
            return
        transfer.is_dropped = True
        if transfer.cancel is not None:
            transfer.cancel.set()
        else:
            self._drop(transfer)

    def stop(self) -> None:
        """Pause all: the program closes."""
        for transfer in self._transfers.values():
            if transfer.cancel is not None:
                transfer.cancel.set()

    def _on_restored(self, found: list[tuple[Order, int]]) -> None:
        for order, done in found:
            if order.key not in self._transfers:
                view = DownloadView("paused", done, order.size_bytes)
                self._transfers[order.key] = _Transfer(order, view)
        self.changed.emit()

    def _run_waiting(self) -> None:
        """Begin as many of those that wait as there is room for."""
        free = [f"download {number}" for number in range(1, AT_ONCE + 1)]
        for transfer in self._transfers.values():
            if transfer.cancel is not None:
                free.remove(transfer.slot)
        for transfer in list(self._transfers.values()):
            if free and transfer.progress.state == "queued" and transfer.cancel is None:
                self._run(transfer, free.pop(0))
        self.changed.emit()

    def _run(self, transfer: _Transfer, slot: str) -> None:
        cancel = transfer.cancel = threading.Event()
        transfer.slot = slot
        transfer.progress = replace(transfer.progress, state="starting", message="")
        order = transfer.order

        def report(progress: DownloadProgress) -> None:
            self._io.post(lambda value: self._on_progress(transfer, value), progress)

        def work() -> Path:
            return library_fetch.fetch_order(self._hub, order, report, cancel)

        self._io.submit(
            work,
            on_done=lambda path: self._on_done(transfer, path),
            on_error=lambda failed: self._on_failed(transfer, failed),
            lane=slot,
        )

    def _on_progress(self, transfer: _Transfer, progress: DownloadProgress) -> None:
        if transfer.cancel is None or transfer.cancel.is_set():
            return
        state = "starting" if progress.phase == "waiting" else progress.phase
        message = progress.note or (transfer.progress.message if state == "starting" else "")
        done, total = progress.done_bytes, progress.total_bytes
        view = DownloadView(state, done, total, progress.rate_bps, progress.seconds_left, message)
        self._show(transfer, view)

    def _on_done(self, transfer: _Transfer, path: Path) -> None:
        transfer.cancel = None
        if transfer.is_dropped:
            self._drop(transfer)
            return
        self._remove(transfer)
        self.done.emit(str(path))

    def _on_failed(self, transfer: _Transfer, failed: Failed) -> None:
        """Ended without all files. How much is here is asked of the disk."""
        was_paused = transfer.cancel is not None and transfer.cancel.is_set()
        transfer.cancel = None
        if transfer.is_dropped:
            self._drop(transfer)
            return
        state = "paused" if was_paused else "failed"
        message = "" if was_paused else f"{failed.message} {failed.hint}".strip()

        def show(done: int) -> None:
            self._show(transfer, DownloadView(state, done, transfer.order.size_bytes, message=message))

        self._show(transfer, replace(transfer.progress, state=state, message=message, rate_bps=None))
        order = transfer.order
        self._io.submit(library_fetch.fetched_bytes, order, on_done=show, on_error=self.on_error, lane=LANE)
        if failed.kind == "gated":
            self.refused.emit(transfer.order.key, transfer.order.repo)
        self._run_waiting()

    def _drop(self, transfer: _Transfer) -> None:
        self._io.submit(
            library_fetch.discard,
            transfer.order,
            on_done=lambda _: self._remove(transfer),
            on_error=self.on_error,
            lane=LANE,
        )

    def _remove(self, transfer: _Transfer) -> None:
        self._transfers.pop(transfer.order.key, None)
        self._keep()
        self._run_waiting()

    def _show(self, transfer: _Transfer, view: DownloadView) -> None:
        before, transfer.progress = transfer.progress, view
        if transfer.order.key not in self._transfers:
            return
        if (before.state, before.message) != (view.state, view.message):
            self.changed.emit()
        else:
            self.moved.emit(transfer.order.key)

    def _keep(self) -> None:
        """On the lane whose jobs are finished when the program closes."""
        orders = [each.order for each in self._transfers.values()]
        self._io.submit(save, self._record, orders, on_error=self.on_error)


def save(record: Path, orders: list[Order]) -> None:
    """Keep the orders that are not done. Raises StorageError."""
    value = {"version": _VERSION, "orders": [library_fetch.to_json(order) for order in orders]}
    write_atomic(record, json.dumps(value).encode())


def load(record: Path, models_dir: Path) -> list[Order]:
    """The orders that an earlier run left; what is no order is left out."""
    orders = []
    with contextlib.suppress(OSError, ValueError):
        listed = read_object(record, _MOST_RECORD_BYTES).get("orders")
        for value in listed if isinstance(listed, list) else []:
            with contextlib.suppress(ValueError, TypeError, KeyError):
                orders.append(library_fetch.from_json(value, models_dir))
    return orders
