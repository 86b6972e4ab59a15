"""Text, icons and links in the type scale and colours of the theme; always plain text. Knows no state."""

from __future__ import annotations

from html import escape
from math import ceil

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QKeySequence, QPainter, QPaintEvent, QTextLayout, QTextOption
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget

from ui import theme
from ui.controls import ThemedButton


def key_text(keys: str) -> str:
    """A shortcut as this system writes it: "Ctrl+N", on macOS "⌘N"."""
    return QKeySequence(keys).toString(QKeySequence.SequenceFormat.NativeText)


def one_line(text: str, limit: int = 400) -> str:
    """Foreign text as one line, cut at what no row can show, so that a huge text costs nothing to elide."""
    return " ".join(text[: 2 * limit].split())[:limit]


def plain_tooltip(*paragraphs: str) -> str:
    """Foreign text as a tooltip that Qt cannot take for rich text."""
    text = "<br><br>".join(escape(each) for each in paragraphs if each)
    return f"<qt>{text}</qt>" if text else ""


class Label(QLabel):
    """Text of one style. ``wrap`` breaks lines at the style's line height, ``elide`` ends one with "…".

    ``color`` is the name of a palette token, so that a change of theme repaints in the new colour.
    """

    def __init__(
        self,
        text: str = "",
        style: str = "ui",
        color: str = "text1",
        weight: int | None = None,
        *,
        wrap: bool = False,
        elide: bool = False,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._style = style
        self._color = color
        self._is_elided = elide
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setFont(theme.font(style, weight))
        self.setWordWrap(wrap)
        vertical = QSizePolicy.Policy.Preferred if wrap else QSizePolicy.Policy.Fixed
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, vertical)
        policy.setHeightForWidth(wrap)
        self.setSizePolicy(policy)
        theme.notifier().changed.connect(self.update)
        self.setText(text)

    def set_color(self, color: str) -> None:
        """Paint in another palette token from now on."""
        self._color = color
        self.update()

    def is_clipped(self) -> bool:
        """Whether some of the text does not fit and is not meant to be elided."""
        if self._is_elided or not self.text():
            return False
        if self.wordWrap():
            return self.height() < self.heightForWidth(self.width())
        return self.width() < self._natural_width() or self.height() < self._line_height

    @property
    def _line_height(self) -> int:
        return theme.line_height(self._style)

    def _natural_width(self) -> int:
        metrics = QFontMetricsF(self.font())
        return max((ceil(metrics.horizontalAdvance(line)) for line in self.text().split("\n")), default=0)

    def _lay_out(self, width: float) -> QTextLayout:
        """The wrapped text, its lines placed at the style's line height."""
        layout = QTextLayout(self.text().replace("\n", "\u2028"), self.font())
        option = QTextOption(self.alignment() & Qt.AlignmentFlag.AlignHorizontal_Mask)
        option.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        layout.setTextOption(option)
        layout.beginLayout()
        top = 0.0
        while (line := layout.createLine()).isValid():
            line.setLineWidth(max(1.0, width))
            line.setPosition(QPointF(0, top + (self._line_height - line.height()) / 2))
            top += self._line_height
        layout.endLayout()
        return layout

    def _paint_lines(self, painter: QPainter, color: QColor) -> None:
        painter.setPen(color)
        if self.wordWrap():
            self._lay_out(self.width()).draw(painter, QPointF(0, 0))
            return
        text = self.text()
        if self._is_elided:
            metrics = QFontMetricsF(self.font())
            text = metrics.elidedText(one_line(text), Qt.TextElideMode.ElideRight, self.width())
        flags = self.alignment() | Qt.AlignmentFlag.AlignVCenter
        painter.drawText(QRectF(self.rect()), int(flags), text)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setFont(self.font())
        color = getattr(theme.palette(), self._color if self.isEnabled() else "text3")
        self._paint_lines(painter, color)

    def sizeHint(self) -> QSize:
        if self.wordWrap():
            width = min(self._natural_width(), 640)
            return QSize(width, self.heightForWidth(width))
        return QSize(self._natural_width(), self._line_height)

    def minimumSizeHint(self) -> QSize:
        if self.wordWrap():
            return QSize(min(120, self._natural_width()), self._line_height)
        return QSize(24 if self._is_elided else self._natural_width(), self._line_height)

    def heightForWidth(self, width: int) -> int:
        if not self.wordWrap():
            return self._line_height
        return self._line_height * max(1, self._lay_out(width).lineCount())


class Icon(QWidget):
    """One icon of a palette colour, for the eye only."""

    def __init__(self, name: str, color: str, size: int = 18, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._name, self._color = name, color
        self.setFixedSize(size, size)
        theme.notifier().changed.connect(self.update)

    def set_icon(self, name: str, color: str) -> None:
        """Show another icon."""
        self._name, self._color = name, color
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        color = getattr(theme.palette(), self._color)
        theme.draw_icon(QPainter(self), QRectF(self.rect()), self._name, color)


class LinkButton(ThemedButton):
    """A word or two in the accent colour that does something; underlined under the pointer."""

    def __init__(self, text: str, tooltip: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setText(text)
        self.setAccessibleName(tooltip or text)
        self.setToolTip(tooltip)
        self.setFont(theme.font("ui", 600))
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        font = self.font()
        font.setUnderline(self.is_hovered)
        painter.setFont(font)
        painter.setPen(theme.palette().accent)
        painter.drawText(QRectF(self.rect()), int(Qt.AlignmentFlag.AlignCenter), self.text())
        if self.has_ring:
            theme.draw_focus_ring(painter, self.rect(), 6)

    def sizeHint(self) -> QSize:
        width = ceil(QFontMetricsF(self.font()).horizontalAdvance(self.text()))
        return QSize(width + 8, 28)
