"""The foot of the Tuning panel: the verdict, what is recommended, and Apply. It knows no plan."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from engine.words import mark, tr
from ui import numbers
from ui.controls import Button
from ui.heatmap import HeatMap
from ui.label import key_text
from ui.recommended import Recommended
from ui.tuning_values import TuningView
from ui.verdict import VerdictCard

_APPLY = mark("Apply")
_WORDS = {"waiting": mark("Applies after this answer"), "anyway": mark("Load anyway")}
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
        self.apply = Button(tr(_APPLY), "check", "primary")
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
        self.recommended.set_view(view.preference, view.recommended, is_set=view.is_recommended)
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
        words = spoken = tr(_WORDS.get(view.apply, _APPLY))
        if is_reloading:
            words, spoken = _reloading(view)
        detail = ""
        if view.apply == "ready" and view.reload_s is not None:
            detail = tr("(reload {seconds}\u00a0s)").format(seconds=numbers.count(_wait_s(view)))
            spoken = tr("Apply, reload about %n second(s)", "", _wait_s(view))
        self.apply.setText(words)
        self.apply.set_detail(detail)
        self.apply.setAccessibleName(spoken)
        self.apply.setToolTip(_tooltip(view.apply))


def _wait_s(view: TuningView) -> int:
    """Seconds that loading takes, or what is left of them."""
    return max(1, round(view.reload_s or 0))


def _reloading(view: TuningView) -> tuple[str, str]:
    """How far the load is, as it is shown and as it is spoken."""
    if view.apply_percent is None:
        return tr("Reloading"), tr("Reloading")
    shown = spoken = tr("Reloading {percent}")
    if view.reload_s is not None:
        shown = tr("Reloading {percent} · {seconds}\u00a0s left")
        spoken = tr("Reloading {percent} · %n second(s) left", "", _wait_s(view))
    figures = {"percent": numbers.percent(view.apply_percent / 100), "seconds": numbers.count(_wait_s(view))}
    return shown.format(**figures), spoken.format(**figures)


def _tooltip(apply: str) -> str:
    if apply == "anyway":
        return tr(
            "Load although it does not fit: other programs may be pushed out of memory, or loading fails"
        )
    return tr("Load the model again with these settings ({keys})").format(keys=key_text("Ctrl+Return"))
