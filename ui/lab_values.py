"""What the Batch lab is told to show: frozen values, standard library only, with words ready to show."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.words import tr


@dataclass(frozen=True, slots=True)
class LabDot:
    """One measured point. ``y`` is None where it failed; ``words`` say all of it to a screen reader."""

    x: int
    y: float | None
    words: str


@dataclass(frozen=True, slots=True)
class LabLine:
    """One line of the chart: measured is solid with dots, predicted dashed with its band.

    ``color`` is a palette token; ``end`` stands beside the last point, as "182 tok/s at 32".
    """

    name: str
    color: str
    measured: tuple[LabDot, ...] = ()
    predicted: tuple[tuple[int, float], ...] = ()
    end: str = ""


@dataclass(frozen=True, slots=True)
class LabChart:
    """The lines over ``ticks`` of a logarithmic axis. ``boundary`` is where it turns from memory-bound to
    compute-bound; ``best`` is the x that ``best_words`` speak of.
    """

    title: str
    axis: str  # the words below the ticks
    ticks: tuple[tuple[int, str], ...]
    lines: tuple[LabLine, ...] = ()
    band: float | None = None  # of what is predicted, a fraction: 0.06 is ±6 %
    boundary: float | None = None
    best: int | None = None
    best_words: str = ""


@dataclass(frozen=True, slots=True)
class LabRow:
    """A row of the table, a text for each column but the one of the error. ``x`` is its place in the chart.

    A failed row has its reason in ``failed``; ``is_large_error`` marks an error in amber.
    """

    x: int
    cells: tuple[str, ...]
    error: float | None = None  # a fraction: measured / predicted − 1
    is_large_error: bool = False
    failed: str = ""


@dataclass(frozen=True, slots=True)
class LabTable:
    """Predicted against measured. ``error_column`` is where the bar of the error stands among the heads."""

    heads: tuple[str, ...] = ()
    rows: tuple[LabRow, ...] = ()
    error_column: int = 0
    strong: tuple[int, ...] = ()  # columns of what was measured
    quiet: tuple[int, ...] = ()  # columns of what was predicted
    left: tuple[int, ...] = ()  # columns of words
    detail: str = ""  # "tok/s · median error 3.7%"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of what the figures say: a number, and what is meant by it."""

    figure: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class RunningView:
    """A run under way: "Batch 8 of 16 · 20 s left", with what it measures at this moment."""

    fraction: float
    words: str
    live: str = ""


@dataclass(frozen=True, slots=True)
class CostField:
    """A figure that the user types; ``value`` is empty where it is unknown."""

    key: str  # a setting
    label: str
    value: str = ""
    unit: str = ""
    tooltip: str = ""
    error: str = ""  # why what was typed was not taken


@dataclass(frozen=True, slots=True)
class CostRow:
    """What a million tokens cost in one way of counting, read and written apart."""

    name: str
    energy: str = ""  # kWh read · written
    input: str = ""
    output: str = ""
    tooltip: str = ""


@dataclass(frozen=True, slots=True)
class CostView:
    """The cost section. ``missing`` says what has to be typed for more; ``answer`` what one answer costs."""

    fields: tuple[CostField, ...] = ()
    rows: tuple[CostRow, ...] = ()
    basis: str = ""  # where watts and speeds come from
    answer: str = ""
    missing: str = ""


@dataclass(frozen=True, slots=True)
class LabView:
    """All of the page. ``axis`` is the chosen one of ``axes``, (key, label) each."""

    axes: tuple[tuple[str, str], ...] = ()
    axis: str = ""
    chart: LabChart | None = None  # None: no model is loaded
    table: LabTable = LabTable()
    findings: tuple[Finding, ...] = ()
    finding_note: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    run: str = field(default_factory=lambda: tr("Run"))
    run_detail: str = ""  # "(about 50 s)"
    can_run: bool = False
    can_export: bool = False
    note: str = ""  # a sentence: why nothing can run, or how the last run ended
    is_warning: bool = False
    running: RunningView | None = None
