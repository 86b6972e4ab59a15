"""How a row of a list of models is laid out and painted. Knows no list: a place, a row, a palette."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPen
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem

from ui import theme
from ui.fit import FIT_ICONS, FIT_TOKENS
from ui.label import one_line
from ui.library_values import FitMark
from ui.painting import Run, centred_baseline, draw_runs

if TYPE_CHECKING:
    from ui.library_rows import Row, RowList

ROW_HEIGHT = 64
_PAD, _GAP = 16.0, 16.0
_MORE_SIZE, _BUTTON_HEIGHT = 28.0, 32.0
_CHIP_HEIGHT = 22.0
_LEAST_TEXT = 170.0  # px of the title below which the fit mark gives way
ROW_ROLE = Qt.ItemDataRole.UserRole + 1
MORE = "more"


@dataclass(frozen=True, slots=True)
class Places:
    """Where the parts of one row are; None for a part it does not have."""

    text: QRectF
    fit: QRectF | None
    button: QRectF | None
    more: QRectF | None


def place_row(box: QRectF, row: Row, slot: float) -> Places:
    """Lay out a row in ``box``: the text takes what fit mark and a button in its ``slot`` leave."""
    middle, right = box.center().y(), box.right() - _PAD
    more = button = fit = None
    if row.menu:
        more = QRectF(right - _MORE_SIZE, middle - _MORE_SIZE / 2, _MORE_SIZE, _MORE_SIZE)
        right = more.left() - 8
    if width := button_width(row):
        button = QRectF(right - width, middle - _BUTTON_HEIGHT / 2, width, _BUTTON_HEIGHT)
    if slot and not row.warning:
        right -= max(slot, width) + _GAP
    left = box.left() + _PAD + (28 if row.icon else 0)
    if row.fit.title and not row.warning:
        column = min(256.0, max(150.0, (right - left) * 0.42))
        if right - column - _GAP - left >= _LEAST_TEXT:
            fit = QRectF(right - column, box.top() + 10, column, box.height() - 20)
            right = fit.left() - _GAP
    return Places(QRectF(left, box.top(), right - left, box.height()), fit, button, more)


def button_width(row: Row) -> float:
    """Of a row's button, or of the words in its place; 0 where it has neither."""
    if row.action is None and not row.state:
        return 0.0
    text = row.action.label if row.action else row.state
    has_icon = bool(row.action and row.action.icon) or not row.action
    width = QFontMetricsF(theme.font("ui", 600)).horizontalAdvance(text)
    return width + (24 if has_icon else 0) + 24


class RowDelegate(QStyledItemDelegate):
    """Paints the rows of a ``RowList``."""

    def __init__(self, view: RowList) -> None:
        super().__init__(view)
        self._view = view

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        row: Row = index.data(ROW_ROLE)
        box = QRectF(option.rect)
        places = place_row(box, row, self._view.model_.slot)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._paint_ground(painter, option, box, index.row() == self._view.model_.rowCount() - 1)
        self._paint_text(painter, places.text, row)
        if places.fit is not None:
            paint_fit(painter, places.fit, row.fit)
        hovered = self._view.hovered[1] if self._view.hovered[0] == index.row() else ""
        if places.button is not None:
            self._paint_button(painter, places.button, row, hovered)
        if places.more is not None:
            self._paint_more(painter, places.more, hovered == MORE)
        painter.restore()

    def _paint_ground(
        self, painter: QPainter, option: QStyleOptionViewItem, box: QRectF, is_last: bool
    ) -> None:
        colors = theme.palette()
        body = box.adjusted(4, 2, -4, -2)
        is_current = bool(option.state & QStyle.StateFlag.State_Selected) and self._view.hasFocus()
        if is_current or option.state & QStyle.StateFlag.State_MouseOver:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colors.bg3 if is_current else colors.bg2)
            painter.drawRoundedRect(body, 8, 8)
        if is_current:
            theme.draw_focus_ring(painter, body, 8)
        if not is_last:
            line = QRectF(box.left() + _PAD, box.bottom() - 1, box.width() - 2 * _PAD, 1)
            painter.fillRect(line, colors.line)

    def _paint_text(self, painter: QPainter, box: QRectF, row: Row) -> None:
        colors = theme.palette()
        top = box.top() + 11
        title, small = theme.font("ui", 600), theme.font("small")
        if row.icon:
            place = QRectF(box.left() - 28, box.center().y() - 9, 18, 18)
            theme.draw_icon(painter, place, row.icon, colors.text3)
        tag_width = (
            min(QFontMetricsF(small).horizontalAdvance(row.tag) + 10, box.width() / 2) if row.tag else 0
        )
        ink = colors.text2 if row.warning else colors.text1
        end = _draw_elided(painter, box.left(), top, box.width() - tag_width, 20, row.title, title, ink)
        if row.tag:
            _draw_elided(painter, end + 10, top, box.right() - end - 10, 20, row.tag, small, colors.text3)
        left = box.left()
        if row.warning:
            theme.draw_icon(painter, QRectF(left, top + 23, 14, 14), "triangle-alert", colors.warn)
            left += 20
        ink = colors.warn if row.warning else colors.text3
        _draw_elided(painter, left, top + 22, box.right() - left, 16, row.warning or row.detail, small, ink)

    def _paint_button(self, painter: QPainter, box: QRectF, row: Row, hovered: str) -> None:
        colors = theme.palette()
        font = theme.font("ui", 600)
        if row.action is None:
            ink = colors.ok if row.is_loaded else colors.text2
            place = QRectF(box.left() + 8, box.center().y() - 8, 16, 16)
            theme.draw_icon(painter, place, "circle-check" if row.is_loaded else "download", ink)
            baseline = centred_baseline(font, box.top(), box.height())
            draw_runs(painter, box.left() + 32, baseline, [Run(row.state, font, ink)])
            return
        is_hot = hovered == row.action.key
        if row.action.is_primary:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colors.accent_hi if is_hot else colors.accent)
        else:
            painter.setPen(QPen(colors.border, 1))
            painter.setBrush(colors.bg3 if is_hot else colors.bg2)
        painter.drawRoundedRect(box.adjusted(0.5, 0.5, -0.5, -0.5), 8, 8)
        ink = colors.accent_ink if row.action.is_primary else colors.text1
        left = box.left() + 12
        if row.action.icon:
            theme.draw_icon(painter, QRectF(left, box.center().y() - 8, 16, 16), row.action.icon, ink)
            left += 24
        baseline = centred_baseline(font, box.top(), box.height())
        draw_runs(painter, left, baseline, [Run(row.action.label, font, ink)])

    def _paint_more(self, painter: QPainter, box: QRectF, is_hot: bool) -> None:
        colors = theme.palette()
        if is_hot:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colors.bg3)
            painter.drawRoundedRect(box, 8, 8)
        theme.draw_icon(
            painter, box.adjusted(6, 6, -6, -6), "ellipsis", colors.text1 if is_hot else colors.text2
        )

    def sizeHint(self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex) -> QSize:
        return QSize(300, ROW_HEIGHT)


def paint_fit(painter: QPainter, box: QRectF, fit: FitMark) -> None:
    """The chip of a fit mark, and the predicted speed below it."""
    colors = theme.palette()
    token = FIT_TOKENS.get(fit.kind, "")
    ink = getattr(colors, token) if token else colors.text3
    font = theme.font("small", 600)
    has_icon = bool(token)
    wanted = QFontMetricsF(font).horizontalAdvance(fit.title) + (34 if has_icon else 18)
    width = min(wanted, box.width())
    chip = QRectF(box.left(), box.top(), width, _CHIP_HEIGHT)
    if has_icon:
        painter.setPen(QPen(getattr(colors, f"{token}_line"), 1))
        painter.setBrush(getattr(colors, f"{token}_soft"))
        painter.drawRoundedRect(chip.adjusted(0.5, 0.5, -0.5, -0.5), _CHIP_HEIGHT / 2, _CHIP_HEIGHT / 2)
        theme.draw_icon(
            painter, QRectF(chip.left() + 8, chip.center().y() - 7, 14, 14), FIT_ICONS[fit.kind], ink
        )
    left = chip.left() + (26 if has_icon else 0)
    _draw_elided(painter, left, chip.top(), chip.right() - left - 4, _CHIP_HEIGHT, fit.title, font, ink)
    if fit.speed:
        top, left = chip.bottom() + 3, chip.left() + 2
        end = _draw_elided(painter, left, top, box.width(), 16, fit.speed, font, colors.text1)
        rest = box.right() - end - 5
        _draw_elided(painter, end + 5, top, rest, 16, fit.trust, theme.font("small"), colors.text3)


def _draw_elided(
    painter: QPainter, x: float, top: float, width: float, height: float, text: str, font: QFont, ink: QColor
) -> float:
    """Draw one line that ends with "…" where it is too long; the x where it ends."""
    if width <= 0 or not text:
        return x
    short = QFontMetricsF(font).elidedText(one_line(text), Qt.TextElideMode.ElideRight, width)
    return draw_runs(painter, x, centred_baseline(font, top, height), [Run(short, font, ink)])
