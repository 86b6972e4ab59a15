"""Context in use: how much of the loaded context is filled. Counts nothing itself."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import QSizePolicy, QWidget

from ui import numbers, theme
from ui.gauge import Gauge
from ui.painting import Run, draw_meter, draw_runs, draw_runs_right
from ui.values import ContextView


class ContextBar(Gauge):
    """Tokens in the cache of the context that is loaded; a dash while nothing is loaded."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Context in use", parent)
        self.setFixedHeight(28)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setToolTip("Tokens that the model holds in memory now (KV cache)")
        self._view = ContextView()

    def set_view(self, view: ContextView) -> None:
        """Show ``view`` with the next tick of the clock."""
        if view != self._view:
            self._view = view
            self.mark_changed()

    @property
    def words(self) -> str:
        """The values as they are shown."""
        if self._view.context <= 0:
            return numbers.UNKNOWN
        return f"{numbers.count(self._view.used_tokens)} of {numbers.count(self._view.context)} tokens"

    def sentence(self) -> str:
        return "No model loaded" if self._view.context <= 0 else self.words

    def paint(self, painter: QPainter) -> None:
        colors, view = theme.palette(), self._view
        draw_runs(painter, 0, 13, [Run("Context in use", theme.font("micro"), colors.text2)])
        draw_runs_right(painter, self.span, 13, [Run(self.words, theme.font("micro", 600), colors.text2)])
        share = view.used_tokens / view.context if view.context > 0 else 0.0
        draw_meter(painter, QRectF(0, 20, self.span, 5), share, colors.accent, colors.track)

    def sizeHint(self) -> QSize:
        return QSize(328 + 2 * self.SIDE, 28)
