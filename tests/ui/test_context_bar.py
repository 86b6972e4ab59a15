"""Context in use: tokens of the loaded context, a dash without a model."""

from __future__ import annotations

from pytestqt.qtbot import QtBot

from ui import theme
from ui.context_bar import ContextBar
from ui.values import ContextView


def make(qtbot: QtBot) -> ContextBar:
    bar = ContextBar()
    qtbot.addWidget(bar)
    bar.resize(340, 28)
    return bar


def accent_share(bar: ContextBar) -> float:
    image = bar.grab().toImage()
    accent = theme.palette().accent.name()
    return sum(image.pixelColor(x, 22).name() == accent for x in range(6, 334)) / 328


def test_it_counts_with_separators(qtbot: QtBot) -> None:
    bar = make(qtbot)
    bar.set_view(ContextView(7431, 8192))
    assert bar.words == "7,431 of 8,192 tokens"
    assert 0.85 < accent_share(bar) < 0.95


def test_without_a_model_it_is_a_dash(qtbot: QtBot) -> None:
    bar = make(qtbot)
    assert bar.words == "–"
    assert bar.sentence() == "No model loaded"
    assert accent_share(bar) == 0


def test_more_than_full_stays_inside(qtbot: QtBot) -> None:
    bar = make(qtbot)
    bar.set_view(ContextView(9000, 8192))
    assert accent_share(bar) > 0.97
