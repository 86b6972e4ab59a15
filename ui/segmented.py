"""One choice of a few, side by side. Knows no feature: keys come in, the chosen key goes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QFontMetricsF, QKeyEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QWidget

from ui import theme
from ui.controls import ThemedButton
from ui.label import plain_tooltip
from ui.painting import Run, centred_baseline, dashed_pen, draw_runs

_FIT_WORDS = {"fits": "fits", "tight": "fits tightly", "no": "does not fit"}
_FIT_ICONS = {"tight": "triangle-alert", "no": "circle-x"}
_PAD = 2  # between the well's border and the segments
_ICON, _ICON_GAP = 11.0, 4.0


@dataclass(frozen=True, slots=True)
class Choice:
    """A segment of two lines; ``fit`` (fits, tight, no) colours the second and sets an icon before it."""

    key: str
    label: str
    detail: str = ""
    fit: str = "fits"
    tooltip: str = ""


class Segment(ThemedButton):
    """One segment of a ``Segmented``; checked means chosen, ``is_loaded`` means in use."""

    moved = Signal(int)  # -1 or +1: the neighbour is wanted

    def __init__(self, choice: Choice, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._choice = choice
        self._is_loaded = False
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
        self.setToolTip(plain_tooltip(choice.tooltip))
        self._name()
        self.update()

    def set_loaded(self, is_loaded: bool) -> None:
        """Mark as in use."""
        if is_loaded != self._is_loaded:
            self._is_loaded = is_loaded
            self._name()
            self.update()

    def _name(self) -> None:
        parts = [self._choice.label, self._choice.detail, _FIT_WORDS[self._choice.fit]]
        if self._is_loaded:
            parts.append("in use")
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
        is_strong = self.isChecked() or self.is_hovered
        painter.setFont(theme.font("ui", 600 if self.isChecked() else 500))
        painter.setPen(colors.text1 if is_strong else colors.text2)
        centre = int(Qt.AlignmentFlag.AlignCenter)
        if not self._choice.detail:
            painter.drawText(QRectF(self.rect()), centre, self._choice.label)
            return
        width, middle = self.width(), self.height() / 2
        painter.drawText(QRectF(0, middle - 18, width, 18), centre, self._choice.label)
        self._paint_detail(painter, middle + 1)

    def _paint_detail(self, painter: QPainter, top: float) -> None:
        colors = theme.palette()
        font = theme.font("micro")
        ink = {"tight": colors.warn, "no": colors.bad}.get(self._choice.fit, colors.text2)
        icon = _FIT_ICONS.get(self._choice.fit)
        before = _ICON + _ICON_GAP if icon else 0.0
        metrics = QFontMetricsF(font)
        text = metrics.elidedText(self._choice.detail, Qt.TextElideMode.ElideRight, self.width() - 8 - before)
        x = (self.width() - before - metrics.horizontalAdvance(text)) / 2
        if icon:
            theme.draw_icon(painter, QRectF(x, top + (14 - _ICON) / 2, _ICON, _ICON), icon, ink)
        draw_runs(painter, x + before, centred_baseline(font, top, 14), [Run(text, font, ink)])

    def sizeHint(self) -> QSize:
        label = QFontMetricsF(theme.font("ui", 600)).horizontalAdvance(self._choice.label)
        detail = QFontMetricsF(theme.font("micro")).horizontalAdvance(self._choice.detail)
        detail += _ICON + _ICON_GAP if self._choice.fit in _FIT_ICONS else 0
        return QSize(ceil(max(label, detail)) + 16, 36 if self._choice.detail else 24)

    def minimumSizeHint(self) -> QSize:
        return QSize(40, self.sizeHint().height())


class Segmented(QWidget):
    """A row of segments, one of them chosen. ``chosen`` fires for the user's choices only.

    Tab reaches the chosen segment, Left and Right move the choice. ``set_choices`` never emits.
    """

    chosen = Signal(str)

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(name)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._segments: list[Segment] = []
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(_PAD, _PAD, _PAD, _PAD)
        self._row.setSpacing(2)
        theme.notifier().changed.connect(self.update)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments from left to right."""
        return tuple(self._segments)

    @property
    def chosen_key(self) -> str | None:
        """Key of the chosen segment."""
        return next((item.choice.key for item in self._segments if item.isChecked()), None)

    def set_choices(self, choices: Sequence[Choice], chosen: str, loaded: str | None = None) -> None:
        """Show ``choices``; ``loaded`` is the key in use. Segments stay while their number stays the same."""
        if len(choices) != len(self._segments):
            self._rebuild(choices)
        for segment, choice in zip(self._segments, choices, strict=True):
            segment.set_choice(choice)
            segment.set_loaded(choice.key == loaded)
        self._check(chosen)

    def _rebuild(self, choices: Sequence[Choice]) -> None:
        for segment in self._segments:
            self._row.removeWidget(segment)
            segment.deleteLater()
        self._segments = [Segment(choice, self) for choice in choices]
        before: QWidget = self
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)  # Qt orders only what takes the focus
        for segment in self._segments:
            segment.clicked.connect(self._on_segment_clicked)
            segment.moved.connect(self._on_segment_moved)
            self._row.addWidget(segment)
            QWidget.setTabOrder(before, segment)  # made late, it would come behind everything else
            before = segment
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)

    def _check(self, key: str) -> None:
        for segment in self._segments:
            is_chosen = segment.choice.key == key
            segment.setChecked(is_chosen)
            segment.setFocusPolicy(Qt.FocusPolicy.StrongFocus if is_chosen else Qt.FocusPolicy.ClickFocus)
        if self._segments and self.chosen_key is None:  # the first one can still be reached with Tab
            self._segments[0].setFocusPolicy(Qt.FocusPolicy.StrongFocus)
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
        index = self._segments.index(sender) + step
        if 0 <= index < len(self._segments):
            self._choose(self._segments[index])
            self._segments[index].setFocus(Qt.FocusReason.TabFocusReason)

    def paintEvent(self, event: QPaintEvent) -> None:
        colors = theme.palette()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(colors.well_line, 1))
        painter.setBrush(colors.well)
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 8, 8)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        for left, right in zip(self._segments, self._segments[1:], strict=False):
            if not (left.isChecked() or right.isChecked() or left.is_loaded or right.is_loaded):
                x = right.x() - 1
                painter.drawLine(x, 10, x, self.height() - 10)
