"""The number of threads: tried once, kept for a machine, never taken from a disturbed trial."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from engine.fit.held import HeldMatrix
from engine.fit.plan import plan
from engine.machine import Hardware
from engine.quant import thread_choice
from engine.quant.candidates import Bench, Candidate
from engine.quant.thread_choice import Clocks, ThreadChoice, quickest, time_threads
from engine.types import LoadPlan, LoadSpec, ModelSpec
from engine.waiting import drained
from tests.fakes import make_spec

HARDWARE = Hardware("A processor", 4, None, None)
COUNTS = (4, 2, 8)
MATRIX = HeldMatrix(("head",), "f32", 64, 32)


class Trial:
    """Measures what it is told, and counts how often it is asked."""

    def __init__(self, *results: dict[int, float] | None) -> None:
        self.results = list(results)
        self.kernels: list[str] = []

    def __call__(
        self, matrix: HeldMatrix, kernel: str, counts: Sequence[int]
    ) -> Generator[None, None, dict[int, float] | None]:
        assert tuple(counts) == COUNTS
        self.kernels.append(kernel)
        yield
        return self.results.pop(0)


@pytest.fixture
def spec() -> ModelSpec:
    """Large enough that a step is worth a trial."""
    spec = make_spec()
    tensors = tuple(
        replace(t, shape=(256 * t.shape[0], *t.shape[1:]) if t.name == "token_embd.weight" else t.shape)
        for t in spec.tensors
    )
    return replace(spec, tensors=tensors, vocab_size=256 * spec.vocab_size)


def made_for(spec: ModelSpec, hardware: Hardware = HARDWARE, **wish: object) -> LoadPlan:
    return plan(spec, hardware, LoadSpec(spec.path, format="bf16", **wish))  # type: ignore[arg-type]


def settled(choice: ThreadChoice, made: LoadPlan) -> LoadPlan:
    return drained(choice.settling(made))


@pytest.mark.parametrize(
    ("times", "best"),
    [
        ({4: 1.0, 2: 2.0, 8: 1.0}, 4),
        ({4: 1.0, 2: 0.95, 8: 0.92}, 4),  # not clearly better
        ({4: 1.0, 2: 0.8, 8: 0.9}, 2),
        ({4: 1.0, 2: 1.5, 8: 0.7}, 8),
    ],
)
def test_another_number_than_one_for_each_core_must_be_clearly_better(
    times: dict[int, float], best: int
) -> None:
    assert quickest(times, usual=4) == best


def test_the_quickest_number_is_tried_once_and_kept_for_the_machine(spec: ModelSpec, tmp_path: Path) -> None:
    trial, path = Trial({4: 1.0, 2: 2.0, 8: 0.5}), tmp_path / "times.json"
    choice, made = ThreadChoice(path, lambda: COUNTS, trial), made_for(spec)
    assert made.threads == 4
    assert [settled(choice, made).threads for _ in range(2)] == [8, 8]
    assert settled(choice, made).hardware.best_threads == 8
    again = ThreadChoice(path, lambda: COUNTS, Trial())
    assert settled(again, made).threads == 8
    assert trial.kernels == ["torch bf16"]


def test_the_wish_a_known_number_and_a_single_core_need_no_trial(spec: ModelSpec) -> None:
    choice = ThreadChoice(None, lambda: COUNTS, Trial())
    for made in (made_for(spec, threads=3), made_for(spec, replace(HARDWARE, best_threads=2))):
        assert settled(choice, made) is made
    alone = made_for(spec)
    assert settled(ThreadChoice(None, lambda: (1,), Trial()), alone) is alone


def test_a_model_that_reads_next_to_nothing_is_not_worth_a_trial() -> None:
    made = made_for(make_spec())
    assert settled(ThreadChoice(None, lambda: COUNTS, Trial()), made) is made


def test_a_disturbed_trial_decides_nothing_and_the_next_load_tries_again(
    spec: ModelSpec, tmp_path: Path
) -> None:
    choice = ThreadChoice(tmp_path / "t", lambda: COUNTS, Trial(None, {4: 1.0, 2: 0.5, 8: 1.0}))
    made = made_for(spec)
    assert [settled(choice, made).threads for _ in range(2)] == [4, 2]


def test_what_a_plan_has_beside_threads_stays(spec: ModelSpec) -> None:
    made = replace(made_for(spec), max_sequences=3)
    choice = ThreadChoice(None, lambda: COUNTS, Trial({4: 1.0, 2: 0.5, 8: 1.0}))
    assert (settled(choice, made).threads, settled(choice, made).max_sequences) == (2, 3)


def clocks(cpu_rate: float) -> Clocks:
    """Clocks that go on by a millisecond, and by ``cpu_rate`` of it, each time they are read."""
    wall, cpu = itertools.count(), itertools.count()
    return Clocks(lambda: next(wall) / 1000, lambda: cpu_rate * next(cpu) / 1000)


def test_a_trial_gives_seconds_for_each_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_choice, "_LEAST_SPREAD_BYTES", 1 << 16)
    monkeypatch.setattr(thread_choice, "cache_bytes", lambda: None)
    times = drained(time_threads(MATRIX, "torch f32", (1, 2), clocks(1.0)))
    assert times == {1: pytest.approx(1e-3), 2: pytest.approx(1e-3)}


def test_a_trial_beside_programs_that_take_the_cores_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads that had one core's time between them."""
    monkeypatch.setattr(thread_choice, "_LEAST_SPREAD_BYTES", 1 << 16)
    monkeypatch.setattr(thread_choice, "cache_bytes", lambda: None)
    assert drained(time_threads(MATRIX, "torch f32", (2, 1), clocks(1.0))) is None
    assert drained(time_threads(MATRIX, "torch f32", (2, 1), clocks(1.9))) is not None


def test_a_kernel_that_is_not_here_or_fails_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(bench: Bench) -> Candidate:
        raise NotImplementedError("not on this processor")

    assert drained(time_threads(MATRIX, "decodeck int9 riscv", (1,))) is None
    monkeypatch.setattr(thread_choice, "makers", lambda: {"torch f32": fail})
    assert drained(time_threads(MATRIX, "torch f32", (1,))) is None
