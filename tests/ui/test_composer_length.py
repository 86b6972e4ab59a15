"""The chip of the answer's length: its words, its menu, and a time only where one is known."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from ui.chat_values import CounterView, LengthView
from ui.composer import Composer
from ui.composer_length import LengthChip, about, spoken

CHOICES = ((128, 3.0), (512, 12.0), (4096, 110.0), (None, None))


@pytest.fixture
def chip(qtbot: QtBot) -> LengthChip:
    made = LengthChip()
    qtbot.addWidget(made)
    made.show()
    return made


@pytest.mark.parametrize(
    ("view", "words", "name"),
    [
        (LengthView(512, 12.2), "512 tokens ≈ 12\u00a0s", "Longest answer 512 tokens, about 12 seconds"),
        (
            LengthView(4096, 110.0),
            "4,096 tokens ≈ 2\u00a0min",
            "Longest answer 4,096 tokens, about 2 minutes",
        ),
        (LengthView(128, 0.2), "128 tokens ≈ 1\u00a0s", "Longest answer 128 tokens, about 1 second"),
        (LengthView(512), "512 tokens", "Longest answer 512 tokens"),
        (LengthView(None), "No limit", "Longest answer any length"),
    ],
)
def test_the_chip_says_length_and_time_and_no_time_that_is_unknown(
    chip: LengthChip, view: LengthView, words: str, name: str
) -> None:
    chip.set_view(view)
    assert "".join(run.text for run in chip._runs()) == words
    assert chip.accessibleName() == name


@pytest.mark.parametrize("seconds", [0.1, 1.4, 59.0, 89.9, 90.1, 4000.0])
def test_every_time_is_marked_as_a_guess(seconds: float) -> None:
    assert about(seconds).startswith("≈ ")
    assert spoken(seconds).startswith("about ")


def test_the_menu_offers_lengths_with_their_times(chip: LengthChip, qtbot: QtBot) -> None:
    chip.set_view(LengthView(512, 12.0, CHOICES))
    menu = chip.open_menu()
    actions = menu.actions()
    assert [each.text().split("   ")[0] for each in actions] == [
        *("128 tokens", "512 tokens", "4,096 tokens", "No limit")
    ]
    assert [each.isChecked() for each in actions] == [False, True, False, False]
    assert "≈" in actions[0].text()
    assert "≈" not in actions[3].text()
    with qtbot.waitSignal(chip.chosen) as caught:
        actions[3].trigger()
    assert caught.args == [None]
    menu.close()


def test_the_chip_gives_way_where_the_composer_is_narrow(qtbot: QtBot) -> None:
    composer = Composer()
    qtbot.addWidget(composer)
    composer.set_length(LengthView(512, 12.0, CHOICES))
    composer.set_counter(CounterView(8191, 8192))
    composer.set_thinking(True)
    composer.show()
    for width, is_shown in ((560, True), (400, False)):
        composer.resize(width, composer.sizeHint().height())
        assert composer._length.isVisible() is is_shown
        last = composer._thinking
        assert last.geometry().right() < composer._counter.geometry().left()
