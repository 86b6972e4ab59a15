"""The model chip: which model, how it is loaded, and its state. Pressing it asks for the picker."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.words import mark, tr
from ui import numbers, theme
from ui.controls import ThemedButton
from ui.label import key_text, plain_tooltip
from ui.painting import Run, centred_baseline, draw_runs, rounded, runs_width, with_alpha
from ui.values import ChipView, ModelState

_HEIGHT = 32
_LEFT = 30.0  # of the words, after the dot
_RIGHT = 38.0  # for the arrow
_SHORT_S = 5.0  # a shorter wait is not worth a figure
_PROGRESS = {
    ModelState.LOADING: (mark("Loading"), mark("Loading {percent}")),
    ModelState.DOWNLOADING: (mark("Downloading"), mark("Downloading {percent}")),
}
_WORDS = {
    ModelState.READY: mark("Ready"),
    ModelState.GENERATING: mark("Generating"),
    ModelState.FAILED: mark("Could not load"),
    ModelState.UNLOADED: mark("Loads with the next message"),
}


@dataclass(frozen=True, slots=True)
class _Parts:
    """The words of one painting, already short enough."""

    name: str
    detail: str
    state: str


class ModelChip(ThemedButton):
    """Name · precision · context, and the state with a dot or a ring of progress.

    A percentage never goes back while the state and the name stay. Where room is short the detail goes first,
    then the name is elided; the state stays.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._view = ChipView(ModelState.NO_MODEL)
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self._describe()

    @property
    def view(self) -> ChipView:
        """What is shown."""
        return self._view

    def set_view(self, view: ChipView) -> None:
        """Show ``view``."""
        old = self._view
        if (view.state, view.name) == (old.state, old.name) and None not in (view.percent, old.percent):
            view = replace(view, percent=max(view.percent or 0, old.percent or 0))
        if view != old:
            self._view = view
            self._describe()
            self.updateGeometry()
            self.update()

    @property
    def state_words(self) -> str:
        """The state in words, with its percentage, and how long a long load still takes."""
        words, left_s = _PROGRESS.get(self._view.state), self._view.seconds_left
        if words is None:
            return tr(_WORDS.get(self._view.state, "")) or key_text("Ctrl+M").replace("+", " ")
        without_figure, with_figure = words
        if self._view.percent is None:
            return tr(without_figure)
        left = "" if left_s is None or left_s <= _SHORT_S else f" · {numbers.time_left(left_s)}"
        return tr(with_figure).format(percent=numbers.percent(self._view.percent / 100)) + left

    def _describe(self) -> None:
        keys = key_text("Ctrl+M")
        if self._view.state is ModelState.NO_MODEL:
            self.setAccessibleName(tr("No model. Press to choose one"))
            self.setToolTip(tr("Choose a model ({keys})").format(keys=keys))
            return
        what = ", ".join(part for part in (self._view.name, self._view.detail) if part)
        words = tr("Model {model}, {state}. Press to change")
        self.setAccessibleName(words.format(model=what, state=self.state_words))
        self.setToolTip(plain_tooltip(tr("Change the model ({keys}): {model}").format(keys=keys, model=what)))

    def _parts(self, width: float | None = None) -> _Parts:
        """The words that fit into ``width``, or all of them."""
        view = self._view
        if view.state is ModelState.NO_MODEL:
            parts = _Parts(tr("No model"), " · " + tr("choose one"), self.state_words)
        else:
            detail = f" · {view.detail}" if view.detail else ""
            parts = _Parts(view.name.replace("\n", " "), detail, self.state_words)
        if width is None or self._width_of(parts) <= width:
            return parts
        parts = replace(parts, detail="")
        room = width - self._width_of(replace(parts, name=""))
        metrics = QFontMetricsF(theme.font("ui", 600))
        name = metrics.elidedText(parts.name, Qt.TextElideMode.ElideMiddle, max(room, 0.0))
        return replace(parts, name=name)

    def _width_of(self, parts: _Parts) -> float:
        state = runs_width([Run(parts.state, theme.font("small", 600), theme.palette().text1)])
        return _LEFT + runs_width(self._name_runs(parts)) + 25 + state + _RIGHT

    def _name_runs(self, parts: _Parts) -> list[Run]:
        colors = theme.palette()
        return [
            Run(parts.name, theme.font("ui", 600), colors.text1),
            Run(parts.detail, theme.font("ui", 400), colors.text2),
        ]

    def _state_color(self) -> QColor:
        colors = theme.palette()
        return {
            ModelState.READY: colors.ok,
            ModelState.GENERATING: colors.accent,
            ModelState.FAILED: colors.bad,
            ModelState.NO_MODEL: colors.text3,
            ModelState.UNLOADED: colors.text3,
        }.get(self._view.state, colors.text2)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._paint_pill(painter)
        self._paint_sign(painter, QPointF(17, _HEIGHT / 2))
        self._paint_words(painter)
        if self.has_ring:
            theme.draw_focus_ring(painter, self.rect(), _HEIGHT / 2)

    def _paint_pill(self, painter: QPainter) -> None:
        colors = theme.palette()
        box = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        painter.setPen(QPen(colors.border, 1))
        painter.setBrush(colors.bg3 if self.is_hovered or self.isDown() else colors.bubble)
        painter.drawRoundedRect(box, box.height() / 2, box.height() / 2)
        if self._view.state in _PROGRESS and self._view.percent is not None:
            painter.save()
            painter.setClipPath(rounded(QRectF(self.rect()), _HEIGHT / 2))
            done = self.width() * min(max(self._view.percent, 0), 100) / 100
            painter.fillRect(QRectF(0, _HEIGHT - 2, self.width(), 2), colors.track)
            painter.fillRect(QRectF(0, _HEIGHT - 2, done, 2), colors.accent)
            painter.restore()

    def _paint_sign(self, painter: QPainter, centre: QPointF) -> None:
        """A dot, or a ring that shows how far the work is."""
        colors = theme.palette()
        if self._view.state in _PROGRESS:
            share = 0.25 if self._view.percent is None else self._view.percent / 100
            box = QRectF(centre.x() - 5, centre.y() - 5, 10, 10)
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(colors.track, 2))
            painter.drawEllipse(box)
            painter.setPen(QPen(colors.accent, 2, c=Qt.PenCapStyle.FlatCap))
            painter.drawArc(box, 90 * 16, round(-360 * 16 * share))
            return
        color = self._state_color()
        painter.setPen(Qt.PenStyle.NoPen)
        if self._view.state is ModelState.GENERATING:
            painter.setBrush(with_alpha(color, 0.3))
            painter.drawEllipse(centre, 6.5, 6.5)
        painter.setBrush(color)
        radius = 3.0 if self._view.state is ModelState.GENERATING else 4.0
        painter.drawEllipse(centre, radius, radius)

    def _paint_words(self, painter: QPainter) -> None:
        colors = theme.palette()
        parts = self._parts(self.width())
        baseline = centred_baseline(theme.font("ui"), 0, _HEIGHT)
        x = draw_runs(painter, _LEFT, baseline, self._name_runs(parts)) + 12.5
        painter.fillRect(QRectF(round(x), 9, 1, _HEIGHT - 18), colors.border)
        font = theme.font("small", 600)
        draw_runs(painter, x + 12.5, baseline, [Run(parts.state, font, self._state_color())])
        arrow = QRectF(self.width() - 28, (_HEIGHT - 14) / 2, 14, 14)
        theme.draw_icon(painter, arrow, "chevron-down", colors.text3)

    def sizeHint(self) -> QSize:
        return QSize(ceil(self._width_of(self._parts())), _HEIGHT)

    def minimumSizeHint(self) -> QSize:
        return QSize(min(180, self.sizeHint().width()), _HEIGHT)
