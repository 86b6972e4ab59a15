"""The context slider: stops in tokens, keys and typed numbers, zones and what they say."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ui import theme
from ui.context_slider import ContextSlider
from ui.tuning_values import TuningView

VIEW = TuningView(
    formats=(),
    chosen_format="file",
    loaded_format="file",
    context_stops=tuple(512 * 2**i for i in range(9)),
    chosen_context=8192,
    loaded_context=8192,
    trained_context=32768,
    tight_from=65536,
    no_fit_from=131072,
)


@pytest.fixture
def slider(qtbot: QtBot) -> ContextSlider:
    widget = ContextSlider()
    qtbot.addWidget(widget)
    widget.resize(340, 60)
    widget.set_view(VIEW)
    with qtbot.waitExposed(widget):
        widget.show()
    return widget


@pytest.fixture
def told(slider: ContextSlider) -> list[int]:
    contexts: list[int] = []
    slider.context_chosen.connect(contexts.append)
    return contexts


def test_showing_a_view_tells_nothing(slider: ContextSlider, told: list[int]) -> None:
    slider.set_view(replace(VIEW, chosen_context=2048))
    assert slider.context == 2048
    assert told == []


def test_arrows_and_ends_go_through_the_stops(qtbot: QtBot, slider: ContextSlider, told: list[int]) -> None:
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Left, Qt.Key.Key_End, Qt.Key.Key_Right, Qt.Key.Key_Home):
        qtbot.keyClick(slider, key)
    assert told == [16384, 8192, 131072, 512]


@pytest.mark.parametrize(("keys", "context"), [("16384", 16384), ("4k", 4096), ("20000", 16384), ("9", 512)])
def test_a_typed_number_chooses_the_nearest_stop(
    qtbot: QtBot, slider: ContextSlider, keys: str, context: int
) -> None:
    qtbot.keyClicks(slider, keys)
    assert slider.context == context


def test_a_press_and_a_drag_choose_the_stop_under_the_pointer(
    qtbot: QtBot, slider: ContextSlider, told: list[int]
) -> None:
    qtbot.mousePress(slider, Qt.MouseButton.LeftButton, pos=QPoint(14, 33))
    qtbot.mouseMove(slider, QPoint(326, 33))
    slider.set_view(VIEW)  # a new plan arrives while the knob is held
    assert slider.context == told[-1] == 131072
    qtbot.mouseRelease(slider, Qt.MouseButton.LeftButton, pos=QPoint(326, 33))
    assert told == [512, 131072]


@pytest.mark.parametrize(
    ("chosen", "fit", "words"),
    [(8192, "fits", "fits"), (65536, "tight", "fits tightly"), (131072, "no", "does not fit")],
)
def test_the_description_says_tokens_and_fit(
    slider: ContextSlider, chosen: int, fit: str, words: str
) -> None:
    slider.set_view(replace(VIEW, chosen_context=chosen))
    assert slider.fit == fit
    assert slider.accessibleDescription() == f"{chosen:,} tokens, {words}"


def test_zones_are_drawn_where_they_begin(slider: ContextSlider) -> None:
    image = slider.grab().toImage()
    colors = theme.palette()
    row = [image.pixelColor(x, 33).name() for x in range(340)]
    assert row.index(colors.warn_fill.name()) < row.index(colors.bad_fill.name())
    assert row[322] == colors.bad_fill.name()
    slider.set_view(replace(VIEW, tight_from=None, no_fit_from=None))
    image = slider.grab().toImage()
    assert colors.bad_fill.name() not in {image.pixelColor(x, 33).name() for x in range(340)}


def test_the_wheel_scrolls_the_panel_and_changes_nothing(slider: ContextSlider, told: list[int]) -> None:
    event = QWheelEvent(
        QPointF(100, 33),
        QPointF(100, 33),
        QPoint(),
        QPoint(0, 120),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(slider, event)
    assert not event.isAccepted()
    assert told == []


@pytest.mark.parametrize("stops", [(), (2048,), (512, 2048)])
def test_few_stops_do_no_harm(qtbot: QtBot, slider: ContextSlider, stops: tuple[int, ...]) -> None:
    slider.set_view(replace(VIEW, context_stops=stops, chosen_context=2048, trained_context=2048))
    qtbot.keyClicks(slider, "4k")
    slider.grab()
    assert slider.context == (stops[-1] if stops else 0)
