"""`bench --predict`: what is compared, and a whole run on a tiny model."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.bench import predict
from app.bench.predict import (
    Case,
    Memory,
    Point,
    Steady,
    calibrated,
    cases,
    measure_predictions,
    report,
    spread,
)
from app.bench.predict_tables import predict_lines
from engine.calibration import Calibration, KernelSpeed
from engine.errors import DisturbedError, EngineError, MemoryLimitError
from engine.types import LoadSpec

KNOWN = Calibration(20.0, kernels=(KernelSpeed("torch bf16", 0.05, ((1, 0.01),)),))
CASE = Case("tiny Q4_0", "/models/tiny.gguf", "file")
WISH = LoadSpec("", threads=1)


def quiet(_: str) -> None:
    """Nobody listens."""


def test_every_format_of_both_models_is_held_to_its_prediction() -> None:
    asked = list(cases(lambda shape, types: Path(f"/{shape}-{types}.gguf")))
    assert [case.format for case in asked if case.model.startswith("1B")] == [
        "file", "file", "file", "f32", "bf16", "int8", "int4",
    ]  # fmt: skip
    assert {case.model for case in asked if case.format == "file"} == {
        f"{shape} {types}" for shape in ("0.5B", "1B") for types in ("Q4_0", "Q4_K_M", "Q8_0")
    }
    assert len(asked) == 14


def test_errors_are_those_of_speeds_and_of_times() -> None:
    point = Point(CASE, 1, predicted_s=0.010, scaled_s=0.012, measured_s=0.015, gbps=10.0)
    assert point.speed_errors == (pytest.approx(0.25), pytest.approx(0.5))
    assert point.time_errors == (pytest.approx(-0.2), pytest.approx(-1 / 3))


def test_the_spread_is_of_sizes_of_errors() -> None:
    assert spread([]) is None
    assert spread([-0.1]) == {"median": 0.1, "p95": 0.1}
    errors = [(-1) ** n * n / 100 for n in range(1, 21)]
    assert spread(errors) == {"median": pytest.approx(0.105), "p95": 0.19}


def test_a_quicker_bus_makes_reading_quicker_and_nothing_else() -> None:
    at = Steady(KNOWN, pulse_gbps=16.0).at(32.0)
    assert at.read_gbps == pytest.approx(40.0)
    assert at.kernels[0].memory_ns == pytest.approx(0.025)
    assert at.kernels[0].cache_ns == KNOWN.kernels[0].cache_ns


def test_the_report_has_the_errors_of_each_kind() -> None:
    point = Point(CASE, 1, 0.010, 0.012, 0.015, 10.0)
    found = report(Steady(KNOWN, 16.0), [point], [point], [Memory(CASE, 110, 100)])
    assert found["memory_error"] == {"median": 0.1, "p95": 0.1}
    assert found["speed_error"] == {"median": pytest.approx(0.25), "p95": pytest.approx(0.25)}
    assert found["speed_error_raw"] == {"median": pytest.approx(0.5), "p95": pytest.approx(0.5)}
    assert found["ttft_error"] == {"median": pytest.approx(1 / 3), "p95": pytest.approx(1 / 3)}
    assert json.loads(json.dumps(found))["speeds"][0]["case"]["format"] == "file"
    lines = predict_lines(json.loads(json.dumps(found)))
    assert any("+25.0 %" in line for line in lines) and any("10.0 %" in line for line in lines)


def run_calibrated(
    monkeypatch: pytest.MonkeyPatch, pulses: list[float], outcomes: list[Calibration | EngineError]
) -> Steady:
    left: Iterator[Calibration | EngineError] = iter(outcomes)

    def calibrate(_: LoadSpec) -> Calibration:
        outcome = next(left)
        if isinstance(outcome, EngineError):
            raise outcome
        return outcome

    monkeypatch.setattr(predict, "_calibrate", calibrate)
    shown = iter(pulses)
    return calibrated(WISH, lambda: next(shown), quiet)


def test_a_calibration_counts_while_the_bandwidth_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    drifting, steady = replace(KNOWN, read_gbps=1.0), KNOWN
    found = run_calibrated(monkeypatch, [10.0, 20.0, 15.0, 15.5], [drifting, steady])
    assert found == Steady(steady, 15.25)


def test_the_steadiest_counts_where_none_is_steady(monkeypatch: pytest.MonkeyPatch) -> None:
    pulses = [10.0, 20.0, 10.0, 12.0, *[10.0, 30.0] * 3]
    outcomes: list[Calibration | EngineError] = [replace(KNOWN, when=float(n)) for n in range(5)]
    assert run_calibrated(monkeypatch, pulses, outcomes).calibration.when == 1.0


def test_a_disturbed_calibration_is_tried_again_and_other_errors_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disturbed = DisturbedError("Others.", "Later.")
    assert run_calibrated(monkeypatch, [9.0, 10.0, 10.0], [disturbed, KNOWN]).calibration == KNOWN
    with pytest.raises(DisturbedError, match="Others"):
        run_calibrated(monkeypatch, [1.0] * 5, [disturbed] * 5)
    with pytest.raises(MemoryLimitError):
        run_calibrated(monkeypatch, [1.0], [MemoryLimitError("Too little.")])


def test_a_model_is_predicted_loaded_and_measured(
    tiny: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predict, "_calibrate", lambda _: KNOWN)
    missing = Case("none", "/nowhere.gguf", "file")
    chosen = [Case("tiny Q4_0", str(tiny("Q4_0")), format) for format in ("file", "bf16")]
    said: list[str] = []
    found = measure_predictions([missing, *chosen], WISH, 2, said.append, context=256, pulse_bytes=1 << 22)
    assert any("/nowhere.gguf" in line for line in said)  # left out, and the others are measured
    speeds, prompts, memory = (found[name] for name in ("speeds", "prompts", "memory"))
    assert isinstance(speeds, list) and isinstance(prompts, list) and isinstance(memory, list)
    assert [(each["case"]["format"], each["tokens"]) for each in speeds] == [
        (format, tokens) for format in ("file", "bf16") for tokens in (256, 128, 1)
    ]
    assert [each["tokens"] for each in prompts] == [256, 256] * 2
    assert all(each["measured_s"] > 0 and each["gbps"] > 0 for each in (*speeds, *prompts))
    assert all(each["planned_bytes"] > 0 for each in memory)
    assert predict_lines(json.loads(json.dumps(found)))
