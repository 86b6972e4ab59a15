"""Gives the model's memory back when nobody has asked it anything for a while. Knows no engine."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, Signal

_MS_PER_MIN = 60_000


class Rest(QObject):
    """``due`` fires once after so many idle minutes; whoever uses the model says ``touch``.

    ``minutes`` says how many, None for never; ``is_busy`` whether the model is in use without a pause.
    """

    due = Signal()

    def __init__(self, minutes: Callable[[], int | None], is_busy: Callable[[], bool]) -> None:
        super().__init__()
        self._minutes = minutes
        self._is_busy = is_busy
        self.timer = QTimer(self, singleShot=True)
        self.timer.timeout.connect(self._on_timeout)

    def touch(self, *_: object) -> None:
        """The model is used now, or the number of minutes is another."""
        minutes = self._minutes()
        if minutes is None:
            self.timer.stop()
        else:
            self.timer.start(minutes * _MS_PER_MIN)

    def stop(self) -> None:
        """Nothing is to be unloaded any more."""
        self.timer.stop()

    def _on_timeout(self) -> None:
        if self._is_busy():
            self.touch()
        else:
            self.due.emit()
