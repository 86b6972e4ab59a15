"""The small parts of the composer: Send/Stop, the counter with its ring, the row of hints."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from PySide6.QtCore import QPoint, QRectF, QSize, Qt
from PySide6.QtGui import QEnterEvent, QFontMetricsF, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QAbstractButton, QSizePolicy, QWidget

from engine.words import tr
from ui import numbers, theme
from ui.chat_values import CounterView
from ui.painting import Run, centred_baseline, draw_runs, runs_width

GUARD_S = 0.25
NEAR_FULL = 0.8
_CENTER = int(Qt.AlignmentFlag.AlignVCenter)


class SendButton(QAbstractButton):
    """One place, two roles: Send and Stop. A click within 250 ms of a change of role is ignored, so that
    none lands on the other role. ``clicked`` comes only for clicks that count.
    """

    def __init__(self, parent: QWidget, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(parent)
        self._clock = clock
        self._is_stop = False
        self._changed_s = clock() - GUARD_S
        self.setFixedSize(32, 32)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)  # a press leaves the keyboard to the composer
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.set_stop(False)
        self._name()
        theme.notifier().changed.connect(self.update)

    @property
    def is_stop(self) -> bool:
        """Whether it stops now."""
        return self._is_stop

    def set_stop(self, is_stop: bool) -> None:
        """Change the role."""
        if is_stop != self._is_stop:
            self._is_stop = is_stop
            self.guard()
            self._name()

    def guard(self) -> None:
        """Ignore clicks for 250 ms from now on."""
        self._changed_s = self._clock()

    def _name(self) -> None:
        self.setAccessibleName(tr("Stop") if self._is_stop else tr("Send"))
        self.setToolTip(tr("Stop (Esc)") if self._is_stop else tr("Send (Enter)"))
        self.update()

    def enterEvent(self, event: QEnterEvent) -> None:
        self.update()
        super().enterEvent(event)

    def hitButton(self, pos: QPoint) -> bool:
        if self._clock() - self._changed_s < GUARD_S:
            return False
        return super().hitButton(pos)

    def paintEvent(self, event: QPaintEvent) -> None:
        colors = theme.palette()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        box = QRectF(self.rect())
        if self._is_stop:
            painter.setBrush(colors.text2 if self.underMouse() else colors.text1)
            painter.drawRoundedRect(box, 8, 8)
            painter.setBrush(colors.bg0)
            painter.drawRoundedRect(QRectF(11, 11, 10, 10), 2, 2)
        else:
            is_on = self.isEnabled()
            ground = colors.accent_hi if self.underMouse() else colors.accent
            painter.setBrush(ground if is_on else colors.bg3)
            painter.drawRoundedRect(box, 8, 8)
            ink = colors.accent_ink if is_on else colors.text3
            theme.draw_icon(painter, QRectF(7, 7, 18, 18), "arrow-up", ink)
        if self.hasFocus():
            ring = QPen(colors.bg2, 1.5)
            painter.setPen(ring)
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(box.adjusted(2.5, 2.5, -2.5, -2.5), 6, 6)
            theme.draw_focus_ring(painter, box, 8)


class Counter(QWidget):
    """Tokens of this chat with the typed text, of the context: a ring and two numbers."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._view = CounterView(None, None)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        theme.notifier().changed.connect(self.update)
        self.set_view(self._view)

    @property
    def excess(self) -> int:
        """Tokens that are too many."""
        tokens, context = self._view.tokens, self._view.context
        return max(0, tokens - context) if tokens is not None and context else 0

    def set_view(self, view: CounterView) -> None:
        """Show other numbers; without a context there is nothing to show."""
        self._view = view
        used, context = numbers.count(view.tokens), numbers.count(view.context)
        self.setAccessibleName(tr("{used} of {context} tokens").format(used=used, context=context))
        words = tr("{used} of {context} tokens of the context, with what you typed")
        self.setToolTip(words.format(used=used, context=context))
        self.setVisible(bool(view.context))
        self.updateGeometry()
        self.update()

    @property
    def _share(self) -> float:
        tokens, context = self._view.tokens, self._view.context
        return (tokens or 0) / context if context else 0.0

    def _runs(self) -> list[Run]:
        colors = theme.palette()
        value = colors.bad if self.excess else colors.warn if self._share >= NEAR_FULL else colors.text2
        rest = Run(f" / {numbers.count(self._view.context)}", theme.font("ui", 400), colors.text3)
        return [Run(numbers.count(self._view.tokens), theme.font("ui", 600), value), rest]

    def sizeHint(self) -> QSize:
        return QSize(round(runs_width(self._runs())) + 24, 32)

    def paintEvent(self, event: QPaintEvent) -> None:
        colors = theme.palette()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        ring = QRectF(2, self.height() / 2 - 6, 12, 12)
        painter.setPen(QPen(colors.track, 2.5))
        painter.drawEllipse(ring)
        share = min(1.0, self._share)
        color = colors.bad if self.excess else colors.warn if share >= NEAR_FULL else colors.accent
        painter.setPen(QPen(color, 2.5, Qt.PenStyle.SolidLine, Qt.PenCapStyle.FlatCap))
        painter.drawArc(ring, 90 * 16, -round(share * 360 * 16))
        draw_runs(painter, 24, centred_baseline(theme.font("ui"), 0, self.height()), self._runs())


class HintRow(QWidget):
    """Keys and what they do, or in their place one sentence about what is wrong."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._hints: Sequence[tuple[str, str]] = ()
        self._aside = ""
        self._error = ""
        self.setFixedHeight(22)
        theme.notifier().changed.connect(self.update)

    def set_hints(self, hints: Sequence[tuple[str, str]], aside: str) -> None:
        """Pairs of key and verb on the left, one sentence on the right where there is room."""
        self._hints, self._aside = tuple(hints), aside
        self._announce()

    def set_error(self, sentence: str) -> None:
        """Show a sentence in red in place of the hints; "" brings them back."""
        self._error = sentence
        self._announce()

    @property
    def error(self) -> str:
        """The sentence that is shown, or ""."""
        return self._error

    def _announce(self) -> None:
        words = ", ".join(f"{key}: {verb}" for key, verb in self._hints)
        self.setAccessibleName(self._error or words)
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if self._error:
            self._paint_error(painter)
            return
        colors = theme.palette()
        font = theme.font("micro", 500)
        metrics = QFontMetricsF(font)
        baseline = centred_baseline(font, 0, self.height())
        left = 4.0
        for key, verb in self._hints:
            width = metrics.horizontalAdvance(key)
            painter.setPen(QPen(colors.border, 1))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(QRectF(left + 0.5, self.height() / 2 - 8.5, width + 10, 17), 4, 4)
            runs = [Run(key, font, colors.text2), Run(verb, font, colors.text3)]
            draw_runs(painter, left + 5.5, baseline, runs[:1])
            left = draw_runs(painter, left + width + 18, baseline, runs[1:]) + 14
        aside = metrics.horizontalAdvance(self._aside)
        if self.width() - aside - 4 > left + 16:
            draw_runs(painter, self.width() - aside - 4, baseline, [Run(self._aside, font, colors.text3)])

    def _paint_error(self, painter: QPainter) -> None:
        color = theme.palette().bad
        theme.draw_icon(painter, QRectF(2, self.height() / 2 - 7, 14, 14), "circle-x", color)
        font = theme.font("small", 500)
        painter.setFont(font)
        painter.setPen(color)
        room = QRectF(22, 0, self.width() - 22, self.height())
        words = QFontMetricsF(font).elidedText(self._error, Qt.TextElideMode.ElideRight, room.width())
        painter.drawText(room, _CENTER, words)
