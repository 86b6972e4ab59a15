"""The gauges of speed: one chat's figures at a time, and the sum under its own name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from PySide6.QtWidgets import QApplication

from app.machine_load import MachineLoad
from app.prediction_record import Judged
from app.speed_gauge import SETTLED_TOKENS, SUM_EVERY_S, SpeedGauge
from engine.calibration import Calibration
from engine.events import AnswerStats, StepStats
from engine.fit.preference import reading_tps
from engine.fit.speed import prefill_s, step_bytes, step_s
from tests.fakes import make_plan, measured_at
from ui.gauge_values import SpeedView
from ui.latency import NUM_STEPS

NBSP = "\u00a0"


class Window:
    """Takes what the gauges are to show."""

    def __init__(self) -> None:
        self.views: list[SpeedView] = []

    def set_speed(self, view: SpeedView) -> None:
        self.views.append(view)


class Chats:
    """A gauge, the window it writes to, the chat in view and the time."""

    def __init__(self) -> None:
        self.window, self.shown, self.now_s = Window(), "a", 0.0
        self.gauge = SpeedGauge(
            self.window,  # type: ignore[arg-type]  # all that is called of a window
            lambda chat_id: chat_id == self.shown,
            lambda: self.now_s,
        )

    def step(
        self,
        chat_id: str,
        tps: float = 30.0,
        tokens: int = SETTLED_TOKENS,
        context: int = 100,
        text: str = "",
        **more: object,
    ) -> None:
        self.now_s += SUM_EVERY_S
        event = StepStats(chat_id, tokens, tps, tps, 0.1, (1000 / tps,), **more)  # type: ignore[arg-type]
        self.gauge.step(chat_id, event, context, lambda: text)

    def show(self, chat_id: str) -> SpeedView:
        self.shown = chat_id
        self.gauge.show(chat_id, SpeedView())
        return self.window.views[-1]


@pytest.fixture
def chats(qapp: QApplication) -> Iterator[Chats]:
    made = Chats()
    yield made
    made.gauge.stop()


def end(tps: float | None) -> AnswerStats:
    return AnswerStats(9, 0, 9, 0.1, None, tps, None)


def test_the_dial_waits_until_the_speed_has_settled(chats: Chats) -> None:
    chats.step("a", tokens=1)
    assert (chats.window.views[-1].decode_tps, chats.window.views[-1].is_new_answer) == (None, True)
    chats.step("a", 30.0)
    assert (chats.window.views[-1].decode_tps, chats.window.views[-1].is_new_answer) == (30.0, False)


def test_a_chat_out_of_view_moves_nothing_but_the_sum(chats: Chats) -> None:
    chats.step("a", 30.0)
    chats.step("b", 31.0)
    view = chats.window.views[-1]
    assert (view.decode_tps, view.step_ms) == (30.0, ())
    assert view.together == f"2 chats · 61.0{NBSP}tok/s together"
    count = len(chats.window.views)
    chats.step("b", 31.0)
    assert len(chats.window.views) == count  # the same sum is no news


def test_the_sum_is_taken_at_most_twice_a_second(chats: Chats) -> None:
    chats.step("a", 30.0)
    chats.step("b", 31.0)
    chats.now_s -= SUM_EVERY_S - 0.01
    chats.step("a", 60.0)
    assert chats.window.views[-1].together == f"2 chats · 61.0{NBSP}tok/s together"
    chats.step("a", 60.0)
    assert chats.window.views[-1].together == f"2 chats · 91.0{NBSP}tok/s together"


def test_what_waits_or_has_ended_is_not_in_the_sum(chats: Chats) -> None:
    for chat_id in "abc":
        chats.step(chat_id, 20.0)
    assert chats.window.views[-1].together.startswith("3 chats · 60.0")
    chats.gauge.pause("b")
    assert chats.window.views[-1].together.startswith("2 chats · 40.0")
    chats.gauge.end("c", end(20.0))
    assert chats.window.views[-1].together == ""


def test_another_chat_brings_its_own_steps(chats: Chats) -> None:
    for _ in range(NUM_STEPS + 10):
        chats.step("a", 50.0)
        chats.step("b", 20.0)
    view = chats.show("b")
    assert view.step_ms == (50.0,) * NUM_STEPS
    assert (view.decode_tps, view.is_live, view.is_new_answer) == (20.0, True, True)
    assert chats.show("a").step_ms == (20.0,) * NUM_STEPS


def test_an_end_shows_the_figures_of_its_chat_when_that_comes_into_view(chats: Chats) -> None:
    chats.step("a")
    chats.step("b")
    count = len(chats.window.views)
    chats.gauge.end("b", end(44.0))
    assert chats.window.views[-1].is_live
    assert all(view.decode_tps != 44.0 for view in chats.window.views[count:])
    view = chats.show("b")
    assert (view.decode_tps, view.is_live) == (44.0, False)


def test_an_answer_without_a_step_leaves_the_figures_of_the_last_one(chats: Chats) -> None:
    chats.step("a")
    chats.gauge.end("a", end(44.0))
    chats.gauge.end("a", end(None))
    assert chats.window.views[-1].decode_tps == 44.0


def test_drafts_and_why_there_are_none_reach_the_window(chats: Chats) -> None:
    chats.step("a", drafted_tokens=10, accepted_tokens=7, drafting_off="Drafting is off: it costs more.")
    view = chats.window.views[-1]
    assert (view.drafts_accepted, view.drafting_off) == (0.7, "Drafting is off: it costs more.")
    chats.step("a")
    assert (chats.window.views[-1].drafts_accepted, chats.window.views[-1].drafting_off) == (None, "")


PLAN = make_plan()
CALIBRATED = replace(PLAN, hardware=replace(PLAN.hardware, calibration=measured_at(20.0, when=1.0)))


def full_end(tps: float, tokens: int = 40) -> AnswerStats:
    return AnswerStats(100, 20, tokens, 0.2, None, tps, None)


def test_what_is_predicted_is_for_the_chat_as_long_as_it_is(chats: Chats) -> None:
    chats.gauge.use(CALIBRATED)
    chats.step("a", 30.0, context=100)
    short = chats.window.views[-1]
    chats.step("a", 30.0, tokens=6, context=4000)
    long = chats.window.views[-1]
    assert short.predicted_tps == pytest.approx(1 / step_s(CALIBRATED, 100))
    assert long.predicted_tps == pytest.approx(1 / step_s(CALIBRATED, 4000))
    assert long.limit_tps is not None
    assert long.read_gbps == pytest.approx(30.0 * step_bytes(CALIBRATED, 4000).total / 1e9)
    assert long.peak_gbps == 20.0


def test_another_chat_that_is_answered_lowers_the_prediction(chats: Chats) -> None:
    chats.gauge.use(CALIBRATED)
    chats.step("a", context=1000)
    alone = chats.window.views[-1].predicted_tps
    chats.step("b", context=1000)
    chats.step("a", context=1000)
    both = chats.window.views[-1].predicted_tps
    assert alone is not None
    assert both is not None
    assert both == pytest.approx(1 / step_s(CALIBRATED, 1000, 1, 2))
    assert both < alone


def test_predictions_change_at_most_four_times_a_second(chats: Chats) -> None:
    chats.gauge.use(CALIBRATED)
    chats.step("a", context=100)
    before = chats.window.views[-1].predicted_tps
    chats.now_s -= SUM_EVERY_S - 0.1
    chats.step("a", context=4000)
    assert chats.window.views[-1].predicted_tps == before


def test_before_the_first_answer_the_prediction_is_shown_already(chats: Chats) -> None:
    chats.gauge.use(CALIBRATED)
    view = chats.window.views[-1]
    assert (view.decode_tps, view.is_live) == (None, False)
    assert view.predicted_tps == pytest.approx(1 / step_s(CALIBRATED, 1))
    assert view.why.sentence.startswith("Not measured yet")
    chats.gauge.use(None)
    view = chats.window.views[-1]
    assert (view.predicted_tps, view.limit_tps, view.why.can_explain) == (None, None, False)


def test_a_chat_without_an_answer_is_not_promised_the_drafts_of_another(chats: Chats) -> None:
    chats.gauge.use(CALIBRATED)
    for tokens in (1, 100, 200):  # three of four tokens were guessed
        accepted = 3 * tokens // 4
        chats.step("a", tokens=tokens, drafted_tokens=tokens, accepted_tokens=accepted)
    drafted = chats.window.views[-1].predicted_tps
    chats.gauge.end("a", full_end(100.0))
    empty = chats.show("new").predicted_tps
    assert drafted is not None
    assert empty == pytest.approx(1 / step_s(CALIBRATED, 1))
    assert drafted > 1.5 * empty


def test_slower_than_predicted_is_amber_after_three_seconds_and_says_who(chats: Chats) -> None:
    chats.gauge.use(CALIBRATED)
    chats.gauge.machine = lambda: MachineLoad(2, other_cpus=1.5)
    slow = 0.5 / step_s(CALIBRATED, 100)
    for count in range(5):
        chats.step("a", slow, tokens=6 + count, context=100)
        assert not chats.window.views[-1].is_slower
    for count in range(3):
        chats.step("a", slow, tokens=11 + count, context=100)
    view = chats.window.views[-1]
    assert view.is_slower
    assert view.why.is_warning
    assert view.why.sentence == "Slower than predicted: another program uses 1.5 of 2 cores"
    chats.gauge.end("a", full_end(slow))
    assert not chats.window.views[-1].is_slower


def test_an_ended_answer_is_judged_by_what_was_predicted_as_it_grew(chats: Chats) -> None:
    judged: list[Judged] = []
    chats.gauge.judged.connect(judged.append)
    chats.gauge.use(CALIBRATED)
    for count in range(1, 41):
        chats.step("a", 30.0, tokens=count, context=1000 + 50 * count)
    chats.gauge.end("a", full_end(30.0))
    [row] = judged
    fastest, slowest = 1 / step_s(CALIBRATED, 1050), 1 / step_s(CALIBRATED, 3000)
    assert slowest < row.predicted_tps < fastest
    assert (row.measured_tps, row.tokens, row.chats, row.basis) == (30.0, 3000, 1, "measured")
    assert row.predicted_ttft_s == pytest.approx(prefill_s(CALIBRATED, 100, 20))


def test_an_answer_of_a_few_tokens_is_no_test(chats: Chats) -> None:
    judged: list[Judged] = []
    chats.gauge.judged.connect(judged.append)
    chats.gauge.use(CALIBRATED)
    chats.step("a", tokens=9)
    chats.gauge.end("a", full_end(30.0, tokens=9))
    assert not judged


def test_the_reading_speed_follows_the_answers_own_words(chats: Chats) -> None:
    chats.gauge.use(CALIBRATED)
    chats.step("a", tokens=100, text="word " * 50)
    assert chats.window.views[-1].reading_tps == reading_tps(2.0)


def test_a_verdict_that_comes_too_soon_is_shown_when_the_line_has_stood(chats: Chats) -> None:
    chats.gauge.use(replace(CALIBRATED, disk_layers=1))
    chats.now_s += 10
    chats.step("a", context=100)
    assert chats.window.views[-1].why.sentence.startswith("Memory spilled")
    chats.gauge.use(CALIBRATED)
    chats.step("a", context=100)
    assert chats.window.views[-1].why.sentence.startswith("Memory spilled")
    assert chats.gauge.why_timer.isActive()
    chats.now_s += 10
    chats.gauge.why_timer.timeout.emit()
    assert chats.window.views[-1].why.sentence == "Limit not clear yet"
    assert not chats.window.views[-1].is_new_answer


def test_the_last_value_stands_beside_what_was_predicted_of_the_whole_answer(chats: Chats) -> None:
    judged: list[Judged] = []
    chats.gauge.judged.connect(judged.append)
    chats.gauge.use(CALIBRATED)
    for count in range(1, 41):
        chats.step("a", 30.0, tokens=count, context=1000 + 50 * count)
    chats.gauge.end("a", full_end(24.0))
    view = chats.window.views[-1]
    assert view.predicted_tps == judged[0].predicted_tps
    assert view.read_gbps == pytest.approx(24.0 * step_bytes(CALIBRATED, 3000).total / 1e9)
    count = len(chats.window.views)
    chats.gauge.use(replace(CALIBRATED, hardware=replace(CALIBRATED.hardware, calibration=Calibration(9.0))))
    assert len(chats.window.views) == count  # what the answer taught moves nothing beside it


def test_the_line_of_the_last_answer_holds_until_the_next_one_is_measured(chats: Chats) -> None:
    chats.gauge.use(replace(CALIBRATED, disk_layers=1))
    chats.now_s += 10
    chats.step("a")
    chats.gauge.end("a", full_end(30.0))
    chats.now_s += 10
    chats.step("a", tokens=1)
    assert chats.window.views[-1].decode_tps is None
    assert chats.window.views[-1].why.sentence.startswith("Memory spilled")


def test_while_another_chats_message_is_read_nobody_else_is_blamed(chats: Chats) -> None:
    judged: list[Judged] = []
    chats.gauge.judged.connect(judged.append)
    chats.gauge.use(CALIBRATED)
    chats.gauge.machine = lambda: MachineLoad(2, other_cpus=1.5)
    slow = 0.5 / step_s(CALIBRATED, 100)
    for count in range(10):
        chats.gauge.read("b")
        chats.now_s -= SUM_EVERY_S - 0.4
        chats.step("a", slow, tokens=6 + count)
    view = chats.window.views[-1]
    assert not view.is_slower
    assert view.why.sentence == "Slower for a moment: another chat's message is being read between the steps"
    chats.gauge.end("a", full_end(slow))
    assert judged[0].cause == "reading"


def test_ones_own_message_that_is_read_is_no_other(chats: Chats) -> None:
    chats.gauge.use(CALIBRATED)
    chats.step("a")
    chats.gauge.read("a")
    chats.now_s -= SUM_EVERY_S - 0.3
    chats.step("a", 1 / step_s(CALIBRATED, 100))
    assert not chats.window.views[-1].why.sentence.startswith("Slower for a moment")


def test_a_chat_that_waits_takes_no_part_in_the_steps(chats: Chats) -> None:
    chats.gauge.use(CALIBRATED)
    chats.step("a", context=1000)
    chats.step("b", context=1000)
    chats.gauge.pause("b")
    chats.step("a", context=1000)
    assert chats.window.views[-1].predicted_tps == pytest.approx(1 / step_s(CALIBRATED, 1000))


def test_rough_figures_accuse_nobody(chats: Chats) -> None:
    chats.gauge.use(PLAN)  # nothing was measured here: ±50 %
    for count in range(10):
        chats.step("a", 0.6 / step_s(PLAN, 100), tokens=6 + count)
    assert not chats.window.views[-1].is_slower
    for count in range(10):
        chats.step("a", 0.4 / step_s(PLAN, 100), tokens=16 + count)
    assert chats.window.views[-1].is_slower


def test_not_measured_yet_is_said_only_before_the_first_answer_of_the_model(chats: Chats) -> None:
    chats.gauge.use(make_plan())
    assert chats.show("new").why.sentence.startswith("Not measured yet")
    chats.shown = "a"
    chats.step("a", 30.0)
    chats.gauge.end("a", end(30.0))
    chats.now_s += 60.0
    assert not chats.show("new").why.sentence.startswith("Not measured yet")
    chats.now_s += 60.0
    assert not chats.show("older").why.sentence.startswith("Not measured yet")
    chats.now_s += 60.0
    chats.gauge.use(replace(make_plan(), model=replace(make_plan().model, path="/models/other.gguf")))
    assert chats.show("new").why.sentence.startswith("Not measured yet")
