"""The speed dial: the measured speed on a half circle, beside what was predicted. Predicts nothing."""

from __future__ import annotations

import math

from PySide6.QtCore import QLineF, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QFont, QFontMetricsF, QPainter, QPainterPath, QPen, QPixmap, QPolygonF
from PySide6.QtWidgets import QWidget

from engine.words import tr
from ui import numbers, theme
from ui.gauge import Gauge
from ui.gauge_values import SpeedView
from ui.legend import reading_words
from ui.painting import Run, draw_runs, hatch, with_alpha

_START_DEG = 193.0  # counter-clockwise from three o'clock, where 0 stands
_SPAN_DEG = 206.0
_SMALLEST_SCALE = 10.0  # the reading wedge must fit
_UNMEASURED_SCALE = 60.0
_FAR_LIMIT = 2.5  # times what is predicted: a limit beyond that is no use on the scale
_SETTLE_STEPS = 16  # the first steps of an answer are slower than the rest: no scale is chosen by them
_DIGIT_TICKS = 3  # of 100 ms: digits change at most 4 times a second
_FACE = QSize(199, 124)
_CENTRE = QPointF(99, 103)
_RADIUS = 84.0
_RING = 9.5
_CUT_BELOW = 20.0  # the ring ends on a level line, this far under the centre
# Quarter of the scale (times a power of ten): number of small ticks it is divided by
_QUARTERS = {1.0: 2, 1.5: 3, 2.0: 2, 2.5: 5, 3.0: 3, 4.0: 4, 5.0: 5, 7.5: 3}


def nice_scale(value: float) -> float:
    """The end of a scale whose quarters are round numbers, at least 1/8 above ``value``."""
    wanted = max(value * 1.125, _SMALLEST_SCALE) / 4
    power = 10.0 ** math.floor(math.log10(wanted))
    for quarter in (*_QUARTERS, 10.0):
        if quarter * power >= wanted * (1 - 1e-9):
            return 4 * quarter * power
    raise AssertionError("the last quarter is larger than any mantissa")


class Dial(Gauge):
    """The dial. States: waiting (dash), live (accent arc), slower than predicted (amber), last value (grey).

    A triangle marks what is predicted, a line the bandwidth limit; what lies beyond that is hatched. The
    scale holds still while an answer is written, once it has been chosen: by what is predicted, or by the
    first steps where nothing is. A speed beyond it fills the ring and is still written in full. Digits change
    at most four times a second.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(tr("Speed"), parent)
        self.setFixedSize(_FACE.width() + 2 * self.SIDE, _FACE.height())
        self.setToolTip(tr("Measured speed of the answer, in tokens per second (decode speed)"))
        self._view = SpeedView()
        self._scale = _UNMEASURED_SCALE
        self._has_scale = False
        self._is_settled = False  # the scale has been chosen for the answer that is being written
        self._num_steps = 0  # of that answer
        self._digits = numbers.UNKNOWN
        self._ticks_since_digits = _DIGIT_TICKS
        self._face = QPixmap()

    @property
    def scale_end(self) -> float:
        """The speed at the end of the scale, tok/s."""
        return self._scale

    @property
    def digits(self) -> str:
        """The number as it is shown."""
        return self._digits

    def set_view(self, view: SpeedView) -> None:
        """Show ``view`` with the next tick of the clock; a change of state and another answer at once."""
        is_same_state = view.is_live == self._view.is_live and (self._speed is None) == (_speed(view) is None)
        self._view = view
        if view.is_new_answer:
            self._num_steps, self._is_settled = 0, False
        self._num_steps += len(view.step_ms)
        self._fit_scale()
        if is_same_state and not view.is_new_answer:
            self.mark_changed()
        else:
            self._show_digits()
            self.show_now()

    @property
    def _speed(self) -> float | None:
        return _speed(self._view)

    def _fit_scale(self) -> None:
        wanted = self._widest()
        has_prediction = _finite(self._view.predicted_tps) is not None
        is_warming_up = bool(self._view.step_ms) and self._num_steps < _SETTLE_STEPS and not has_prediction
        if wanted is None or (self._view.is_live and (self._is_settled or is_warming_up)):
            return
        self._is_settled = True
        if not self._has_scale or wanted > self._scale * 0.95 or wanted < self._scale * 0.2:
            scale = nice_scale(wanted)
            if scale != self._scale:
                self._scale = scale
                self.forget_pixmaps()
        self._has_scale = True

    def _widest(self) -> float | None:
        """The highest value that the scale must hold."""
        known = [each for each in (self._speed, _finite(self._view.predicted_tps)) if each is not None]
        widest = max(known, default=None)
        limit = _finite(self._view.limit_tps)
        if limit is None or (widest is not None and limit > _FAR_LIMIT * widest):
            return widest
        return limit if widest is None else max(widest, limit)

    def _show_digits(self) -> None:
        self._digits = numbers.tps(self._speed)
        self._ticks_since_digits = 0

    def _on_clock_tick(self) -> None:
        self._ticks_since_digits += 1
        if self._ticks_since_digits >= _DIGIT_TICKS and self._digits != numbers.tps(self._speed):
            self._show_digits()
            self.mark_changed()
        super()._on_clock_tick()

    def sentence(self) -> str:
        if self._speed is None:
            unknown = tr("Speed not measured yet")
            words = unknown if self._is_waiting else tr("Too few tokens to measure a speed")
            return words if _finite(self._view.predicted_tps) is None else self._with_marks(words)
        words = tr("{speed} tokens per second in the last answer")
        if self._view.is_live:
            words = tr("{speed} tokens per second now")
        return self._with_marks(words.format(speed=numbers.tps(self._speed)))

    def _with_marks(self, words: str) -> str:
        """``words``, and what the marks say."""
        view, told = self._view, [words]
        predicted, limit = (numbers.predicted_tps(each) for each in (view.predicted_tps, view.limit_tps))
        if view.is_slower:
            told.append(tr("slower than predicted"))
        if predicted != numbers.UNKNOWN:
            told.append(tr("predicted {speed}").format(speed=predicted))
        if limit != numbers.UNKNOWN:
            told.append(tr("bandwidth limit {speed}").format(speed=limit))
        low, _, high = reading_words(view.reading_tps).partition("–")
        sentence = tr("{speeds}; people read about {low} to {high}")
        return sentence.format(speeds=", ".join(told), low=low, high=high)

    @property
    def _is_waiting(self) -> bool:
        return self._speed is None and self._view.ttft_s is None

    def forget_pixmaps(self) -> None:
        self._face = QPixmap()

    def paint(self, painter: QPainter) -> None:
        if self._face.isNull() or self._face.devicePixelRatio() != self.devicePixelRatioF():
            self._face = self._draw_face()
        painter.drawPixmap(0, 0, self._face)
        painter.save()
        painter.setClipRect(QRectF(0, 0, self.span, _CENTRE.y() + _CUT_BELOW))
        self._draw_wedge(painter)
        self._draw_beyond(painter)
        self._draw_arc(painter)
        painter.restore()
        self._draw_limit(painter)
        self._draw_predicted(painter)
        self._draw_number(painter)

    def _draw_arc(self, painter: QPainter) -> None:
        if not self._speed:
            return
        colors, view = theme.palette(), self._view
        color = colors.warn_fill if view.is_slower else colors.accent
        share = min(self._speed / self._scale, 1.0)
        _stroke_ring(painter, share, QPen(color if view.is_live else colors.mem_working, _RING))

    def _draw_beyond(self, painter: QPainter) -> None:
        """What the memory cannot give: nothing but a measured speed is ever drawn over it."""
        limit = self._share_of(self._view.limit_tps)
        if limit is None or limit >= 1.0:
            return
        colors = theme.palette()
        outer, inner = _RADIUS + _RING / 2, _RADIUS - _RING / 2
        start, span = _angle(limit), -_SPAN_DEG * (1.0 - limit) - 4.0
        ring = QPainterPath()
        ring.arcMoveTo(_circle(outer), start)
        ring.arcTo(_circle(outer), start, span)
        ring.arcTo(_circle(inner), start + span, -span)
        ring.closeSubpath()
        painter.fillPath(ring, colors.bg1)
        hatch(painter, ring, colors.control, 3.0)

    def _draw_limit(self, painter: QPainter) -> None:
        limit = self._share_of(self._view.limit_tps)
        if limit is not None and limit <= 1.0:
            painter.setPen(QPen(theme.palette().warn_fill, 2.2, c=Qt.PenCapStyle.FlatCap))
            painter.drawLine(QLineF(_point(limit, _RADIUS - 8), _point(limit, _RADIUS + 9)))

    def _draw_predicted(self, painter: QPainter) -> None:
        """A triangle outside of the ring that points at the predicted speed."""
        predicted = self._share_of(self._view.predicted_tps)
        if predicted is None or predicted > 1.0:
            return
        angle = math.radians(_angle(predicted))
        tip, base = _point(predicted, _RADIUS + 6.5), _point(predicted, _RADIUS + 14.0)
        across = QPointF(math.sin(angle), math.cos(angle)) * 4.2
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.palette().text1)
        painter.drawPolygon(QPolygonF([tip, base + across, base - across]))

    def _share_of(self, value: float | None) -> float | None:
        """Where on the scale a speed stands; above 1 beyond its end."""
        known = _finite(value)
        return None if known is None else known / self._scale

    def _draw_number(self, painter: QPainter) -> None:
        colors = theme.palette()
        if self._speed is None:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colors.text3)
            painter.drawRoundedRect(QRectF(_CENTRE.x() - 9, _CENTRE.y() - 20, 18, 4), 1, 1)
        else:
            # "1,234" must stay between the ticks, and "93.5" between labels of three figures
            most = 4 if self._scale < 100 else 3
            style = "display" if len(self._digits) <= most else "title-l"
            _draw_figures(painter, Run(self._digits, theme.font(style), colors.text1), _CENTRE.y() - 9)
        caption = tr("waiting") if self._is_waiting else tr("tok/s")
        _draw_centred(painter, Run(caption, theme.font("small", 500), colors.text2), _CENTRE.y() + 9)

    def _draw_face(self) -> QPixmap:
        """The fixed parts: track, ticks and their numbers."""
        dpr = self.devicePixelRatioF()
        face = QPixmap(_FACE * dpr)
        face.setDevicePixelRatio(dpr)
        face.fill(Qt.GlobalColor.transparent)
        painter = QPainter(face)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setClipRect(QRectF(0, 0, self.span, _CENTRE.y() + _CUT_BELOW))
        _stroke_ring(painter, 1.0, QPen(theme.palette().track, _RING))
        self._draw_ticks(painter)
        painter.end()
        return face

    def _draw_wedge(self, painter: QPainter) -> None:
        low, high = (_angle(min(value / self._scale, 1.0)) for value in self._view.reading_tps)
        painter.setPen(QPen(with_alpha(theme.palette().text3, 0.34), 11, c=Qt.PenCapStyle.FlatCap))
        painter.drawArc(_circle(71.5), round(low * 16), round((high - low) * 16))

    def _draw_ticks(self, painter: QPainter) -> None:
        colors = theme.palette()
        font = theme.font("micro")
        small = self._small_ticks()
        for index in range(4 * small + 1):
            share = index / (4 * small)
            is_large = index % small == 0
            painter.setPen(QPen(colors.text3 if is_large else colors.control, 1.4 if is_large else 1.0))
            painter.drawLine(QLineF(_point(share, 77), _point(share, 69.5 if is_large else 73)))
            if is_large:
                text = tick_text(self._scale * share)
                metrics = QFontMetricsF(font)
                wide, high = metrics.horizontalAdvance(text), metrics.capHeight()
                middle = _point(share, _label_radius(share, wide, high))
                run = Run(text, font, colors.text3)
                draw_runs(painter, middle.x() - wide / 2, middle.y() + high / 2, [run])

    def _small_ticks(self) -> int:
        quarter = self._scale / 4
        mantissa = quarter / 10.0 ** math.floor(math.log10(quarter) + 1e-9)
        return next(parts for key, parts in _QUARTERS.items() if math.isclose(key, mantissa, rel_tol=1e-6))


def _speed(view: SpeedView) -> float | None:
    return _finite(view.decode_tps)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) and value >= 0 else None


def tick_text(value: float) -> str:
    """A number of the scale: whole where it is, thousands in short."""
    if value >= 1000:  # in full it would reach into the speed
        return f"{tick_text(value / 1000)}k"
    return numbers.decimal(value, 0 if math.isclose(value, round(value)) else 1)


def _angle(share: float) -> float:
    """Degrees counter-clockwise from three o'clock of a share of the scale."""
    return _START_DEG - _SPAN_DEG * share


def _label_radius(share: float, wide: float, high: float) -> float:
    """Where a tick's number is centred so that it is equally clear of its tick, however wide it is."""
    angle = math.radians(_angle(share))
    return 66.0 - abs(math.cos(angle)) * wide / 2 - abs(math.sin(angle)) * high / 2


def _point(share: float, radius: float) -> QPointF:
    angle = math.radians(_angle(share))
    return QPointF(_CENTRE.x() + radius * math.cos(angle), _CENTRE.y() - radius * math.sin(angle))


def _circle(radius: float) -> QRectF:
    return QRectF(_CENTRE.x() - radius, _CENTRE.y() - radius, 2 * radius, 2 * radius)


def _stroke_ring(painter: QPainter, share: float, pen: QPen) -> None:
    """The ring from 0 to ``share``; it starts a little below 0 so that the level cut is full."""
    pen.setCapStyle(Qt.PenCapStyle.FlatCap)
    painter.setPen(pen)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    spare = 4.0
    span = _SPAN_DEG * share + spare + (spare if share >= 1.0 else 0.0)
    painter.drawArc(_circle(_RADIUS), round((_START_DEG + spare) * 16), round(-span * 16))


def figure_widths(text: str, font: QFont) -> list[float]:
    """Widths that give every digit of ``text`` the same room, so that the others stay where they are.

    Needed because the tabular figures of Inter Display are not equally wide.
    """
    metrics = QFontMetricsF(font)
    widest = max(metrics.horizontalAdvance(digit) for digit in "0123456789")
    return [widest if char.isdecimal() else metrics.horizontalAdvance(char) for char in text]


def _draw_figures(painter: QPainter, run: Run, baseline: float) -> None:
    metrics = QFontMetricsF(run.font)
    widths = figure_widths(run.text, run.font)
    x = _CENTRE.x() - sum(widths) / 2
    for char, width in zip(run.text, widths, strict=True):
        left = x + (width - metrics.horizontalAdvance(char)) / 2
        draw_runs(painter, left, baseline, [Run(char, run.font, run.color)])
        x += width


def _draw_centred(painter: QPainter, run: Run, baseline: float) -> None:
    width = QFontMetricsF(run.font).horizontalAdvance(run.text)
    draw_runs(painter, _CENTRE.x() - width / 2, baseline, [run])
