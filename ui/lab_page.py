"""The Batch lab: speed against copies and context, measured beside predicted, and what tokens cost.

Shows a LabView and emits what the user asked for; measures nothing.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from PySide6.QtCore import QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import (
    QAccessible,
    QAccessibleAnnouncementEvent,
    QImage,
    QPainter,
    QPaintEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import (
    QBoxLayout,
    QFileDialog,
    QFrame,
    QHBoxLayout,
    QScrollArea,
    QScrollBar,
    QVBoxLayout,
    QWidget,
)

from engine.words import mark, tr
from ui import theme
from ui.card import ProgressLine
from ui.chip import ModelChip
from ui.controls import Button
from ui.lab_cards import CostCard, FactsCard, FindingsCard, LabCard
from ui.lab_chart import Chart
from ui.lab_table import PointTable
from ui.lab_values import CostView, LabView, RunningView
from ui.label import Label
from ui.segmented import Choice, Segmented
from ui.top_bar import HEIGHT
from ui.values import ChipView

_WIDE = 1020  # px of the page, from which the cards stand beside the chart
_SIDE_WIDTH = 332
_ROOMY = 860  # from which the bar has room for its title
_TITLES = {"csv": mark("Export the table"), "png": mark("Export the chart")}
_FILTERS = {"csv": mark("Tables (*.csv)"), "png": mark("Pictures (*.png)")}
_PICTURE_SCALE = 2.0  # pixels of an exported picture for each of the screen's


class LabPage(QWidget):
    """``run_clicked`` and ``stop_clicked`` come from one button."""

    run_clicked = Signal()
    stop_clicked = Signal()
    export_wanted = Signal(str, str)  # csv or png, and a path
    axis_chosen = Signal(str)
    cost_typed = Signal(str, str)
    chip_clicked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr("Batch lab"))
        self._view = LabView()
        self.bar = _Bar()
        self.chip = self.bar.chip
        self.axes = Segmented(tr("Speed against"))
        self.chart = Chart()
        self.table = PointTable()
        self.cost = CostCard()
        self._findings = FindingsCard()
        self._facts = FactsCard()
        self._progress = _Progress()
        self._note = Label("", "small", "text2", wrap=True)
        self._chart_card = self._make_chart_card()
        self._table_card = LabCard(tr("Predicted against measured"))
        self._table_card.column.setContentsMargins(1, 14, 1, 6)
        self._table_card.head.setContentsMargins(20, 0, 20, 0)
        self._table_card.column.addWidget(self.table)
        self._build()
        self._connect()
        self.set_view(LabView())
        self.set_cost(CostView())

    def set_view(self, view: LabView) -> None:
        """Show ``view``; a new note is said to a screen reader."""
        if QAccessible.isActive() and self.isVisible() and view.note not in ("", self._view.note):
            QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self, view.note))
        self._view = view
        self.bar.set_view(view)
        self.axes.set_choices([Choice(key, label) for key, label in view.axes], view.axis)
        self.axes.setVisible(bool(view.axes))
        self._progress.set_view(view)
        self._note.setText(view.note)
        self._note.set_color("warn" if view.is_warning else "text2")
        self._note.setVisible(bool(view.note))
        self.chart.setVisible(view.chart is not None)
        self._empty.setVisible(view.chart is None)
        if view.chart is not None:
            self._chart_card.title.setText(view.chart.title)
            self.chart.set_view(view.chart)
        self._findings.set_findings(view.findings, view.finding_note)
        self._findings.setVisible(bool(view.findings or view.finding_note))
        self._facts.set_facts(view.facts)
        self._facts.setVisible(bool(view.facts))
        self._side.setVisible(bool(view.findings or view.finding_note or view.facts))
        self.table.set_table(view.table)
        self._table_card.detail.setText(view.table.detail)
        self._table_card.setVisible(bool(view.table.rows))

    @property
    def running(self) -> RunningView | None:
        """The run that is shown as under way."""
        return self._view.running

    def set_running(self, running: RunningView) -> None:
        """Show how far the run is, and nothing else anew."""
        self._view = replace(self._view, running=running)
        self._progress.set_view(self._view)

    def ask_path(self, kind: str) -> None:
        """Open the dialog for a file of a kind; the choice leaves as ``export_wanted``."""
        dialog = QFileDialog(self, tr(_TITLES[kind]))
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix(kind)
        dialog.setNameFilter(tr(_FILTERS[kind]))
        dialog.selectFile(f"decodeck-lab.{kind}")
        dialog.fileSelected.connect(lambda path: self.export_wanted.emit(kind, path))
        dialog.open()

    def set_cost(self, view: CostView) -> None:
        """Show the cost section."""
        self.cost.set_view(view)
        self.cost.setVisible(bool(view.fields))

    def set_chip(self, view: ChipView) -> None:
        """Show the model and its state."""
        self.chip.set_view(view)

    def focus_region(self) -> None:
        """Give the keyboard to the chart, else to the chip, once the page is shown."""

        def focus() -> None:
            target = self.chart if self.chart.isVisible() else self.chip
            target.setFocus(Qt.FocusReason.ShortcutFocusReason)

        QTimer.singleShot(0, self, focus)

    def picture(self) -> QImage:
        """The chart with its title and the model's name, on an opaque ground, without what can be pressed."""
        card, view = self._chart_card, self.chip.view
        image = QImage(card.size() * _PICTURE_SCALE, QImage.Format.Format_RGB32)
        image.setDevicePixelRatio(_PICTURE_SCALE)
        image.fill(theme.palette().bg0)
        words = card.detail.text()
        card.detail.setText(" · ".join(filter(None, (view.name, view.detail, words))))
        self.axes.hide()
        card.column.activate()
        card.render(image)
        self.axes.show()
        card.detail.setText(words)
        card.column.activate()
        return image

    @property
    def scroll_bar(self) -> QScrollBar:
        """Where the page is scrolled to."""
        return self._scroll.verticalScrollBar()

    def _make_chart_card(self) -> LabCard:
        card = LabCard(tr("Speed"))
        card.detail.setText(tr("tok/s, log scale"))
        self.axes.setFixedWidth(300)
        card.head.addWidget(self.axes)
        words = tr("No model is loaded. Choose one to see what it should reach.")
        self._empty = Label(words, "ui", "text3")
        self._empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._empty.setMinimumHeight(220)
        card.column.addWidget(self.chart, 1)
        card.column.addWidget(self._empty, 1)
        return card

    def _build(self) -> None:
        self._beside = QBoxLayout(QBoxLayout.Direction.TopToBottom)
        self._beside.setSpacing(16)
        self._beside.addWidget(self._findings, 1)
        self._beside.addWidget(self._facts, 1)
        self._side = QWidget()
        self._side.setLayout(self._beside)
        self._beside.setContentsMargins(0, 0, 0, 0)
        self._upper = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._upper.setSpacing(16)
        self._upper.addWidget(self._chart_card, 1)
        self._upper.addWidget(self._side)
        content = QWidget()
        column = self._column = QVBoxLayout(content)
        column.setSpacing(16)
        column.addWidget(self._note)
        column.addWidget(self._progress)
        column.addLayout(self._upper)
        column.addWidget(self._table_card)
        column.addWidget(self.cost)
        column.addStretch(1)
        self._scroll = QScrollArea()
        self._scroll.setWidget(content)
        self._scroll.setWidgetResizable(True)
        for ground in (self._scroll.viewport(), content):
            ground.setAutoFillBackground(False)
        self._scroll.setFrameShape(QFrame.Shape.NoFrame)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.setSpacing(0)
        outer.addWidget(self.bar)
        outer.addWidget(self._scroll, 1)
        theme.notifier().changed.connect(self.update)

    def _connect(self) -> None:
        self.bar.run.clicked.connect(self._on_run)
        self.bar.csv.clicked.connect(lambda: self.ask_path("csv"))
        self.bar.png.clicked.connect(lambda: self.ask_path("png"))
        self.chip.clicked.connect(self.chip_clicked)
        self.axes.chosen.connect(self.axis_chosen)
        self.chart.chosen.connect(self.table.choose)
        self.table.chosen.connect(self.chart.choose)
        self.cost.typed.connect(self.cost_typed)

    def _on_run(self) -> None:
        if self._view.running is not None:
            self.stop_clicked.emit()
        else:
            self.run_clicked.emit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        is_wide = self.width() >= _WIDE
        down, along = QBoxLayout.Direction.TopToBottom, QBoxLayout.Direction.LeftToRight
        self._upper.setDirection(along if is_wide else down)
        self._beside.setDirection(down if is_wide else along)
        self._side.setFixedWidth(_SIDE_WIDTH) if is_wide else self._side.setMaximumWidth(1 << 14)
        if not is_wide:
            self._side.setMinimumWidth(0)
        self.cost.set_stacked(self.width() < _ROOMY)
        side = 24 if is_wide else 16
        self._column.setContentsMargins(side, 20, side, 16)
        self.bar.set_room(side, has_title=self.width() >= _ROOMY)

    def paintEvent(self, event: QPaintEvent) -> None:
        QPainter(self).fillRect(self.rect(), theme.palette().bg0)


class _Bar(QWidget):
    """Title, chip, exports and the button that runs and stops."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFixedHeight(HEIGHT)
        self._title = Label(tr("Batch lab"), "title")
        self.chip = ModelChip()
        self.csv = Button(tr("Export CSV"), "upload")
        self.csv.setToolTip(tr("Save the table as a file for spreadsheets"))
        self.png = Button("PNG", "image-down")
        self.png.setAccessibleName(tr("Export PNG"))
        self.png.setToolTip(tr("Save the chart as a picture"))
        self.run = Button(tr("Run"), "play", "primary")
        row = self._row = QHBoxLayout(self)
        row.setSpacing(8)
        row.addWidget(self._title)
        row.addSpacing(8)
        row.addWidget(self.chip)
        row.addStretch(1)
        for button in (self.csv, self.png, self.run):
            row.addWidget(button)
        self.set_room(24, has_title=True)

    def set_view(self, view: LabView) -> None:
        """Show what can be done."""
        is_running = view.running is not None
        self.run.setText(tr("Stop") if is_running else view.run)
        self.run.set_icon("square" if is_running else "play")
        self.run.set_detail("" if is_running else view.run_detail)
        self.run.setEnabled(is_running or view.can_run)
        self.run.setToolTip(tr("End the run; what was measured is kept") if is_running else view.note)
        for button in (self.csv, self.png):
            button.setEnabled(view.can_export)

    def set_room(self, side: int, *, has_title: bool) -> None:
        """Margins, and whether there is room for the title."""
        self._row.setContentsMargins(side, 0, 16, 1)
        self._title.setVisible(has_title)

    def paintEvent(self, event: QPaintEvent) -> None:
        QPainter(self).fillRect(QRectF(0, self.height() - 1, self.width(), 1), theme.palette().line)


class _Progress(QWidget):
    """How far a run is: words over a bar."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._words = Label("", "small", "text1", 600, elide=True)
        self._live = Label("", "small", "text2")
        self._line = ProgressLine(tr("Progress of the measurement"))
        row = QHBoxLayout()
        row.addWidget(self._words, 1)
        row.addWidget(self._live)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(6)
        column.addLayout(row)
        column.addWidget(self._line)

    def set_view(self, view: LabView) -> None:
        """Show the run of ``view``, or nothing."""
        running = view.running
        self.setVisible(running is not None)
        if running is not None:
            self._words.setText(running.words)
            self._live.setText(running.live)
            self._line.setValue(ceil(1000 * min(max(running.fraction, 0.0), 1.0)))

    def sizeHint(self) -> QSize:
        return QSize(400, 30)
