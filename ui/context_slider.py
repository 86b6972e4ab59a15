"""The slider for the context length, a log scale. Knows no memory: the zones come with the view."""

from __future__ import annotations

import math

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QFontMetricsF, QKeyEvent, QPainter
from PySide6.QtWidgets import QWidget

from engine.words import tr
from ui import numbers, theme
from ui.fit import FIT_WORDS
from ui.painting import Run, draw_runs, draw_runs_right, rounded
from ui.slider import GROOVE, Slider
from ui.tuning_values import TuningView

_SIDE = 6.0  # free for the focus ring
_INSET = _SIDE + 8.0  # the groove ends here, so that the knob stays inside
_GROOVE_Y = 33.0
_LABEL_BASELINE = 55.0
_TYPING_MS = 1000  # digits typed within this time make one number


class ContextSlider(Slider):
    """Its value is the index of a stop; ``context_chosen`` carries tokens, for the user's choices only.

    Ring: the loaded context. Tick with a name: the trained limit. Amber zone: tight or spills; red: no fit.
    Keys: arrows, Home, End, Page Up and Down, or a typed number (8192, 8k).
    """

    SIZE = QSize(340, 62)

    context_chosen = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr("Context length"))
        self.setToolTip(tr("How many tokens one chat can hold. Left and Right, or type a number"))
        self.setPageStep(1)
        self._view: TuningView | None = None
        self._typed = ""
        self._typing = QTimer(self)
        self._typing.setSingleShot(True)
        self._typing.setInterval(_TYPING_MS)
        self._typing.timeout.connect(self._forget_typed)

    @property
    def stops(self) -> tuple[int, ...]:
        """The contexts that can be chosen, ascending."""
        return self._view.context_stops if self._view is not None else ()

    @property
    def context(self) -> int:
        """The chosen context, in tokens; 0 while there is nothing to choose."""
        return self.stops[self.value()] if self.stops else 0

    @property
    def fit(self) -> str:
        """Whether the chosen context fits: fits, tight, spills or no."""
        view = self._view
        if view is None:
            return "fits"
        ends = (("no", view.no_fit_from), ("spills", view.spills_from), ("tight", view.tight_from))
        return next((fit for fit, end in ends if end is not None and self.context >= end), "fits")

    def set_view(self, view: TuningView) -> None:
        """Show ``view``; emits nothing. While the knob is dragged, it stays under the pointer."""
        chosen = self.context if self.isSliderDown() and self.stops else view.chosen_context
        self._view = view
        self.show_values(max(0, len(self.stops) - 1), self._nearest_index(chosen))

    def choose_larger(self, least: int = 0) -> bool:
        """Go to the next context above the loaded one that fits, and holds ``least`` tokens, as a user would;
        False where there is none.
        """
        larger = self.larger(least)
        if larger is not None:
            self.setValue(self.stops.index(larger))
        return larger is not None

    def larger(self, least: int = 0) -> int | None:
        """The next context above the loaded one that fits, and holds ``least`` tokens."""
        beyond = (stop for stop in self.stops if self._least_beyond(least) <= stop)
        found = next(beyond, None)
        return found if found is not None and found < min(self._ends(), default=math.inf) else None

    def is_at_end(self, least: int = 0) -> bool:
        """Whether the model itself has no context above the loaded one that holds ``least`` tokens."""
        return bool(self.stops) and self.stops[-1] < self._least_beyond(least)

    def _least_beyond(self, least: int) -> int:
        return max(self._view.loaded_context + 1 if self._view is not None else 0, least)

    def _ends(self) -> list[int]:
        """The contexts from which on something is not as it should be."""
        view = self._view
        ends = (view.tight_from, view.spills_from, view.no_fit_from) if view is not None else ()
        return [end for end in ends if end is not None]

    def _nearest_index(self, tokens: int) -> int:
        wanted = math.log2(max(tokens, 1))
        return min(range(len(self.stops)), key=lambda i: abs(math.log2(self.stops[i]) - wanted), default=0)

    def describe(self) -> None:
        words = tr("{count} tokens, {fit}")
        self.setAccessibleDescription(
            words.format(count=numbers.count(self.context), fit=tr(FIT_WORDS[self.fit]))
        )

    def tell(self) -> None:
        self.context_chosen.emit(self.context)

    def _forget_typed(self) -> None:
        self._typed = ""

    def _type(self, key: str) -> None:
        self._typed += key
        self._typing.start()
        number = int(self._typed.rstrip("k")) * (1024 if self._typed.endswith("k") else 1)
        self.setValue(self._nearest_index(number))

    def _x(self, tokens: float) -> float:
        first, last = self.stops[0], self.stops[-1]
        span = math.log2(last / first) or 1.0
        share = math.log2(max(tokens, first) / first) / span
        return _INSET + min(share, 1.0) * (self.width() - 2 * _INSET)

    def _zone_start(self, first_stop: int | None) -> float | None:
        """x where a zone begins: half a step before its first stop."""
        if first_stop is None:
            return None
        below = [stop for stop in self.stops if stop < first_stop]
        return (self._x(below[-1]) + self._x(first_stop)) / 2 if below else _INSET

    def paint(self, painter: QPainter) -> None:
        self._paint_header(painter)
        if self.stops:
            self._paint_groove(painter)
            self._paint_marks(painter)
            self.draw_knob(painter, self._x(self.context), _GROOVE_Y)
            self._paint_labels(painter)

    def _paint_header(self, painter: QPainter) -> None:
        colors = theme.palette()
        draw_runs(painter, _SIDE, 13, [Run(tr("Context length"), theme.font("small", 500), colors.text2)])
        if self._view is None or not self.stops:
            return
        ink = {"fits": colors.text1, "no": colors.bad}.get(self.fit, colors.warn)
        chosen = tr("{count} tokens").format(count=numbers.context(self.context))
        runs = [Run(chosen, theme.font("small", 600), ink)]
        if self._view.loaded_context and self._view.loaded_context != self.context:
            loaded = tr("loaded {context}").format(context=numbers.context(self._view.loaded_context))
            runs.append(Run(f"   {loaded}", theme.font("micro"), colors.text3))
        draw_runs_right(painter, self.width() - _SIDE, 13, runs)

    def _paint_groove(self, painter: QPainter) -> None:
        colors = theme.palette()
        left, right = _INSET, self.width() - _INSET
        top = _GROOVE_Y - GROOVE / 2
        view = self._view
        assert view is not None  # there are stops
        tight, no_fit = self._zone_start(min(self._ends(), default=None)), self._zone_start(view.no_fit_from)
        parts: list[tuple[float, float, QColor]] = [
            (left, right, colors.track),
            (left, self._x(self.context), colors.accent),
        ]
        if tight is not None:
            parts.append((tight, right, colors.warn_fill))
        if no_fit is not None:
            parts.append((no_fit, right, colors.bad_fill))
        painter.save()
        painter.setClipPath(rounded(QRectF(left, top, right - left, GROOVE), GROOVE / 2))
        for start, end, color in parts:
            painter.fillRect(QRectF(start, top, end - start, GROOVE), color)
        painter.restore()

    def _paint_marks(self, painter: QPainter) -> None:
        colors = theme.palette()
        view = self._view
        assert view is not None
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(colors.control)
        for stop in self.stops:
            painter.drawEllipse(QPointF(self._x(stop), _GROOVE_Y + 6.5), 0.9, 0.9)
        if self.stops[0] <= view.trained_context <= self.stops[-1]:
            x = round(self._x(view.trained_context))
            painter.fillRect(QRectF(x - 1, _GROOVE_Y - 7.5, 2, 15), colors.text1)
        if view.loaded_context:
            self.draw_loaded(painter, self._x(view.loaded_context), _GROOVE_Y)

    def _paint_labels(self, painter: QPainter) -> None:
        """As many stops as fit: first the trained limit, the ends and the loaded one."""
        view = self._view
        assert view is not None
        stops = self.stops
        evenly = [*stops[::2], *stops[1::2]]
        wanted = dict.fromkeys([view.trained_context, stops[0], stops[-1], view.loaded_context, *evenly])
        taken: list[tuple[float, float]] = []
        for tokens in wanted:
            if not stops[0] <= tokens <= stops[-1]:
                continue
            is_trained = tokens == view.trained_context
            text = numbers.context(tokens)
            if is_trained:
                text = tr("{context} trained").format(context=text)
            font = theme.font("micro", 600 if is_trained else 400)
            width = QFontMetricsF(font).horizontalAdvance(text)
            left = min(max(self._x(tokens) - width / 2, _SIDE), self.width() - _SIDE - width)
            if any(left < end + 8 and start - 8 < left + width for start, end in taken):
                continue
            taken.append((left, left + width))
            color = theme.palette().text2 if is_trained else theme.palette().text3
            draw_runs(painter, left, _LABEL_BASELINE, [Run(text, font, color)])

    def value_at(self, x: float) -> int:
        return min(range(len(self.stops)), key=lambda i: abs(self._x(self.stops[i]) - x), default=0)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        text = event.text().lower()
        if self.stops and (text.isdecimal() or (text == "k" and self._typed.isdecimal())):
            if len(self._typed) < 9:
                self._type(text)
            return
        self._typed = ""
        super().keyPressEvent(event)
