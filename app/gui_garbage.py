"""Collects Python's reference cycles on the GUI thread alone.

Automatic collection runs on whichever thread happens to allocate. Where a dead cycle holds a Qt object, a
timer or a menu say, its destructor would then run on the engine's or an I/O thread while the GUI thread uses
it, and the process ends with a segmentation fault (seen with two windows one after another).
"""

from __future__ import annotations

import gc
import time

from PySide6.QtCore import QObject, QTimer

INTERVAL_MS = 1000
FULL_EVERY_S = 60.0  # a full collection walks everything that torch has made: some 100 ms


class GuiGarbage(QObject):
    """Turns automatic collection off for the process and does its work on the thread of ``parent``."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        gc.disable()
        self._last_full = time.monotonic()
        timer = QTimer(self)
        timer.timeout.connect(self.collect)
        timer.start(INTERVAL_MS)

    def collect(self) -> None:
        """Collect the oldest generation that is due; the oldest of all at most once a minute."""
        counts, thresholds = gc.get_count(), gc.get_threshold()
        if counts[0] <= thresholds[0]:
            return
        if counts[2] > thresholds[2] and time.monotonic() - self._last_full >= FULL_EVERY_S:
            self._last_full = time.monotonic()
            gc.collect(2)
        else:
            gc.collect(1 if counts[1] > thresholds[1] else 0)
