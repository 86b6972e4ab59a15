"""Which model is to be loaded: that of the start, or the one that the user chose. Knows no window.

Reads the machine and the headers beside it; what comes of a choice that was replaced meanwhile is left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app import paths, starter
from app.headers import Headers, read_headers
from app.io_thread import IoThread
from app.preferences import Preferences
from app.room import Room
from engine.events import Failed
from engine.hardware.cores import physical_cores
from engine.hardware.probe import probe
from engine.machine import Hardware
from engine.models.spec import read_spec
from engine.types import LoadSpec, ModelSpec

FILES_LANE = "files"  # reading headers may take long on a slow disk: it is held apart from the chats


@dataclass(frozen=True, slots=True)
class Choice:
    """A model to load, as it was loaded last; ``no_draft`` says why its draft model cannot be used."""

    spec: ModelSpec
    wish: LoadSpec
    draft: ModelSpec | None = None
    no_draft: str = ""


class ModelChoice(QObject):
    """``read`` carries a Choice, ``unusable`` the path of a file that is no model and why, ``none`` fires
    where there is nothing to begin with. ``probed`` fires when the room knows the machine, after ``failed``
    where what it has could not be seen.
    """

    read = Signal(object)
    unusable = Signal(str, object)
    none = Signal()
    probed = Signal()
    failed = Signal(object)

    def __init__(self, io: IoThread, preferences: Preferences, room: Room) -> None:
        super().__init__()
        self._io = io
        self._preferences = preferences
        self._room = room
        self.path = ""
        self._early: tuple[str, Headers] | None = None  # read before the machine was
        self.name_of: Callable[[str], str] = lambda path: ""  # for files without a name of their own

    def start(self, path: str | None) -> None:
        """Look at the machine, then choose ``path``, else the last model, else an installed starter."""
        self._io.submit(
            lambda: probe(paths.kernel_times_file()),
            on_done=self._on_probed,
            on_error=self._on_unprobed,
            lane=FILES_LANE,
        )
        if path:
            self.choose(path)
            return
        last = self._preferences.value.last_model
        self._io.submit(
            *(starter.usable, last), on_done=self._on_start, on_error=self.failed.emit, lane=FILES_LANE
        )

    def choose(self, path: str) -> None:
        """Read the header of ``path``; it is to be loaded unless another is chosen meanwhile."""
        self.path = path
        self._io.submit(
            *(read_headers, read_spec, path, self._preferences.draft_for(path)),
            on_done=lambda found: self._on_read(path, found),
            on_error=lambda failed: self._on_unreadable(path, failed),
            lane=f"{FILES_LANE} {path}",  # a disk that hangs holds up no other choice
        )

    def _on_probed(self, hardware: Hardware) -> None:
        self._room.probed = hardware
        self.probed.emit()
        early, self._early = self._early, None
        if early is not None:
            self._on_read(*early)

    def _on_unprobed(self, failed: Failed) -> None:
        """What the machine has stays unknown; models are loaded all the same."""
        self.failed.emit(failed)
        self._on_probed(Hardware("", physical_cores(), None, None))

    def _on_start(self, path: Path | None) -> None:
        if path is not None:
            self.choose(str(path))
        else:
            self.none.emit()

    def _on_read(self, path: str, found: Headers) -> None:
        if path != self.path:
            return
        if self._room.hardware is None:  # what is measured of a model is kept for a machine by its name
            self._early = (path, found)
            return
        spec = replace(found.spec, name=self.name_of(path) or found.spec.name)
        wish = replace(self._preferences.wish_for(spec.path), draft=found.draft.path if found.draft else "")
        self.read.emit(Choice(spec, wish, found.draft, found.no_draft))

    def _on_unreadable(self, path: str, failed: Failed) -> None:
        if path == self.path:
            self.unusable.emit(path, failed)
