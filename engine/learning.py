"""What is known of this machine's speed: measured in some seconds, and corrected by every answer.

Knows the file it is kept in; not how anything is measured or predicted.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from engine.calibration import Calibration
from engine.decode.scheduler import TimedStep
from engine.events import Calibrated, Calibrating
from engine.fit.choices import resolve_threads
from engine.fit.correction import Observed, corrected
from engine.fit.plan import replanned
from engine.fit.step_parts import step_parts
from engine.hardware.calibration import calibrating
from engine.hardware.calibration_file import CalibrationFile
from engine.hardware.probe import probe
from engine.machine import Hardware
from engine.types import LoadPlan

LEAST_STEPS = 12  # of an answer that something is learnt from
LENGTHS = 6  # of a context, at most, that an answer's steps are told apart by

Measuring = Callable[[int], Generator[float, None, Calibration]]


class SpeedLearning:
    """The calibration of the machine that the engine runs on; without the path ``kernel_times`` it lasts as
    long as this object. ``measure`` takes a number of threads.
    """

    def __init__(self, kernel_times: Path | None, measure: Measuring = calibrating) -> None:
        self._path = kernel_times
        self._measure = measure
        self._known: Calibration | None = None
        self._disk_gbps: float | None = None  # the newest; it may be known before anything else is

    def calibrating(
        self, made: LoadPlan | None, threads: int | None = None
    ) -> Generator[Calibrating | Calibrated, None, None]:
        """Measure anew, on so many threads, or as many as the plan has, or would have."""
        hardware = made.hardware if made else probe(self._path)
        usual = made.threads if made else resolve_threads(hardware, None)
        measuring = self._measure(threads or usual)
        while True:
            try:
                yield Calibrating(next(measuring))
            except StopIteration as end:
                before = self._known or hardware.calibration
                gbps = self._disk_gbps or (before.disk_gbps if before else None)
                measured = replace(end.value, disk_gbps=gbps)
                self._keep(measured, hardware)
                yield Calibrated(measured)
                return

    def with_disk(self, made: LoadPlan, gbps: float) -> LoadPlan:
        """A loaded plan with the rate at which its layers come from the disk, which is kept, and what they
        cost by it. As long as nothing else was measured of the machine, the rate waits for that.
        """
        self._disk_gbps = gbps
        known = self._known or made.hardware.calibration
        if known is None:
            return made
        known = replace(known, disk_gbps=gbps)
        self._keep(known, made.hardware)
        anew = replanned(made, replace(made.hardware, calibration=known))
        return replace(made, hardware=anew.hardware, slowdown=anew.slowdown, reasons=anew.reasons)

    def learn(self, made: LoadPlan, steps: Sequence[TimedStep]) -> list[Calibrated]:
        """Correct what is known by the ``steps`` of an answer; nothing where these are few, or where nothing
        was measured yet.
        """
        known = self._known or made.hardware.calibration
        if known is None or len(steps) < LEAST_STEPS:
            return []
        learnt = corrected(known, made, observed(made, known, steps))
        self._keep(learnt, made.hardware)
        return [Calibrated(learnt)]

    def _keep(self, known: Calibration, hardware: Hardware) -> None:
        self._known = known
        if self._path is not None:
            CalibrationFile(self._path, hardware).keep(known)


def observed(made: LoadPlan, known: Calibration, steps: Sequence[TimedStep]) -> list[Observed]:
    """The steps of an answer as medians by the length of the context: one that was held up does not count."""
    ordered = sorted(steps, key=lambda step: step.tokens)
    count = max(1, min(LENGTHS, len(ordered) // LEAST_STEPS))
    size = -(-len(ordered) // count)
    groups = [ordered[start : start + size] for start in range(0, len(ordered), size)]
    return [
        Observed(
            step_parts(made, group[len(group) // 2].tokens, 1, 1, known).values,
            median(step.seconds for step in group),
        )
        for group in groups
    ]
