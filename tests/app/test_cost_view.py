"""The words of cost: what is known is said with where it comes from, what is not is left out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.cost import Power, Speeds
from app.cost_view import Known, cost_view, status_words
from app.settings import Settings

NBSP = "\u00a0"
SPEEDS = Speeds(read_tps=1000.0, write_tps=10.0)
TYPED = Settings(
    electricity_price=0.5,
    power_watts=72.0,
    idle_watts=36.0,
    hardware_price=876.6,
    hardware_years=1.0,
    hardware_hours=24.0,
    api_input_price=0.1,
    api_output_price=0.4,
)
KNOWN = Known(TYPED, Power(), SPEEDS, "lab", 500.0)


def test_every_way_of_counting_has_its_row() -> None:
    view = cost_view(KNOWN)
    assert [(row.name, row.input, row.output) for row in view.rows] == [
        ("Electricity, beyond rest", "$0.0050", "$0.50"),
        ("Electricity, at the wall", "$0.010", "$1.00"),
        ("With the computer's price", "$0.038", "$3.78"),
        ("API", "$0.10", "$0.40"),
    ]
    assert view.rows[1].energy == f"0.02 · 2.00{NBSP}kWh"
    assert (
        view.basis
        == f"72{NBSP}W as typed, 10.0{NBSP}tok/s written and 1,000{NBSP}read, as the lab has measured."
    )
    assert view.missing == ""


def test_what_an_average_answer_takes_and_costs() -> None:
    answer = cost_view(KNOWN).answer
    assert "An answer of 500 tokens" in answer
    assert f"≈{NBSP}50.0{NBSP}s" in answer
    assert "costs $0.0019" in answer
    assert "the API takes $0.0002" in answer
    assert cost_view(replace(KNOWN, answer_tokens=None)).answer == ""


def test_without_watts_nothing_is_made_up() -> None:
    known = Known(Settings(), Power(), SPEEDS)
    view = cost_view(known)
    assert view.rows == ()
    assert view.missing.startswith("Type the watts")
    assert view.basis == ""
    assert status_words(known) == ("", "")
    assert [field.value for field in view.fields] == [""] * 8


def test_without_a_price_there_is_energy_alone() -> None:
    known = Known(Settings(power_watts=72.0), Power(), SPEEDS)
    assert cost_view(known).missing.startswith("Type the price")
    [row] = cost_view(known).rows
    assert (row.input, row.output) == ("–", "–")
    assert status_words(known)[0] == f"2.00{NBSP}kWh/M{NBSP}tok"


def test_the_status_bar_says_which_energy_it_counts() -> None:
    words, tooltip = status_words(KNOWN)
    assert words == f"2.00{NBSP}kWh/M{NBSP}tok · $1.00"
    assert "at the wall" in tooltip
    measured = Known(Settings(electricity_price=0.5), Power(20.0, 2.0), SPEEDS)
    words, tooltip = status_words(measured)
    assert words == f"0.56{NBSP}kWh/M{NBSP}tok · $0.28"
    assert "the chip's counter" in tooltip


@pytest.mark.parametrize(
    ("currency", "amount"),
    [("€", "€1.00"), ("US$", "US$1.00"), ("CHF", "CHF\u00a01.00"), ("Fr.", "Fr.\u00a01.00"), ("", "1.00")],
)
def test_the_currency_is_the_user_s(currency: str, amount: str) -> None:
    view = cost_view(replace(KNOWN, settings=replace(TYPED, currency=currency)))
    assert view.rows[1].output == amount
    assert view.fields[0].unit == f"{currency} per kWh".strip()
