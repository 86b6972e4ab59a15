"""Which of several plans for the same model is the best one: by quality, by speed, and against reading speed.

Knows plans and what is predicted of them; makes none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from engine.fit.speed import predict
from engine.types import LoadPlan, ModelSpec

READING_WPM = (175, 300)
"""Words a minute that most adults read silently, English non-fiction: 238 on average, Brysbaert 2019,
"How many words do we read per minute?", Journal of Memory and Language 109 (doi 10.1016/j.jml.2019.104047).
"""
TOKENS_PER_WORD = 4 / 3  # of English prose in vocabularies of 32k to 256k; an answer's own is better if known

_LEAST_SAVING = 0.05  # of the bytes: a format with less rounds weights for next to nothing
_VERDICTS = ("fits", "tight", "spills", "no")  # the best first


def reading_tps(tokens_per_word: float = TOKENS_PER_WORD) -> tuple[float, float]:
    """Tokens a second that a slow and a quick reader take in."""
    slow, quick = READING_WPM
    return slow * tokens_per_word / 60, quick * tokens_per_word / 60


READING_TPS = reading_tps()
"""The same for an answer whose tokens have not been counted: 3.9 to 6.7."""


def formats_by_quality(spec: ModelSpec) -> tuple[str, ...]:
    """Formats worth a recommendation, the most exact first. NF4 and LLM.int8 take as many bytes as int4 and
    int8 and need a library more; a wider format than the file's adds bytes alone.
    """
    own = "file" if spec.source == "gguf" else "bf16"
    return (own,) if spec.generic is not None else (own, "int8", "int4")


def worth_it(plans: Iterable[LoadPlan]) -> Iterator[LoadPlan]:
    """Those of ``plans``, in order of quality, that take less than the ones before them."""
    least: float = float("inf")
    for made in plans:
        if made.bytes.weights < (1 - _LEAST_SAVING) * least:
            least = made.bytes.weights
            yield made


def best_quality(plans: Iterable[LoadPlan]) -> LoadPlan:
    """The first of ``plans``, in order of quality, that fits with a margin and writes quicker than people
    read; else the quickest of those that come nearest to it. At least one plan must be given.
    """
    seen: list[LoadPlan] = []
    for made in plans:
        if made.verdict == "fits" and beats_reading(made):
            return made
        seen.append(made)
    return quickest(seen)


def quickest(plans: Iterable[LoadPlan]) -> LoadPlan:
    """The quickest of those with the best verdict; where none fits, the one that is least short."""
    nearest = list(plans)
    best = min(_VERDICTS.index(made.verdict) for made in nearest)
    nearest = [made for made in nearest if made.verdict == _VERDICTS[best]]
    if _VERDICTS[best] == "no":
        return max(nearest, key=lambda made: made.spare_bytes or 0)
    return max(nearest, key=tps)


def beats_reading(made: LoadPlan) -> bool:
    """Whether a quick reader does not wait for a chat that fills half of the context."""
    return tps(made) >= READING_TPS[1]


def tps(made: LoadPlan) -> float:
    """Tokens a second that are predicted of a chat that fills half of the context."""
    return predict(made).half
