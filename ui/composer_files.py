"""The texts attached to the message being written: in which order, at what cost, and what is on its way.

Shows them as chips; reads no file and counts nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from PySide6.QtCore import QObject, Signal

from ui.attachment_chip import AttachmentRow
from ui.attachment_text import AttachedText
from ui.chat_values import AttachmentView


class ComposerFiles(QObject):
    """``changed`` fires when texts came or went, ``shown`` also when a cost became known."""

    changed = Signal()
    shown = Signal()

    def __init__(self, row: AttachmentRow) -> None:
        super().__init__(row)
        self.row = row
        self._files: tuple[AttachedText, ...] = ()
        self._reading: dict[str, str] = {}  # key → name of a file that is on its way
        self._costs: Mapping[AttachedText, int] = {}
        row.removed.connect(self._on_removed)

    @property
    def files(self) -> tuple[AttachedText, ...]:
        """What goes with the message."""
        return self._files

    @property
    def reading(self) -> tuple[str, ...]:
        """Names of the files that are still being read."""
        return tuple(self._reading.values())

    def set_files(self, files: Sequence[AttachedText]) -> None:
        """Have these and no others; what is on its way stays."""
        if tuple(files) != self._files:
            self._files = tuple(files)
            self._show()
            self.changed.emit()

    def add(self, file: AttachedText) -> None:
        """One more, unless it is there."""
        if file not in self._files:
            self.set_files((*self._files, file))

    def begin(self, key: str, name: str) -> None:
        """A file is being read."""
        self._reading[key] = name
        self._show()
        self.changed.emit()

    def end(self, key: str) -> None:
        """A file is read, or was not to be."""
        if self._reading.pop(key, None) is not None:
            self._show()
            self.changed.emit()

    def set_costs(self, costs: Mapping[AttachedText, int]) -> None:
        """Show how many tokens each takes, where that is known."""
        self._costs = costs
        self._show()

    def _show(self) -> None:
        known = [AttachmentView(each.name, self._costs.get(each), each.note) for each in self._files]
        coming = [AttachmentView(name, is_reading=True) for name in self._reading.values()]
        self.row.set_views([*known, *coming])
        self.shown.emit()

    def _on_removed(self, at: int) -> None:
        if at < len(self._files):
            self.set_files(self._files[:at] + self._files[at + 1 :])
        else:
            self.end(list(self._reading)[at - len(self._files)])
