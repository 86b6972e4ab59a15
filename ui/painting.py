"""Small drawing words that several widgets share: runs of text, hatching, bars. Knows no widget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPainterPath, QPen


@dataclass(frozen=True, slots=True)
class Run:
    """A piece of one line of plain text in one font and colour."""

    text: str
    font: QFont
    color: QColor


def runs_width(runs: Sequence[Run]) -> float:
    """Width of a line of runs, in logical pixels."""
    return sum(QFontMetricsF(run.font).horizontalAdvance(run.text) for run in runs)


def draw_runs(painter: QPainter, x: float, baseline: float, runs: Sequence[Run]) -> float:
    """Draw a line of runs from ``x``; the x where it ends."""
    for run in runs:
        painter.setFont(run.font)
        painter.setPen(run.color)
        painter.drawText(QPointF(x, baseline), run.text)
        x += QFontMetricsF(run.font).horizontalAdvance(run.text)
    return x


def draw_runs_right(painter: QPainter, right: float, baseline: float, runs: Sequence[Run]) -> float:
    """Draw a line of runs that ends at ``right``; the x where it begins."""
    left = right - runs_width(runs)
    draw_runs(painter, left, baseline, runs)
    return left


def centred_baseline(font: QFont, top: float, height: float) -> float:
    """The baseline that puts capital letters and figures in the middle of a band."""
    return top + (height + QFontMetricsF(font).capHeight()) / 2


def with_alpha(color: QColor, alpha: float) -> QColor:
    """A copy of ``color`` with ``alpha`` between 0 and 1."""
    result = QColor(color)
    result.setAlphaF(alpha)
    return result


def mixed(color: QColor, ground: QColor, share: float) -> QColor:
    """The opaque colour of ``share`` of ``color`` over ``ground``."""
    rest = 1 - share
    return QColor(
        round(color.red() * share + ground.red() * rest),
        round(color.green() * share + ground.green() * rest),
        round(color.blue() * share + ground.blue() * rest),
    )


def rounded(rect: QRectF, radius: float) -> QPainterPath:
    """A rounded rectangle as a path, for filling and clipping."""
    path = QPainterPath()
    path.addRoundedRect(rect, radius, radius)
    return path


def hatch(painter: QPainter, clip: QPainterPath, color: QColor, step: float = 4.0) -> None:
    """Fill ``clip`` with rising diagonal lines (a brush pattern would be rough on scaled screens)."""
    box = clip.boundingRect()
    painter.save()
    painter.setClipPath(clip, Qt.ClipOperation.IntersectClip)
    painter.setPen(QPen(color, 1.2))
    x = box.left() - box.height()
    while x < box.right():
        painter.drawLine(QLineF(x, box.bottom(), x + box.height(), box.top()))
        x += step
    painter.restore()


def draw_meter(painter: QPainter, rect: QRectF, share: float, color: QColor, track: QColor) -> None:
    """A thin bar with round ends, filled from the left to ``share`` (0 to 1)."""
    radius = rect.height() / 2
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(track)
    painter.drawRoundedRect(rect, radius, radius)
    share = min(max(share, 0.0), 1.0)
    if share > 0:
        painter.save()
        painter.setClipPath(rounded(rect, radius), Qt.ClipOperation.IntersectClip)
        painter.fillRect(QRectF(rect.left(), rect.top(), rect.width() * share, rect.height()), color)
        painter.restore()


def dashed_pen(color: QColor, width: float = 1.2) -> QPen:
    """The dashed line that means "in use or about to be"."""
    pen = QPen(color, width)
    pen.setDashPattern([3.0, 2.0])
    return pen
