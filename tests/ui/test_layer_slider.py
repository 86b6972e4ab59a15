"""The split between processor and GPU: layers by pointer and keys, told for the user's choices only."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, Qt
from pytestqt.qtbot import QtBot

from ui.layer_slider import LayerSlider
from ui.tuning_values import GpuLayersView

VIEW = GpuLayersView(28, 28, 28, "NVIDIA GeForce MX250")


@pytest.fixture
def slider(qtbot: QtBot) -> LayerSlider:
    widget = LayerSlider()
    qtbot.addWidget(widget)
    widget.resize(240, 24)
    widget.set_view(VIEW)
    with qtbot.waitExposed(widget):
        widget.show()
    return widget


@pytest.fixture
def told(slider: LayerSlider) -> list[int]:
    layers: list[int] = []
    slider.layers_chosen.connect(layers.append)
    return layers


def test_it_is_named_with_its_value(qtbot: QtBot, slider: LayerSlider) -> None:
    assert slider.accessibleName() == "GPU layers 28 of 28"
    assert "MX250" in slider.toolTip()
    qtbot.keyClick(slider, Qt.Key.Key_Left)
    assert (slider.accessibleName(), slider.words) == ("GPU layers 27 of 28", "27 of 28")


def test_keys_go_by_one_and_to_the_ends(qtbot: QtBot, slider: LayerSlider, told: list[int]) -> None:
    for key in (Qt.Key.Key_Left, Qt.Key.Key_Home, Qt.Key.Key_Right, Qt.Key.Key_End):
        qtbot.keyClick(slider, key)
    assert told == [27, 0, 1, 28]


def test_a_drag_stays_under_the_pointer_while_views_arrive(
    qtbot: QtBot, slider: LayerSlider, told: list[int]
) -> None:
    qtbot.mousePress(slider, Qt.MouseButton.LeftButton, pos=QPoint(12, 12))
    slider.set_view(VIEW)
    assert slider.value() == told[-1] == 0
    qtbot.mouseMove(slider, QPoint(400, 12))
    qtbot.mouseRelease(slider, Qt.MouseButton.LeftButton, pos=QPoint(400, 12))
    assert told == [0, 28]


def test_showing_a_view_tells_nothing(slider: LayerSlider, told: list[int]) -> None:
    slider.set_view(GpuLayersView(3, 4, 12))
    assert (slider.value(), slider.maximum(), told) == (3, 12, [])
    slider.grab()


def test_a_model_without_layers_does_no_harm(slider: LayerSlider) -> None:
    slider.set_view(GpuLayersView(0, 0, 0))
    slider.grab()
    assert slider.words == "0 of 0"
