"""The Tuning panel: what was measured, what fills the memory, and the settings that wait for Apply.

It knows no engine: views come in, intents leave as signals.
"""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QKeySequence, QPainter, QPaintEvent, QResizeEvent, QShortcut
from PySide6.QtWidgets import QFrame, QGridLayout, QHBoxLayout, QScrollArea, QSizePolicy, QVBoxLayout, QWidget

from engine.words import mark, tr
from ui import theme
from ui.context_bar import ContextBar
from ui.controls import IconButton
from ui.gauge import Gauge
from ui.gauge_values import ContextView, MemoryView, SpeedView
from ui.heatmap import LEAST_ROW_PX, ROW_PX, HeatMap
from ui.label import Label, key_text
from ui.memory_bar import MemoryBar
from ui.speed_panel import SpeedPanel
from ui.tuning_footer import TuningFooter
from ui.tuning_settings import TuningSettings
from ui.tuning_values import TuningView

WIDTH = 360
_SIDE = 16
_RING = Gauge.SIDE  # gauges reach this far into the padding
_HEADER = 48
_FOOT = 10  # px below Apply
_TOP, _BOTTOM, _GROUP_GAP, _LINE_GAP = 4, 6, 6, 4  # px around and between the groups


class TuningDock(QWidget):
    """Gauges and settings, 360 wide. The signals fire for the user only: what was chosen in which control.

    Where the height is short the groups scroll, the heatmap among them; the verdict and Apply stay at the
    bottom. With room to spare, quality stands under every format.
    """

    format_chosen = Signal(str)
    context_chosen = Signal(int)
    kv_chosen = Signal(str)
    drafting_chosen = Signal(str)
    draft_model_clicked = Signal()
    layers_chosen = Signal(int)
    cell_chosen = Signal(str, int)
    recommended_clicked = Signal()
    preference_chosen = Signal(str)
    apply_clicked = Signal()
    close_clicked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr("Tuning"))
        self.setFixedWidth(WIDTH)
        self.speed = SpeedPanel()
        self.memory = MemoryBar()
        self.context_in_use = ContextBar()
        self.settings = TuningSettings()
        self.heat = HeatMap()
        self.footer = TuningFooter()
        self._guide = _Guide()
        self._is_heat_below = False  # between verdict and buttons
        self._build()
        self._connect()
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
        self._settings_group.setVisible(view is not None)
        self._guide.setVisible(view is None)
        self._foot.setVisible(view is not None)
        self.heat.set_view(view.heat if view is not None else None)
        if view is not None:
            self.settings.set_view(view)
            self.footer.set_view(view)
        self._fit()

    def focus_drafting(self) -> None:
        """Give the keyboard back to the control that a list of draft models was opened from."""
        chosen = next((each for each in self.settings.drafting.segments if each.isChecked()), None)
        if chosen is not None:
            chosen.setFocus(Qt.FocusReason.PopupFocusReason)

    def lack_of_room(self, least: int = 0) -> str:
        """Why no larger context holds ``least`` tokens: "model" where it ends before, "memory" where that is
        too small; "" where one does.
        """
        slider = self.settings.context
        if not self._settings_group.isHidden() and slider.larger(least) is not None:
            return ""
        return "model" if slider.is_at_end(least) else "memory"

    def make_room(self, least: int = 0) -> bool:
        """Choose the next larger context that fits and holds ``least`` tokens, and give the slider the
        keyboard; False: none does.
        """
        if self._settings_group.isHidden():
            return False
        slider = self.settings.context
        has_chosen = slider.choose_larger(least)
        self.scroll_area.ensureWidgetVisible(slider)
        slider.setFocus(Qt.FocusReason.ShortcutFocusReason)
        return has_chosen

    def _connect(self) -> None:
        settings, footer = self.settings, self.footer
        settings.format_chosen.connect(self.format_chosen)
        settings.context_chosen.connect(self.context_chosen)
        settings.kv_chosen.connect(self.kv_chosen)
        settings.drafting_chosen.connect(self.drafting_chosen)
        settings.draft_model_clicked.connect(self.draft_model_clicked)
        settings.layers_chosen.connect(self.layers_chosen)
        self.heat.cell_chosen.connect(self.cell_chosen)
        footer.recommended.clicked.connect(self.recommended_clicked)
        footer.recommended.preference_chosen.connect(self.preference_chosen)
        footer.apply_clicked.connect(self.apply_clicked)
        for key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            shortcut = QShortcut(QKeySequence(Qt.Modifier.CTRL | key), self)
            shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            shortcut.activated.connect(footer.apply.click)

    def _build(self) -> None:
        content = QWidget()
        groups = self._groups = QVBoxLayout(content)
        groups.setContentsMargins(_SIDE - 1 - _RING, _TOP, _SIDE - _RING, _BOTTOM)
        groups.setSpacing(_GROUP_GAP)
        self._settings_group = QWidget()
        settings = QVBoxLayout(self._settings_group)
        settings.setContentsMargins(0, 0, 0, 0)
        settings.setSpacing(_LINE_GAP)
        settings.addWidget(_Hairline(_RING))
        settings.addWidget(self.settings)
        self._gauges = (self.speed, _Hairline(_RING), self.memory, self.context_in_use, self._guide)
        for widget in (*self._gauges[:-1], self._settings_group, self._guide):
            groups.addWidget(widget)
        self._heat_row = QHBoxLayout()  # takes no room while it is empty
        self._heat_row.setContentsMargins(_RING, 0, _RING, 0)
        groups.addLayout(self._heat_row)
        self._foot = QWidget()
        foot = QVBoxLayout(self._foot)
        foot.setContentsMargins(_SIDE - 1, 0, _SIDE, _FOOT)
        foot.setSpacing(8)
        foot.addWidget(_Hairline())
        foot.addWidget(self.footer)
        column = QVBoxLayout(self)
        column.setContentsMargins(1, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self._make_header())
        self.scroll_area = _Scroll(content)
        column.addWidget(self.scroll_area)
        column.addWidget(self._foot)
        column.addStretch(1)
        self._place_heat(is_below=True)

    def _fit(self) -> None:
        """Give the height to what can do with less of it: first to quality under the formats and high rows of
        the heatmap; where not even low rows have room, the heatmap scrolls too.
        """
        self._settle()
        spare, notes = self.height() - self._least_height(), self.settings.notes_height
        has_notes = notes > 0 and spare >= notes
        self.settings.set_notes_shown(has_notes)
        self._place_heat(is_below=spare >= 0)
        left = max(0, spare - notes * has_notes) // max(1, self.heat.num_rows)
        self.heat.set_row_height(LEAST_ROW_PX + left if self._is_heat_below else ROW_PX)
        self._settle()

    def _settle(self) -> None:
        """Lay out now what has changed its height: by itself each layer would wait for the one inside it."""
        scrolled = (*self.settings.changing, self.settings, self._settings_group)
        layouts = [widget.layout() for widget in (*scrolled, self.footer, self._foot, self)]
        layouts.insert(len(scrolled), self._groups)
        for layout in layouts:
            if layout is not None:
                layout.activate()

    def _least_height(self) -> int:
        """At which nothing scrolls, without notes and with low rows; in parts, so that it is the same however
        notes, rows and heatmap are now.
        """
        gauges = [each for each in self._gauges if not each.isHidden()]
        height = _HEADER + _TOP + _BOTTOM + sum(map(_needed_height, gauges)) + _GROUP_GAP * len(gauges)
        if self._settings_group.isHidden():
            return height
        height += 1 + _LINE_GAP + self.settings.least_height
        height += 1 + TuningFooter.SPACING + self.footer.least_height + _FOOT
        heat = 0 if self.heat.isHidden() else self.heat.height_for(LEAST_ROW_PX) + TuningFooter.SPACING
        return height + heat

    def _place_heat(self, is_below: bool) -> None:
        """Put the heatmap between verdict and buttons, or at the end of what scrolls."""
        if is_below == self._is_heat_below:
            return
        self._is_heat_below = is_below
        was_hidden = self.heat.isHidden()
        if is_below:
            self.footer.take_heat(self.heat)
        else:
            self._heat_row.addWidget(self.heat)
        before = self.footer.verdict if is_below else self.settings.layers
        after = self.footer.recommended.button if is_below else self.footer.verdict
        QWidget.setTabOrder(before, self.heat.cells)
        QWidget.setTabOrder(self.heat.cells, after)
        self.heat.setHidden(was_hidden)

    def _make_header(self) -> QWidget:
        header = QWidget()
        header.setFixedHeight(_HEADER)
        tooltip = tr("Close Tuning ({keys})").format(keys=key_text("Ctrl+T"))
        close = IconButton("panel-right", tooltip)
        close.clicked.connect(self.close_clicked)
        row = QHBoxLayout(header)
        row.setContentsMargins(_SIDE - 1, 0, 10, 0)
        row.addWidget(Label(tr("Tuning"), "title"))
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

    def event(self, event: QEvent) -> bool:
        is_done = super().event(event)
        if event.type() == QEvent.Type.LayoutRequest:  # something in it has become higher or lower
            self._fit()
        return is_done

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()


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
        (mark("Speed"), mark("how fast this computer writes the answer")),
        (mark("Reading"), mark("about how fast people read")),
        (mark("First token"), mark("how long the answer takes to begin")),
    )

    def __init__(self) -> None:
        super().__init__()
        grid = QGridLayout(self)
        grid.setContentsMargins(_RING, 0, _RING, 0)
        grid.setHorizontalSpacing(12)
        grid.setVerticalSpacing(6)
        grid.setColumnStretch(1, 1)
        grid.addWidget(_Hairline(), 0, 0, 1, 2)
        grid.addWidget(Label(tr("How to read this panel"), "small", "text2", 600), 1, 0, 1, 2)
        for row, (name, words) in enumerate(self._LINES, start=2):
            grid.addWidget(Label(tr(name), "micro", "text2", 600), row, 0)
            grid.addWidget(Label(tr(words), "micro", "text3"), row, 1)
        later = Label(tr("Settings appear here once a model is loaded."), "micro", "text3")
        grid.addWidget(later, len(self._LINES) + 2, 0, 1, 2)


class _Hairline(QWidget):
    """A line between groups, ``side`` shorter at both ends."""

    def __init__(self, side: int = 0) -> None:
        super().__init__()
        self._side = side
        self.setFixedHeight(1)

    def paintEvent(self, event: QPaintEvent) -> None:
        QPainter(self).fillRect(self.rect().adjusted(self._side, 0, -self._side, 0), theme.palette().line)


def _needed_height(widget: QWidget) -> int:
    """How high a gauge is at the width there is."""
    is_wrapped = widget.hasHeightForWidth()
    height = widget.heightForWidth(WIDTH - 2 * (_SIDE - _RING)) if is_wrapped else widget.sizeHint().height()
    return max(height, widget.minimumHeight())
