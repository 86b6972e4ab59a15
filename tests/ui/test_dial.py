"""The dial: one measured number, on a scale that holds still while an answer is written."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ui import theme
from ui.dial import Dial, figure_widths, nice_scale, tick_text
from ui.gauge_values import SpeedView

Tick = Callable[..., None]


@pytest.fixture
def dial(qtbot: QtBot) -> Dial:
    widget = Dial()
    qtbot.addWidget(widget)
    return widget


def colors_of(dial: Dial) -> set[str]:
    image = dial.grab().toImage()
    return {image.pixelColor(x, y).name() for x in range(image.width()) for y in range(image.height())}


@given(st.floats(0.001, 1e6))
def test_the_scale_has_round_quarters_and_room_above_the_value(value: float) -> None:
    scale = nice_scale(value)
    mantissa = scale / 4 / 10 ** math.floor(math.log10(scale / 4) + 1e-9)
    assert any(math.isclose(mantissa, nice) for nice in (1, 1.5, 2, 2.5, 3, 4, 5, 7.5))
    assert value * 1.1 <= scale
    assert scale <= max(value * 1.125 * 1.7, 10.001)


def test_the_scale_of_the_pictures() -> None:
    assert nice_scale(42.1) == 60


@pytest.mark.parametrize("text", ["00.0", "99.9", "42.1"])
def test_the_number_is_as_wide_as_any_other_of_its_length(text: str) -> None:
    font = theme.font("display")
    assert figure_widths(text, font) == figure_widths("11.1", font)


def test_before_any_data_it_waits_and_shows_no_zero(dial: Dial) -> None:
    assert dial.digits == "–"
    assert dial.sentence() == "Speed not measured yet"


def test_the_first_value_is_shown_at_once(dial: Dial) -> None:
    dial.set_view(SpeedView(42.1, is_live=True))
    assert dial.digits == "42.1"


def test_digits_change_at_most_four_times_a_second(dial: Dial, tick: Tick) -> None:
    dial.set_view(SpeedView(40.0, is_live=True))
    seen = [dial.digits]
    for step in range(1, 21):  # two seconds
        dial.set_view(SpeedView(40.0 + step / 10, is_live=True))
        tick()
        if dial.digits != seen[-1]:
            seen.append(dial.digits)
    assert 4 <= len(seen) - 1 <= 8


def test_the_end_of_an_answer_shows_the_final_value_at_once(dial: Dial) -> None:
    dial.set_view(SpeedView(40.0, is_live=True))
    dial.set_view(SpeedView(41.7, is_live=False, ttft_s=0.2))
    assert dial.digits == "41.7"


def test_the_scale_never_changes_during_an_answer(dial: Dial) -> None:
    dial.set_view(SpeedView(40.0, is_live=True, is_new_answer=True))
    before = dial.scale_end
    for speed in (70.0, 500.0, 1.0):
        dial.set_view(SpeedView(speed, is_live=True))
        assert dial.scale_end == before


def test_the_slow_first_steps_of_an_answer_choose_no_scale(dial: Dial) -> None:
    dial.set_view(SpeedView(3.7, is_live=True, step_ms=(270.0,), is_new_answer=True))
    assert dial.scale_end == 60
    dial.set_view(SpeedView(90.0, is_live=True, step_ms=(11.0,) * 20))
    assert dial.scale_end == 120
    dial.set_view(SpeedView(140.0, is_live=True, step_ms=(7.0,) * 20))
    assert dial.scale_end == 120


def test_the_scale_grows_when_the_answer_has_ended(dial: Dial) -> None:
    dial.set_view(SpeedView(40.0, is_live=True))
    dial.set_view(SpeedView(90.0, is_live=True))
    dial.set_view(SpeedView(90.0, is_live=False))
    assert dial.scale_end > 90


@pytest.mark.parametrize("bad", [math.inf, math.nan, -1.0, None])
def test_what_is_no_speed_is_a_dash(dial: Dial, bad: float | None) -> None:
    dial.set_view(SpeedView(bad, is_live=True, ttft_s=1.0))
    assert dial.digits == "–"
    assert "inf" not in dial.sentence()
    dial.grab()


def test_one_token_is_no_speed_but_no_waiting_either(dial: Dial) -> None:
    dial.set_view(SpeedView(None, ttft_s=0.4))
    assert dial.sentence() == "Too few tokens to measure a speed"


def test_the_arc_is_accent_while_live_and_grey_afterwards(dial: Dial) -> None:
    accent, grey = theme.palette().accent.name(), theme.palette().mem_working.name()
    dial.set_view(SpeedView(40.0, is_live=True))
    assert accent in colors_of(dial)
    dial.set_view(SpeedView(40.0, is_live=False))
    assert accent not in colors_of(dial)
    assert grey in colors_of(dial)


PREDICTED = SpeedView(40.0, True, 0.2, predicted_tps=44.0, limit_tps=52.0)


def test_the_scale_holds_what_is_predicted_and_the_limit(dial: Dial) -> None:
    dial.set_view(SpeedView(predicted_tps=210.0, limit_tps=430.0))
    assert dial.scale_end == 600
    assert dial.digits == "–"
    dial.set_view(SpeedView(predicted_tps=20.0, limit_tps=900.0))  # a limit far away is no use on a scale
    assert dial.scale_end < 60


def test_a_scale_that_was_chosen_by_a_prediction_holds_through_the_answer(dial: Dial) -> None:
    dial.set_view(replace(PREDICTED, decode_tps=None, step_ms=(200.0,), is_new_answer=True))
    assert dial.scale_end == 60
    for speed, predicted, limit in ((3.0, 44.0, 52.0), (70.0, 60.0, 80.0), (500.0, 9.0, 12.0)):
        dial.set_view(
            SpeedView(speed, True, 0.2, predicted_tps=predicted, limit_tps=limit, step_ms=(9.0,) * 20)
        )
        assert dial.scale_end == 60


def test_an_answer_that_is_slower_is_amber_and_its_last_value_grey(dial: Dial) -> None:
    palette = theme.palette()
    accent, amber, grey = palette.accent.name(), palette.warn_fill.name(), palette.mem_working.name()
    dial.set_view(replace(PREDICTED, limit_tps=None, is_slower=True))
    assert amber in colors_of(dial)
    assert accent not in colors_of(dial)
    dial.set_view(replace(PREDICTED, limit_tps=None, is_slower=True, is_live=False))
    assert amber not in colors_of(dial)
    assert grey in colors_of(dial)


def test_the_marks_of_prediction_and_limit_are_drawn_where_they_are_known(dial: Dial) -> None:
    none, marked = replace(PREDICTED, predicted_tps=None, limit_tps=None), PREDICTED
    dial.set_view(replace(none, is_live=False))
    plain = dial.grab().toImage()
    dial.set_view(replace(marked, is_live=False))
    assert dial.grab().toImage() != plain
    assert theme.palette().warn_fill.name() in colors_of(dial)


def test_all_marks_are_in_the_spoken_sentence(dial: Dial) -> None:
    dial.set_view(replace(PREDICTED, reading_tps=(4.0, 8.0), is_slower=True))
    assert dial.sentence() == (
        "40.0 tokens per second now, slower than predicted, predicted 44, bandwidth limit 52; "
        "people read about 4 to 8"
    )
    dial.set_view(SpeedView(predicted_tps=44.0))
    assert dial.sentence() == "Speed not measured yet, predicted 44; people read about 4 to 7"


@pytest.mark.parametrize("bad", [math.inf, math.nan, -1.0])
def test_what_is_no_prediction_is_not_drawn(dial: Dial, bad: float) -> None:
    dial.set_view(SpeedView(40.0, True, 0.2, predicted_tps=bad, limit_tps=bad))
    assert "predicted" not in dial.sentence()
    dial.grab()


def test_thousands_on_the_scale_are_short(dial: Dial) -> None:
    dial.set_view(SpeedView(1240.0, ttft_s=0.1))
    assert dial.scale_end == 1600
    assert [tick_text(value) for value in (0.0, 2.5, 400.0, 1200.0, 2000.0)] == [
        "0",
        "2.5",
        "400",
        "1.2k",
        "2k",
    ]


def test_the_fixed_parts_follow_a_change_of_theme(dial: Dial, qapp: QApplication) -> None:
    dark = theme.palette().track.name()
    assert dark in colors_of(dial)
    theme.apply(qapp, "light")
    assert dark not in colors_of(dial)
    assert QColor("#DDE1E9").name() in colors_of(dial)


def test_the_accessible_sentence_changes_once_a_second_at_most(dial: Dial, tick: Tick) -> None:
    changes = 0
    before = dial.accessibleDescription()
    for step in range(30):  # three seconds
        dial.set_view(SpeedView(40.0 + step, is_live=True))
        tick()
        changes += dial.accessibleDescription() != before
        before = dial.accessibleDescription()
    assert 2 <= changes <= 4
    assert "tokens per second" in before


def test_nothing_is_repainted_when_nothing_changed(
    dial: Dial, tick: Tick, monkeypatch: pytest.MonkeyPatch
) -> None:
    dial.set_view(SpeedView(40.0, is_live=True))
    tick(5)
    repaints: list[bool] = []
    monkeypatch.setattr(dial, "update", lambda: repaints.append(True))
    tick(20)
    assert not repaints
