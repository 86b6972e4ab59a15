"""The latency line: the last 96 steps, on a scale that one spike does not move."""

from __future__ import annotations

import math

import pytest
from pytestqt.qtbot import QtBot

from ui import theme
from ui.latency import NUM_STEPS, LatencyLine


@pytest.fixture
def line(qtbot: QtBot) -> LatencyLine:
    widget = LatencyLine()
    qtbot.addWidget(widget)
    widget.resize(340, 48)
    return widget


def count_pixels(line: LatencyLine, color: str) -> int:
    image = line.grab().toImage()
    return sum(
        image.pixelColor(x, y).name() == color
        for x in range(image.width())
        for y in range(18, image.height())
    )


def test_it_starts_with_the_first_answer(line: LatencyLine) -> None:
    assert line.sentence() == "Starts with the next answer"
    assert count_pixels(line, theme.palette().accent.name()) == 0


def test_only_the_last_96_steps_are_kept(line: LatencyLine) -> None:
    for step in range(36_000):
        line.add_steps((float(step),))
        if step == 500:
            break
    assert line.steps == tuple(float(step) for step in range(501 - NUM_STEPS, 501))


def test_a_new_answer_empties_the_line(line: LatencyLine) -> None:
    line.add_steps([20.0] * 10)
    line.add_steps([30.0], is_new_answer=True)
    assert line.steps == (30.0,)


def test_one_spike_does_not_rescale(line: LatencyLine) -> None:
    line.add_steps([20.0] * 20)
    before = line.reference_ms
    line.add_steps([2000.0])
    assert line.reference_ms == before
    assert "slowest 2,000" in line.sentence()


def test_a_lasting_change_does_rescale(line: LatencyLine) -> None:
    line.add_steps([20.0] * 20)
    line.add_steps([60.0] * 60)
    assert line.reference_ms == 60.0


def test_a_step_off_the_scale_has_an_amber_cap(line: LatencyLine) -> None:
    amber = theme.palette().warn_fill.name()
    line.add_steps([20.0] * 40)
    assert count_pixels(line, amber) == 0
    line.add_steps([90.0] + [20.0] * 5)
    assert count_pixels(line, amber) > 0


def test_the_line_is_really_drawn_when_all_values_are_equal(line: LatencyLine) -> None:
    line.add_steps([20.0] * NUM_STEPS)
    assert count_pixels(line, theme.palette().text1.name()) > 0
    assert line.sentence() == "Median 20.0 milliseconds, slowest 20 milliseconds"


def test_what_is_no_time_is_a_gap(line: LatencyLine) -> None:
    line.add_steps([20.0, math.nan, math.inf, -1.0, 20.0])
    assert [math.isnan(value) for value in line.steps] == [False, True, True, True, False]
    line.grab()


def test_only_gaps_are_no_data(line: LatencyLine) -> None:
    line.add_steps([math.nan] * 3000)
    assert line.sentence() == "Starts with the next answer"
    line.grab()


def test_steps_of_zero_milliseconds_do_no_harm(line: LatencyLine) -> None:
    line.add_steps([0.0] * 10)
    line.grab()
