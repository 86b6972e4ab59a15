"""The speed group: every figure under its own name, unknown ones as a dash."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from pytestqt.qtbot import QtBot

from ui.gauge_values import SpeedView, WhyView
from ui.speed_panel import BUS, DRAFTS, FIRST_TOKEN, SpeedPanel

NBSP = "\u00a0"
WHY = "Drafting is off: checking a drafted token takes 10% longer, and 4% of them are right here."


@pytest.fixture
def panel(qtbot: QtBot) -> SpeedPanel:
    made = SpeedPanel()
    qtbot.addWidget(made)
    made.show()
    return made


def test_accepted_drafts_are_a_share_and_unknown_without_drafts(panel: SpeedPanel) -> None:
    assert panel.drafts.words == "–"
    panel.set_view(SpeedView(40.0, True, 0.2, drafts_accepted=0.706))
    assert panel.drafts.words == "71%"
    assert panel.drafts.sentence() == "71%"
    panel.set_view(SpeedView(40.0, True, 0.2, drafts_accepted=0.0))
    assert panel.drafts.words == "0%"  # drafted, and all of it wrong
    panel.set_view(SpeedView(40.0, True, 0.2))
    assert panel.drafts.words == "–"


def test_why_nothing_is_drafted_stands_in_the_tooltip_and_is_spoken(
    panel: SpeedPanel, tick: Callable[[int], None]
) -> None:
    assert panel.drafts.toolTip() == DRAFTS
    panel.set_view(SpeedView(40.0, True, 0.2, drafting_off=WHY))
    assert panel.drafts.toolTip() == f"{DRAFTS}. {WHY}"
    tick(10)
    assert panel.drafts.accessibleDescription() == f"not known yet. {WHY}"
    panel.set_view(SpeedView(40.0, True, 0.2, drafts_accepted=0.5))
    assert panel.drafts.toolTip() == DRAFTS


def test_the_bus_is_a_share_of_what_was_measured(panel: SpeedPanel) -> None:
    assert panel.bus.words == "–"
    panel.set_view(SpeedView(40.0, True, 0.2, read_gbps=33.4, peak_gbps=41.2))
    assert panel.bus.words == f"33{NBSP}of 41 GB/s"
    assert panel.bus.share == pytest.approx(33.4 / 41.2)
    assert panel.bus.toolTip() == BUS
    panel.set_view(SpeedView(40.0, True, 0.2, read_gbps=8.94))
    assert (panel.bus.words, panel.bus.share) == (f"8.9{NBSP}GB/s", None)  # no peak was measured


def test_more_than_memory_gives_is_said_to_come_from_the_cache(panel: SpeedPanel) -> None:
    panel.set_view(SpeedView(900.0, True, 0.2, read_gbps=16.9, peak_gbps=11.2))
    assert panel.bus.words == f"17{NBSP}GB/s · cache"
    assert panel.bus.share == 1.0
    assert "the processor's cache holds a part of the weights" in panel.bus.sentence()
    assert "%" not in panel.bus.sentence()


def test_the_bar_follows_a_share_that_is_written_the_same(panel: SpeedPanel) -> None:
    panel.set_view(SpeedView(40.0, True, 0.2, read_gbps=33.4, peak_gbps=41.2))
    panel.set_view(SpeedView(40.0, True, 0.2, read_gbps=33.1, peak_gbps=41.2))
    assert panel.bus.share == pytest.approx(33.1 / 41.2)


def test_how_fast_the_message_was_read_stands_with_the_first_token(panel: SpeedPanel) -> None:
    panel.set_view(SpeedView(40.0, False, 0.21, 1830.0))
    assert panel.first_token.words == f"0.21{NBSP}s"
    assert (
        panel.first_token.toolTip() == f"{FIRST_TOKEN}. Your message was read at 1,830{NBSP}tok/s (prefill)"
    )
    panel.set_view(SpeedView(40.0, False, 0.21))
    assert panel.first_token.toolTip() == FIRST_TOKEN


def test_the_legend_names_the_marks_that_are_there(panel: SpeedPanel) -> None:
    panel.set_view(SpeedView())
    assert panel.legend.sentence() == "people read about 4–7 tokens per second"
    panel.set_view(SpeedView(9.0, predicted_tps=8.64, limit_tps=51.7, reading_tps=(4.4, 7.5)))
    assert panel.legend.sentence() == (
        "predicted 8.6, bandwidth limit 52, people read about 4–8 tokens per second"
    )


def test_the_speed_of_several_chats_is_named_and_moves_nothing(panel: SpeedPanel) -> None:
    panel.set_view(SpeedView(30.0, True, 0.2))
    height = panel.sizeHint().height()
    panel.set_view(SpeedView(30.0, True, 0.2, together=f"2 chats · 61.0{NBSP}tok/s together"))
    assert panel.sizeHint().height() == height
    assert panel.legend.accessibleName().endswith(f"2 chats · 61.0{NBSP}tok/s together")
    assert panel.dial.digits == "30.0"
    panel.set_view(SpeedView(30.0, True, 0.2))
    assert "together" not in panel.legend.accessibleName()


def test_the_figures_of_another_chat_are_shown_at_once(panel: SpeedPanel) -> None:
    panel.set_view(SpeedView(30.0, True, 0.2, step_ms=(33.0,) * 20, is_new_answer=True))
    panel.set_view(SpeedView(55.0, True, 0.2, step_ms=(18.0,) * 20, is_new_answer=True))
    assert panel.dial.digits == "55.0"
    assert panel.latency.steps == (18.0,) * 20


def test_the_line_that_says_why_is_always_there_and_asks_for_more_once_it_can(
    panel: SpeedPanel, qtbot: QtBot
) -> None:
    assert panel.why.sentence.startswith("Not measured yet: ")
    assert not panel.why.isEnabled()
    bound = WhyView("Memory-bound: 82% of each token is reading 0.99 GB of weights", can_explain=True)
    height = panel.why.sizeHint().height()
    panel.set_view(SpeedView(30.0, True, 0.2, why=bound))
    assert panel.why.isVisible()
    assert panel.why.accessibleName() == f"{bound.sentence}. Why?"
    assert panel.why.sizeHint().height() == height
    with qtbot.waitSignal(panel.explain_clicked):
        panel.why.click()
    panel.set_view(SpeedView(30.0, True, 0.2, why=replace(bound, sentence="Limit not clear yet")))
    assert panel.why.sizeHint().height() == height  # what stands below does not move
