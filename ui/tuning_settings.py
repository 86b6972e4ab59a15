"""The settings of the Tuning panel: precision, context, KV precision, drafting, the split between devices.

Knows no engine: views come in, the user's choices leave as signals. Nothing here loads anything.
"""

from __future__ import annotations

from math import ceil

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QFontMetricsF, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QVBoxLayout, QWidget

from engine.words import mark, tr
from ui import theme
from ui.context_slider import ContextSlider
from ui.controls import ThemedButton
from ui.gauge import Gauge
from ui.label import Label, plain_tooltip
from ui.layer_slider import LayerSlider
from ui.painting import Run, centred_baseline, draw_runs
from ui.segmented import Choice, Segmented
from ui.tuning_values import DraftingView, FormatChoice, OptionChoice, TuningView

_RING = Gauge.SIDE  # controls stand as far in as what the gauges paint
_NAMES = 80  # px for the names of the rows
_TOP, _GAP = 4, 6  # px above and between the rows
_DRAFTING = mark("Drafting (speculative decoding): tokens are guessed and checked several at a time")


class TuningSettings(QWidget):
    """The controls that wait for Apply, and drafting, which does not where nothing has to be loaded."""

    format_chosen = Signal(str)
    context_chosen = Signal(int)
    kv_chosen = Signal(str)
    drafting_chosen = Signal(str)
    draft_model_clicked = Signal()
    layers_chosen = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.formats = Segmented(tr("Quantization"))
        self.context = ContextSlider()
        self.kv = Segmented(tr("KV precision"))
        self.drafting = Segmented(tr("Drafting"))
        self.draft_model = DraftModelButton()
        self.layers = LayerSlider()
        self._has_notes = True
        self._formats: tuple[FormatChoice, ...] = ()
        self._lay_out()
        self.formats.chosen.connect(self.format_chosen)
        self.context.context_chosen.connect(self.context_chosen)
        self.kv.chosen.connect(self.kv_chosen)
        self.drafting.chosen.connect(self.drafting_chosen)
        self.draft_model.clicked.connect(self.draft_model_clicked)
        self.layers.layers_chosen.connect(self.layers_chosen)

    def set_view(self, view: TuningView) -> None:
        """Show the settings; emits nothing."""
        self._formats = view.formats
        self._show_formats(view.chosen_format, view.loaded_format)
        self.context.set_view(view)
        self._kv_row.setVisible(bool(view.kv))
        self.kv.set_choices([_option(each) for each in view.kv], view.chosen_kv, view.loaded_kv)
        self._show_drafting(view.drafting)
        self._layers_row.setVisible(view.gpu_layers is not None)
        if view.gpu_layers is not None:
            self.layers.set_view(view.gpu_layers)

    def set_notes_shown(self, has_notes: bool) -> None:
        """Show a format's quality under it, or only in its tooltip and name: as there is room."""
        if has_notes != self._has_notes:
            self._has_notes = has_notes
            loaded = next((each.choice.key for each in self.formats.segments if each.is_loaded), "")
            self._show_formats(self.formats.chosen_key or "", loaded)

    @property
    def notes_height(self) -> int:
        """What showing the quality under every format adds to the height, whether it is shown or not."""
        return self.formats.notes_height if any(each.quality for each in self._formats) else 0

    @property
    def changing(self) -> tuple[QWidget, ...]:
        """What changes its height with its view, the innermost first."""
        return self.formats, self._formats_holder

    @property
    def least_height(self) -> int:
        """How high all is without notes, whether there are any or not."""
        formats = self.formats.sizeHint().height() - (self.notes_height if self._has_notes else 0)
        rows = (self.context, self._kv_row, self._drafting_row, self._draft_row, self._layers_row)
        return _TOP + formats + sum(row.sizeHint().height() + _GAP for row in rows if not row.isHidden())

    def _show_formats(self, chosen: str, loaded: str) -> None:
        choices = [_format(each) for each in self._formats]
        self.formats.set_choices(choices, chosen, loaded, has_notes=self._has_notes)

    def _show_drafting(self, view: DraftingView | None) -> None:
        self._drafting_row.setVisible(view is not None)
        self._draft_row.setVisible(view is not None and bool(view.model))
        if view is not None:
            in_use = view.in_use if view.in_use != view.chosen else None
            self.drafting.set_choices([_option(each) for each in view.choices], view.chosen, in_use)
            self.draft_model.set_model(view.model, view.model_tooltip)

    def _lay_out(self) -> None:
        kv_words = tr("Bits of a number in the context's memory (KV cache)")
        self._kv_row = _row(tr("KV precision"), kv_words, self.kv)
        self._drafting_row = _row(tr("Drafting"), tr(_DRAFTING), self.drafting)
        self._draft_row = _row(tr("Draft model"), tr("The model that guesses tokens"), self.draft_model)
        layers_words = tr("Layers of the model that lie on the GPU")
        self._layers_row = _row(tr("GPU layers"), layers_words, self.layers)
        holder = self._formats_holder = QWidget()
        inset = QHBoxLayout(holder)
        inset.setContentsMargins(_RING, 0, _RING, 0)
        inset.addWidget(self.formats)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, _TOP, 0, 0)
        column.setSpacing(_GAP)
        for widget in (holder, self.context, self._kv_row, self._drafting_row, self._draft_row):
            column.addWidget(widget)
        column.addWidget(self._layers_row)


class DraftModelButton(ThemedButton):
    """The name of the draft model, shortened where it is long; pressed, another can be chosen."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def set_model(self, words: str, tooltip: str) -> None:
        """Show ``words``, a name and a size."""
        self.setText(words)
        name = tr("Draft model {model}. Press to change").format(model=words.replace(" · ", ", "))
        self.setAccessibleName(name)
        self.setToolTip(plain_tooltip(tooltip))
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        colors = theme.palette()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(colors.well_line, 1))
        painter.setBrush(colors.bg3 if self.is_hovered else colors.well)
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 8, 8)
        font = theme.font("small", 500)
        room = self.width() - 36
        name, _, size = self.text().rpartition(" · ")
        rest = f" · {size}"
        metrics = QFontMetricsF(font)
        middle = Qt.TextElideMode.ElideMiddle
        short = metrics.elidedText(name, middle, room - ceil(metrics.horizontalAdvance(rest)))
        runs = [Run(short, font, colors.text1), Run(rest, font, colors.text2)]
        draw_runs(painter, 10, centred_baseline(font, 0, self.height()), runs)
        place = QRectF(self.width() - 22, (self.height() - 14) / 2, 14, 14)
        theme.draw_icon(painter, place, "chevron-down", colors.text2)
        if self.has_ring:
            theme.draw_focus_ring(painter, self.rect(), 8)

    def sizeHint(self) -> QSize:
        return QSize(240, 28)


def _row(name: str, tooltip: str, control: QWidget) -> QWidget:
    row = QWidget()
    line = QHBoxLayout(row)
    line.setContentsMargins(_RING, 0, _RING, 0)
    line.setSpacing(6)
    label = Label(name, "small", "text2", 500)
    label.setFixedWidth(_NAMES)
    label.setToolTip(plain_tooltip(tooltip))
    line.addWidget(label)
    line.addWidget(control)
    return row


def _format(item: FormatChoice) -> Choice:
    return Choice(
        item.key, item.label, item.detail, item.fit, item.tooltip, item.quality, item.quality_tooltip
    )


def _option(item: OptionChoice) -> Choice:
    return Choice(item.key, item.label, "", item.fit, item.tooltip)
