"""One choice of a few, side by side. Knows no feature: keys come in, the chosen key goes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QKeyEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QGridLayout, QSizePolicy, QWidget

from engine.words import mark, tr
from ui import theme
from ui.controls import ThemedButton
from ui.label import plain_tooltip
from ui.painting import Run, centred_baseline, dashed_pen, draw_runs

_FIT_WORDS = {
    "fits": mark("fits"),
    "tight": mark("fits tightly"),
    "spills": mark("fits on the GPU in part"),
    "no": mark("does not fit"),
    "off": mark("cannot be used"),
}
_FIT_ICONS = {"tight": "triangle-alert", "spills": "triangle-alert", "no": "circle-x"}
_PAD = 2  # between the well's border and the segments
_GAP = 2  # between segments
_MOST_IN_A_ROW = 4  # more stand in rows of three; of two lines there are three at most
_ICON, _ICON_GAP = 11.0, 4.0
_LINE = 14  # height of the second and the third line
_MARGIN, _TIGHT_DOT = 10, "\u2009·\u2009"  # a line that comes nearer to the edges gets thin spaces
_NOTE = 16  # what a third line adds to the height
_AROUND, _SPARE = 16, 12  # px beside the words, and how many of them can be done without


@dataclass(frozen=True, slots=True)
class Choice:
    """A segment of two lines; ``fit`` (fits, tight, ...) colours the second and sets an icon before the
    first. What is off can be read, not chosen: its second line and tooltip say why. ``note`` is a third,
    quiet line.
    """

    key: str
    label: str
    detail: str = ""
    fit: str = "fits"
    tooltip: str = ""
    note: str = ""
    note_tooltip: str = ""  # a paragraph of its own, below the other


class Segment(ThemedButton):
    """One segment of a ``Segmented``; checked means chosen, ``is_loaded`` means in use."""

    moved = Signal(int)  # -1 or +1: the neighbour is wanted

    def __init__(self, choice: Choice, group: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._choice = choice
        self._group = group
        self._is_loaded = False
        self._has_note = False
        self.setCheckable(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.set_choice(choice)

    @property
    def choice(self) -> Choice:
        """What the segment stands for."""
        return self._choice

    @property
    def is_loaded(self) -> bool:
        """Whether this is what is in use now."""
        return self._is_loaded

    def set_choice(self, choice: Choice) -> None:
        """Show ``choice`` from now on."""
        self._choice = choice
        self.setText(choice.label)
        self.setToolTip(plain_tooltip(choice.tooltip, choice.note_tooltip))
        self.setEnabled(choice.fit != "off")
        self._name()
        self.update()

    def set_noted(self, has_note: bool) -> None:
        """Keep room for a third line, also where this choice has none: all segments are of one height."""
        if has_note != self._has_note:
            self._has_note = has_note
            self.updateGeometry()
            self.update()

    def set_loaded(self, is_loaded: bool) -> None:
        """Mark as in use."""
        if is_loaded != self._is_loaded:
            self._is_loaded = is_loaded
            self._name()
            self.update()

    def _name(self) -> None:
        choice = self._choice
        fit = "" if choice.fit == "fits" and not choice.detail else tr(_FIT_WORDS[choice.fit])
        detail = choice.detail.replace(" · ", ", ")
        in_use = tr("in use") if self._is_loaded else ""
        parts = [self._group, choice.label, detail, choice.note, fit, in_use]
        self.setAccessibleName(", ".join(part for part in parts if part))

    def nextCheckState(self) -> None:
        self.setChecked(True)  # a press never takes a choice away

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(Qt.Key(event.key()))
        if step is None:
            super().keyPressEvent(event)
        else:
            self.moved.emit(step)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        inset = 3.75 if self.has_ring else 0.75  # the ring stands clear of the border of what is chosen
        box = QRectF(self.rect()).adjusted(inset, inset, -inset, -inset)
        self._paint_ground(painter, box)
        self._paint_words(painter)
        if self.has_ring:
            theme.draw_focus_ring(painter, self.rect(), 6)

    def _paint_ground(self, painter: QPainter, box: QRectF) -> None:
        colors = theme.palette()
        if self.isChecked():
            painter.setPen(QPen(colors.accent, 1.5))
            painter.setBrush(colors.chosen)
        elif self._is_loaded:
            painter.setPen(dashed_pen(colors.accent))
            painter.setBrush(Qt.BrushStyle.NoBrush)
        else:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colors.bg3 if self.is_hovered and theme.is_dark() else Qt.BrushStyle.NoBrush)
        radius = 4 if self.has_ring else 6
        painter.drawRoundedRect(box, radius, radius)

    def _paint_words(self, painter: QPainter) -> None:
        colors = theme.palette()
        fit = self._choice.fit
        inks = {"tight": colors.warn, "spills": colors.warn, "no": colors.bad, "off": colors.text3}
        is_strong = self.isChecked() or self.is_hovered
        ink = colors.text1 if is_strong else colors.text2 if self.isEnabled() else colors.text3
        icon, icon_ink = _FIT_ICONS.get(fit), inks.get(fit, colors.text2)
        font = theme.font("ui", 600 if self.isChecked() else 500)
        if not self._choice.detail:
            self._paint_line(painter, QRectF(self.rect()), self._choice.label, font, ink, icon, icon_ink)
            return
        top = (self.height() - (_LINE if self._has_note else 0)) / 2 - 18
        box = QRectF(0, top, self.width(), 18)
        self._paint_line(painter, box, self._choice.label, font, ink, icon, icon_ink)
        micro = theme.font("micro")
        box = QRectF(0, top + 19, self.width(), _LINE)
        detail = self._choice.detail
        if QFontMetricsF(micro).horizontalAdvance(detail) > self.width() - _MARGIN:
            detail = detail.replace(" · ", _TIGHT_DOT)
        self._paint_line(painter, box, detail, micro, icon_ink)
        quiet = colors.text2 if self.isChecked() else colors.text3  # on the ground of what is chosen
        if self._has_note:
            self._paint_line(painter, box.translated(0, _LINE), self._choice.note, micro, quiet)

    def _paint_line(
        self,
        painter: QPainter,
        box: QRectF,
        line: str,
        font: QFont,
        ink: QColor,
        icon: str | None = None,
        icon_ink: QColor | None = None,
    ) -> None:
        before = _ICON + _ICON_GAP if icon else 0.0
        metrics = QFontMetricsF(font)
        text = metrics.elidedText(line, Qt.TextElideMode.ElideRight, box.width() - 2 - before)
        x = (box.width() - before - metrics.horizontalAdvance(text)) / 2
        if icon and icon_ink:
            place = QRectF(x, box.center().y() - _ICON / 2, _ICON, _ICON)
            theme.draw_icon(painter, place, icon, icon_ink)
        baseline = centred_baseline(font, box.top(), box.height())
        draw_runs(painter, x + before, baseline, [Run(text, font, ink)])

    def sizeHint(self) -> QSize:
        label = QFontMetricsF(theme.font("ui", 600)).horizontalAdvance(self._choice.label)
        label += _ICON + _ICON_GAP if self._choice.fit in _FIT_ICONS else 0
        micro = QFontMetricsF(theme.font("micro"))
        detail = micro.horizontalAdvance(self._choice.detail)
        width = max(label, detail, micro.horizontalAdvance(self._choice.note) if self._has_note else 0)
        height = (36 if self._choice.detail else 24) + (_NOTE if self._has_note else 0)
        return QSize(ceil(width) + _AROUND, height)

    def minimumSizeHint(self) -> QSize:
        """A longer word takes room from shorter ones beside it; what stands in two lines is shortened."""
        hint = self.sizeHint()
        return QSize(40 if self._choice.detail else max(40, hint.width() - _SPARE), hint.height())


class Segmented(QWidget):
    """Segments side by side, one of them chosen; ``chosen`` fires for the user's choices only.

    Tab reaches the chosen segment, Left and Right move the choice. ``set_choices`` never emits.
    """

    chosen = Signal(str)

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(name)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._segments: list[Segment] = []
        self._num_rows = 0
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(_PAD, _PAD, _PAD, _PAD)
        self._grid.setSpacing(_GAP)
        theme.notifier().changed.connect(self.update)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments from left to right, row by row."""
        return tuple(self._segments)

    @property
    def chosen_key(self) -> str | None:
        """Key of the chosen segment."""
        return next((item.choice.key for item in self._segments if item.isChecked()), None)

    def set_choices(
        self, choices: Sequence[Choice], chosen: str, loaded: str | None = None, *, has_notes: bool = True
    ) -> None:
        """Show ``choices``; ``loaded`` is the key in use. Segments stay while their number stays the same.

        Without ``has_notes`` notes are in names and tooltips alone.
        """
        if len(choices) != len(self._segments):
            self._rebuild(choices)
        has_notes = has_notes and any(choice.note for choice in choices)
        for segment, choice in zip(self._segments, choices, strict=True):
            segment.set_choice(choice)
            segment.set_noted(has_notes)
            segment.set_loaded(choice.key == loaded)
        self._check(chosen)

    @property
    def notes_height(self) -> int:
        """What notes add to the height, whether there are any or not."""
        return _NOTE * self._num_rows

    def _rebuild(self, choices: Sequence[Choice]) -> None:
        for segment in self._segments:
            self._grid.removeWidget(segment)
            segment.hide()  # it may be seen until it is deleted
            segment.deleteLater()
        self._segments = [Segment(choice, self.accessibleName(), self) for choice in choices]
        columns = _columns(choices)
        self._num_rows = -(-len(choices) // max(1, columns))
        for column in range(max(columns, self._grid.columnCount())):
            self._grid.setColumnStretch(column, int(column < columns))
        before: QWidget = self
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)  # Qt orders only what takes the focus
        for index, segment in enumerate(self._segments):
            segment.clicked.connect(self._on_segment_clicked)
            segment.moved.connect(self._on_segment_moved)
            self._grid.addWidget(segment, index // columns, index % columns)
            segment.show()  # else it has no size before the next turn of the event loop
            QWidget.setTabOrder(before, segment)  # made late, it would come behind everything else
            before = segment
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)

    def _check(self, key: str) -> None:
        for segment in self._segments:
            is_chosen = segment.choice.key == key
            segment.setChecked(is_chosen)
            segment.setFocusPolicy(Qt.FocusPolicy.StrongFocus if is_chosen else Qt.FocusPolicy.ClickFocus)
        usable = [segment for segment in self._segments if segment.isEnabled()]
        if usable and self.chosen_key is None:  # the first one can still be reached with Tab
            usable[0].setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.update()

    def _choose(self, segment: Segment) -> None:
        key = segment.choice.key
        self._check(key)
        self.chosen.emit(key)

    def _on_segment_clicked(self) -> None:
        sender = self.sender()
        if isinstance(sender, Segment):
            self._choose(sender)

    def _on_segment_moved(self, step: int) -> None:
        sender = self.sender()
        if not isinstance(sender, Segment):
            return
        usable = [segment for segment in self._segments if segment.isEnabled()]
        index = usable.index(sender) + step
        if 0 <= index < len(usable):
            self._choose(usable[index])
            usable[index].setFocus(Qt.FocusReason.TabFocusReason)

    def paintEvent(self, event: QPaintEvent) -> None:
        colors = theme.palette()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(colors.well_line, 1))
        painter.setBrush(colors.well)
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 8, 8)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        for left, right in zip(self._segments, self._segments[1:], strict=False):
            is_plain = not (left.isChecked() or right.isChecked() or left.is_loaded or right.is_loaded)
            if is_plain and left.y() == right.y():
                x = right.x() - 1
                painter.drawLine(x, left.y() + 8, x, left.y() + left.height() - 8)


def _columns(choices: Sequence[Choice]) -> int:
    """How many stand side by side: segments of two lines need a third of the width."""
    count = len(choices)
    if not any(choice.detail for choice in choices):
        return count if count <= _MOST_IN_A_ROW else 3
    return 2 if count == 4 else min(count, 3)
