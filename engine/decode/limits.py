"""The ranges of sampling values. Standard library only: a command line checks before torch loads."""

from __future__ import annotations

import math

from engine.errors import WishError
from engine.types import SamplingParams


def checked(params: SamplingParams) -> SamplingParams:
    """Return ``params`` if every value can be used; else raise WishError naming the value and its range."""
    rules = (
        ("temperature", params.temperature, 0.0, 100.0),
        ("top-p", params.top_p, 0.0, 1.0),
        ("min-p", params.min_p, 0.0, 1.0),
        ("repeat-penalty", params.repeat_penalty, 0.01, 100.0),
    )
    for name, value, low, high in rules:
        if not (isinstance(value, int | float) and math.isfinite(value) and low <= value <= high):
            raise WishError(f"{name} {value!r} cannot be used.", f"Give a number from {low:g} to {high:g}.")
    if params.seed is not None and not 0 <= params.seed < 2**63:
        raise WishError(f"seed {params.seed} cannot be used.", "Give a whole number from 0 to 2^63 − 1.")
    return params
