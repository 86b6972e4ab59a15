"""`decodeck bench --predict`: predictions held to measurements they have not seen.

The machine is calibrated, on the starter model's shapes alone; then other models are predicted, loaded and
measured, in that order. Beside every measurement stands a pulse of the bandwidth: the scaled error is that of
the same prediction with the memory as quick as it was then. Knows what is compared; not how it is printed.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from app import paths
from app.bench.contenders import Ours, Pulse
from app.bench.interleave import Sample, interleave
from app.bench.lengths import PROMPT_TOKENS, ROOM_TOKENS
from engine.calibration import Calibration
from engine.errors import DisturbedError, EngineError
from engine.fit.plan import plan
from engine.fit.speed import prefill_s, step_s
from engine.hardware.probe import probe
from engine.models.spec import read_spec
from engine.types import LoadPlan, LoadSpec

CONTEXT = 2048
STEPS, SAMPLE_S = (4, 16), 0.5  # of one sample: so many as take about so long
MOST_PROMPTS = 3  # times that a prompt is read
TRIES = 5  # to calibrate while the machine is steady
STEADY = 0.1  # by so much the bandwidth before and after may differ
_MADE_UP = (("Q4_0", "file"), ("Q4_K_M", "file"), ("Q8_0", "file"))
_CONVERTED = ("f32", "bf16", "int8", "int4")
SHAPES = ("0.5B", "1B")

Say = Callable[[str], None]
RandomModel = Callable[[str, str], Path]


@dataclass(frozen=True, slots=True)
class Case:
    """One model in one format."""

    model: str  # what it is called in the report
    path: str
    format: str


@dataclass(frozen=True, slots=True)
class Steady:
    """A calibration, and what the pulse showed meanwhile."""

    calibration: Calibration
    pulse_gbps: float

    def at(self, gbps: float) -> Calibration:
        """The machine when the pulse shows so much."""
        return self.calibration.at_bandwidth(self.calibration.read_gbps * gbps / self.pulse_gbps)


@dataclass(frozen=True, slots=True)
class Point:
    """A prediction beside what came of it: seconds of a step behind ``tokens``, or of reading so many."""

    case: Case
    tokens: int
    predicted_s: float
    scaled_s: float  # as the memory was in the middle of the samples
    measured_s: float
    gbps: float

    @property
    def speed_errors(self) -> tuple[float, float]:
        """How much quicker was predicted than came, scaled and unscaled: 0.05 is 5 %."""
        return self.measured_s / self.scaled_s - 1, self.measured_s / self.predicted_s - 1

    @property
    def time_errors(self) -> tuple[float, float]:
        """How much longer was predicted than it took, scaled and unscaled."""
        return self.scaled_s / self.measured_s - 1, self.predicted_s / self.measured_s - 1


@dataclass(frozen=True, slots=True)
class Memory:
    """Planned bytes beside the growth of resident memory with the context filled."""

    case: Case
    planned_bytes: int
    grown_bytes: int

    @property
    def error(self) -> float:
        return abs(self.planned_bytes - self.grown_bytes) / self.grown_bytes


def cases(random_model: RandomModel) -> Iterator[Case]:
    """Every format of both models, as far as they come from a file of random weights."""
    for shape in SHAPES:
        for types, format in _MADE_UP:
            yield Case(f"{shape} {types}", str(random_model(shape, types)), format)
        for format in _CONVERTED:
            types = "Q4_0" if format == "int8" else "Q8_0"
            yield Case(f"{shape} {types}", str(random_model(shape, types)), format)


def measure_predictions(
    chosen: Iterable[Case],
    wish: LoadSpec,
    repeat: int,
    say: Say,
    context: int = CONTEXT,
    pulse_bytes: int = 0,
) -> dict[str, object]:
    """The report of some cases; ``wish`` says how each is loaded, but for its file and format."""
    steps: list[Point] = []
    prompts: list[Point] = []
    memory: list[Memory] = []
    with closing(_pulse(wish, pulse_bytes)) as pulse:
        steady = calibrated(wish, pulse.median, say)
        for case in chosen:
            asked = replace(wish, path=case.path, format=case.format, context=context + ROOM_TOKENS)
            try:
                measured = _run(case, asked, steady, repeat, pulse.median, say)
            except EngineError as error:
                say(f"{case.model} as {case.format} is left out: {error}")
                continue
            steps += measured.steps
            prompts += measured.prompts
            memory.append(measured.memory)
    return report(steady, steps, prompts, memory)


def calibrated(wish: LoadSpec, pulse: Callable[[], float], say: Say) -> Steady:
    """The machine's calibration, measured anew and kept; again where its bandwidth changed meanwhile. Raises
    DisturbedError where it was never steady.
    """
    failed: EngineError = DisturbedError(
        "The machine's bandwidth is not steady.", "Close other programs and try again."
    )
    best: tuple[float, Steady] | None = None
    for _ in range(TRIES):
        say("measuring this machine")
        before = pulse()
        try:
            known = _calibrate(wish)
        except EngineError as error:
            if error.kind != DisturbedError.kind:
                raise
            failed = error
            continue
        after = pulse()
        change = abs(after / before - 1)
        if best is None or change < best[0]:
            best = change, Steady(known, (before + after) / 2)
        if change < STEADY:
            break
    if best is None:
        raise failed
    return best[1]


def report(
    steady: Steady, steps: Sequence[Point], prompts: Sequence[Point], memory: Sequence[Memory]
) -> dict[str, object]:
    """The JSON of some measurements: errors as fractions."""
    speeds, prompt_times = [each.speed_errors for each in steps], [each.time_errors for each in prompts]
    return {
        "calibration": {"read_gbps": steady.calibration.read_gbps, "pulse_gbps": steady.pulse_gbps},
        "memory_error": spread(each.error for each in memory),
        "speed_error": spread(scaled for scaled, _ in speeds),
        "speed_error_raw": spread(raw for _, raw in speeds),
        "ttft_error": spread(raw for _, raw in prompt_times),
        "ttft_error_scaled": spread(scaled for scaled, _ in prompt_times),
        "speeds": [_row(each, errors) for each, errors in zip(steps, speeds, strict=True)],
        "prompts": [_row(each, errors) for each, errors in zip(prompts, prompt_times, strict=True)],
        "memory": [asdict(each) | {"error": each.error} for each in memory],
    }


def _row(point: Point, errors: tuple[float, float]) -> dict[str, object]:
    scaled, raw = errors
    return asdict(point) | {"error": scaled, "raw_error": raw}


def spread(errors: Iterable[float]) -> dict[str, float] | None:
    """Median and 95th percentile (the nearest rank) of errors, None of none."""
    ordered = sorted(abs(each) for each in errors)
    if not ordered:
        return None
    rank = max(0, -(-95 * len(ordered) // 100) - 1)
    return {"median": statistics.median(ordered), "p95": ordered[rank]}


@dataclass(frozen=True, slots=True)
class _Measured:
    steps: list[Point]
    prompts: list[Point]
    memory: Memory


def _pulse(wish: LoadSpec, nbytes: int) -> Pulse:
    threads = wish.threads or probe(paths.kernel_times_file()).physical_cores
    return Pulse(threads, buffer_bytes=nbytes) if nbytes else Pulse(threads)


def _calibrate(wish: LoadSpec) -> Calibration:
    """In a process of its own, which keeps it where every other one finds it."""
    with Ours.without_model() as worker:
        worker.ask("calibrate", threads=wish.threads)
    known = probe(paths.kernel_times_file()).calibration
    assert known is not None, "it was kept a moment ago"
    return known


def _run(
    case: Case, wish: LoadSpec, steady: Steady, repeat: int, pulse: Callable[[], float], say: Say
) -> _Measured:
    """Predict, load, measure: a whole prompt into an empty context, then steps behind all of it, half and one
    token.
    """
    hardware = replace(probe(paths.kernel_times_file()), calibration=steady.calibration)
    made = plan(read_spec(wish.path), hardware, wish)
    deep = made.context - ROOM_TOKENS
    lengths = (deep, deep // 2, 1)
    prompt = min(PROMPT_TOKENS, deep)
    expected = {tokens: step_s(made, tokens) for tokens in lengths}
    expected_prompts = {tokens: prefill_s(made, tokens) for tokens in (prompt, deep)}
    say(f"measuring {case.model} as {made.format}, predicted {1 / expected[1]:.1f} tokens a second")
    with closing(Ours(wish)) as ours:
        ours.prefill_s(min(prompt, ROOM_TOKENS), within=deep)  # the first touches memory and threads
        prompts = []
        for tokens, rounds in ((prompt, min(repeat, MOST_PROMPTS)), (deep, 1)):  # a full one takes long
            read = partial(ours.prefill_s, tokens, within=deep)
            at = partial(_seconds_at, partial(prefill_s, tokens=tokens), made, steady)
            prompts.append(_point(case, tokens, expected_prompts[tokens], at, _samples(read, rounds, pulse)))
        grown = ours.memory()["rss_growth_bytes"]
        steps = []
        for tokens in lengths:  # downwards: what is in the cache need not be computed again
            decode = partial(ours.median_step_s, _steps(expected[tokens]), tokens, within=deep)
            at = partial(_seconds_at, partial(step_s, tokens=tokens), made, steady)
            steps.append(_point(case, tokens, expected[tokens], at, _samples(decode, repeat, pulse)))
    planned = made.bytes.total - made.bytes.overhead
    return _Measured(steps, prompts, Memory(case, planned, grown))


def _steps(expected_s: float) -> int:
    """How many steps make a sample."""
    least, most = STEPS
    return max(least, min(most, round(SAMPLE_S / expected_s)))


def _samples(measure: Callable[[], float], rounds: int, pulse: Callable[[], float]) -> list[Sample]:
    """The same again and again, each between two pulses."""
    return interleave({"": measure}, rounds, pulse)[""]


def _seconds_at(predicted: Callable[[LoadPlan], float], made: LoadPlan, steady: Steady, gbps: float) -> float:
    """What is predicted of a plan while the pulse shows ``gbps``."""
    return predicted(replace(made, hardware=replace(made.hardware, calibration=steady.at(gbps))))


def _point(
    case: Case, tokens: int, predicted_s: float, at: Callable[[float], float], samples: Sequence[Sample]
) -> Point:
    """The sample with the middle one of the errors stands for all."""
    ordered = sorted(samples, key=lambda sample: sample.value / at(sample.gbps))
    sample = ordered[(len(ordered) - 1) // 2]
    return Point(case, tokens, predicted_s, at(sample.gbps), sample.value, sample.gbps)
