"""What the engine learns of its machine's speed, and where it keeps that."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.calibration import Calibration
from engine.decode.scheduler import TimedStep
from engine.engine import Engine
from engine.events import Calibrated, Calibrating, Event, Finished
from engine.fit.correction import correction_of
from engine.fit.disk import disk_bytes
from engine.fit.plan import plan
from engine.fit.speed import predict, step_s
from engine.fit.step_parts import step_parts
from engine.hardware.calibration_file import CalibrationFile
from engine.hardware.probe import probe
from engine.learning import LEAST_STEPS, LENGTHS, SpeedLearning, observed
from engine.models.spec import read_spec
from engine.types import GenerateRequest, LoadPlan, LoadSpec, Message, SamplingParams
from tests.engine.models.generic_models import generic_folder
from tests.engine.tiny import tiny_folder
from tests.fakes import HARDWARE, make_spec

KNOWN = Calibration(read_gbps=10.0, threads=2)


def measuring(threads: int) -> Generator[float, None, Calibration]:
    yield 0.5
    return replace(KNOWN, threads=threads)


def made(known: Calibration | None = KNOWN) -> LoadPlan:
    hardware = replace(HARDWARE, calibration=known)
    return plan(make_spec(), hardware, LoadSpec("/models/tiny.gguf", format="bf16", threads=2))


def spilled(folder: Path, known: Calibration | None = KNOWN) -> LoadPlan:
    """Some layers have no room in memory."""
    spec, wish = read_spec(str(folder)), LoadSpec(str(folder), format="f32", context=128)
    hardware = replace(HARDWARE, ram_total_bytes=1 << 33, ram_free_bytes=1 << 33, calibration=known)
    need = plan(spec, hardware, wish).bytes
    made = plan(spec, replace(hardware, ram_free_bytes=need.total - need.overhead - 1), wish)
    assert made.disk_layers
    return made


def steps(count: int, times: float, first: int = 10) -> list[TimedStep]:
    """So many steps, that take so many times what is predicted."""
    lengths = range(first, first + count)
    return [TimedStep(n, times * step_parts(made(), n, 1, 1, KNOWN).total) for n in lengths]


def test_a_measurement_is_kept_and_told(tmp_path: Path) -> None:
    path = tmp_path / "kernel-times.json"
    events = list(SpeedLearning(path, measuring).calibrating(made(None)))
    assert events == [Calibrating(0.5), Calibrated(KNOWN)]
    assert CalibrationFile(path, HARDWARE).read() == KNOWN


@pytest.mark.parametrize(("asked", "used"), [(None, made(None).threads), (1, 1)])
def test_it_measures_with_the_threads_of_the_plan_unless_told(asked: int | None, used: int) -> None:
    numbers: list[int] = []

    def noting(threads: int) -> Generator[float, None, Calibration]:
        numbers.append(threads)
        return measuring(threads)

    list(SpeedLearning(None, noting).calibrating(made(None), asked))
    assert numbers == [used]


def test_without_a_place_to_keep_it_the_next_answer_knows_it_all_the_same() -> None:
    learning = SpeedLearning(None, measuring)
    list(learning.calibrating(made(None)))
    [event] = learning.learn(made(None), steps(40, 1.1))
    assert event.calibration.basis == "corrected"


def test_an_answer_corrects_what_the_next_prediction_says(tmp_path: Path) -> None:
    path = tmp_path / "kernel-times.json"
    learning = SpeedLearning(path, measuring)
    for _ in range(5):
        [event] = learning.learn(made(), steps(100, 1.2))
    kept = CalibrationFile(path, HARDWARE).read()
    assert kept == event.calibration
    before, after = predict(made()), predict(made(kept))
    assert after.basis == "corrected"
    assert after.empty == pytest.approx(before.empty / 1.2, rel=0.05)


def test_a_short_answer_teaches_nothing() -> None:
    assert SpeedLearning(None, measuring).learn(made(), steps(LEAST_STEPS - 1, 1.2)) == []


def test_where_nothing_was_measured_nothing_is_corrected() -> None:
    assert SpeedLearning(None, measuring).learn(made(None), steps(100, 1.2)) == []


def test_steps_are_medians_by_length() -> None:
    held_up = [replace(step, seconds=9.0) if i % 5 == 0 else step for i, step in enumerate(steps(600, 1.0))]
    found = observed(made(), KNOWN, held_up)
    assert len(found) == LENGTHS
    for each in found:
        assert each.seconds == pytest.approx(sum(each.parts), rel=0.05)
    assert len(observed(made(), KNOWN, steps(LEAST_STEPS, 1.0))) == 1


def test_a_run_that_was_held_up_all_along_is_not_believed() -> None:
    learning = SpeedLearning(None, measuring)
    learning.learn(made(), steps(100, 1.0))
    [event] = learning.learn(made(), steps(100, 4.0))
    found = correction_of(event.calibration, made())
    assert found is not None
    assert found.factors == pytest.approx((1.0,) * 5, abs=0.05)


@pytest.fixture(scope="module")
def generic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generic_folder(tmp_path_factory.mktemp("generic") / "m", "mixtral")


def test_the_rate_of_the_disk_is_kept_and_predicted_with(generic: Path, tmp_path: Path) -> None:
    path, poor = tmp_path / "kernel-times.json", spilled(generic)
    quick, slow = (SpeedLearning(path, measuring).with_disk(poor, gbps) for gbps in (2.0, 0.02))
    assert CalibrationFile(path, HARDWARE).read() == replace(KNOWN, disk_gbps=0.02)
    assert slow.hardware == replace(poor.hardware, calibration=replace(KNOWN, disk_gbps=0.02))
    longer = step_s(slow, 10) - step_s(quick, 10)
    assert longer == pytest.approx(disk_bytes(poor.model, poor.disk_layers) * (1 / 0.02e9 - 1 / 2e9))
    assert slow.slowdown > quick.slowdown
    assert any(f"about {slow.slowdown:.1f} times slower" in reason for reason in slow.reasons)
    assert replace(slow, hardware=poor.hardware, slowdown=poor.slowdown, reasons=poor.reasons) == poor


def test_a_rate_that_was_measured_first_waits_for_the_rest(generic: Path, tmp_path: Path) -> None:
    path, poor = tmp_path / "kernel-times.json", spilled(generic, None)
    learning = SpeedLearning(path, measuring)
    assert learning.with_disk(poor, 0.5) is poor
    assert CalibrationFile(path, HARDWARE).read() is None
    *_, event = learning.calibrating(made(None))
    assert event == Calibrated(replace(KNOWN, disk_gbps=0.5))


@pytest.mark.parametrize("is_new", [True, False])
def test_a_new_measurement_of_the_machine_keeps_the_rate_of_its_disk(is_new: bool, tmp_path: Path) -> None:
    """Nothing of a disk is measured then, whether this run of the program learnt it or an earlier one."""
    path, known = tmp_path / "kernel-times.json", replace(KNOWN, disk_gbps=0.5)
    learning = SpeedLearning(path, measuring)
    CalibrationFile(path, HARDWARE).keep(known)
    if is_new:
        learning.learn(made(known), steps(40, 1.1))
    *_, event = learning.calibrating(made(known))
    assert event == Calibrated(known)
    assert CalibrationFile(path, HARDWARE).read() == known


def test_the_engine_times_its_answers(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "model")
    path = tmp_path / "kernel-times.json"
    hardware = replace(probe(), calibration=KNOWN)
    engine = Engine(kernel_times=path)
    wish = LoadSpec(str(folder), format="f32", context=128)
    list(engine.load(plan(read_spec(str(folder)), hardware, wish)))
    engine.submit(
        GenerateRequest("r", (Message("user", "hello"),), SamplingParams(temperature=0), 60, speculate="off")
    )
    events: list[Event] = []
    while engine.is_busy:
        events += engine.step()
    [finished] = [event for event in events if isinstance(event, Finished)]
    told = [event for event in events if isinstance(event, Calibrated)]
    assert finished.stats.generated_tokens > LEAST_STEPS
    assert len(told) == 1 and events.index(told[0]) > events.index(finished)
    assert len(told[0].calibration.corrections) == 1
    assert probe(path).calibration == told[0].calibration
