"""Context in use: how much of the loaded context is filled. Counts nothing itself."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.words import mark, tr
from ui import numbers, theme
from ui.gauge import Gauge
from ui.gauge_values import ContextView
from ui.painting import Run, draw_runs, draw_runs_right, mixed, rounded

_BAR_TOP, _BAR, _GAP = 20.0, 5.0, 1.0
_TOOLTIP = mark("Tokens that the model holds in memory now (KV cache)")
_SHADES = (1.0, 0.72, 0.55, 0.42)  # of the accent colour, one each answer
_KEPT = 0.26  # of what chats left there that are not being answered


class ContextBar(Gauge):
    """Tokens in the cache of the context that is loaded, one shade for each answer that is being written and
    a pale one for what other chats left to be reused; a dash while nothing is loaded.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(tr("Context in use"), parent)
        self.setFixedHeight(28)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setToolTip(tr(_TOOLTIP))
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
        used, context = numbers.count(self._view.used_tokens), numbers.count(self._view.context)
        words, chats = tr("{used} of {context} tokens"), len(self._view.answers)
        together = " · " + tr("%n chat(s)", "", chats) if chats > 1 else ""
        return words.format(used=used, context=context) + together

    @property
    def parts(self) -> tuple[int, ...]:
        """Tokens of each answer, oldest first, then those that are kept; together what is used. Answers with
        the same beginning share its pages: it is the first one's.
        """
        left, parts = self._view.used_tokens, []
        for tokens in self._view.answers:
            parts.append(min(tokens, left))
            left -= parts[-1]
        return (*parts, left)

    def sentence(self) -> str:
        if self._view.context <= 0:
            return tr("No model loaded")
        *answers, kept = self.parts
        if len(answers) < 2:
            return self.words
        each = ", ".join(numbers.count(tokens) for tokens in answers)
        told = tr("{context}: {answers}, and {kept} kept of other chats")
        return told.format(context=self.words, answers=each, kept=numbers.count(kept))

    def paint(self, painter: QPainter) -> None:
        colors, view = theme.palette(), self._view
        draw_runs(painter, 0, 13, [Run(tr("Context in use"), theme.font("micro"), colors.text2)])
        draw_runs_right(painter, self.span, 13, [Run(self.words, theme.font("micro", 600), colors.text2)])
        painter.save()
        painter.setClipPath(rounded(QRectF(0, _BAR_TOP, self.span, _BAR), _BAR / 2))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.fillRect(QRectF(0, _BAR_TOP, self.span, _BAR), colors.track)
        left = 0.0
        for tokens, color in zip(self.parts, self._colors(), strict=True) if view.context > 0 else ():
            width = min(tokens / view.context, 1.0) * self.span
            painter.fillRect(QRectF(left, _BAR_TOP, max(width - _GAP, 0.0), _BAR), color)
            left += width
        painter.restore()

    def _colors(self) -> list[QColor]:
        """Of the parts, in their order."""
        colors = theme.palette()
        num_answers = len(self._view.answers)
        shares = [_SHADES[index % len(_SHADES)] for index in range(num_answers)]
        shares.append(_KEPT if num_answers else 1.0)
        return [mixed(colors.accent, colors.track, share) for share in shares]

    def sizeHint(self) -> QSize:
        return QSize(328 + 2 * self.SIDE, 28)
