"""The designed states of the Batch lab, as functions that bring a window into one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ui.lab_values import (
    CostField,
    CostRow,
    CostView,
    Finding,
    LabChart,
    LabDot,
    LabLine,
    LabRow,
    LabTable,
    LabView,
    RunningView,
)
from ui.main_window import MainWindow
from ui.values import ChipView, ModelState, ReadingsView, StatusView
from ui.window_view import LAB

COPIES = (1, 2, 4, 8, 16)
EACH = (32.7, 30.7, 28.8, 19.2, 10.4)
EACH_PREDICTED = (32.3, 31.1, 27.9, 20.4, 11.5)
ERRORS = (0.012, -0.015, 0.031, -0.058, -0.097)
AXES = (("copies", "Copies"), ("tokens", "Context"), ("chat", "This chat"))
TICKS = tuple((copies, str(copies)) for copies in COPIES)


def _line(name: str, color: str, scale: Callable[[int], float], *, is_measured: bool = True) -> LabLine:
    measured = tuple(
        LabDot(copies, value * scale(copies), f"{copies} copies, {value * scale(copies):.1f} tok/s")
        for copies, value in zip(COPIES, EACH, strict=True)
    )
    predicted = tuple(
        (copies, value * scale(copies)) for copies, value in zip(COPIES, EACH_PREDICTED, strict=True)
    )
    end = f"{(EACH if is_measured else EACH_PREDICTED)[-1] * scale(16):.3g} tok/s at 16"
    return LabLine(name, color, measured if is_measured else (), predicted, end)


CHART = LabChart(
    "Speed by batch size",
    "batch size (copies that are answered together)",
    TICKS,
    (_line("All together", "accent", float), _line("Each request", "text2", lambda _: 1.0)),
    band=0.06,
    boundary=5.4,
    best=8,
    best_words="best trade: 4.7× the work, 1.7× slower each",
)
HEADS = (
    "Batch",
    "Each request",
    "predicted",
    "All together",
    "predicted",
    "Error",
    "First token",
    "RAM",
    "Limited by",
)
TABLE = LabTable(
    HEADS,
    tuple(
        LabRow(
            copies,
            (
                str(copies),
                f"{each:.1f}",
                f"{predicted:.1f}",
                f"{each * copies:.3g}",
                f"{predicted * copies:.3g}",
                f"{0.19 * copies:.2f} s",
                f"{1.74 + 0.02 * copies:.2f} GB",
                "memory bus" if copies < 6 else "compute",
            ),
            error,
            abs(error) > 0.08,
        )
        for copies, each, predicted, error in zip(COPIES, EACH, EACH_PREDICTED, ERRORS, strict=True)
    ),
    error_column=5,
    strong=(1, 3),
    quiet=(2, 4),
    left=(8,),
    detail="tok/s · median error 3.1%",
)
MEASURED = LabView(
    AXES,
    "copies",
    CHART,
    TABLE,
    (
        Finding("1", "Best for one person", "32.7 tok/s."),
        Finding("8", "Best trade", "153 tok/s in all, 19.2 for each request."),
        Finding("16", "Most output", "166 tok/s in all, 10.4 for each. The first token comes 2× as late."),
    ),
    "Compute-bound from batch 6: weights are read once for the whole batch, so arithmetic becomes the limit",
    (
        ("Prompt · answer", "512 · 32 tokens"),
        ("Repeats", "3, median shown"),
        ("KV precision", "16-bit"),
        ("Drafting", "off"),
        ("In the window", "4 answers at once"),
        ("Finished", "today 14:32, took 48 s"),
    ),
    run="Run again",
    run_detail="(about 50 s)",
    can_run=True,
    can_export=True,
)
PREDICTED = LabView(
    AXES,
    "copies",
    replace(
        CHART,
        lines=(
            _line("All together", "accent", float, is_measured=False),
            _line("Each request", "text2", lambda _: 1.0, is_measured=False),
        ),
        best=None,
    ),
    facts=MEASURED.facts[:5],
    run_detail="(about 50 s)",
    can_run=True,
    note="Nothing is measured yet: the dashed lines are what this computer should reach.",
)
FIELDS = (
    CostField("electricity_price", "Electricity", "0.30", "$ per kWh"),
    CostField("power_watts", "While it answers", "65", "W at the wall"),
    CostField("idle_watts", "At rest", "22", "W at the wall"),
    CostField("hardware_price", "Computer", "900", "$"),
    CostField("hardware_years", "Used for", "5", "years"),
    CostField("hardware_hours", "Busy", "2", "hours a day"),
    CostField("api_input_price", "API, tokens read", "0.15", "$ per million"),
    CostField("api_output_price", "API, written", "0.60", "$ per million"),
)
COST = CostView(
    FIELDS,
    (
        CostRow("Electricity, beyond rest", "0.01 · 0.37 kWh", "$0.002", "$0.11"),
        CostRow("Electricity, at the wall", "0.01 · 0.55 kWh", "$0.003", "$0.17"),
        CostRow("With the computer's price", "", "$0.03", "$2.26"),
        CostRow("API", "", "$0.15", "$0.60"),
    ),
    basis="65 W as typed, 32.7 tok/s written and 2,700 tok/s read as measured here.",
    answer="An answer of 320 tokens, the average of yours, takes ≈ 9.8 s and $0.00005.",
)
EMPTY_COST = CostView(
    tuple(replace(field, value="") for field in FIELDS),
    missing="Type the watts of this computer to see what tokens cost: nothing here can read them.",
)


def _open(window: MainWindow, view: LabView, cost: CostView = EMPTY_COST) -> None:
    window.set_chip(ChipView(ModelState.READY, "SmolLM2-135M-Instruct", "4-bit · 8k"))
    window.set_status(StatusView("AMD EPYC 7B13 · 2 cores", ("AVX-512",)))
    window.lab.set_view(view)
    window.lab.set_cost(cost)
    window.body.show_page(LAB)


def _empty(window: MainWindow) -> None:
    _open(window, LabView())
    window.set_chip(ChipView(ModelState.NO_MODEL))


def _predicted(window: MainWindow) -> None:
    _open(window, PREDICTED)


def _running(window: MainWindow) -> None:
    lines = tuple(replace(line, measured=line.measured[:3]) for line in CHART.lines)
    running = RunningView(0.42, "Batch 8 of 16, 512 tokens · 20 s left", "19.2 tok/s each · 153 in all")
    view = replace(MEASURED, chart=replace(CHART, lines=lines, best=None), findings=(), finding_note="")
    rows = replace(TABLE, rows=TABLE.rows[:3])
    _open(window, replace(view, running=running, table=rows, can_export=False))


def _measured(window: MainWindow) -> None:
    _open(window, MEASURED, COST)
    window.lab.chart.chosen.emit(8)


def _context(window: MainWindow) -> None:
    stops = (64, 512, 2048, 4096, 8094)
    speeds = {"4 together": (98.0, 93.0, 78.0), "One alone": (33.0, 32.1, 30.0, 27.0, 22.4)}
    speeds["Each of 4"] = tuple(value / 4 for value in speeds["4 together"])
    lines = tuple(
        LabLine(
            name,
            color,
            tuple(LabDot(x, y, f"{name}, {x} tokens") for x, y in zip(stops, values, strict=False)),
            tuple((x, 1.03 * y) for x, y in zip(stops, values, strict=False)),
            f"{values[-1]:.3g} tok/s at {stops[len(values) - 1]}",
        )
        for (name, values), color in zip(speeds.items(), ("accent", "text1", "text2"), strict=True)
    )
    ticks = ((64, "64"), (512, "512"), (2048, "2k"), (4096, "4k"), (8094, "8,094"))
    chart = LabChart("Speed by context", "tokens that each request holds", ticks, lines, 0.06)
    view = replace(MEASURED, axis="tokens", chart=chart, findings=(), finding_note="")
    _open(window, view)


def _failed(window: MainWindow) -> None:
    words = "Another cache needs 2.00 GB and 1.00 GB are free."
    lines = tuple(
        replace(line, measured=(*line.measured[:2], replace(line.measured[2], y=None), *line.measured[3:]))
        for line in CHART.lines
    )
    empty = ("4", "–", "27.9", "–", "112", "–", "–", "–")
    rows = (*TABLE.rows[:2], LabRow(4, empty, failed=words), *TABLE.rows[3:])
    view = replace(MEASURED, chart=replace(CHART, lines=lines), table=replace(TABLE, rows=rows))
    note = f"1 of 5 points failed. {words}"
    _open(window, replace(view, note=note, is_warning=True))


def _busy(window: MainWindow) -> None:
    note = "An answer is being written. The lab can run when it is done."
    _open(window, replace(MEASURED, can_run=False, note=note))
    window.set_chip(ChipView(ModelState.GENERATING, "SmolLM2-135M-Instruct", "4-bit · 8k"))


def _costs(window: MainWindow) -> None:
    _open(window, MEASURED, COST)
    gpu = "NVIDIA GeForce MX250 · driver 550.120"
    window.body.status.set_readings(ReadingsView(gpu, 48, 4, "0.55 kWh/M tok · $0.17"))
    bar = window.lab.scroll_bar
    bar.setValue(bar.maximum())


LAB_STATES: dict[str, Callable[[MainWindow], None]] = {
    "lab-empty": _empty,
    "lab-predicted": _predicted,
    "lab-running": _running,
    "lab-measured": _measured,
    "lab-context": _context,
    "lab-failed": _failed,
    "lab-busy": _busy,
    "lab-cost": _costs,
}
