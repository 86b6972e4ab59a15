"""Moves the data or the models folder while the program runs, or says why that cannot be now."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from PySide6.QtCore import QObject, Signal

from app import data_move, settings
from app.data_move import DATA, Move
from app.io_thread import IoThread
from app.library_desk import LibraryDesk
from app.model_desk import ModelDesk
from app.preferences import Preferences
from app.setting_table import Settings
from app.settings_view import STOP_MOVE
from app.store_lane import StoreLane
from engine.events import Failed
from engine.words import tr
from ui import numbers
from ui.settings_values import FootView

LANE = "folders"  # a disk that hangs holds up no chat
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
        self._is_planning = False
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
        is_data = self._move.name == DATA
        words = (
            tr("Moving data: {done} of {total}\u00a0GB")
            if is_data
            else tr("Moving models: {done} of {total}\u00a0GB")
        )
        words = words.format(done=numbers.decimal(done / 1e9, 2), total=numbers.decimal(total / 1e9, 2))
        share = done / total if total else 0.0
        return FootView(words, STOP_MOVE, tr("Stop"), progress=share)

    def move(self, name: str, target: str) -> None:
        """Begin, or say in ``errors`` why not, once the disk was asked."""
        self.errors, self.done_words = {}, ""
        if self._move is None and not self._is_planning:
            self._is_planning = True
            self._plan(name, target)

    def stop(self) -> None:
        """Give a running move up; everything is then where it was."""
        self._cancel.set()

    def _plan(self, name: str, target: str) -> None:
        made = self._models.plan
        in_use = (made.model.path, made.wish.draft) if made else ()

        def work() -> tuple[Move, bool]:
            move = data_move.planned(name, target)
            return move, any(data_move.relocated(path, move) != path for path in in_use)

        def done(found: tuple[Move, bool]) -> None:
            if self._models.plan is not made:  # another model came meanwhile
                self._plan(name, target)
                return
            self._is_planning = False
            move, is_in_use = found
            if words := self._reason(move):
                self._refuse(name, words)
            else:
                self._begin(move, made.model.path if made and is_in_use else "")

        def failed(failure: Failed) -> None:
            self._is_planning = False
            self._refuse(name, f"{failure.message} {failure.hint}".strip())

        self._io.submit(work, on_done=done, on_error=failed, lane=LANE)

    def _refuse(self, name: str, words: str) -> None:
        self.errors = {name: words}
        self.changed.emit()

    def _reason(self, move: Move) -> str:
        """Why it cannot be now, "" where it can."""
        if self._preferences.is_overridden(move.name):
            return tr("The command line says where it is in this run.")
        if self._library.downloads.views or self._models.download.is_running:
            return tr("There are unfinished downloads. Wait for them or cancel them.")
        return self._busy_words()

    def _begin(self, move: Move, loaded: str) -> None:
        """``loaded`` is the path of the model that has to be unloaded for the move, if any."""
        self._move, self._progress = move, (0, 0)
        self._cancel = cancel = threading.Event()
        self._reload = loaded
        if loaded:
            self._models.rest()
        free_deleted = self._library.forget_deleted()
        saved = self._preferences.saved
        report = _Reports(lambda amounts: self._io.post(self._on_progress, amounts))

        def work() -> str:
            free_deleted()
            after = data_move.settings_after(saved, move)
            return data_move.run(move, lambda: settings.save(after), report, cancel)

        self._preferences.hold()
        self._store.while_closed(work, self._on_moved, self._on_failed)
        self.changed.emit()

    def _on_progress(self, amounts: tuple[int, int]) -> None:
        if self._move is not None:
            self._progress = amounts
            self.changed.emit()

    def _on_moved(self, leftover: str) -> None:
        move, saved = self._move, self._preferences.saved
        assert move is not None
        known = {self._reload, *self._library.used_paths}

        def work() -> tuple[Settings, dict[str, str]]:
            places = {path: data_move.relocated(path, move) for path in known}
            return data_move.settings_after(saved, move), places

        def done(found: tuple[Settings, dict[str, str]]) -> None:
            if self._preferences.saved is not saved:  # a setting was changed meanwhile
                self._on_moved(leftover)
                return
            self.done_words = leftover or tr("Moved to {path}.").format(path=move.target)
            self._use(*found)

        self._io.submit(work, on_done=done, lane=LANE)

    def _use(self, after: Settings, places: Mapping[str, str]) -> None:
        """Everything is where ``after`` and ``places``, new paths by old ones, say."""
        self._preferences.change(
            data_folder=after.data_folder,
            models_folder=after.models_folder,
            models=after.models,
            last_model=after.last_model,
        )
        self._library.use_folders(places)
        self._end(places.get(self._reload, ""))

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
