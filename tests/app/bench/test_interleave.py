"""Order of the rounds, the bandwidth beside each measurement, and the statistics."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.bench.interleave import Sample, Spread, interleave, ratios, values, warmed


def recorder(log: list[str]) -> Callable[[str, list[float]], Callable[[], float]]:
    def make(name: str, given: list[float]) -> Callable[[], float]:
        left = iter(given)

        def measure() -> float:
            log.append(name)
            return next(left)

        return measure

    return make


def test_contenders_alternate_with_a_pulse_around_each() -> None:
    log: list[str] = []
    make = recorder(log)
    interleave(
        {"A": make("A", [1, 2]), "B": make("B", [3, 4])}, repeat=2, pulse=make("p", [10, 20, 30, 40, 50])
    )
    assert "".join(log) == "pApBpApBp"


def test_the_bandwidth_of_a_sample_is_the_mean_of_the_pulses_beside_it() -> None:
    make = recorder([])
    samples = interleave(
        {"A": make("A", [1, 2]), "B": make("B", [3, 4])}, repeat=2, pulse=make("p", [10, 20, 40, 80, 160])
    )
    assert samples == {"A": [Sample(1, 15), Sample(2, 60)], "B": [Sample(3, 30), Sample(4, 120)]}
    assert values(samples, "B") == [3, 4]


@pytest.mark.parametrize(
    ("given", "expected"),
    [([2.0], (2, 2, 2)), ([3.0, 1.0, 10.0], (3, 1, 10)), ([4.0, 1.0, 3.0, 2.0], (2.5, 1, 4))],
)
def test_a_spread_is_median_least_and_most(given: list[float], expected: tuple[float, ...]) -> None:
    spread = Spread.of(iter(given))
    assert (spread.median, spread.min, spread.max) == expected
    assert spread.as_json() == dict(zip(("median", "min", "max"), expected, strict=True))


def test_a_round_that_does_not_count_comes_first_and_ratios_are_those_of_one_round() -> None:
    fast, slow = iter([9.0, 1.0, 2.0]), iter([9.0, 3.0, 8.0])
    samples = warmed({"fast": lambda: next(fast), "slow": lambda: next(slow)}, 2, lambda: 1.0)
    assert ratios(samples, "slow", "fast") == Spread(3.5, 3.0, 4.0)
