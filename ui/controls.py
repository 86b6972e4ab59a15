"""Buttons in the roles of the design. Know no feature: they only replace the painting of Qt's own buttons."""

from __future__ import annotations

from math import ceil

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import (
    QColor,
    QEnterEvent,
    QFocusEvent,
    QFontMetricsF,
    QKeyEvent,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPen,
)
from PySide6.QtWidgets import QAbstractButton, QSizePolicy, QWidget

from ui import theme
from ui.gauge import is_keyboard_focus
from ui.painting import Run, centred_baseline, draw_runs, mixed, rounded, runs_width, with_alpha

ROLES = ("primary", "secondary", "ghost")
_RADIUS = 8.0
_ICON = 16
_PADDING = 12
_GAP = 8


class ThemedButton(QAbstractButton):
    """A button that shows a focus ring only to the keyboard, takes Enter, and follows the theme."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._has_ring = False
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        theme.notifier().changed.connect(self.update)

    @property
    def has_ring(self) -> bool:
        """Whether the ring of keyboard focus is shown."""
        return self._has_ring and self.hasFocus()

    @property
    def is_hovered(self) -> bool:
        """Whether the pointer is over a button that can be pressed."""
        return self.isEnabled() and self.underMouse()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in {Qt.Key.Key_Return, Qt.Key.Key_Enter} and not event.modifiers():
            self.click()
            return
        super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        self._has_ring = is_keyboard_focus(event, self._has_ring)
        super().focusInEvent(event)

    def enterEvent(self, event: QEnterEvent) -> None:
        self.update()
        super().enterEvent(event)


class Button(ThemedButton):
    """A button with words. Roles: primary (accent ground), secondary (bordered) and ghost (bare).

    ``detail`` follows the text in normal weight, as "(reload 2 s)"; ``progress`` (0 to 1) turns the button
    into a bar that is filled so far.
    """

    def __init__(
        self,
        text: str = "",
        icon: str | None = None,
        role: str = "secondary",
        *,
        is_small: bool = False,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        if role not in ROLES:
            raise ValueError(f"no such role: {role}")
        self._role = role
        self._icon_name = icon
        self._is_small = is_small
        self._detail = ""
        self._progress: float | None = None
        self.setText(text)
        self.setSizePolicy(QSizePolicy.Policy.Minimum, QSizePolicy.Policy.Fixed)

    def set_detail(self, detail: str) -> None:
        """Words after the text, in normal weight."""
        if detail != self._detail:
            self._detail = detail
            self.updateGeometry()
            self.update()

    def set_icon(self, icon: str | None) -> None:
        """Change the icon before the text."""
        if icon != self._icon_name:
            self._icon_name = icon
            self.updateGeometry()
            self.update()

    def set_role(self, role: str) -> None:
        """Look like another role."""
        if role != self._role:
            self._role = role
            self.update()

    def set_progress(self, progress: float | None) -> None:
        """Fill the ground up to ``progress``, or show a plain button for None."""
        self._progress = progress
        self.update()

    def _runs(self) -> list[Run]:
        ink = self._ink()
        runs = [Run(self.text(), theme.font("small" if self._is_small else "ui", 600), ink)]
        if self._detail:
            runs.append(Run(f"  {self._detail}", theme.font("ui", 400), ink))
        return runs

    def _ink(self) -> QColor:
        colors = theme.palette()
        if self._progress is not None:
            return colors.text1
        if not self.isEnabled():
            return colors.text3
        if self._role == "ghost" and not self.is_hovered:
            return colors.text2
        return colors.accent_ink if self._role == "primary" else colors.text1

    def _ground(self) -> tuple[QColor | None, QColor | None]:
        """Fill and border."""
        colors = theme.palette()
        is_down = self.isDown() and self.isEnabled()
        if self._role == "primary":
            if not self.isEnabled() or self._progress is not None:
                return colors.bg3, None
            return (colors.accent_hi if self.is_hovered or is_down else colors.accent), None
        if self._role == "ghost":
            return (colors.bg3 if self.is_hovered or is_down else None), None
        return (colors.bg3 if self.is_hovered or is_down else colors.bg2), colors.border

    def _content_width(self) -> float:
        icon = _ICON + _GAP if self._icon_name else 0
        return runs_width(self._runs()) + icon

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        box = QRectF(self.rect())
        if self.has_ring:
            theme.draw_focus_ring(painter, box, _RADIUS)
            box.adjust(4, 4, -4, -4)
        fill, border = self._ground()
        radius = _RADIUS - (3 if self.has_ring else 0)
        if border is not None:
            painter.setPen(QPen(border, 1))
            box.adjust(0.5, 0.5, -0.5, -0.5)
        else:
            painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(fill if fill is not None else Qt.BrushStyle.NoBrush)
        if fill is not None or border is not None:
            painter.drawRoundedRect(box, radius, radius)
        self._paint_progress(painter, rounded(box, radius))
        self._paint_content(painter)

    def _paint_progress(self, painter: QPainter, shape: QPainterPath) -> None:
        if self._progress is None:
            return
        colors = theme.palette()
        box = shape.boundingRect()
        share = min(max(self._progress, 0.0), 1.0)
        painter.save()
        painter.setClipPath(shape, Qt.ClipOperation.IntersectClip)
        done = QRectF(box.left(), box.top(), box.width() * share, box.height())
        painter.fillRect(done, mixed(colors.accent, colors.bg3, 0.28))
        painter.restore()

    def _paint_content(self, painter: QPainter) -> None:
        x = max((self.width() - self._content_width()) / 2, 4.0)
        if self._icon_name:
            theme.draw_icon(
                painter, QRectF(x, (self.height() - _ICON) / 2, _ICON, _ICON), self._icon_name, self._ink()
            )
            x += _ICON + _GAP
        runs = self._runs()
        draw_runs(painter, x, centred_baseline(runs[0].font, 0, self.height()), runs)

    def sizeHint(self) -> QSize:
        padding = 10 if self._is_small else _PADDING
        return QSize(ceil(self._content_width()) + 2 * padding, 28 if self._is_small else 32)

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()


class IconButton(ThemedButton):
    """A square button with an icon and no words; ``tooltip`` says what it does and is its accessible name.

    Checked, it stands on a tinted ground, as the button of a panel that is open. ``text`` (a few figures) can
    take the icon's place.
    """

    def __init__(
        self,
        icon: str,
        tooltip: str,
        *,
        size: int = 32,
        icon_size: int = 18,
        is_checkable: bool = False,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._icon_name = icon
        self._size = size
        self._icon_size = icon_size
        self.setCheckable(is_checkable)
        self.setToolTip(tooltip)
        self.setAccessibleName(tooltip.split(" (")[0])
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def set_icon(self, icon: str) -> None:
        """Show another icon."""
        self._icon_name = icon
        self.update()

    def set_words(self, text: str) -> None:
        """Show ``text`` in place of the icon; empty brings the icon back."""
        if text != self.text():
            self.setText(text)
            self.updateGeometry()

    def _ink(self) -> QColor:
        colors = theme.palette()
        if not self.isEnabled():
            return with_alpha(colors.text3, 0.6)
        if self.isChecked():
            return colors.accent
        return colors.text1 if self.is_hovered else colors.text2

    def paintEvent(self, event: QPaintEvent) -> None:
        colors = theme.palette()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        box = QRectF(self.rect())
        if self.isChecked() or self.is_hovered or self.isDown():
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colors.accent_soft if self.isChecked() else colors.bg3)
            painter.drawRoundedRect(box, _RADIUS, _RADIUS)
        if self.text():
            font = theme.font("small", 600)
            run = Run(self.text(), font, self._ink())
            x = (box.width() - runs_width([run])) / 2
            draw_runs(painter, x, centred_baseline(font, 0, box.height()), [run])
        else:
            side = self._icon_size
            target = QRectF((box.width() - side) / 2, (box.height() - side) / 2, side, side)
            theme.draw_icon(painter, target, self._icon_name, self._ink())
        if self.has_ring:
            theme.draw_focus_ring(painter, box, _RADIUS)

    def sizeHint(self) -> QSize:
        if not self.text():
            return QSize(self._size, self._size)
        words = ceil(QFontMetricsF(theme.font("small", 600)).horizontalAdvance(self.text()))
        return QSize(max(self._size, words + 20), self._size)
