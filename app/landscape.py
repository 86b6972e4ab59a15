"""All plans that the Tuning panel shows beside each other: every format with every context. Pure arithmetic.

A survey takes some dozen plans and is made off the window's thread; what it found is looked up while a slider
moves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from engine.errors import EngineError, WishError
from engine.fit.advice import Advice, recommend
from engine.fit.plan import plan
from engine.fit.speed import Prediction, predict
from engine.machine import Gpu, Hardware
from engine.types import LoadPlan, LoadSpec, ModelSpec

SHORTEST_CONTEXT = 512
_STEP_BYTES = 1 << 25  # free memory is rounded down to these: a few pages more or less change no survey


@dataclass(frozen=True, slots=True)
class Ground:
    """What all plans of a survey share. ``wish`` names neither format nor context; ``places`` are contexts
    beside those that every scale has.
    """

    spec: ModelSpec
    hardware: Hardware  # free memory has what a model about to be replaced gives back
    wish: LoadSpec
    draft: ModelSpec | None
    preference: str
    formats: tuple[str, ...]
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Forecast:
    """A plan and the speed that is predicted of it."""

    plan: LoadPlan
    speed: Prediction


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why there is no plan with a format."""

    message: str
    hint: str

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


@dataclass(frozen=True, slots=True)
class Landscape:
    """What a survey found. ``rows`` has a forecast for each of ``contexts``, by format."""

    ground: Ground
    contexts: tuple[int, ...]
    rows: Mapping[str, tuple[Forecast, ...]] = field(hash=False)
    refused: Mapping[str, Refusal] = field(hash=False)
    advice: Advice | None = None

    def at(self, format: str, context: int) -> Forecast | None:
        """The forecast of a place; None where there is none."""
        row = self.rows.get(format)
        return row[self.contexts.index(context)] if row and context in self.contexts else None


def ground(
    spec: ModelSpec,
    hardware: Hardware,
    wish: LoadSpec,
    held_bytes: int,
    draft: ModelSpec | None,
    preference: str,
    formats: Sequence[str],
    contexts: Collection[int],
) -> Ground:
    """The ground of a wish: equal for wishes whose survey would be the same. ``contexts`` are in use."""
    free = None if hardware.ram_free_bytes is None else _rounded(hardware.ram_free_bytes + held_bytes)
    gpus = hardware.gpus and tuple(_steady(gpu) for gpu in hardware.gpus)
    steady = replace(hardware, ram_free_bytes=free, gpus=gpus)
    shared = replace(wish, format="auto", context=None, anyway=False)
    places = tuple(sorted(set(contexts) - set(_scale(spec))))
    return Ground(spec, steady, shared, draft, preference, tuple(formats), places)


def survey(ground: Ground, contexts: Sequence[int] = ()) -> Landscape:
    """All plans of ``ground``, or those with some ``contexts`` alone; these come without advice."""
    advice = None if contexts else _advice(ground)
    columns = tuple(contexts) or context_stops(ground, advice)
    rows: dict[str, tuple[Forecast, ...]] = {}
    refused: dict[str, Refusal] = {}
    for format in ground.formats:
        try:
            rows[format] = tuple(_forecast(ground, format, context) for context in columns)
        except WishError as error:
            refused[format] = Refusal(error.message, error.hint)
    return Landscape(ground, columns, rows, refused, advice)


def context_stops(ground: Ground, advice: Advice | None = None) -> tuple[int, ...]:
    """The scale, ascending, with the contexts that are in use and the one that is advised."""
    advised = () if advice is None else (advice.plan.context,)
    return tuple(sorted({*_scale(ground.spec), *ground.places, *advised}))


def _scale(spec: ModelSpec) -> Iterator[int]:
    """Powers of two up to twice the trained limit, and that limit."""
    yield spec.trained_context
    stop = min(SHORTEST_CONTEXT, spec.trained_context)
    while stop <= 2 * spec.trained_context:
        yield stop
        stop *= 2


def _advice(ground: Ground) -> Advice | None:
    try:
        return recommend(ground.spec, ground.hardware, ground.wish, ground.preference, draft=ground.draft)
    except EngineError:  # nothing can be planned with the rest of the wish
        return None


def _forecast(ground: Ground, format: str, context: int) -> Forecast:
    wish = replace(ground.wish, format=format, context=context)
    made = plan(ground.spec, ground.hardware, wish, draft=ground.draft)
    return Forecast(made, predict(made))


def _rounded(num_bytes: int) -> int:
    return num_bytes // _STEP_BYTES * _STEP_BYTES


def _steady(gpu: Gpu) -> Gpu:
    """A GPU without what changes from moment to moment and no plan needs."""
    free = None if gpu.free_bytes is None else _rounded(gpu.free_bytes)
    return replace(gpu, free_bytes=free, own_bytes=None)
