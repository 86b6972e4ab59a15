"""The ranges of what a request may ask for. Standard library only: the command line checks before torch is
loaded.
"""

from __future__ import annotations

import importlib.util
import json
import math
from collections.abc import Sequence
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
    "presence_penalty": Range(-2, 2),  # as OpenAI has it, and so are the next, the bias and the count
    "frequency_penalty": Range(-2, 2),
    "logprobs": Range(0, 20, is_whole=True),
}
"""By the names of the fields of SamplingParams; a seed may also be None. The bias is a list, see below."""

SPECULATE = ("off", "ngram", "draft", "auto")
"""Who may guess tokens: nobody, the chat itself, a draft model, or whoever promises more."""

BIAS = Range(-100, 100)
MOST_BIASED = 1024  # tokens
MOST_SCHEMA_BYTES = 64 << 10
MOST_REGEX_BYTES = 16 << 10


def checked(params: SamplingParams, vocab_size: int | None = None) -> SamplingParams:
    """Return ``params`` if every value can be used; else raise WishError naming the value and its range. Ids
    are compared with ``vocab_size`` where that is known.
    """
    for name, allowed in RANGES.items():
        value = getattr(params, name)
        if not allowed.holds(value) and not (name == "seed" and value is None):
            shown = name.replace("_", "-")
            raise WishError(f"{shown} {value!r} cannot be used.", f"It must be {allowed.words}.")
    if params.logit_bias:
        _check_bias(params.logit_bias, vocab_size)
    return params


def check_speculate(way: str) -> None:
    """Raise WishError for none of SPECULATE."""
    if way not in SPECULATE:
        raise WishError(f"Speculation {way!r} is unknown.", f"Choose {', '.join(SPECULATE)}.")


def _check_bias(pairs: Sequence[tuple[int, float]], vocab_size: int | None) -> None:
    """Raise WishError unless all are a token id, each once, and a bias."""
    if len(pairs) > MOST_BIASED:
        raise WishError(
            f"logit-bias names {len(pairs):,} tokens.", f"At most {MOST_BIASED:,} tokens can have one."
        )
    ids = Range(0, (vocab_size or 1 << 31) - 1, is_whole=True)
    seen: set[int] = set()
    for token, bias in pairs:
        if not ids.holds(token):
            hint = f"This model's ids are {ids.words}." if vocab_size else f"An id is {ids.words}."
            raise WishError(f"logit-bias names the token {token!r}, which is none.", hint)
        if not BIAS.holds(bias):
            raise WishError(
                f"logit-bias {bias!r} of the token {token} cannot be used.", f"It must be {BIAS.words}."
            )
        if token in seen:
            raise WishError(f"logit-bias names the token {token} twice.", "Name every token once.")
        seen.add(token)


def check_form(json_schema: str, regex: str) -> None:
    """Raise WishError where the form that an answer must have is given twice, is too long, is no schema at
    all, or needs a package that is not installed. `engine.decode.constraint` tells whether it can be
    compiled.
    """
    if json_schema and regex:
        raise WishError("An answer is held to a JSON schema or a regex, not to both.", "Give one of them.")
    for name, text, most in (
        ("JSON schema", json_schema, MOST_SCHEMA_BYTES),
        ("regex", regex, MOST_REGEX_BYTES),
    ):
        size = len(text.encode(errors="replace"))
        if size > most:
            message = f"The {name} has {size:,} bytes; at most {most:,} are allowed."
            raise WishError(message, "Give a shorter one.")
    if json_schema:
        _check_schema(json_schema)
    if (len(regex) - len(regex.rstrip("\\"))) % 2:
        raise WishError("The regex ends with a backslash that escapes nothing.", "Write two for one.")
    if importlib.util.find_spec("llguidance") is None:
        raise WishError(
            "Holding an answer to a schema or a regex needs the package llguidance, which is not installed.",
            "Run pip install llguidance.",
        )


def _check_schema(text: str) -> None:
    try:
        is_object = isinstance(json.loads(text), dict)
    except RecursionError:
        raise WishError("The JSON schema is nested too deeply.", "Simplify it.") from None
    except ValueError:
        is_object = False
    if not is_object:
        raise WishError("The JSON schema is not a JSON object.", 'Give one, such as {"type": "object"}.')


def _written(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:g}"
