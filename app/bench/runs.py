"""`decodeck bench` itself: speed and memory of one model by format, context and number of sequences.

Knows what a run reports; not how it is printed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from app import paths
from app.bench.contenders import Ours, Pulse
from app.bench.interleave import Sample, Samples, Spread, interleave, values
from app.bench.lengths import DECODE_STEPS, ROOM_TOKENS, Lengths
from engine.fit.plan import plan
from engine.fit.speed import step_s
from engine.hardware.probe import probe
from engine.models.spec import read_spec
from engine.types import LoadPlan, LoadSpec

_PREFILL = "prefill"
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Grid:
    """What to run: every format with every context and every number of sequences at once."""

    formats: tuple[str, ...]
    contexts: tuple[int, ...]
    batches: tuple[int, ...]


def run_grid(wish: LoadSpec, grid: Grid, repeat: int, say: Say) -> dict[str, object]:
    """The `runs` of the JSON report. Raises WishError for a wish that cannot be, and what loading raises."""
    spec = read_spec(wish.path)
    prompt = Lengths.of(spec).prompt
    capacity = max(*grid.contexts, prompt) + ROOM_TOKENS
    wishes = [
        replace(wish, format=format, context=max(capacity, wish.context or 0)) for format in grid.formats
    ]
    hardware = probe(paths.kernel_times_file())
    plans = [plan(spec, hardware, each) for each in wishes]  # a wrong wish is refused before anything runs
    runs: list[dict[str, Any]] = []
    with closing(Pulse(plans[0].threads)) as pulse:
        for each, made in zip(wishes, plans, strict=True):
            with closing(Ours(each)) as ours:
                for context in grid.contexts:
                    say(f"measuring {ours.held.format} with {context} tokens in the context")
                    found = _context_runs(ours, context, context or prompt, grid.batches, repeat, pulse)
                    runs += [run | {"predicted_tps": _predicted_tps(made, run)} for run in found]
    return {"runs": runs}


def _predicted_tps(made: LoadPlan, run: dict[str, Any]) -> float:
    """Of each request, by the plan that was made before anything ran."""
    return 1 / step_s(made, max(1, run["context"]), sequences=run["batch"])


def _context_runs(
    ours: Ours, context: int, prompt: int, batches: Sequence[int], repeat: int, pulse: Callable[[], float]
) -> list[dict[str, Any]]:
    """One run for each number of sequences, all measured in turn at one context."""
    tasks: dict[str, Callable[[], float]] = {_PREFILL: lambda: ours.prefill_s(prompt)}
    ours.forget()
    tasks[_PREFILL]()
    memory = {}
    for batch in sorted(batches):  # the memory of a run is that of its own sequences
        tasks[str(batch)] = _steps(ours, context, batch)
        tasks[str(batch)]()
        memory[batch] = ours.memory()
    samples = interleave(tasks, repeat, pulse)
    return [_run(ours, context, prompt, batch, samples, memory[batch]) for batch in batches]


def _steps(ours: Ours, context: int, batch: int) -> Callable[[], float]:
    return lambda: ours.step_s(DECODE_STEPS, context, batch=batch)


def _run(
    ours: Ours, context: int, prompt: int, batch: int, samples: Samples, memory: dict[str, Any]
) -> dict[str, Any]:
    held, steps = ours.held, samples[str(batch)]
    step_bytes = held.step_bytes(context, batch)
    prefill_tps = Spread.of(prompt / seconds for seconds in values(samples, _PREFILL))
    per_request_tps = Spread.of(1 / step.value for step in steps)
    total_tps = Spread.of(batch / step.value for step in steps)
    fraction = Spread.of(bandwidth_fraction(step, step_bytes) for step in steps)
    return {
        "model": ours.path,
        "format": held.format,
        "context": context,
        "kv_bits": held.kv_bits,
        "batch": batch,
        "speculate": "off",
        "prefill_tps": prefill_tps.median,
        "ttft_s": prompt / prefill_tps.median,
        "per_request_tps": per_request_tps.median,
        "total_tps": total_tps.median,
        "predicted_tps": None,
        "bytes_per_token": step_bytes / batch,
        "read_bandwidth_gbps": Spread.of(step.gbps for step in steps).median,
        "fraction_of_bandwidth": fraction.median,
        "memory_bytes": memory["memory_bytes"],
        "rss_growth_bytes": memory["rss_growth_bytes"],
        "prompt_tokens": prompt,
        "weight_bits": held.weight_bits,
        "kernels": held.kernels,
        "threads": held.threads,
        "spread": {
            "prefill_tps": prefill_tps.as_json(),
            "per_request_tps": per_request_tps.as_json(),
            "total_tps": total_tps.as_json(),
            "fraction_of_bandwidth": fraction.as_json(),
        },
    }


def bandwidth_fraction(step: Sample, step_bytes: int) -> float:
    """How much of the bandwidth beside it a step used, of seconds ``step.value``."""
    return step_bytes / step.value / 1e9 / step.gbps
