"""``python -m tests.shots FOLDER``: every designed state of the window as PNG, at its sizes, both themes.

Exits 1 where a text is cut off or a glyph is missing. Texts are checked as they are painted: every call of
``QPainter.drawText`` and ``QTextLayout.draw`` is watched, so that a widget cannot hide what it draws.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QLocale, QPointF, QRectF
from PySide6.QtGui import QFont, QFontMetricsF, QPainter, QTextLayout
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QDialog,
    QLabel,
    QLineEdit,
    QStyle,
    QStyleOptionFrame,
    QWidget,
)

from app import language
from app.main import scale
from engine.words import LANGUAGES
from tests.ui import states
from tests.ui.chat_states import CHAT_STATES
from tests.ui.composer_states import COMPOSER_STATES
from tests.ui.settings_states import SETTINGS_STATES
from tests.ui.transcript_states import TRANSCRIPT_STATES
from ui import theme
from ui.label import Label
from ui.main_window import MainWindow

STATES = states.STATES | CHAT_STATES | COMPOSER_STATES | TRANSCRIPT_STATES | SETTINGS_STATES
SIZES = ((1440, 900), (1024, 700))
EXTRA = ((800, 600),)  # the smallest window: checked and shot too, in the states it must survive
EXTRA_STATES = ("chat", "first-start", "failed", "picker", "drawers", "long-names", "lab-measured", "explain")
EXTRA_STATES += ("library", "library-files", "library-gated", "formulas", "blocks", "attached-many")
EXTRA_STATES += ("presets", "palette")
SLACK = 1.5  # px that hinting and rounding may take


class PaintedTexts:
    """What was painted since ``clear``: faults are sentences."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self._seen: set[tuple[str, str]] = set()

    def clear(self) -> None:
        """Forget the faults of the last picture."""
        self.faults = []

    def check_text(self, painter: QPainter, args: tuple[Any, ...]) -> None:
        """Check one call of drawText, in whichever of its forms."""
        text = next((arg for arg in args if isinstance(arg, str)), "")
        self._check_glyphs(text, painter.font())
        metrics = QFontMetricsF(painter.font())
        box = args[0]
        if isinstance(box, QPointF):
            self._check_inside(painter, text, box.x(), box.x() + metrics.horizontalAdvance(text))
        elif hasattr(box, "width"):
            if metrics.horizontalAdvance(text) > box.width() + SLACK and "\n" not in text:
                self.faults.append(f"cut off: {text!r} in {box.width():.0f} px")
            if metrics.height() > box.height() + 4:
                self.faults.append(f"cut off in height: {text!r}")

    def check_layout(self, layout: QTextLayout) -> None:
        """Check a laid out text that is drawn."""
        self._check_glyphs(layout.text(), layout.font(), layout)

    def _check_inside(self, painter: QPainter, text: str, left: float, right: float) -> None:
        device = painter.device()
        shape = painter.worldTransform().mapRect(QRectF(left, 0, right - left, 1))
        if not isinstance(device, QWidget) or painter.hasClipping():  # what is clipped is meant to scroll
            return
        if shape.left() < -SLACK or shape.right() > device.width() + SLACK:
            self.faults.append(f"cut off by the edge of {_describe(device)}: {text!r}")

    def _check_glyphs(self, text: str, font: QFont, layout: QTextLayout | None = None) -> None:
        key = (text, font.key())
        if not text.strip() or key in self._seen:
            return
        self._seen.add(key)
        if layout is None:
            layout = QTextLayout(text, font)
            layout.beginLayout()
            layout.createLine()
            layout.endLayout()
        for run in layout.glyphRuns():
            if 0 in run.glyphIndexes():
                self.faults.append(f"missing glyph in {text[:60]!r}")
                return


@contextmanager
def watch_painting() -> Iterator[PaintedTexts]:
    """Watch all texts that Python code paints; Qt's own C++ widgets are not seen."""
    texts = PaintedTexts()
    draw_text, draw_layout = QPainter.drawText, QTextLayout.draw

    def watched_text(painter: QPainter, *args: Any) -> Any:
        texts.check_text(painter, args)
        return draw_text(painter, *args)

    def watched_layout(layout: QTextLayout, *args: Any) -> Any:
        texts.check_layout(layout)
        return draw_layout(layout, *args)

    QPainter.drawText, QTextLayout.draw = watched_text, watched_layout  # type: ignore[method-assign, assignment]
    try:
        yield texts
    finally:
        QPainter.drawText, QTextLayout.draw = draw_text, draw_layout  # type: ignore[method-assign]


def find_clipped(window: QWidget) -> list[str]:
    """Labels and buttons that got less room than they need, and widgets beyond their parent's edge."""
    faults = []
    for widget in window.findChildren(QWidget):
        if not widget.isVisible():
            continue
        if isinstance(widget, Label):
            is_short = widget.is_clipped()
        elif isinstance(widget, QLineEdit):
            is_short = not widget.text() and _placeholder_room(widget) < 0
        elif isinstance(widget, QLabel | QAbstractButton):
            need = widget.minimumSizeHint()
            is_short = widget.width() < need.width() or widget.height() < need.height()
        else:
            continue
        if is_short:
            text = (
                widget.text() or widget.placeholderText() if isinstance(widget, QLineEdit) else widget.text()
            )
            faults.append(f"too little room for {_describe(widget)}: {text!r}")
    return faults


def _placeholder_room(line: QLineEdit) -> int:
    """What is left beside the words of an empty line."""
    option = QStyleOptionFrame()
    line.initStyleOption(option)
    place = line.style().subElementRect(QStyle.SubElement.SE_LineEditContents, option, line)
    return place.width() - 4 - line.fontMetrics().horizontalAdvance(line.placeholderText())


def _describe(widget: QWidget) -> str:
    return f"{type(widget).__name__} {widget.accessibleName()!r}"


def take_shot(folder: Path, state: str, size: tuple[int, int], choice: str, texts: PaintedTexts) -> list[str]:
    """Bring a new window into a state, save its picture, and return what is wrong with it."""
    app = QApplication.instance()
    assert isinstance(app, QApplication)
    texts.clear()
    window = MainWindow()
    window.resize(*size)
    window.show()
    STATES[state](window)
    settle(app)
    dialogs = [dialog for dialog in window.findChildren(QDialog) if dialog.isVisible()]
    target = dialogs[0] if dialogs else window
    target.grab().save(str(folder / f"{state}-{size[0]}x{size[1]}-{choice}.png"))
    faults = texts.faults + find_clipped(target)
    window.close()
    window.deleteLater()
    settle(app)
    return [f"{state} {size[0]}x{size[1]} {choice}: {fault}" for fault in dict.fromkeys(faults)]


def settle(app: QApplication) -> None:
    """Let layouts and queued repaints finish."""
    for _ in range(8):
        app.processEvents()


def main(arguments: list[str]) -> int:
    """Write the pictures; 1 where something is cut off or a glyph is missing."""
    parser = argparse.ArgumentParser(prog="python -m tests.shots", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", choices=sorted(STATES), action="append", help="only this state")
    parser.add_argument("--scale", type=int, default=100, help="percent, as on a screen of fine pixels")
    parser.add_argument("--language", choices=sorted(LANGUAGES), default="en", help="of the window")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    scale(options.scale)
    QLocale.setDefault(language.locale(options.language))
    app = QApplication.instance() or QApplication([])
    assert isinstance(app, QApplication)
    language.use(options.language)
    faults: list[str] = []
    with watch_painting() as texts:
        for choice in ("dark", "light"):
            theme.apply(app, choice)
            for state in options.only or STATES:
                sizes = SIZES + (EXTRA if state in EXTRA_STATES else ())
                for size in sizes:
                    faults += take_shot(options.folder, state, size, choice, texts)
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
