"""The Lab's chart: speed against copies or context. Predicted is dashed with its band, measured is solid with
dots; a point that failed breaks the line. Knows no model: values and words come ready.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

from PySide6.QtCore import QLineF, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QAccessible,
    QAccessibleEvent,
    QColor,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPainterPath,
    QPen,
    QPolygonF,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.words import tr
from ui import numbers, theme
from ui.gauge import Gauge
from ui.lab_scale import LogScale
from ui.lab_values import LabChart, LabDot, LabLine
from ui.painting import Run, centred_baseline, dashed_pen, draw_runs, draw_runs_right, runs_width, with_alpha

_LEFT, _TOP, _BOTTOM = 52.0, 34.0, 46.0  # px of ticks, legend and axis around the plot
_INSET = 20.0  # of the first and the last x
_DOT, _RING = 4.5, 9.0  # radii
_REACH = 14.0  # px around a dot that belong to it
_END_LINES = 32.0  # height of a name with its value beside a line's end
_BOUNDARY_LINE, _WORDS = 20.0, 22.0  # heights: of what stands at the top of the plot, of words in a box
_EMPTY = LabChart("", "", ())


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where the plot lies and how values map into it."""

    box: QRectF
    across: LogScale
    up: LogScale

    def x(self, value: float) -> float:
        return self.box.left() + _INSET + self.across.share(value) * (self.box.width() - 2 * _INSET)

    def y(self, value: float) -> float:
        return self.box.bottom() - self.up.share(value) * self.box.height()

    def at(self, x: float, y: float) -> QPointF:
        return QPointF(self.x(x), self.y(y))


class Chart(Gauge):
    """Left and Right go along the points, Up and Down from line to line; ``chosen`` carries an x.

    The chosen point is told to a screen reader at once.
    """

    chosen = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(tr("Chart of speeds"), parent)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMinimumSize(360, 300)
        self.setMouseTracking(True)
        self._view = _EMPTY
        self._line = 0
        self._x: int | None = None

    @property
    def view(self) -> LabChart:
        """What is shown."""
        return self._view

    @property
    def chosen_dot(self) -> LabDot | None:
        """The point under the keyboard."""
        return next((dot for dot in self._dots(self._line) if dot.x == self._x), None)

    def set_view(self, view: LabChart) -> None:
        """Show other lines; the chosen point stays where there is one at its place."""
        self._view = view
        self._line = min(self._line, max(0, len(view.lines) - 1))
        self.setAccessibleName(view.title)
        self.show_now()

    def choose(self, x: int | None) -> None:
        """Mark the points of one x without saying so."""
        if x != self._x:
            self._x = x
            self.update()

    def sentence(self) -> str:
        dot = self.chosen_dot
        if dot is not None:
            return dot.words
        measured = [line for line in self._view.lines if line.measured]
        if not measured:
            has_any = bool(self._view.lines)
            return tr("Predicted only, nothing is measured yet") if has_any else tr("Nothing to show")
        return "; ".join(f"{line.name}: {line.end}" for line in measured)

    def _dots(self, line: int) -> Sequence[LabDot]:
        return self._view.lines[line].measured if line < len(self._view.lines) else ()

    def _choose(self, line: int, x: int) -> None:
        self._line, self._x = line, x
        self.setAccessibleDescription(self.sentence())
        QAccessible.updateAccessibility(QAccessibleEvent(self, QAccessible.Event.DescriptionChanged))
        self.update()
        self.chosen.emit(x)

    def _move(self, step: int) -> None:
        places = [dot.x for dot in self._dots(self._line)]
        if not places:
            return
        if self._x not in places:
            place = 0 if step > 0 else len(places) - 1
        else:
            place = min(max(places.index(self._x) + step, 0), len(places) - 1)
        self._choose(self._line, places[place])

    def _change_line(self, step: int) -> None:
        line = self._line + step
        dots = self._dots(line) if line >= 0 else ()
        if dots:
            here = self._x if self._x is not None else dots[0].x
            self._choose(line, min((dot.x for dot in dots), key=lambda x: abs(x - here)))

    # Painting

    def _frame(self) -> _Frame:
        room = max((self._end_width(line) for line in self._view.lines), default=0.0)
        box = QRectF(_LEFT, _TOP, max(80.0, self.span - _LEFT - room), self.height() - _TOP - _BOTTOM)
        places = [x for x, _ in self._view.ticks]
        across = LogScale(min(places, default=1), max(places, default=2))
        return _Frame(box, across, LogScale.around(self._values()))

    def _values(self) -> Iterator[float]:
        """All that has to have room, the bands too."""
        spread = 1 + (self._view.band or 0.0)
        for line in self._view.lines:
            yield from (dot.y for dot in line.measured if dot.y is not None)
            for _, y in line.predicted:
                yield from (y * spread, y / spread)

    def paint(self, painter: QPainter) -> None:
        frame = self._frame()
        self._paint_ground(painter, frame)
        for line in self._view.lines:
            self._paint_band(painter, frame, line)
        for line in self._view.lines:
            self._paint_predicted(painter, frame, line)
        for line in self._view.lines:
            self._paint_measured(painter, frame, line)
        self._paint_ends(painter, frame)
        self._paint_best(painter, frame)
        self._paint_legend(painter)

    def _paint_ground(self, painter: QPainter, frame: _Frame) -> None:
        colors, font, box = theme.palette(), theme.font("micro", 600), frame.box
        boundary = self._view.boundary
        edge = frame.x(boundary) if boundary is not None else None
        if edge is not None:
            painter.fillRect(QRectF(edge, box.top(), box.right() - edge, box.height()), colors.bg2)
        for tick in frame.up.ticks():
            y = round(frame.y(tick))
            painter.fillRect(QRectF(box.left(), y, box.width(), 1), colors.line)
            text = numbers.decimal(tick, 0 if tick >= 1 else 1)
            baseline = centred_baseline(font, y - 8, 16)
            draw_runs_right(painter, box.left() - 10, baseline, [Run(text, font, colors.text3)])
        for x, text in self._view.ticks:
            run = Run(text, font, colors.text2)
            draw_runs(painter, frame.x(x) - runs_width([run]) / 2, box.bottom() + 18, [run])
        axis = Run(self._view.axis, theme.font("micro"), colors.text3)
        draw_runs(painter, box.center().x() - runs_width([axis]) / 2, box.bottom() + 36, [axis])
        if edge is not None:
            self._paint_boundary(painter, frame, edge)

    def _paint_boundary(self, painter: QPainter, frame: _Frame, edge: float) -> None:
        colors, font, top = theme.palette(), theme.font("micro", 600), frame.box.top()
        pen = QPen(colors.control, 1)
        pen.setDashPattern([3.0, 3.0])
        painter.setPen(pen)
        painter.drawLine(QPointF(edge, top), QPointF(edge, frame.box.bottom()))
        left = Run(tr("memory-bound"), font, colors.text3)
        right = Run(tr("compute-bound"), font, colors.text3)
        if edge - frame.box.left() > runs_width([left]) + 16:
            draw_runs_right(painter, edge - 8, top + 14, [left])
        if frame.box.right() - edge > runs_width([right]) + 16:
            draw_runs(painter, edge + 8, top + 14, [right])

    def _paint_band(self, painter: QPainter, frame: _Frame, line: LabLine) -> None:
        band = self._view.band
        if band is None or len(line.predicted) < 2:
            return
        upper = [frame.at(x, y * (1 + band)) for x, y in line.predicted]
        lower = [frame.at(x, y / (1 + band)) for x, y in reversed(line.predicted)]
        shape = QPainterPath()
        shape.addPolygon(QPolygonF([*upper, *lower]))
        painter.fillPath(shape, with_alpha(_color(line), 0.12))

    def _paint_predicted(self, painter: QPainter, frame: _Frame, line: LabLine) -> None:
        painter.setPen(dashed_pen(with_alpha(_color(line), 0.75), 1.4))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawPolyline(QPolygonF([frame.at(x, y) for x, y in line.predicted]))

    def _paint_measured(self, painter: QPainter, frame: _Frame, line: LabLine) -> None:
        color = _color(line)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(color, 2, j=Qt.PenJoinStyle.RoundJoin))
        for part in _unbroken(line.measured):
            painter.drawPolyline(QPolygonF([frame.at(dot.x, dot.y or 0.0) for dot in part]))
        for dot in line.measured:
            if dot.y is None:
                self._paint_failed(painter, frame, dot.x)
            else:
                self._paint_dot(painter, frame.at(dot.x, dot.y), color, is_chosen=dot.x == self._x)

    def _paint_dot(self, painter: QPainter, place: QPointF, color: QColor, *, is_chosen: bool) -> None:
        painter.setPen(QPen(theme.palette().bg1, 1.5))
        painter.setBrush(color)
        painter.drawEllipse(place, _DOT, _DOT)
        if is_chosen:
            painter.setPen(QPen(color, 1.5))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawEllipse(place, _RING - 1, _RING - 1)

    def _paint_failed(self, painter: QPainter, frame: _Frame, x: int) -> None:
        """A cross on the axis: there is no value to draw it at."""
        at, reach = QPointF(frame.x(x), frame.box.bottom() - 8), 4.0
        painter.setPen(QPen(theme.palette().bad_fill, 2))
        painter.drawLine(at + QPointF(-reach, -reach), at + QPointF(reach, reach))
        painter.drawLine(at + QPointF(-reach, reach), at + QPointF(reach, -reach))

    def _end_width(self, line: LabLine) -> float:
        return max(runs_width(runs) for runs in _end_runs(line)) + 14

    def _paint_ends(self, painter: QPainter, frame: _Frame) -> None:
        """Name and last value beside each line's end, the higher ones first and never over each other."""
        lowest = frame.box.top() - _END_LINES / 2
        for line in sorted(self._view.lines, key=lambda each: -(_last(each) or 0.0)):
            last = _last(line)
            if last is None:
                continue
            top = max(frame.y(last) - _END_LINES / 2, lowest)
            lowest = top + _END_LINES + 2
            for number, runs in enumerate(_end_runs(line)):
                draw_runs(painter, frame.box.right() + 10, top + 12 + 15 * number, runs)

    def _paint_best(self, painter: QPainter, frame: _Frame) -> None:
        view, colors = self._view, theme.palette()
        top = next((line for line in view.lines if any(dot.x == view.best for dot in line.measured)), None)
        value = next((dot.y for dot in top.measured if dot.x == view.best), None) if top else None
        if value is None or view.best is None:
            return
        place, font = frame.at(view.best, value), theme.font("micro", 600)
        painter.setPen(QPen(colors.text1, 1.5))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawEllipse(place, _RING, _RING)
        width = runs_width([Run(view.best_words, font, colors.text1)]) + 16
        box = self._free_box(frame, place, width)
        if box is None:  # beside the chart it is said too
            return
        painter.setPen(QPen(colors.text3, 1))
        end = QPointF(
            min(max(place.x(), box.left()), box.right()), min(max(place.y(), box.top()), box.bottom())
        )
        away = QLineF(place, end)
        painter.drawLine(away.pointAt(min(1.0, _RING / max(1.0, away.length()))), end)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(colors.bg3)
        painter.drawRoundedRect(box, 5, 5)
        run = Run(view.best_words, font, colors.text1)
        draw_runs(painter, box.left() + 8, centred_baseline(font, box.top(), box.height()), [run])

    def _free_box(self, frame: _Frame, place: QPointF, width: float) -> QRectF | None:
        """Where words about ``place`` cover no line: as near as that goes; None where no room is."""
        area = frame.box.adjusted(2, _BOUNDARY_LINE, -2 - width, -2 - _WORDS)
        columns = [area.left() + part / 8 * max(0.0, area.width()) for part in range(9)]
        columns.append(min(max(place.x() - width / 2, area.left()), area.right()))
        rows = [area.top() + part / 24 * max(0.0, area.height()) for part in range(25)]
        boxes = [QRectF(left, top, width, _WORDS) for left in columns for top in rows]
        boxes.sort(key=lambda box: QLineF(box.center(), place).length())
        drawn = [point for line in self._view.lines for point in _along(frame, line)]
        for box in boxes:
            around = box.adjusted(-6, -6, 6, 6)
            if not any(around.contains(x, y) for x, y in drawn):
                return box
        return None

    def _paint_legend(self, painter: QPainter) -> None:
        colors, font, view = theme.palette(), theme.font("micro"), self._view
        words = tr("predicted")
        if view.band is not None:
            words = tr("predicted ±{band}").format(band=numbers.percent(view.band))
        predicted, measured = Run(words, font, colors.text2), Run(tr("measured"), font, colors.text2)
        x = draw_runs_right(painter, self.span, 14, [predicted]) - 32
        painter.setPen(dashed_pen(colors.text3, 1.6))
        painter.drawLine(QPointF(x, 10), QPointF(x + 24, 10))
        if not any(line.measured for line in view.lines):
            return
        x = draw_runs_right(painter, x - 18, 14, [measured]) - 32
        painter.setPen(QPen(colors.text2, 2))
        painter.drawLine(QPointF(x, 10), QPointF(x + 24, 10))
        painter.setBrush(colors.text2)
        painter.drawEllipse(QPointF(x + 12, 10), 3, 3)

    # Events

    def _dot_at(self, place: QPointF) -> tuple[int, LabDot] | None:
        frame, best = self._frame(), _REACH
        found: tuple[int, LabDot] | None = None
        for number, line in enumerate(self._view.lines):
            for dot in line.measured:
                at = frame.at(dot.x, dot.y) if dot.y else QPointF(frame.x(dot.x), frame.box.bottom() - 8)
                away = (at + QPointF(self.SIDE, 0) - place).manhattanLength()
                if away <= best:
                    best, found = away, (number, dot)
        return found

    def mousePressEvent(self, event: QMouseEvent) -> None:
        found = self._dot_at(event.position())
        if found is not None:
            self._choose(found[0], found[1].x)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        found = self._dot_at(event.position())
        self.setToolTip(found[1].words if found else "")

    def keyPressEvent(self, event: QKeyEvent) -> None:
        steps = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}
        lines = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}
        key = Qt.Key(event.key())
        if key in steps:
            self._move(steps[key])
        elif key in lines:
            self._change_line(lines[key])
        else:
            super().keyPressEvent(event)

    def sizeHint(self) -> QSize:
        return QSize(700, 390)


def _color(line: LabLine) -> QColor:
    color: QColor = getattr(theme.palette(), line.color)
    return color


def _along(frame: _Frame, line: LabLine) -> Iterator[tuple[float, float]]:
    """Points that lie close together on what is drawn of a line."""
    measured = [(float(dot.x), dot.y) for dot in line.measured if dot.y is not None]
    for places in (measured, line.predicted):
        corners = [frame.at(x, y) for x, y in places]
        yield from ((corner.x(), corner.y()) for corner in corners)
        for one, other in pairwise(corners):
            piece = QLineF(one, other)
            steps = ceil(piece.length() / 8)
            points = (piece.pointAt(step / steps) for step in range(1, steps))
            yield from ((point.x(), point.y()) for point in points)


def _unbroken(dots: Sequence[LabDot]) -> Iterator[list[LabDot]]:
    """Runs of neighbours that were measured: what failed joins nothing."""
    part: list[LabDot] = []
    for dot in dots:
        if dot.y is None:
            if part:
                yield part
            part = []
        else:
            part.append(dot)
    if part:
        yield part


def _last(line: LabLine) -> float | None:
    """The value that a line ends at, measured if it was."""
    measured = [dot.y for dot in line.measured if dot.y is not None]
    return measured[-1] if measured else line.predicted[-1][1] if line.predicted else None


def _end_runs(line: LabLine) -> tuple[list[Run], list[Run]]:
    """The name, and the value with its first word in bold."""
    colors = theme.palette()
    figure, space, rest = line.end.partition(" ")
    name = Run(line.name, theme.font("small", 600), _color(line))
    return [name], [
        Run(figure, theme.font("small", 600), colors.text1),
        Run(space + rest, theme.font("small"), colors.text3),
    ]
