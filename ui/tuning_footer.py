"""The foot of the Tuning panel: the verdict, what is recommended, and Apply. It knows no plan."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from ui import numbers
from ui.controls import Button
from ui.heatmap import HeatMap
from ui.label import key_text
from ui.recommended import Recommended
from ui.values import TuningView
from ui.verdict import VerdictCard

_WORDS = {"waiting": "Applies after this answer", "anyway": "Load anyway"}
_LONG_WAIT_S = 9.5  # from here on its figure takes the room of the icon


class TuningFooter(QWidget):
    """Verdict card, room for the heatmap, and a row of Recommended and Apply.

    While Apply waits or shows how far it is, it takes the whole row.
    """

    SPACING = 8

    apply_clicked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.verdict = VerdictCard()
        self.recommended = Recommended()
        self.apply = Button("Apply", "check", "primary")
        self.apply.clicked.connect(self.apply_clicked)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(self.SPACING)
        self._column.addWidget(self.verdict)
        row = QHBoxLayout()
        row.setSpacing(8)
        row.addWidget(self.recommended)
        row.addWidget(self.apply, 1)
        row.addStretch(0)
        self._column.addLayout(row)

    def set_view(self, view: TuningView) -> None:
        """Show the verdict and the state of Apply."""
        self.verdict.set_view(view.verdict)
        self.recommended.set_view(view.preference, view.recommended)
        self._show_apply(view)

    @property
    def least_height(self) -> int:
        """How high it is without the heatmap."""
        verdict = 0 if self.verdict.isHidden() else self.verdict.height() + self.SPACING
        return verdict + self.apply.sizeHint().height()

    def take_heat(self, heat: HeatMap) -> None:
        """Let the heatmap stand between verdict and buttons."""
        self._column.insertWidget(1, heat)

    def _show_apply(self, view: TuningView) -> None:
        is_reloading, is_asking = view.apply == "reloading", view.apply in ("ready", "anyway")
        self.apply.setVisible(view.apply != "hidden")
        self.apply.setEnabled(is_asking)
        self.recommended.setVisible(is_asking or view.apply == "hidden")
        percent = view.apply_percent or 0
        self.apply.set_progress(percent / 100 if is_reloading else None)
        self.apply.set_role("secondary" if view.apply == "anyway" else "primary")
        is_long = view.reload_s is not None and view.reload_s >= _LONG_WAIT_S
        self.apply.set_icon("check" if view.apply == "ready" and not is_long else None)
        wait = "" if view.reload_s is None else f"{numbers.decimal(max(view.reload_s, 1), 0)}{numbers.NBSP}s"
        left = f" · {wait} left" if wait else ""
        reloading = "Reloading" if view.apply_percent is None else f"Reloading {percent}%{left}"
        words = reloading if is_reloading else _WORDS.get(view.apply, "Apply")
        self.apply.setText(words)
        has_wait = view.apply == "ready" and bool(wait)
        self.apply.set_detail(f"(reload {wait})" if has_wait else "")
        name = f"Apply, reload about {wait}" if has_wait else words
        self.apply.setAccessibleName(name.replace(f"{numbers.NBSP}s", " seconds"))
        self.apply.setToolTip(_tooltip(view.apply))


def _tooltip(apply: str) -> str:
    if apply == "anyway":
        return "Load although it does not fit: other programs may be pushed out of memory, or loading fails"
    return f"Load the model again with these settings ({key_text('Ctrl+Return')})"
