"""Measuring this machine: in pieces, within its time, given up at any moment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from engine.calibration import OVERLAP, Calibration, together
from engine.errors import DisturbedError, MemoryLimitError
from engine.fit.plan import plan
from engine.fit.speed import predict
from engine.hardware import calibration, calibration_kernels
from engine.hardware.calibration import calibrating
from engine.hardware.calibration_kernels import KernelTrials
from engine.hardware.calibration_trials import PairedReads, PlainReads, QuickestRun
from engine.hardware.probe import probe
from engine.quant.candidates import Bench, Candidate, Memory, makers
from engine.quant.thread_choice import Clocks
from engine.types import LoadSpec
from engine.waiting import drained
from tests.fakes import make_spec

SMALL = 48 << 20


@pytest.fixture(autouse=True)
def _little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of the usual memory: what is measured is not looked at here."""
    monkeypatch.setattr(calibration, "LEAST_BYTES", SMALL)
    monkeypatch.setattr(calibration, "MOST_BYTES", SMALL)
    monkeypatch.setattr(calibration, "READ_SIZES", (1 << 20, 4 << 20))


def ticking(step: float, cores: float) -> Clocks:
    """Time that goes on with every look at it, while so many cores work."""
    now = 0.0

    def look() -> float:
        nonlocal now
        now += step
        return now

    return Clocks(look, lambda: cores * now)


@pytest.fixture(scope="module")
def measured() -> Calibration:
    """A whole measurement, with as much time as it takes."""
    patch = pytest.MonkeyPatch()
    patch.setattr(calibration, "LEAST_BYTES", SMALL)
    patch.setattr(calibration, "MOST_BYTES", SMALL)
    patch.setattr(calibration, "READ_SIZES", (1 << 20, 4 << 20))
    try:
        return drained(calibrating(1, ticking(2e-3, 1.0), lambda: 123.0, budget_s=1e9, rounds=1))
    finally:
        patch.undo()


def test_all_kernels_passes_and_precisions_are_measured(measured: Calibration) -> None:
    native = probe().native
    names = {each.kernel for each in measured.kernels}
    assert {"torch bf16", "torch f32"} <= names
    assert native is None or {f"decodeck int4 {native}", f"decodeck int8 {native}"} <= names
    runners = {"torch"} | ({"native"} if native else set())
    assert {each.runner for each in measured.passes} == runners
    bits = {(each.key_bits, each.value_bits) for each in measured.attention if each.runner == "native"}
    assert not native or bits == {(32, 32), (16, 16), (8, 8), (4, 4)}
    assert (measured.when, measured.threads) == (123.0, 1)
    assert measured.draw_ns > 0 and measured.read_gbps > 0


def test_more_rows_take_no_less_time_and_more_bytes_are_read_no_quicker(measured: Calibration) -> None:
    for each in measured.kernels:
        rows, times = zip(*each.cache_ns, strict=True)
        assert list(rows) == sorted(rows) and list(times) == sorted(times) and times[0] > 0
    sizes, rates = zip(*measured.reads, strict=True)
    assert list(sizes) == sorted(sizes) and list(rates) == sorted(rates, reverse=True)
    assert rates[-1] == measured.read_gbps


def test_a_plan_can_be_predicted_with_what_was_measured(measured: Calibration) -> None:
    hardware = replace(probe(), calibration=measured)
    for format in ("file", "f32", "bf16", "int8", "int4"):
        found = predict(plan(make_spec(), hardware, LoadSpec("/models/tiny.gguf", format, threads=1)))
        assert found.empty > found.full > 0 and found.basis == "measured"


def test_it_ends_when_its_time_is_over() -> None:
    parts = []
    measuring = calibrating(1, ticking(0.05, 1.0), budget_s=3.0)
    found: Calibration | None = None
    while found is None:
        try:
            parts.append(next(measuring))
        except StopIteration as end:
            found = end.value
    assert len(parts) < 60  # every piece looks at the clock
    assert parts == sorted(parts) and 0 < parts[0] < 1 and parts[-1] < 1
    assert found.read_gbps > 0
    hardware = replace(probe(), calibration=found)  # most of it is estimated
    assert predict(plan(make_spec(), hardware, LoadSpec("/models/tiny.gguf"))).empty > 0


def test_it_can_be_given_up_after_any_piece() -> None:
    threads = torch.get_num_threads()
    for pieces in (0, 1, 5, 12):
        measuring = calibrating(1)
        for _ in range(pieces):
            next(measuring)
        measuring.close()
        assert torch.get_num_threads() == threads


def test_a_machine_that_others_use_is_not_measured() -> None:
    with pytest.raises(DisturbedError, match="Other programs"):
        drained(calibrating(4, ticking(0.05, 1.0), budget_s=3.0))


def test_it_takes_no_memory_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "ram_bytes", lambda: (1 << 30, 2 * SMALL))
    with pytest.raises(MemoryLimitError, match="memory"):
        next(calibrating(1))


def test_a_kernel_that_fails_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing() -> dict[str, Callable[[Bench], Candidate]]:
        def refuse(bench: Bench) -> Candidate:
            raise RuntimeError("not here")

        return makers() | {"torch bf16": refuse}

    monkeypatch.setattr(calibration_kernels, "makers", failing)
    memory = Memory(SMALL)
    for _ in memory.fill():
        pass
    found = calibration_kernels.kernel_trials(memory, calibration_kernels.plain_reads(memory), 1 << 20, 1)
    names = [each.name for each in found]
    assert "torch f32" in names and "torch bf16" not in names


@pytest.mark.parametrize("overlap", [1.0, 1.5, 3.0])
def test_the_overlap_is_what_rows_from_memory_show(overlap: float) -> None:
    gbps, reading_ns = 10.0, 0.08

    def paired(near_ns: float) -> PairedReads:
        reads = PairedReads(lambda: None, 1000, PlainReads(lambda: None, 1000))
        reads._ratios.add(gbps * together(near_ns, reading_ns, overlap), True)
        return reads

    def trials(one_ns: float, some_ns: float) -> KernelTrials:
        few = {1: QuickestRun(lambda: None), calibration_kernels.PAIRED_ROWS: QuickestRun(lambda: None)}
        for run, near_ns in zip(few.values(), (one_ns, some_ns), strict=True):
            run.least_s = 1e-9 * near_ns * 1000
        return KernelTrials("decodeck some", 1000, 1000, paired(one_ns), paired(some_ns), few=few)

    made = [trials(0.03, 0.07), trials(0.05, 0.1), trials(0.02, 0.09)]
    assert calibration_kernels.overlap_of(made, gbps) == pytest.approx(overlap)
    assert calibration_kernels.overlap_of([], gbps) == OVERLAP


def test_one_kernel_is_not_believed_to_be_far_from_the_others() -> None:
    def trials(name: str, took: float) -> KernelTrials:
        clocks = ticking(took / 2, 1.0)  # two looks at the clock a run
        quickest = QuickestRun(lambda: None)
        quickest.least_s = 1e-12
        plain = PlainReads(lambda: None, 1000)
        reading = PairedReads(lambda: None, 1000, plain)
        reading.sample(1, clocks)
        reading._ratios.quiet[:] = [took]
        return KernelTrials(f"decodeck {name} some", 1000, 1000, reading, None, few={1: quickest})

    made = [
        trials(name, ratio) for name, ratio in (("int4", 0.4), ("int8", 0.8), ("bf16", 1.0), ("f32", 9.0))
    ]
    usual = calibration_kernels.usual_ns(made, 10.0, 2.0)
    assert usual is not None and 10 * usual == pytest.approx(0.9, rel=1e-3)
    speeds = [each.speed(10.0, usual, 2.0) for each in made]
    odd = calibration_kernels.ODD
    assert [each and 10 * each.memory_ns for each in speeds] == [
        pytest.approx((0.9 * ratio) ** 0.5, rel=1e-3) for ratio in (0.9 / odd, 0.8, 1.0, 0.9 * odd)
    ]
