"""The memory bar with its legend: what fills the memory, and what loading would add. Measures nothing."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.words import mark, tr
from ui import numbers, theme
from ui.gauge import Gauge
from ui.gauge_values import MemoryView
from ui.painting import Run, dashed_pen, draw_runs, draw_runs_right, hatch, rounded, with_alpha

_BAR_TOP, _BAR = 22.0, 14.0
_LEGEND_TOP, _LEGEND_ROW = 53.0, 17.0  # baseline of the first row, distance of the rows
_SMALLEST = 3.0  # a part that is there is seen
_GAP = 1.0
_TOOLTIP = mark("What fills the memory. KV is the memory of the chats (KV cache)")

NAMES = (
    mark("Weights"),
    mark("KV used"),
    mark("KV reserved"),
    mark("Working"),
    mark("Other apps"),
    mark("Free"),
)


def values_of(view: MemoryView) -> tuple[int, ...]:
    """The parts in the order of ``NAMES``, in bytes."""
    return (view.weights, view.kv_used, view.kv_reserved, view.working, view.other, view.free)


def _shown(view: MemoryView) -> tuple[object, ...]:
    """What a change must touch to be seen: hundredths of a GB, for memory is never quite still; tenths of a
    MB of what would be a zero then.
    """
    values = (view.total or 0, *values_of(view), view.pending)
    steps = [(value < 5_000_000, round(value / (1e5 if value < 5_000_000 else 1e7))) for value in values]
    return (view.label, view.total is None, *steps, *(value > 0 for value in values))


def _tooltip(view: MemoryView) -> str:
    if not view.kv_waste:
        return tr(_TOOLTIP)
    text = tr(
        "What fills the memory. KV is the memory of the chats (KV cache); "
        "{size}\u00a0MB of it are gaps in its pages"
    )
    return text.format(size=numbers.decimal(view.kv_waste / 1e6, 1))


def part_widths(parts: Sequence[int], total: int, width: float) -> list[float]:
    """Widths of ``parts`` on a bar of ``width`` for ``total`` bytes; what is there has at least 3 px.

    What the small ones gain the wide ones lose, in proportion, so that the sum stays what it is.
    """
    exact = [part * width / total if total > 0 else 0.0 for part in parts]
    widths = [max(value, _SMALLEST) if value > 0 else 0.0 for value in exact]
    excess = sum(widths) - min(sum(exact), width)
    spare = sum(value - _SMALLEST for value in widths if value > _SMALLEST)
    if excess <= 0 or spare <= 0:
        return widths
    share = min(excess / spare, 1.0)
    return [value - (value - _SMALLEST) * share if value > _SMALLEST else value for value in widths]


class MemoryBar(Gauge):
    """Weights, KV used, KV reserved (hatched), working, other apps, free; dashed: what loading would add."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(tr("Memory"), parent)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setToolTip(tr(_TOOLTIP))
        self._view = MemoryView()
        self._fit_height()

    @property
    def view(self) -> MemoryView:
        """What is shown."""
        return self._view

    def set_view(self, view: MemoryView) -> None:
        """Show ``view`` with the next tick of the clock."""
        if _shown(view) == _shown(self._view):
            return
        self._view = view
        self.setToolTip(_tooltip(view))
        self.setAccessibleName(tr("Memory, {label}").format(label=view.label))
        self._fit_height()
        self.mark_changed()

    @property
    def _is_loaded(self) -> bool:
        return self._view.weights > 0

    def _fit_height(self) -> None:
        self.setFixedHeight(77 if self._is_loaded else 60)

    def _texts(self) -> tuple[tuple[str, ...], str, str]:
        """Texts of the parts, of what is used and of the total; together they add up as written."""
        values = values_of(self._view)
        parts, total = numbers.gigabyte_parts(values)
        used = numbers.gigabytes(sum(values[:-1]))
        return parts, used, total

    def sentence(self) -> str:
        view = self._view
        if view.total is None:
            return tr("Memory not known yet")
        parts, used, total = self._texts()
        shown = zip(NAMES, parts, values_of(view), strict=True)
        words = [f"{tr(name)} {text}" for name, text, value in shown if self._is_loaded or value]
        if view.pending:
            more = tr("{size} more after Apply") if self._is_loaded else tr("{size} more when loaded")
            words.append(more.format(size=numbers.gigabytes(view.pending)))
        result = tr("{label}: {used} of {total} gigabytes. {parts}")
        return result.format(label=view.label, used=used, total=total, parts=", ".join(words))

    def paint(self, painter: QPainter) -> None:
        self._paint_header(painter)
        self._paint_bar(painter)
        if self._view.total is not None:
            self._paint_legend(painter)

    def _paint_header(self, painter: QPainter) -> None:
        colors, view = theme.palette(), self._view
        draw_runs(painter, 0, 13, [Run(view.label, theme.font("small", 500), colors.text2)])
        strong = theme.font("small", 600)
        if view.total is None:
            draw_runs_right(painter, self.span, 13, [Run(numbers.UNKNOWN, strong, colors.text1)])
            return
        _, used, total = self._texts()
        words = tr("{used} of {total}\u00a0GB").format(used=used, total=total)
        runs = [Run(words, strong, colors.text1)]
        if view.pending > 0:
            more = tr("+{size} after Apply") if self._is_loaded else tr("+{size} when loaded")
            more = more.format(size=numbers.gigabytes(view.pending))
            runs.append(Run(f"   {more}", theme.font("micro"), colors.text3))
        draw_runs_right(painter, self.span, 13, runs)

    def _part_colors(self) -> tuple[QColor, ...]:
        colors = theme.palette()
        return (
            colors.mem_weights,
            colors.mem_kv,
            colors.mem_kv,
            colors.mem_working,
            colors.mem_other,
            colors.mem_free,
        )

    def _paint_bar(self, painter: QPainter) -> None:
        colors, view = theme.palette(), self._view
        bar = QRectF(0, _BAR_TOP, self.span, _BAR)
        painter.save()
        painter.setClipPath(rounded(bar, 4))
        painter.fillRect(bar, colors.mem_free)
        used_right = 0.0
        if view.total:
            widths = part_widths(values_of(view)[:-1], view.total, bar.width())
            for name, color, width in zip(NAMES, self._part_colors(), widths, strict=False):
                self._paint_part(painter, QRectF(used_right, _BAR_TOP, width, _BAR), name, color)
                used_right += width
        painter.restore()
        if view.total and view.pending > 0:
            width = max(view.pending / view.total * bar.width(), 2 * _SMALLEST)
            width = min(width, bar.width() - used_right)
            self._paint_pending(painter, QRectF(used_right, _BAR_TOP, width, _BAR))

    def _paint_part(self, painter: QPainter, rect: QRectF, name: str, color: QColor) -> None:
        if rect.width() <= 0:
            return
        inner = rect.adjusted(0, 0, -_GAP, 0)
        if name == "KV reserved":
            painter.fillRect(inner, with_alpha(color, 0.3))
            hatch(painter, rounded(inner, 0), color, 3.6)
        else:
            painter.fillRect(inner, color)
        painter.fillRect(QRectF(inner.right(), rect.top(), _GAP, rect.height()), theme.palette().bg1)

    def _paint_pending(self, painter: QPainter, rect: QRectF) -> None:
        accent = theme.palette().accent
        painter.setPen(dashed_pen(accent))
        painter.setBrush(with_alpha(accent, 0.2))
        painter.drawRoundedRect(rect.adjusted(1.5, 0.6, -0.6, -0.6), 3, 3)

    def _paint_legend(self, painter: QPainter) -> None:
        parts, _, _ = self._texts()
        shown = [
            (name, text, color)
            for name, text, color, value in zip(
                NAMES, parts, self._part_colors(), values_of(self._view), strict=True
            )
            if self._is_loaded or value
        ]
        lefts = self._columns([f"{tr(name)} {text}" for name, text, _ in shown])
        for index, (name, text, color) in enumerate(shown):
            baseline = _LEGEND_TOP + _LEGEND_ROW * (index // 3)
            self._paint_entry(painter, lefts[index % 3], baseline, name, text, color)

    def _columns(self, texts: Sequence[str]) -> list[float]:
        """Left edges of three columns, as even as their widest entries allow; the last ends on the right."""
        metrics = QFontMetricsF(theme.font("micro", 600))
        widths = [
            max((metrics.horizontalAdvance(text) for text in texts[column::3]), default=0.0) + 14
            for column in range(3)
        ]
        if len(texts) <= 3:
            return [0.0, widths[0] + 20, widths[0] + widths[1] + 40]
        gap = max((self.span - sum(widths)) / 2, 4.0)
        return [0.0, widths[0] + gap, widths[0] + widths[1] + 2 * gap]

    def _paint_entry(
        self, painter: QPainter, left: float, baseline: float, name: str, text: str, color: QColor
    ) -> None:
        colors = theme.palette()
        swatch = QRectF(left, baseline - 8, 8, 8)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(color)
        if name == "KV reserved":
            painter.setBrush(with_alpha(color, 0.3))
            painter.drawRoundedRect(swatch, 2, 2)
            hatch(painter, rounded(swatch, 2), color, 2.8)
        elif name == "Free":
            painter.setPen(QPen(colors.control, 1))
            painter.drawRoundedRect(swatch.adjusted(0.5, 0.5, -0.5, -0.5), 2, 2)
        else:
            painter.drawRoundedRect(swatch, 2, 2)
        draw_runs(
            painter,
            left + 14,
            baseline,
            [
                Run(f"{tr(name)} ", theme.font("micro"), colors.text3),
                Run(text, theme.font("micro", 600), colors.text2),
            ],
        )

    def sizeHint(self) -> QSize:
        return QSize(328 + 2 * self.SIDE, self.minimumHeight())
