"""The arithmetic of cost: known figures give known results, and unknown ones give nothing."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import product

import pytest

from app.cost import MILLION, CostLine, Power, Prices, Speeds, answer_money, cost_lines

SPEEDS = Speeds(read_tps=1000.0, write_tps=10.0)
UNKNOWN = Power()
TYPED = Power(busy_w=72.0, rest_w=36.0)
PRICES = Prices(kwh=0.5, hardware=876.6, years=1.0, hours=24.0, api_input=0.1, api_output=0.4)


def lines_of(
    typed: Power = TYPED, measured: Power = UNKNOWN, prices: Prices = PRICES, speeds: Speeds = SPEEDS
) -> dict[str, CostLine]:
    return {line.key: line for line in cost_lines(typed, measured, prices, speeds)}


def test_energy_and_money_of_a_million_tokens() -> None:
    lines = lines_of()
    # 10⁶ tokens at 10 a second are 10⁵ s; 72 W for these are 7.2 MJ, 2 kWh
    assert lines["wall"].written.kwh == pytest.approx(2.0)
    assert lines["wall"].written.money == pytest.approx(1.0)
    assert lines["wall"].read.kwh == pytest.approx(0.02)
    assert lines["beyond rest"].written.kwh == pytest.approx(1.0)
    # 876.60 over 365.25 days of 24 h is 0.1 an hour; 10⁵ s are 27.8 h
    assert lines["hardware"].written.money == pytest.approx(1.0 + 2.7778, rel=1e-4)
    assert (lines["api"].read.money, lines["api"].written.money) == (0.1, 0.4)


def test_the_chip_s_own_counter_comes_before_typed_watts_and_is_not_the_wall() -> None:
    measured = Power(busy_w=20.0, rest_w=2.0)
    lines = lines_of(measured=measured)
    assert lines["beyond rest"].written.kwh == pytest.approx(0.5)
    assert lines["chip"].written.kwh == pytest.approx(20 / 36)
    assert lines["wall"].written.kwh == pytest.approx(2.0)
    assert "wall" not in lines_of(typed=Power(), measured=measured)


def test_nothing_known_costs_nothing_that_is_made_up() -> None:
    assert cost_lines(Power(), Power(), Prices(), SPEEDS) == ()
    assert lines_of(typed=Power()).keys() == {"hardware alone", "api"}
    assert lines_of(speeds=Speeds()).keys() == {"api"}
    no_price = lines_of(prices=Prices())
    assert no_price["wall"].written.kwh == pytest.approx(2.0)
    assert no_price["wall"].written.money is None
    assert no_price.keys() == {"beyond rest", "wall"}
    assert lines_of(typed=Power(busy_w=30.0, rest_w=36.0)).keys() == {"wall", "hardware", "api"}
    one_side = lines_of(speeds=Speeds(write_tps=10.0))["wall"]
    assert one_side.read.kwh is None and one_side.read.money is None


@pytest.mark.parametrize("name", ["hardware", "years", "hours"])
def test_the_hardware_s_share_needs_price_and_life(name: str) -> None:
    assert "hardware" not in lines_of(prices=replace(PRICES, **{name: None}))


@pytest.mark.parametrize("factor", [0.1, 2.0, 30.0])
def test_cost_follows_watts_and_speed_in_proportion(factor: float) -> None:
    base = lines_of()["wall"].written
    watts = lines_of(typed=replace(TYPED, busy_w=72.0 * factor))["wall"].written
    speed = lines_of(speeds=replace(SPEEDS, write_tps=10.0 * factor))["wall"].written
    assert base.kwh is not None
    assert watts.kwh == pytest.approx(base.kwh * factor)
    assert speed.kwh == pytest.approx(base.kwh / factor)


def test_no_mixture_of_unknown_figures_fails_or_invents_money() -> None:
    wall, none = {"busy_w": 50.0, "rest_w": 20.0}, {"busy_w": None, "rest_w": None}
    names = [field.name for field in fields(Prices)]
    for known in product([0.0, None], repeat=len(names)):
        prices = Prices(**dict(zip(names, known, strict=True)))
        for typed in (Power(**wall), Power(**none)):
            for line in cost_lines(typed, Power(), prices, Speeds(100.0, 0.0)):
                assert line.key == "api" or line.written.money is None  # nothing is ever written at 0 tok/s


def test_an_answer_is_counted_as_widely_as_is_known() -> None:
    every = cost_lines(TYPED, Power(), PRICES, SPEEDS)
    hardware = lines_of()["hardware"].written.money
    assert hardware is not None
    assert answer_money(every, 500.0) == pytest.approx(hardware * 500 / MILLION)
    assert answer_money(cost_lines(Power(), Power(), Prices(api_output=1.0), SPEEDS), 500.0) is None
