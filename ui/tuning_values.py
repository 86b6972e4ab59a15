"""What the settings of the Tuning panel are told to show: frozen values, standard library only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FormatChoice:
    """One segment of the format control. ``fit``: fits, tight, spills, no, or off: it cannot run here."""

    key: str  # a format of the engine
    label: str  # "File 4.9-bit", "8-bit", "NF4"
    detail: str  # "1.0 GB · 41 tok/s", or why it is off
    fit: str = "fits"
    tooltip: str = ""
    quality: str = ""  # "perplexity +0.4%"; empty where nothing of the model was measured
    quality_tooltip: str = ""  # the same in full, or how to measure it


@dataclass(frozen=True, slots=True)
class OptionChoice:
    """One segment of one line: a KV precision, a way of drafting. ``fit`` as of a format."""

    key: str
    label: str
    fit: str = "fits"
    tooltip: str = ""


@dataclass(frozen=True, slots=True)
class DraftingView:
    """Who may guess tokens. ``in_use`` is what Auto has picked; ``model`` names the draft model, if one is
    chosen, with what it takes.
    """

    choices: tuple[OptionChoice, ...]
    chosen: str
    in_use: str | None = None
    model: str = ""  # "SmolLM2-135M-Instruct · 0.1 GB"
    model_tooltip: str = ""


@dataclass(frozen=True, slots=True)
class GpuLayersView:
    """How the layers are split: ``chosen`` of ``total`` are on the GPU called ``name``."""

    chosen: int
    loaded: int
    total: int
    name: str = ""


@dataclass(frozen=True, slots=True)
class HeatCell:
    """One place of the heatmap: how a format with a context fits, and its predicted speed."""

    context: int
    fit: str  # fits | tight | spills | no
    tps: float | None = None  # tokens a second with the context half full


@dataclass(frozen=True, slots=True)
class HeatRow:
    """A format with all contexts; every row has the same ones."""

    key: str
    label: str
    cells: tuple[HeatCell, ...]


@dataclass(frozen=True, slots=True)
class HeatView:
    """Precision by context. ``chosen`` and ``loaded`` are places: a format and a context."""

    rows: tuple[HeatRow, ...]
    chosen: tuple[str, int]
    loaded: tuple[str, int]


@dataclass(frozen=True, slots=True)
class VerdictView:
    """``kind``: fits, tight, spills or no."""

    kind: str
    title: str  # "Fits · 1.2 GB spare"
    detail: str  # "41 tok/s ±6% · first token 0.3 s"
    quality: str = ""  # "perplexity +0.4%"
    tooltip: str = ""  # the reasons in full


@dataclass(frozen=True, slots=True)
class TuningView:
    """The settings of the dock: what is loaded, what is chosen, and what it would cost."""

    formats: tuple[FormatChoice, ...]
    chosen_format: str
    loaded_format: str
    context_stops: tuple[int, ...]  # ascending, powers of two and the trained limit
    chosen_context: int
    loaded_context: int
    trained_context: int
    tight_from: int | None = None  # first context that is tight, if any stop is
    spills_from: int | None = None
    no_fit_from: int | None = None
    verdict: VerdictView | None = None
    apply: str = "hidden"  # hidden | ready | anyway: it does not fit | waiting | reloading
    apply_percent: int | None = None
    reload_s: float | None = None  # how long Apply will take, or what is left of it while reloading
    kv: tuple[OptionChoice, ...] = ()
    chosen_kv: str = ""
    loaded_kv: str = ""
    drafting: DraftingView | None = None
    gpu_layers: GpuLayersView | None = None  # None: no GPU
    heat: HeatView | None = None  # None: not worked out yet
    preference: str = "quality"  # what is recommended: quality | fastest | longest
    recommended: str = ""  # why, a sentence; empty while there is nothing to recommend
    is_recommended: bool = False  # all is chosen as recommended
