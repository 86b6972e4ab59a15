"""The pictures of the window: no text is cut off in any state, and the check itself sees what it must."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QPushButton, QWidget
from pytestqt.qtbot import QtBot

from tests import shots
from tests.shots import STATES
from ui.label import Label


@pytest.fixture
def texts() -> Iterator[shots.PaintedTexts]:
    with shots.watch_painting() as texts:
        yield texts


class Painted(QWidget):
    """Paints one text the given way."""

    def __init__(self, text: str, place: QPointF | QRectF) -> None:
        super().__init__()
        self._text, self._place = text, place
        self.resize(100, 30)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        if isinstance(self._place, QPointF):
            painter.drawText(self._place, self._text)
        else:
            painter.drawText(self._place, 0, self._text)


@pytest.mark.parametrize(
    ("text", "place", "fault"),
    [
        ("short", QPointF(4, 20), ""),
        ("short", QRectF(4, 0, 90, 24), ""),
        ("a text that is far too long for this", QPointF(4, 20), "cut off by the edge"),
        ("a text that is far too long for this", QRectF(4, 0, 90, 24), "cut off"),
        ("short", QRectF(4, 0, 90, 6), "cut off in height"),
        ("no \U000f1234 glyph", QRectF(4, 0, 90, 24), "missing glyph"),
    ],
)
def test_the_check_sees_cut_texts_and_missing_glyphs(
    qtbot: QtBot, texts: shots.PaintedTexts, text: str, place: QPointF | QRectF, fault: str
) -> None:
    widget = Painted(text, place)
    qtbot.addWidget(widget)
    widget.grab()
    assert len(texts.faults) == (1 if fault else 0)
    assert all(found.startswith(fault) for found in texts.faults)


def test_the_check_sees_labels_and_buttons_with_too_little_room(qtbot: QtBot) -> None:
    host = QWidget()
    qtbot.addWidget(host)
    label, elided = Label("A sentence", parent=host), Label("A sentence", elide=True, parent=host)
    button = QPushButton("A button", host)
    for widget in (label, elided, button):
        widget.resize(20, 20)
    host.show()
    assert sorted(fault.split()[4] for fault in shots.find_clipped(host)) == ["Label", "QPushButton"]


@pytest.mark.parametrize("state", sorted(STATES))
@pytest.mark.parametrize("size", [(1024, 700), (800, 600)])
def test_every_state_shows_its_texts_whole(
    texts: shots.PaintedTexts, qtbot: QtBot, tmp_path: Path, state: str, size: tuple[int, int]
) -> None:
    assert shots.take_shot(tmp_path, state, size, "dark", texts) == []
    assert (tmp_path / f"{state}-{size[0]}x{size[1]}-dark.png").stat().st_size > 10_000


def test_the_command_writes_both_themes_and_sizes(tmp_path: Path, qtbot: QtBot) -> None:
    assert shots.main([str(tmp_path), "--only", "undo"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"undo-{size}-{choice}.png" for size in ("1024x700", "1440x900") for choice in ("dark", "light")
    ]
