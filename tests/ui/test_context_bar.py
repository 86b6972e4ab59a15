"""Context in use: tokens of the loaded context, a dash without a model."""

from __future__ import annotations

from pytestqt.qtbot import QtBot

from ui import theme
from ui.context_bar import ContextBar
from ui.gauge_values import ContextView


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


def test_each_answer_has_its_part_and_the_rest_is_kept(qtbot: QtBot) -> None:
    bar = make(qtbot)
    bar.set_view(ContextView(9412, 24576, (4096, 3000)))
    assert bar.words == "9,412 of 24,576 tokens · 2 chats"
    assert bar.parts == (4096, 3000, 2316)
    assert bar.sentence() == f"{bar.words}: 4,096, 3,000, and 2,316 kept of other chats"


def test_answers_with_the_same_beginning_add_up_to_what_is_used(qtbot: QtBot) -> None:
    bar = make(qtbot)
    bar.set_view(ContextView(1000, 8192, (900, 900)))
    assert bar.parts == (900, 100, 0)


def test_one_chat_and_what_is_kept_take_their_shares_of_the_bar(qtbot: QtBot) -> None:
    bar = make(qtbot)
    bar.set_view(ContextView(4096, 8192))
    alone = bar.grab().toImage()
    bar.set_view(ContextView(4096, 8192, (2048,)))
    assert bar.grab().toImage() != alone
