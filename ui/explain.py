"""The page behind the line that says why: a step by its parts, three doors, batches, drafts, past answers.

It predicts nothing: an ``ExplainView`` has all its figures.
"""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QScrollArea, QVBoxLayout, QWidget

from engine.words import mark, tr
from ui import numbers
from ui.column import SCROLL_BAR_PX, column
from ui.controls import IconButton
from ui.figure_table import Cell, Column, FigureTable, error_cell
from ui.gauge_values import BatchRow, Door, DraftRow, ExplainView, JudgedRow
from ui.label import Label
from ui.step_bar import StepBar

_NOW, _FULL = mark("tok/s now"), mark("full context")
_DOORS: tuple[Column, ...] = (
    Column("", is_wide=True),
    Column(mark("Memory"), 78),
    Column(mark("Read a step"), 84),
)
_DOORS += (Column(_NOW, 76), Column(_FULL, 82), Column("", 88))
_BATCHES = (
    Column(mark("Chats at once"), is_wide=True),
    Column(mark("Each"), 100),
    Column(mark("All together"), 120),
)
_DRAFTS = (
    Column(mark("Guessed in a step"), is_wide=True),
    Column(mark("Tokens a step"), 120),
    Column(mark("tok/s"), 100),
)
_JUDGED: tuple[Column, ...] = (
    Column(mark("When"), 92, is_left=True),
    Column(mark("Model"), is_wide=True),
    Column(mark("Tokens"), 56),
)
_JUDGED += (Column(mark("Predicted"), 68), Column(mark("Measured"), 68), Column(mark("Error"), 138))


class ExplainPage(QWidget):
    """Stands in the transcript's place; ``close_clicked`` wants it away."""

    close_clicked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr("Why this speed"))
        self._title = Label("", "small", "text2", elide=True)
        self._why = Label("", "body", "text1", wrap=True)
        self._basis = Label("", "small", "text3", wrap=True)
        self._bar = StepBar()
        self._step = Label("", "title")
        self.doors = FigureTable(tr("Without what makes it quick"), _DOORS)
        self._door_words = Label("", "small", "text3", wrap=True)
        self.batches = FigureTable(tr("Several chats at once"), _BATCHES)
        self.drafts = FigureTable(tr("Drafts"), _DRAFTS)
        self._draft_words = Label("", "small", "text3", wrap=True)
        self.judged = FigureTable(tr("Predicted and measured"), _JUDGED)
        self._judged_words = Label("", "small", "text3", wrap=True)
        self._content = QWidget()
        self._close = IconButton("x", tr("Close (Esc)"))
        self._close.clicked.connect(self.close_clicked)
        self._scroll = self._make_scroll()
        page = QVBoxLayout(self)
        page.setContentsMargins(0, 0, 0, 0)
        page.addWidget(self._scroll)
        self._fill()

    def focus_region(self) -> None:
        """Give the keyboard to the button that closes it."""
        self._close.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def set_view(self, view: ExplainView) -> None:
        """Show ``view``; the place that is scrolled to stays."""
        self._title.setText(view.model)
        self._why.setText(view.why.sentence)
        self._basis.setText(view.basis)
        self._bar.set_parts(view.parts)
        step = tr("One step, {time}\u00a0ms predicted")
        self._step.setText(step.format(time=numbers.decimal(self._bar.total_ms, 1)))
        self.doors.set_rows([_door_cells(door) for door in view.doors])
        words = [f"{door.title}: {door.words}" for door in view.doors if door.words]
        self._door_words.setText("\n".join(words))
        self.batches.set_rows([_batch_cells(row) for row in view.batches])
        self.drafts.set_rows([_draft_cells(row) for row in view.drafts])
        self.drafts.setVisible(bool(view.drafts))
        self._draft_words.setText(view.drafts_words)
        self.judged.set_rows([_judged_cells(row) for row in view.judged])
        self.judged.setVisible(bool(view.judged))
        self._judged_words.setText(view.judged_words)

    def _make_scroll(self) -> QScrollArea:
        area = QScrollArea()
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setWidgetResizable(True)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOn)  # its room is in the column
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        area.setWidget(self._content)
        for widget in (area.viewport(), self._content):
            widget.setAutoFillBackground(False)
        return area

    def _fill(self) -> None:
        self._rows = QVBoxLayout(self._content)
        self._rows.setSpacing(8)
        head = QHBoxLayout()
        head.addWidget(Label(tr("Why this speed"), "title-l"))
        head.addStretch(1)
        head.addWidget(self._close)
        self._rows.addLayout(head)
        self._rows.addWidget(self._title)
        self._rows.addSpacing(8)
        self._rows.addWidget(self._why)
        self._rows.addWidget(self._basis)
        self._section(self._step, self._bar)
        heading = Label(tr("Without what makes it quick"), "title")
        self._section(heading, self.doors, self._door_words)
        self._section(Label(tr("Several chats at once"), "title"), self.batches)
        self._section(Label(tr("Drafts"), "title"), self.drafts, self._draft_words)
        self._section(Label(tr("Predicted and measured"), "title"), self.judged, self._judged_words)
        self._rows.addStretch(1)

    def _section(self, *widgets: QWidget) -> None:
        self._rows.addSpacing(20)
        for widget in widgets:
            self._rows.addWidget(widget)

    def resizeEvent(self, event: QResizeEvent) -> None:
        left, width = column(self.width())
        right = max(0, self.width() - left - width - SCROLL_BAR_PX)
        self._rows.setContentsMargins(left, 16, right, 24)
        super().resizeEvent(event)


def _door_cells(door: Door) -> list[Cell]:
    if door.memory_bytes is None:
        dashes = [Cell(numbers.UNKNOWN, "text3")] * 4
        return [Cell(door.title, "text3", 500, tooltip=door.words), *dashes, Cell("")]
    is_loaded = not door.words
    times = door.times
    slower = "" if is_loaded else _times_words(times)
    verdict = Cell(slower, "text2") if door.does_fit else Cell(tr("does not fit"), "bad")
    weight = 600 if is_loaded else 400
    read = [door.read_bytes, door.full_read_bytes]
    tooltip = tr("{size} with a full context").format(size=numbers.size(read[1]))
    return [
        Cell(door.title, "text1", 600 if is_loaded else 500, tooltip=door.words),
        Cell(numbers.size(door.memory_bytes), "text2", weight),
        Cell(numbers.size(read[0]), "text2", weight, tooltip=tooltip),
        Cell(numbers.predicted_tps(door.tps), "text1", 600),
        Cell(numbers.predicted_tps(door.full_tps), "text2", weight),
        verdict,
    ]


def _times_words(times: float) -> str:
    if times < 0.95:
        return tr("{times}× faster").format(times=numbers.decimal(1 / times, 1))
    if times < 1.05:
        return tr("no slower")
    if times < 3:
        return tr("{times}× slower").format(times=numbers.decimal(times, 1))
    return tr("about {times}× slower").format(times=numbers.decimal(times, 0))


def _batch_cells(row: BatchRow) -> list[Cell]:
    speed = tr("{speed}\u00a0tok/s")
    each, together = numbers.predicted_tps(row.each_tps), numbers.predicted_tps(row.all_tps)
    return [
        Cell(str(row.chats), "text1", 600),
        Cell(speed.format(speed=each)),
        Cell(speed.format(speed=together), "text1", 600),
    ]


def _draft_cells(row: DraftRow) -> list[Cell]:
    name = str(row.drafted) if row.drafted else tr("none", "tokens guessed")
    tokens, speed = numbers.decimal(row.tokens_per_step, 2), numbers.predicted_tps(row.tps)
    return [Cell(name, "text1", 600), Cell(tokens), Cell(speed, "text1", 600)]


def _judged_cells(row: JudgedRow) -> list[Cell]:
    what = f"{row.what} · " + tr("%n chat(s)", "", row.chats) if row.chats > 1 else row.what
    return [
        Cell(row.when, "text3"),
        Cell(what, "text2", tooltip=f"{what}. {row.note}" if row.note else what),
        Cell(numbers.count(row.tokens)),
        Cell(numbers.predicted_tps(row.predicted_tps)),
        Cell(numbers.tps(row.measured_tps), "text1", 600),
        error_cell(row.error),
    ]
