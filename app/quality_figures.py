"""The figures of quality that the window shows beside the formats, read off its thread.

Knows whose figures they are and when to look again; not what is in the file.
"""

from __future__ import annotations

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QGuiApplication

from app import paths, quality_record
from app.io_thread import IoThread
from app.quality_record import QualityFigure
from engine.types import ModelSpec

LANE = "quality"


class QualityFigures(QObject):
    """Those of one model at a time; ``changed`` fires when they are there, or others than before.

    They are read again whenever the program comes to the front: measuring is done in a terminal beside it.
    """

    changed = Signal()

    def __init__(self, io: IoThread) -> None:
        super().__init__()
        self._io = io
        self._spec: ModelSpec | None = None
        self._figures: tuple[QualityFigure, ...] = ()
        application = QGuiApplication.instance()
        assert isinstance(application, QGuiApplication)
        application.applicationStateChanged.connect(self._on_application_state_changed)

    def of(self, spec: ModelSpec) -> tuple[QualityFigure, ...]:
        """All that is known of ``spec``; nothing before it was read."""
        return self._figures if self._spec is not None and self._spec.path == spec.path else ()

    def read(self, spec: ModelSpec) -> None:
        """Look for the figures of ``spec`` from now on."""
        if spec != self._spec:
            self._spec, self._figures = spec, ()
        self._io.submit(
            lambda: quality_record.figures_of(spec, paths.quality_file()),
            on_done=lambda figures: self._on_read(spec, figures),
            lane=f"{LANE} {spec.path}",  # a disk that hangs holds up no other model's
        )

    def _on_read(self, spec: ModelSpec, figures: tuple[QualityFigure, ...]) -> None:
        if spec == self._spec and figures != self._figures:
            self._figures = figures
            self.changed.emit()

    def _on_application_state_changed(self, state: Qt.ApplicationState) -> None:
        if state == Qt.ApplicationState.ApplicationActive and self._spec is not None:
            self.read(self._spec)
