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
from engine.words import figure, mark, number, tr


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from ``low`` to ``high``, both included; whole ones alone where ``is_whole``."""

    low: float
    high: float
    is_whole: bool = False

    @property
    def words(self) -> str:
        """ "a number from 0 to 1": completes the sentence "It must be …"."""
        if self.low == -math.inf:
            said = tr("a whole number up to {most}") if self.is_whole else tr("a number up to {most}")
            return said.format(most=number(self.high))
        said = (
            tr("a whole number from {least} to {most}")
            if self.is_whole
            else tr("a number from {least} to {most}")
        )
        return said.format(least=number(self.low), most=number(self.high))

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
            said = tr("{name} {value} cannot be used.").format(name=shown, value=repr(value))
            raise WishError(said, tr("It must be {range}.").format(range=allowed.words))
    if params.logit_bias:
        _check_bias(params.logit_bias, vocab_size)
    return params


def check_speculate(way: str) -> None:
    """Raise WishError for none of SPECULATE."""
    if way not in SPECULATE:
        raise WishError(
            tr("Speculation {way} is unknown.").format(way=repr(way)),
            tr("Choose {choices}.").format(choices=", ".join(SPECULATE)),
        )


def _check_bias(pairs: Sequence[tuple[int, float]], vocab_size: int | None) -> None:
    """Raise WishError unless all are a token id, each once, and a bias."""
    if len(pairs) > MOST_BIASED:
        raise WishError(
            tr("logit-bias names {count} tokens.").format(count=figure(len(pairs))),
            tr("At most {most} tokens can have one.").format(most=figure(MOST_BIASED)),
        )
    ids = Range(0, (vocab_size or 1 << 31) - 1, is_whole=True)
    seen: set[int] = set()
    for token, bias in pairs:
        if not ids.holds(token):
            hint = tr("This model's ids are {range}.") if vocab_size else tr("An id is {range}.")
            said = tr("logit-bias names the token {token}, which is none.").format(token=repr(token))
            raise WishError(said, hint.format(range=ids.words))
        if not BIAS.holds(bias):
            raise WishError(
                tr("logit-bias {bias} of the token {token} cannot be used.").format(
                    bias=repr(bias), token=token
                ),
                tr("It must be {range}.").format(range=BIAS.words),
            )
        if token in seen:
            said = tr("logit-bias names the token {token} twice.").format(token=token)
            raise WishError(said, tr("Name every token once."))
        seen.add(token)


def check_form(json_schema: str, regex: str) -> None:
    """Raise WishError where the form that an answer must have is given twice, is too long, is no schema at
    all, or needs a package that is not installed. `engine.decode.constraint` tells whether it can be
    compiled.
    """
    if json_schema and regex:
        raise WishError(
            tr("An answer is held to a JSON schema or a regex, not to both."), tr("Give one of them.")
        )
    for said, text, most in (
        (
            mark("The JSON schema has {size} bytes; at most {most} are allowed."),
            json_schema,
            MOST_SCHEMA_BYTES,
        ),
        (mark("The regex has {size} bytes; at most {most} are allowed."), regex, MOST_REGEX_BYTES),
    ):
        size = len(text.encode(errors="replace"))
        if size > most:
            message = tr(said).format(size=figure(size), most=figure(most))
            raise WishError(message, tr("Give a shorter one."))
    if json_schema:
        _check_schema(json_schema)
    if (len(regex) - len(regex.rstrip("\\"))) % 2:
        raise WishError(tr("The regex ends with a backslash that escapes nothing."), tr("Write two for one."))
    if importlib.util.find_spec("llguidance") is None:
        raise WishError(
            tr(
                "Holding an answer to a schema or a regex needs the package llguidance, "
                "which is not installed."
            ),
            tr("Run pip install {name}.").format(name="llguidance"),
        )


def _check_schema(text: str) -> None:
    try:
        is_object = isinstance(json.loads(text), dict)
    except RecursionError:
        raise WishError(tr("The JSON schema is nested too deeply."), tr("Simplify it.")) from None
    except ValueError:
        is_object = False
    if not is_object:
        raise WishError(
            tr("The JSON schema is not a JSON object."),
            tr("Give one, such as {example}.").format(example='{"type": "object"}'),
        )
