"""What real answers teach about predicted steps: recursive least squares with forgetting on a factor for each
part of a step, that neither a busy machine nor a lucky run can throw off.

The update is that of Ljung, System Identification, 2nd edition, section 11.2, with weights that fall where an
error is large (Huber). Pure arithmetic, standard library only.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.calibration import Calibration, Correction
from engine.types import LoadPlan

PARTS = 5  # of StepParts: memory, cache, attention, fixed, away
FORGETTING = 0.97  # how much an answer still counts after another one
_PRIOR_SPREAD = (0.2, 0.3, 0.3, 0.5, 1.0)  # how far off the factor of each part may well be
_NOISE = 0.04  # relative, of the median of some steps
_HUBER = 1.5  # times the noise: a larger error weighs less
LARGE_ERROR = 0.3  # an answer that is so far off is not believed at once,
BELIEVED = 3  # but where so many in a row agree
AGREEMENT = 0.15  # as far as this
_LEAST_FACTOR, _MOST_FACTOR = 0.1, 10.0
_SPREAD_MEMORY = 0.8
FIRST_SPREAD = 0.1


@dataclass(frozen=True, slots=True)
class Observed:
    """The seconds that steps of one kind took in the median, and the parts that were predicted of one."""

    parts: tuple[float, ...]
    seconds: float


def place_of(made: LoadPlan) -> str:
    """What a correction holds for: device, kernels and format of a plan."""
    runner = made.kernels if made.model.generic is None else "transformers"
    return f"{made.device} {runner} {made.format}"


def correction_of(known: Calibration, made: LoadPlan) -> Correction | None:
    """What answers with plans like this one showed; None where there were none that count."""
    found = _kept(known, place_of(made))
    return found if found and found.answers else None


def corrected(known: Calibration, made: LoadPlan, answer: Sequence[Observed]) -> Calibration:
    """The same with what one more answer showed, at one or more lengths of its context."""
    place = place_of(made)
    old = _kept(known, place) or fresh(place)
    others = tuple(each for each in known.corrections if each.place != place)
    return replace(known, corrections=(*others, learn(old, answer)))


def fresh(place: str) -> Correction:
    """Nothing was learnt yet: all factors are 1."""
    return Correction(place, (1.0,) * PARTS, _prior(), FIRST_SPREAD, 0)


def learn(old: Correction, answer: Sequence[Observed]) -> Correction:
    """The factors after one more answer. One that is far off leaves them as they are, until it is the third
    of its kind: what goes on is no disturbance.
    """
    errors = [_error(old.factors, each) for each in answer]
    if not errors:
        return old
    error = statistics.median(errors)
    if abs(error) > LARGE_ERROR:
        doubts = (*(each for each in old.doubts if abs(each - error) < AGREEMENT * (1 + abs(error))), error)
        if len(doubts) < BELIEVED:
            return replace(old, doubts=doubts)
        old = replace(old, covariance=_prior(), spread=FIRST_SPREAD, doubts=())
    else:
        old = replace(old, covariance=_forgotten(old.covariance), doubts=())
        spread = _SPREAD_MEMORY * old.spread**2 + (1 - _SPREAD_MEMORY) * error**2
        old = replace(old, spread=spread**0.5)
    factors, covariance = list(old.factors), [list(row) for row in old.covariance]
    for each in answer:
        _update(factors, covariance, each, abs(error) > LARGE_ERROR)
    return replace(
        old,
        factors=tuple(min(_MOST_FACTOR, max(_LEAST_FACTOR, factor)) for factor in factors),
        covariance=tuple(tuple(row) for row in covariance),
        answers=old.answers + 1,
    )


def _kept(known: Calibration, place: str) -> Correction | None:
    return next((each for each in known.corrections if each.place == place), None)


def _error(factors: Sequence[float], each: Observed) -> float:
    """How much longer steps took than was predicted, as a fraction of that."""
    predicted = sum(factor * part for factor, part in zip(factors, each.parts, strict=True))
    return each.seconds / predicted - 1


def _update(factors: list[float], covariance: list[list[float]], each: Observed, is_believed: bool) -> None:
    """One step of recursive least squares, on relative errors; changes factors and covariance."""
    error = _error(factors, each)
    predicted = each.seconds / (1 + error)
    x = [part / predicted for part in each.parts]
    trust = 1.0 if is_believed else min(1.0, _HUBER * _NOISE / max(abs(error), 1e-9))
    towards = [sum(row[j] * x[j] for j in range(PARTS)) for row in covariance]
    total = _NOISE**2 / trust + sum(x[i] * towards[i] for i in range(PARTS))
    for i in range(PARTS):
        factors[i] += towards[i] / total * error
        for j in range(PARTS):
            covariance[i][j] -= towards[i] * towards[j] / total


def _prior() -> tuple[tuple[float, ...], ...]:
    return tuple(
        tuple(spread**2 if i == j else 0.0 for j in range(PARTS)) for i, spread in enumerate(_PRIOR_SPREAD)
    )


def _forgotten(covariance: Sequence[Sequence[float]]) -> tuple[tuple[float, ...], ...]:
    """The same a little less certain, but no part less than before anything was known of it: what no answer
    shows would otherwise become arbitrary.
    """
    scale = [
        min(FORGETTING**-0.5, spread / max(covariance[i][i], 1e-12) ** 0.5)
        for i, spread in enumerate(_PRIOR_SPREAD)
    ]
    return tuple(tuple(scale[i] * scale[j] * covariance[i][j] for j in range(PARTS)) for i in range(PARTS))
