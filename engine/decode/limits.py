"""The ranges of sampling values. Standard library only: a command line checks before torch loads."""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.errors import WishError
from engine.types import SamplingParams


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from ``low`` to ``high``, both included; whole ones alone where ``is_whole``."""

    low: float
    high: float
    is_whole: bool = False

    @property
    def words(self) -> str:
        """ "a number from 0 to 1": completes the sentence "It must be …"."""
        kind = "a whole number" if self.is_whole else "a number"
        if self.low == -math.inf:
            return f"{kind} up to {_written(self.high)}"
        return f"{kind} from {_written(self.low)} to {_written(self.high)}"

    def holds(self, value: object) -> bool:
        """Whether ``value`` is such a number."""
        if isinstance(value, bool) or not isinstance(value, int if self.is_whole else int | float):
            return False
        return self.low <= value <= self.high  # never true of NaN


RANGES = {
    "temperature": Range(0, 5),  # 0 is greedy
    "top_k": Range(-math.inf, 1 << 20, is_whole=True),  # 0 and less is off
    "top_p": Range(0, 1),
    "min_p": Range(0, 1),
    "repeat_penalty": Range(0.1, 10),
    "seed": Range(0, (1 << 63) - 1, is_whole=True),  # what torch's generator takes
}
"""By the names of the fields of SamplingParams; a seed may also be None."""


def checked(params: SamplingParams) -> SamplingParams:
    """Return ``params`` if every value can be used; else raise WishError naming the value and its range."""
    for name, allowed in RANGES.items():
        value = getattr(params, name)
        if not allowed.holds(value) and not (name == "seed" and value is None):
            shown = name.replace("_", "-")
            raise WishError(f"{shown} {value!r} cannot be used.", f"It must be {allowed.words}.")
    return params


def _written(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:g}"
