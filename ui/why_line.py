"""The line that says what limits the speed; pressed, it asks for more. Draws no conclusion."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QTextCharFormat, QTextLayout
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.words import mark, tr
from ui import theme
from ui.controls import ThemedButton
from ui.gauge import Gauge
from ui.gauge_values import WhyView

LINK = mark("Why?")
_LEFT, _LINE, _MARGIN = Gauge.SIDE + 24.0, 20.0, 4.0
_LEAST_LINES = 2  # one more line must not move what stands below


class WhyLine(ThemedButton):
    """One sentence with an icon; what stands before its colon is bold. ``clicked`` asks to explain it."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._view = WhyView()
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self.setToolTip(tr("What the speed is made of, and what was predicted and measured before"))
        self._show()

    @property
    def sentence(self) -> str:
        """What is said, without the link."""
        return self._view.sentence

    def set_view(self, view: WhyView) -> None:
        """Show ``view`` at once."""
        if view != self._view:
            self._view = view
            self._show()

    def _show(self) -> None:
        can_explain = self._view.can_explain
        self.setEnabled(can_explain)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus if can_explain else Qt.FocusPolicy.NoFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor if can_explain else Qt.CursorShape.ArrowCursor)
        self.setAccessibleName(f"{self.sentence}. {tr(LINK)}" if can_explain else self.sentence)
        self.updateGeometry()
        self.update()

    def _lay_out(self, width: float) -> QTextLayout:
        text = f"{self.sentence} {tr(LINK)}" if self._view.can_explain else self.sentence
        layout = QTextLayout(text, theme.font("small"))
        colors = theme.palette()
        head, end = self.sentence.find(":") + 1, len(self.sentence)
        head = head or end  # without a colon all of it is the head
        parts = [(0, head, 600, colors.text1), (head, end, 400, colors.text2)]
        parts += [(end, len(text), 600, colors.accent)]
        formats = []
        for start, stop, weight, color in parts:
            part, look = QTextLayout.FormatRange(), QTextCharFormat()
            part.start, part.length = start, stop - start
            look.setFont(theme.font("small", weight))
            look.setForeground(color)
            part.format = look
            formats.append(part)
        layout.setFormats(formats)
        layout.beginLayout()
        top = 0.0
        while (line := layout.createLine()).isValid():
            line.setLineWidth(max(width - _LEFT - Gauge.SIDE, 1.0))
            line.setPosition(QPointF(0, top + (_LINE - line.height()) / 2))
            top += _LINE
        layout.endLayout()
        return layout

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        colors = theme.palette()
        name, color = ("triangle-alert", colors.warn) if self._view.is_warning else ("info", colors.accent)
        theme.draw_icon(painter, QRectF(Gauge.SIDE, _MARGIN + 2, 16, 16), name, color)
        self._lay_out(self.width()).draw(painter, QPointF(_LEFT, _MARGIN))
        if self.has_ring:
            theme.draw_focus_ring(painter, self.rect(), 6)

    def sizeHint(self) -> QSize:
        return QSize(340, self.heightForWidth(340))

    def heightForWidth(self, width: int) -> int:
        lines = max(self._lay_out(width).lineCount(), _LEAST_LINES)
        return round(lines * _LINE + 2 * _MARGIN)
