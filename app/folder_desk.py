"""Moves the data or the models folder while the program runs, or says why that cannot be now."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QObject, Signal

from app import data_move, settings
from app.data_move import DATA, Move, MoveError
from app.io_thread import IoThread
from app.library_desk import LibraryDesk
from app.model_desk import ModelDesk
from app.preferences import Preferences
from app.settings_view import STOP_MOVE
from app.store_lane import StoreLane
from engine.events import Failed
from ui import numbers
from ui.numbers import NBSP
from ui.settings_values import FootView

_REPORT_BYTES = 64_000_000  # between two words to the window


@dataclass(slots=True)
class _Reports:
    """Tells the window of a move, but not of every small file."""

    tell: Callable[[tuple[int, int]], None]
    told: int = -_REPORT_BYTES

    def __call__(self, done: int, total: int) -> None:
        if done - self.told >= _REPORT_BYTES or done == total:
            self.told = done
            self.tell((done, total))


class FolderDesk(QObject):
    """``changed`` fires when a move begins, gets on, ends or is refused; ``busy_words`` say why to wait."""

    changed = Signal()

    def __init__(
        self,
        io: IoThread,
        preferences: Preferences,
        store: StoreLane,
        models: ModelDesk,
        library: LibraryDesk,
        busy_words: Callable[[], str],
    ) -> None:
        super().__init__()
        self._io, self._preferences, self._store = io, preferences, store
        self._models, self._library, self._busy_words = models, library, busy_words
        self._cancel = threading.Event()
        self._move: Move | None = None
        self._reload = ""  # the model that was unloaded for the move
        self._progress = (0, 0)
        self.errors: dict[str, str] = {}  # of the last try, by the name of the setting
        self.done_words = ""

    @property
    def view(self) -> FootView | None:
        """How far a move is; None while nothing is moved."""
        if self._move is None:
            return None
        done, total = self._progress
        what = "data" if self._move.name == DATA else "models"
        amount = f"{numbers.decimal(done / 1e9, 2)} of {numbers.decimal(total / 1e9, 2)}{NBSP}GB"
        share = done / total if total else 0.0
        return FootView(f"Moving {what}: {amount}", STOP_MOVE, "Stop", progress=share)

    def move(self, name: str, target: str) -> None:
        """Begin, or say in ``errors`` why not."""
        self.errors, self.done_words = {}, ""
        if self._move is not None:
            return
        try:
            move = data_move.planned(name, target)
        except MoveError as error:
            self._refuse(name, f"{error.message} {error.hint}".strip())
            return
        if words := self._reason(move):
            self._refuse(name, words)
        else:
            self._begin(move)

    def stop(self) -> None:
        """Give a running move up; everything is then where it was."""
        self._cancel.set()

    def _refuse(self, name: str, words: str) -> None:
        self.errors = {name: words}
        self.changed.emit()

    def _reason(self, move: Move) -> str:
        """Why it cannot be now, "" where it can."""
        if self._preferences.is_overridden(move.name):
            return "The command line says where it is in this run."
        if self._library.downloads.views or self._models.download.is_running:
            return "There are unfinished downloads. Wait for them or cancel them."
        return self._busy_words()

    def _begin(self, move: Move) -> None:
        self._move, self._progress = move, (0, 0)
        self._cancel = cancel = threading.Event()
        made = self._models.plan
        paths_in_use = (made.model.path, made.wish.draft) if made else ()
        is_in_use = any(data_move.relocated(path, move) != path for path in paths_in_use)
        self._reload = made.model.path if made and is_in_use else ""
        if is_in_use:
            self._models.rest()
        free_deleted = self._library.forget_deleted()
        after = data_move.settings_after(self._preferences.saved, move)
        report = _Reports(lambda amounts: self._io.post(self._on_progress, amounts))

        def work() -> str:
            free_deleted()
            return data_move.run(move, lambda: settings.save(after), report, cancel)

        self._preferences.hold()
        self._store.while_closed(work, self._on_moved, self._on_failed)
        self.changed.emit()

    def _on_progress(self, amounts: tuple[int, int]) -> None:
        if self._move is not None:
            self._progress = amounts
            self.changed.emit()

    def _on_moved(self, leftover: str) -> None:
        move = self._move
        assert move is not None
        after = data_move.settings_after(self._preferences.saved, move)
        self._preferences.change(
            data_folder=after.data_folder,
            models_folder=after.models_folder,
            models=after.models,
            last_model=after.last_model,
        )
        self._library.use_folders(lambda path: data_move.relocated(path, move))
        self.done_words = leftover or f"Moved to {move.target}."
        self._end(data_move.relocated(self._reload, move))

    def _on_failed(self, failed: Failed) -> None:
        assert self._move is not None
        self.errors = {self._move.name: f"{failed.message} {failed.hint}".strip()}
        self._end(self._reload)

    def _end(self, model: str) -> None:
        self._move = None
        self._preferences.release()
        if model:
            self._models.choose(model)
        self.changed.emit()
