"""The model chip: states in words and colours, a percentage that never goes back."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ui import theme
from ui.chip import ModelChip
from ui.values import ChipView, ModelState

NAME = "SmolLM2-135M-Instruct"


@pytest.fixture
def chip(qtbot: QtBot) -> ModelChip:
    widget = ModelChip()
    qtbot.addWidget(widget)
    return widget


@pytest.mark.parametrize(
    ("view", "words"),
    [
        (ChipView(ModelState.READY, NAME, "4-bit · 8k"), "Ready"),
        (ChipView(ModelState.LOADING, NAME, "4-bit · 8k", 43), "Loading 43%"),
        (ChipView(ModelState.LOADING, NAME), "Loading"),
        (ChipView(ModelState.DOWNLOADING, NAME, "", 7), "Downloading 7%"),
        (ChipView(ModelState.GENERATING, NAME), "Generating"),
        (ChipView(ModelState.FAILED, NAME), "Could not load"),
        (ChipView(ModelState.NO_MODEL), "Ctrl M"),
    ],
)
def test_every_state_has_its_words_and_is_drawn(chip: ModelChip, view: ChipView, words: str) -> None:
    chip.set_view(view)
    assert chip.state_words == words
    chip.resize(chip.sizeHint())
    chip.grab()


def test_the_name_says_model_and_state(chip: ModelChip) -> None:
    assert chip.accessibleName() == "No model. Press to choose one"
    chip.set_view(ChipView(ModelState.READY, NAME, "4-bit · 8k"))
    assert chip.accessibleName() == f"Model {NAME}, 4-bit · 8k, Ready. Press to change"


@pytest.mark.parametrize(
    ("state", "left_s", "words"),
    [
        (ModelState.LOADING, None, "Loading 43%"),
        (ModelState.LOADING, 5.0, "Loading 43%"),
        (ModelState.LOADING, 6.2, "Loading 43% · 6\u00a0s left"),
        (ModelState.LOADING, 200.0, "Loading 43% · 3\u00a0min left"),
        (ModelState.READY, 9.0, "Ready"),
    ],
)
def test_what_is_left_of_a_load_is_said_above_five_seconds(
    chip: ModelChip, state: ModelState, left_s: float | None, words: str
) -> None:
    chip.set_view(ChipView(state, "m", "4-bit · 8k", 43, left_s))
    assert chip.state_words == words
    assert words in chip.accessibleName()


def test_a_percentage_never_goes_back(chip: ModelChip) -> None:
    chip.set_view(ChipView(ModelState.LOADING, NAME, "", 43))
    chip.set_view(ChipView(ModelState.LOADING, NAME, "", 41))
    assert chip.state_words == "Loading 43%"
    chip.set_view(ChipView(ModelState.LOADING, "another", "", 2))
    assert chip.state_words == "Loading 2%"


@pytest.mark.parametrize("choice", ["dark", "light"])
@pytest.mark.parametrize(("state", "token"), [("ready", "ok"), ("failed", "bad"), ("generating", "accent")])
def test_a_state_has_its_colour_in_both_themes(
    chip: ModelChip, qapp: QApplication, choice: str, state: str, token: str
) -> None:
    theme.apply(qapp, choice)
    chip.set_view(ChipView(ModelState(state), NAME))
    chip.resize(chip.sizeHint())
    image = chip.grab().toImage()
    colors = {image.pixelColor(x, y).name() for x in range(image.width()) for y in range(image.height())}
    assert getattr(theme.palette(), token).name() in colors


def test_a_long_name_is_elided_and_the_state_stays(chip: ModelChip) -> None:
    chip.set_view(ChipView(ModelState.READY, "x" * 300, "4-bit · 8k"))
    parts = chip._parts(260.0)
    assert parts.state == "Ready"
    assert parts.detail == ""
    assert "…" in parts.name
    assert chip._width_of(parts) <= 260
    assert chip.minimumSizeHint().width() <= 180


def test_a_name_with_markup_stays_plain_in_the_tooltip(chip: ModelChip) -> None:
    chip.set_view(ChipView(ModelState.READY, "<b>bold</b>"))
    assert "<b>" not in chip.toolTip()
    assert "&lt;b&gt;" in chip.toolTip()
