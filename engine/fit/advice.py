"""What to load and how: plans side by side, the longest context that fits, and what is recommended.

Pure arithmetic on headers and the machine's facts, standard library only: instant while a slider moves.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from engine.errors import WishError
from engine.fit.choices import FORMATS, MIN_CONTEXT, default_context
from engine.fit.kv_pages import PAGE_TOKENS
from engine.fit.plan import plan
from engine.fit.preference import (
    READING_TPS,
    beats_reading,
    best_quality,
    formats_by_quality,
    quickest,
    reading_tps,
    tps,
    worth_it,
)
from engine.machine import Hardware
from engine.types import LoadPlan, LoadSpec, ModelSpec
from engine.words import figure, tr

__all__ = [
    "PREFERENCES",
    "READING_TPS",
    "Advice",
    "context_steps",
    "grid",
    "longest_context",
    "reading_tps",
    "recommend",
    "usable_formats",
]

PREFERENCES = ("quality", "fastest", "longest")
SHORTEST_STEP = 512  # tokens: a shorter context holds no chat
_SHORTEST_ADVISED = 2048  # a context below this is advised only where nothing longer fits
_KV_BY_QUALITY = ("auto", "8")  # 4 bits are for those who ask for them
_IN_FAST_MEMORY = ("fits", "tight")


@dataclass(frozen=True, slots=True)
class Advice:
    """A wish that names all it chooses, its plan, and a sentence that says why."""

    wish: LoadSpec
    plan: LoadPlan
    reason: str


def grid(
    spec: ModelSpec,
    hardware: Hardware,
    wish: LoadSpec,
    formats: Sequence[str],
    contexts: Sequence[int],
    held_bytes: int = 0,
    draft: ModelSpec | None = None,
) -> tuple[LoadPlan, ...]:
    """The plans of all ``formats`` with all ``contexts``, row by row: the contexts of the first format first.

    Raises WishError for a format that cannot be used here; `usable_formats` are those that can.
    """
    return tuple(
        plan(spec, hardware, replace(wish, format=format, context=context), held_bytes, draft)
        for format in formats
        for context in contexts
    )


def usable_formats(spec: ModelSpec, hardware: Hardware, wish: LoadSpec) -> tuple[str, ...]:
    """The formats of which there is a plan, whether it fits or not. Raises WishError where no format makes
    the rest of the wish possible.
    """
    usable: list[str] = []
    refusal: WishError | None = None
    for format in FORMATS:
        try:
            plan(spec, hardware, replace(wish, format=format))
        except WishError as error:
            refusal = refusal or error
        else:
            usable.append(format)
    if refusal is not None and not usable:
        raise refusal
    return tuple(usable)


def context_steps(spec: ModelSpec) -> tuple[int, ...]:
    """Contexts worth a column: powers of two from 512 up to what the model was trained for, and that."""
    most = max(MIN_CONTEXT, spec.trained_context)
    powers = (SHORTEST_STEP << power for power in range(most.bit_length()))
    return (*(context for context in powers if context < most), most)


def longest_context(
    spec: ModelSpec,
    hardware: Hardware,
    wish: LoadSpec,
    held_bytes: int = 0,
    draft: ModelSpec | None = None,
) -> int | None:
    """Tokens of the longest context that fits, no more than the model was trained for; in whole pages. 0: not
    even the shortest does. None: free memory is unknown.

    Where layers must lie in slower memory anyhow it is the longest that can be loaded at all.
    """
    resolved = replace(wish, format=plan(spec, hardware, wish, held_bytes, draft).format)

    def at(context: int) -> LoadPlan:
        return plan(spec, hardware, replace(resolved, context=context), held_bytes, draft)

    return _longest(spec, at)


def recommend(
    spec: ModelSpec,
    hardware: Hardware,
    wish: LoadSpec,
    preference: str = "quality",
    held_bytes: int = 0,
    draft: ModelSpec | None = None,
) -> Advice:
    """Format, context and KV precision for a model; device, threads and draft model stay as wished.

    ``quality``: the most exact weights that fit with a margin and write quicker than people read, at the
    default context. ``fastest``: the fewest seconds a token there. ``longest``: the longest context that
    fits with a margin and is still quicker than reading. Where nothing does, what comes nearest.

    Raises WishError for another preference, and for what `plan` refuses.
    """
    if preference not in PREFERENCES:
        raise WishError(
            tr("Preference {preference} is unknown.").format(preference=repr(preference)),
            tr("Choose {choices}.").format(choices=", ".join(PREFERENCES)),
        )
    free = replace(wish, context=None, kv="auto", gpu_layers=None, anyway=False)
    formats = formats_by_quality(spec)

    def make(format: str, kv: str = "auto", context: int | None = None) -> LoadPlan:
        asked = replace(free, format=format, kv=kv, context=context)
        return plan(spec, hardware, asked, held_bytes, draft)

    if preference == "longest":
        made = _reaching_furthest(spec, make, formats)
    elif preference == "fastest":
        made = quickest(make(format) for format in formats)
    else:
        made = best_quality(worth_it(make(format) for format in formats))
    if made.verdict not in _IN_FAST_MEMORY or (preference == "quality" and made.verdict != "fits"):
        made = _shortened(spec, make, formats) or made
    return Advice(
        replace(made.wish, format=made.format, context=made.context), made, _reason(made, preference)
    )


_Make = Callable[..., LoadPlan]


def _longest(
    spec: ModelSpec, at: Callable[[int], LoadPlan], verdicts: Collection[str] = _IN_FAST_MEMORY
) -> int | None:
    most = max(MIN_CONTEXT, spec.trained_context)
    whole = at(most)
    if whole.free_bytes is None:
        return None
    least = at(min(most, PAGE_TOKENS)).verdict
    if least == "no":
        return 0
    good = verdicts if least in verdicts else (*verdicts, "tight", "spills")
    if whole.verdict in good:
        return most
    pages = range(1, -(-most // PAGE_TOKENS))
    first_bad = bisect_left(pages, True, key=lambda count: at(count * PAGE_TOKENS).verdict not in good)
    return PAGE_TOKENS * first_bad


def _reaching_furthest(spec: ModelSpec, make: _Make, formats: Sequence[str]) -> LoadPlan:
    """The plan with the longest context, of several the most exact; the quickest where none beats reading."""
    found = list(_at_their_longest(spec, make, formats, _KV_BY_QUALITY))
    good = [made for made in found if made.verdict == "fits" and beats_reading(made)]
    if good:
        return max(good, key=lambda made: made.context)
    return quickest(found or [make(format) for format in formats])


def _shortened(spec: ModelSpec, make: _Make, formats: Sequence[str]) -> LoadPlan | None:
    """Where the default context does not fit: the most exact format with the longest context that does and
    is worth having; None where none is.
    """
    least = min(_SHORTEST_ADVISED, default_context(spec))
    found = [each for each in _at_their_longest(spec, make, formats, ("auto",)) if each.verdict == "fits"]
    long_enough = [each for each in found if each.context >= least]
    return (
        best_quality(long_enough) if long_enough else max(found, key=lambda each: each.context, default=None)
    )


def _at_their_longest(
    spec: ModelSpec, make: _Make, formats: Sequence[str], precisions: Sequence[str]
) -> Iterator[LoadPlan]:
    """Each format and KV precision at the longest context that fits with a margin, if one does."""
    for format in formats:
        for kv in precisions:
            try:
                longest = _longest(spec, lambda tokens: make(format, kv, tokens), ("fits",))  # noqa: B023
            except WishError:  # heads too odd for packed keys, or a GPU, which has none
                continue
            if longest:
                yield make(format, kv, longest)


def _reason(made: LoadPlan, preference: str) -> str:
    if made.verdict == "no":
        return tr("Nothing fits; {format} comes nearest.").format(format=made.format)
    if made.verdict != "fits":
        said = tr("The quickest that can be loaded, about {speed} tok/s.")
    elif not beats_reading(made):
        said = tr(
            "Nothing that fits writes as quickly as people read; this is the quickest, about {speed} tok/s."
        )
    elif preference == "fastest":
        said = tr("The quickest that fits, about {speed} tok/s.")
    elif preference == "longest":
        said = tr(
            "The longest context that fits with room to spare and is quicker than reading, "
            "about {speed} tok/s."
        )
    else:
        said = tr(
            "The most exact weights that fit with room to spare and are quicker than reading, "
            "about {speed} tok/s."
        )
    said = said.format(speed=figure(round(tps(made))))
    return said if made.verdict == "fits" else f"{said} {made.reasons[0]}"
