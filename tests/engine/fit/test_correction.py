"""Recursive least squares: what runs teach, and what they do not."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from engine.calibration import Calibration, Correction
from engine.fit.correction import (
    BELIEVED,
    LARGE_ERROR,
    PARTS,
    Observed,
    corrected,
    correction_of,
    fresh,
    learn,
    place_of,
)
from engine.fit.plan import plan
from engine.types import LoadSpec
from tests.fakes import HARDWARE, make_spec

TRUE = (1.2, 0.9, 0.8, 1.3, 1.0)


def an_answer(
    rng: random.Random, factors: Sequence[float], noise: float, times: float = 1.0
) -> list[Observed]:
    """Steps at some lengths: weights from memory, attention that grows, something fixed."""
    found = []
    for length in (0.05, 0.2, 0.4, 0.6, 0.8, 1.0):
        parts = (rng.uniform(5e-3, 20e-3), rng.uniform(0, 3e-3), 10e-3 * length, rng.uniform(1e-3, 3e-3), 0.0)
        seconds = sum(factor * part for factor, part in zip(factors, parts, strict=True))
        found.append(Observed(parts, times * seconds * rng.gauss(1.0, noise)))
    return found


def off_by(learnt: Correction, rng: random.Random, factors: Sequence[float]) -> float:
    """The largest error of predicted steps, as a fraction."""
    errors = []
    for each in an_answer(rng, factors, 0.0):
        predicted = sum(factor * part for factor, part in zip(learnt.factors, each.parts, strict=True))
        errors.append(abs(predicted / each.seconds - 1))
    return max(errors)


def test_known_factors_are_recovered_from_noisy_runs() -> None:
    rng, learnt = random.Random(1), fresh("here")
    before = off_by(learnt, random.Random(2), TRUE)
    for _ in range(40):
        learnt = learn(learnt, an_answer(rng, TRUE, 0.03))
    assert before > 0.1
    assert off_by(learnt, random.Random(2), TRUE) < 0.03
    assert learnt.factors[:4] == pytest.approx(TRUE[:4], abs=0.12)
    assert learnt.answers == 40


def test_the_first_answers_bring_most_of_it() -> None:
    rng, learnt = random.Random(3), fresh("here")
    before = off_by(learnt, random.Random(4), TRUE)
    for _ in range(2):
        learnt = learn(learnt, an_answer(rng, TRUE, 0.02))
    assert off_by(learnt, random.Random(4), TRUE) < before / 2


def test_what_no_answer_shows_stays_as_it_was() -> None:
    learnt = fresh("here")
    for _ in range(200):
        learnt = learn(learnt, [Observed((10e-3, 0.0, 0.0, 0.0, 0.0), 12e-3)])
    assert learnt.factors[0] == pytest.approx(1.2, abs=0.01)
    assert learnt.factors[1:] == (1.0,) * (PARTS - 1)
    assert all(learnt.covariance[i][i] <= fresh("").covariance[i][i] * 1.001 for i in range(PARTS))


@pytest.mark.parametrize("times", [2.0, 5.0, 0.4])
def test_a_run_on_a_busy_machine_changes_nothing(times: float) -> None:
    rng, learnt = random.Random(5), fresh("here")
    for _ in range(10):
        learnt = learn(learnt, an_answer(rng, TRUE, 0.02))
    after = learn(learnt, an_answer(rng, TRUE, 0.02, times))
    assert after.factors == learnt.factors and after.spread == learnt.spread
    assert len(after.doubts) == 1
    assert learn(after, an_answer(rng, TRUE, 0.02)).doubts == ()


def test_scattered_disturbances_never_add_up_to_a_belief() -> None:
    rng, learnt = random.Random(6), fresh("here")
    for _ in range(10):
        learnt = learn(learnt, an_answer(rng, TRUE, 0.02))
    after = learnt
    for times in (2.0, 5.0, 12.0, 1.9, 4.0, 30.0):
        after = learn(after, an_answer(rng, TRUE, 0.02, times))
    assert after.factors == learnt.factors


def test_what_goes_on_is_believed() -> None:
    rng, learnt = random.Random(7), fresh("here")
    for _ in range(10):
        learnt = learn(learnt, an_answer(rng, TRUE, 0.02))
    slower = [2 * factor for factor in TRUE]
    for _ in range(BELIEVED + 5):
        learnt = learn(learnt, an_answer(rng, slower, 0.02))
    assert off_by(learnt, random.Random(8), slower) < 0.1
    assert learnt.doubts == ()


def test_one_strange_length_moves_little() -> None:
    rng, learnt = random.Random(9), fresh("here")
    for _ in range(20):
        learnt = learn(learnt, an_answer(rng, TRUE, 0.02))
    answer = an_answer(rng, TRUE, 0.02)
    answer[0] = replace(answer[0], seconds=3 * answer[0].seconds)
    after = learn(learnt, answer)
    assert off_by(after, random.Random(10), TRUE) < 0.1


def test_the_spread_follows_the_errors() -> None:
    rng, steady, noisy = random.Random(11), fresh("here"), fresh("here")
    for _ in range(30):
        steady = learn(steady, an_answer(rng, TRUE, 0.005))
        noisy = learn(noisy, an_answer(rng, TRUE, 0.0, rng.choice((0.9, 1.1))))
    assert steady.spread < 0.02 < 0.05 < noisy.spread < LARGE_ERROR


def test_factors_stay_positive_and_within_reason() -> None:
    learnt = fresh("here")
    for _ in range(50):
        learnt = learn(learnt, [Observed((1e-3,) * PARTS, 1e-9)])
    assert all(0 < factor <= 10 for factor in learnt.factors)


def test_an_answer_without_steps_teaches_nothing() -> None:
    assert learn(fresh("here"), []) == fresh("here")


def test_a_correction_holds_for_its_device_kernels_and_format() -> None:
    made = plan(make_spec(), HARDWARE, LoadSpec("/models/tiny.gguf", format="bf16"))
    other = plan(make_spec(), HARDWARE, LoadSpec("/models/tiny.gguf", format="f32"))
    known = Calibration(10.0)
    answer = [Observed((1e-3, 0.0, 0.0, 0.0, 0.0), 1.1e-3)]
    learnt = corrected(known, made, answer)
    found = correction_of(learnt, made)
    assert found is not None and found.place == place_of(made) and found.factors[0] > 1.0
    assert correction_of(learnt, other) is None
    both = corrected(corrected(learnt, other, answer), made, answer)
    assert sorted(each.place for each in both.corrections) == sorted((place_of(made), place_of(other)))
    assert learnt.basis == "corrected" and known.basis == "measured"
