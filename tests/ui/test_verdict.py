"""The verdict card: an icon and words; quality where there is room for it."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from ui import theme
from ui.tuning_values import VerdictView
from ui.verdict import VerdictCard

FITS = VerdictView(
    "fits", "Fits · 1.20 GB spare", "41 tok/s ±6% · first token 0.3 s", "perplexity +0.3%", "Why."
)


@pytest.fixture
def card(qtbot: QtBot) -> VerdictCard:
    widget = VerdictCard()
    qtbot.addWidget(widget)
    widget.resize(328, 48)
    widget.set_view(FITS)
    with qtbot.waitExposed(widget):
        widget.show()
    return widget


def test_it_says_all_lines_and_its_tooltip_the_reasons(card: VerdictCard) -> None:
    words = "Fits · 1.20 GB spare. 41 tok/s ±6% · first token 0.3 s. perplexity +0.3%"
    assert card.sentence() == words
    assert words in card.toolTip() and "Why." in card.toolTip()
    card.set_view(None)
    assert card.isHidden() and card.sentence() == ""


@pytest.mark.parametrize(
    ("kind", "token"), [("fits", "ok"), ("tight", "warn"), ("spills", "warn"), ("no", "bad")]
)
def test_each_kind_has_its_ground_and_is_drawn(card: VerdictCard, kind: str, token: str) -> None:
    card.set_view(VerdictView(kind, "A title", "A line"))
    image = card.grab().toImage()
    assert image.pixelColor(200, 4).name() == getattr(theme.palette(), f"{token}_soft").name()


def test_quality_gives_way_to_a_long_title(card: VerdictCard) -> None:
    def right_end() -> list[str]:
        image = card.grab().toImage()
        return [image.pixelColor(x, y).name() for x in range(300, 316) for y in range(10, 24)]

    ground = theme.palette().ok_soft.name()
    assert set(right_end()) != {ground}
    card.set_view(VerdictView("fits", "A title that is longer than half", "", "perplexity +0.3%"))
    assert set(right_end()) == {ground}
