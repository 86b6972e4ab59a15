"""Rates under a clock that the test turns."""

from __future__ import annotations

import pytest

from engine.decode.meter import Meter


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_prefill_and_decode_are_told_apart() -> None:  # B083
    clock = Clock()
    meter = Meter(clock)
    meter.prefill_started()
    clock.now += 10
    meter.prefilled(200)
    meter.token()
    for _ in range(10):
        clock.now += 0.1
        meter.token()
    assert meter.ttft_s == pytest.approx(10)
    assert meter.prefill_tps == pytest.approx(20)
    assert meter.decode_tps == pytest.approx(10)
    assert meter.take_step_ms() == pytest.approx([100] * 10)
    assert meter.take_step_ms() == ()


def test_one_token_or_none_has_no_decode_rate() -> None:  # B083
    clock = Clock()
    meter = Meter(clock)
    assert (meter.decode_tps, meter.ttft_s, meter.recent_tps) == (None, None, None)
    meter.prefill_started()
    clock.now += 1
    meter.prefilled(50)
    assert meter.prefill_tps == pytest.approx(50)  # also where the model then ends without a token
    meter.token()
    assert meter.decode_tps is None
    assert meter.ttft_s == pytest.approx(1)


def test_tokens_in_one_tick_give_no_infinite_rate() -> None:  # B083
    clock = Clock()
    meter = Meter(clock)
    meter.token()
    meter.token()
    assert meter.decode_tps is None
    clock.now += 0.5
    meter.token()
    assert meter.decode_tps == pytest.approx(4)


def test_tokens_of_one_step_share_its_time() -> None:
    clock = Clock()
    meter = Meter(clock)
    meter.token()
    assert meter.take_step_ms() == ()
    clock.now += 0.12
    for _ in range(4):  # a step in which three drafted tokens were right
        meter.token()
    assert meter.take_step_ms() == pytest.approx([30] * 4)
    clock.now += 0.05
    meter.token()
    assert meter.take_step_ms() == pytest.approx([50])


def test_the_live_rate_covers_the_last_second_only() -> None:
    clock = Clock()
    meter = Meter(clock)
    for _ in range(10):
        clock.now += 1
        meter.token()
    for _ in range(20):
        clock.now += 0.1
        meter.token()
    assert meter.recent_tps == pytest.approx(10)
