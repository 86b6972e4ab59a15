"""The Tuning panel: what was measured, what fills the memory, and the settings that wait for Apply.

It knows no engine: views come in, intents leave as signals.
"""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QKeySequence, QPainter, QPaintEvent, QShortcut
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QScrollArea,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from ui import numbers, theme
from ui.context_bar import ContextBar
from ui.context_slider import ContextSlider
from ui.controls import Button, IconButton
from ui.gauge import Gauge
from ui.label import Label, key_text
from ui.memory_bar import MemoryBar
from ui.segmented import Choice, Segmented
from ui.speed_panel import SpeedPanel
from ui.values import ContextView, MemoryView, SpeedView, TuningView
from ui.verdict import VerdictCard

WIDTH = 360
_SIDE = 16
_RING = Gauge.SIDE  # gauges reach this far into the padding
_HEADER = 48


class TuningDock(QWidget):
    """Gauges and settings, 360 wide; ``format_chosen`` and ``context_chosen`` fire for the user only.

    Where the height is short the groups scroll; the verdict and Apply stay at the bottom.
    """

    format_chosen = Signal(str)
    context_chosen = Signal(int)
    apply_clicked = Signal()
    close_clicked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Tuning")
        self.setFixedWidth(WIDTH)
        self.speed = SpeedPanel()
        self.memory = MemoryBar()
        self.context_in_use = ContextBar()
        self.formats = Segmented("Precision")
        self.context = ContextSlider()
        self.verdict = VerdictCard()
        self.apply = Button("Apply", "check", "primary")
        self.apply.setToolTip("Load the model again with these settings (Ctrl+Enter)")
        self._settings = self._make_settings()
        self._guide = _Guide()
        self._footer = self._make_footer()
        self._build()
        self.formats.chosen.connect(self.format_chosen)
        self.context.context_chosen.connect(self.context_chosen)
        self.apply.clicked.connect(self.apply_clicked)
        for key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            shortcut = QShortcut(QKeySequence(Qt.Modifier.CTRL | key), self)
            shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            shortcut.activated.connect(self.apply.click)
        theme.notifier().changed.connect(self.update)
        self.set_tuning(None)

    def set_speed(self, view: SpeedView) -> None:
        """Show what was measured."""
        self.speed.set_view(view)

    def set_memory(self, view: MemoryView) -> None:
        """Show what fills the memory."""
        self.memory.set_view(view)

    def set_context(self, view: ContextView) -> None:
        """Show how much of the context is used."""
        self.context_in_use.set_view(view)

    def set_tuning(self, view: TuningView | None) -> None:
        """Show the settings, or the guide to this panel while no model is loaded (None). Emits nothing."""
        self._settings.setVisible(view is not None)
        self._guide.setVisible(view is None)
        self._footer.setVisible(view is not None and (view.verdict is not None or view.apply != "hidden"))
        if view is None:
            return
        choices = [Choice(item.key, item.label, item.detail, item.fit, item.tooltip) for item in view.formats]
        self.formats.set_choices(choices, view.chosen_format, view.loaded_format)
        self.context.set_view(view)
        self.verdict.set_view(view.verdict)
        self._show_apply(view)

    def _show_apply(self, view: TuningView) -> None:
        is_reloading = view.apply == "reloading"
        self.apply.setVisible(view.apply != "hidden")
        self.apply.setEnabled(view.apply == "ready")
        percent = view.apply_percent or 0
        self.apply.set_progress(percent / 100 if is_reloading else None)
        self.apply.set_icon("check" if view.apply == "ready" else None)
        wait = "" if view.reload_s is None else f"{numbers.decimal(max(view.reload_s, 1), 0)}{numbers.NBSP}s"
        left = f" · {wait} left" if wait else ""
        reloading = "Reloading" if view.apply_percent is None else f"Reloading {percent}%{left}"
        words = {"waiting": "Applies after this answer", "reloading": reloading}.get(view.apply, "Apply")
        self.apply.setText(words)
        self.apply.set_detail(f"(reload {wait})" if view.apply == "ready" and wait else "")
        name = f"Apply, reload about {wait}" if view.apply == "ready" and wait else words
        self.apply.setAccessibleName(name.replace(f"{numbers.NBSP}s", " seconds"))

    def _make_settings(self) -> QWidget:
        group = QWidget()
        column = QVBoxLayout(group)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(_Hairline(_RING))
        column.addSpacing(10)
        column.addWidget(_inset(self.formats))
        column.addSpacing(12)
        column.addWidget(self.context)
        return group

    def _make_footer(self) -> QWidget:
        footer = QWidget()
        column = QVBoxLayout(footer)
        column.setContentsMargins(_SIDE - 1, 0, _SIDE, 12)
        column.setSpacing(0)
        column.addWidget(_Hairline())
        column.addSpacing(8)
        column.addWidget(self.verdict)
        column.addSpacing(8)
        column.addWidget(self.apply)
        return footer

    def _build(self) -> None:
        content = QWidget()
        groups = QVBoxLayout(content)
        groups.setContentsMargins(_SIDE - 1 - _RING, 4, _SIDE - _RING, 8)
        groups.setSpacing(6)
        for widget in (
            self.speed,
            _Hairline(_RING),
            self.memory,
            self.context_in_use,
            self._settings,
            self._guide,
        ):
            groups.addWidget(widget)
        column = QVBoxLayout(self)
        column.setContentsMargins(1, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self._make_header())
        self.scroll_area = _Scroll(content)
        column.addWidget(self.scroll_area)
        column.addWidget(self._footer)
        column.addStretch(1)

    def _make_header(self) -> QWidget:
        header = QWidget()
        header.setFixedHeight(_HEADER)
        close = IconButton("panel-right", f"Close Tuning ({key_text('Ctrl+T')})")
        close.clicked.connect(self.close_clicked)
        row = QHBoxLayout(header)
        row.setContentsMargins(_SIDE - 1, 0, 10, 0)
        row.addWidget(Label("Tuning", "title"))
        row.addStretch(1)
        row.addWidget(close)
        return header

    def paintEvent(self, event: QPaintEvent) -> None:
        colors = theme.palette()
        painter = QPainter(self)
        painter.fillRect(self.rect(), colors.bg1)
        painter.fillRect(QRectF(0, 0, 1, self.height()), colors.line)
        painter.fillRect(QRectF(0, _HEADER - 1, self.width(), 1), colors.line)

    def sizeHint(self) -> QSize:
        return QSize(WIDTH, 700)


class _Scroll(QScrollArea):
    """As high as its content where there is room, so that what follows stands right below it."""

    def __init__(self, content: QWidget) -> None:
        super().__init__()
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._content = content
        content.setFixedWidth(WIDTH - 1)  # a scroll bar lies over the padding and moves nothing
        self.setWidget(content)
        for widget in (self.viewport(), content):
            widget.setAutoFillBackground(False)
        content.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.LayoutRequest:  # its height may have changed, and ours with it
            self.updateGeometry()
        return super().eventFilter(watched, event)

    def sizeHint(self) -> QSize:
        width = WIDTH - 1
        if self._content.hasHeightForWidth():
            return QSize(width, self._content.heightForWidth(width))
        return QSize(width, self._content.sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        return QSize(WIDTH - 1, 80)


class _Guide(QWidget):
    """What the gauges mean, for the time before there are settings."""

    _LINES = (
        ("Speed", "how fast this computer writes the answer"),
        ("Reading", "about how fast people read"),
        ("First token", "how long the answer takes to begin"),
    )

    def __init__(self) -> None:
        super().__init__()
        grid = QGridLayout(self)
        grid.setContentsMargins(_RING, 0, _RING, 0)
        grid.setHorizontalSpacing(12)
        grid.setVerticalSpacing(6)
        grid.setColumnStretch(1, 1)
        grid.addWidget(_Hairline(), 0, 0, 1, 2)
        grid.addWidget(Label("How to read this panel", "small", "text2", 600), 1, 0, 1, 2)
        for row, (name, words) in enumerate(self._LINES, start=2):
            grid.addWidget(Label(name, "micro", "text2", 600), row, 0)
            grid.addWidget(Label(words, "micro", "text3"), row, 1)
        last = len(self._LINES) + 2
        grid.addWidget(Label("Settings appear here once a model is loaded.", "micro", "text3"), last, 0, 1, 2)


class _Hairline(QWidget):
    """A line between groups, ``side`` shorter at both ends."""

    def __init__(self, side: int = 0) -> None:
        super().__init__()
        self._side = side
        self.setFixedHeight(1)

    def paintEvent(self, event: QPaintEvent) -> None:
        QPainter(self).fillRect(self.rect().adjusted(self._side, 0, -self._side, 0), theme.palette().line)


def _inset(widget: QWidget) -> QWidget:
    """``widget`` as far from the edges as what the gauges paint."""
    holder = QWidget()
    row = QHBoxLayout(holder)
    row.setContentsMargins(_RING, 0, _RING, 0)
    row.addWidget(widget)
    return holder
