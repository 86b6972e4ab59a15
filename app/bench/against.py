"""`decodeck bench --against llama-cpp`: the same file in both engines, in turn.

Knows what is compared and in which order; not how it is measured or printed. A ratio above 1 is good for us.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path

from app.bench.contenders import Contender, Ours, Pulse, Theirs, file_step_bytes, require_llama_cpp
from app.bench.interleave import Spread, interleave, values, warmed
from app.bench.lengths import DECODE_STEPS, MOST_LOADS, Lengths
from engine.errors import WishError
from engine.fit.plan import plan
from engine.hardware.probe import probe
from engine.models.spec import read_spec
from engine.types import LoadSpec

OURS, THEIRS = "ours", "theirs"
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Measure:
    """What is compared: ``cost`` is in seconds or bytes, less is better. ``tokens`` of them make a speed."""

    name: str
    unit: str
    cost: Callable[[Contender], float]
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Figure:
    """One comparison: their cost over ours, and both medians in ``unit``."""

    name: str
    unit: str
    ratio: Spread
    ours: float
    theirs: float

    @classmethod
    def of(cls, name: str, unit: str, ours: list[float], theirs: list[float], tokens: int = 0) -> Figure:
        """From the costs of both sides, round by round; ``tokens`` as in Measure."""
        ratio = Spread.of(their / our for our, their in zip(ours, theirs, strict=True))
        medians = [Spread.of(costs).median for costs in (ours, theirs)]
        if tokens:
            medians = [tokens / cost for cost in medians]
        return cls(name, unit, ratio, medians[0], medians[1])

    def __str__(self) -> str:
        return f"{self.name}: {self.ratio.median:.2f} ({self.ours:.4g} and {self.theirs:.4g} {self.unit})"


def compare(wish: LoadSpec, repeat: int, say: Say) -> dict[str, object]:
    """Run all pairs; the `ratios` of the JSON report and what stands behind them.

    Raises WishError where llama-cpp-python is missing or the model is no GGUF file, and what loading raises.
    """
    require_llama_cpp()
    if Path(wish.path).is_dir():
        raise WishError("llama.cpp reads GGUF files only.", "Give a GGUF file with --model.")
    spec = read_spec(wish.path)
    lengths = Lengths.of(spec)
    wish = replace(wish, context=lengths.context)
    wish = replace(wish, threads=plan(spec, probe(), wish).threads)
    figures: list[Figure] = []

    def add(figure: Figure) -> None:
        figures.append(figure)
        say(str(figure))

    with ExitStack() as stack:
        pulse = stack.enter_context(closing(Pulse(wish.threads or 1)))
        for fresh in fresh_figures(wish, lengths, repeat, pulse):
            add(fresh)
        ours = stack.enter_context(closing(Ours(wish)))
        theirs = stack.enter_context(closing(Theirs(wish)))
        for measure in measures(lengths):
            add(compared(measure, ours, theirs, repeat, pulse))
    return {
        "model": wish.path,
        "format": ours.held.format,
        "kernels": ours.held.kernels,
        "threads": wish.threads,
        "tokens": {"prefill_512": lengths.prompt, "ttft": lengths.short_prompt, "decode_2k": lengths.deep},
        "bytes_per_token": {OURS: ours.held.step_bytes(0), THEIRS: file_step_bytes(spec)},
        "ratios": {figure.name: figure.ratio.as_json() for figure in figures},
        "medians": {
            figure.name: {"unit": figure.unit, OURS: figure.ours, THEIRS: figure.theirs} for figure in figures
        },
    }


def measures(lengths: Lengths) -> list[Measure]:
    """What is measured on loaded models. The deep decode comes last: filling the caches takes long."""

    def decode(depth: int) -> Callable[[Contender], float]:
        return lambda side: side.step_s(DECODE_STEPS, depth)

    return [
        Measure("prefill_512", "tok/s", lambda side: side.prefill_s(lengths.prompt), lengths.prompt),
        Measure("ttft", "s", lambda side: side.prefill_s(lengths.short_prompt)),
        Measure("decode_empty", "tok/s", decode(0), 1),
        Measure("decode_2k", "tok/s", decode(lengths.deep), 1),
    ]


def compared(
    measure: Measure, ours: Contender, theirs: Contender, repeat: int, pulse: Callable[[], float]
) -> Figure:
    """Both sides in turn, after one round that does not count."""
    sides: dict[str, Callable[[], float]] = {
        OURS: lambda: measure.cost(ours),
        THEIRS: lambda: measure.cost(theirs),
    }
    samples = warmed(sides, repeat, pulse)
    return Figure.of(
        measure.name, measure.unit, values(samples, OURS), values(samples, THEIRS), measure.tokens
    )


def fresh_figures(
    wish: LoadSpec, lengths: Lengths, repeat: int, pulse: Callable[[], float]
) -> tuple[Figure, Figure]:
    """`load`, up to the first step, and `peak_memory`, with a prompt and some steps: in fresh processes."""
    peaks: dict[str, list[float]] = {OURS: [], THEIRS: []}

    def run(side: str, make: Callable[[LoadSpec], Contender]) -> float:
        with closing(make(wish)) as contender:
            contender.prefill_s(lengths.prompt)
            contender.step_s(DECODE_STEPS, lengths.prompt)
            peaks[side].append(contender.memory()["peak_growth_bytes"])
        return contender.ready_s

    sides: dict[str, Callable[[], float]] = {
        OURS: lambda: run(OURS, Ours),
        THEIRS: lambda: run(THEIRS, Theirs),
    }
    samples = interleave(sides, min(repeat, MOST_LOADS), pulse)
    load = Figure.of("load", "s", values(samples, OURS), values(samples, THEIRS))
    return load, Figure.of("peak_memory", "bytes", peaks[OURS], peaks[THEIRS])
