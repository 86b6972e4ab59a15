"""The designed states of the Tuning panel, as views: what fits, is tight, spills or does not fit, with and
without a GPU, with a draft model.
"""

from __future__ import annotations

from dataclasses import replace

from ui.tuning_values import (
    DraftingView,
    FormatChoice,
    GpuLayersView,
    HeatCell,
    HeatRow,
    HeatView,
    OptionChoice,
    TuningView,
    VerdictView,
)

CONTEXTS = (512, 1024, 2048, 4096, 8192, 16384)
FORMATS = (
    FormatChoice("f32", "32-bit", "0.54 GB · 27 tok/s", quality="perplexity 23.7"),
    FormatChoice("bf16", "16-bit", "0.27 GB · 48 tok/s", quality="perplexity +0.0%"),
    FormatChoice("int8", "8-bit", "0.14 GB · 74 tok/s", quality="perplexity +0.5%"),
    FormatChoice("file", "File 5.8-bit", "0.10 GB · 91 tok/s", quality="perplexity +0.3%"),
    FormatChoice("int4", "4-bit", "0.10 GB · 118 tok/s", quality="perplexity ≈+0.3%"),
    FormatChoice("nf4", "NF4", "not on this CPU", "off", "It needs AVX-512 BF16."),
)
KV = (OptionChoice("16", "16-bit"), OptionChoice("8", "8-bit"), OptionChoice("4", "4-bit"))
WAYS = (
    OptionChoice("auto", "Auto"),
    OptionChoice("off", "Off"),
    OptionChoice("ngram", "N-gram"),
    OptionChoice("draft", "Model"),
)
LABELS = {"f32": "32-bit", "bf16": "16-bit", "int8": "8-bit", "file": "File", "int4": "4-bit"}
SPEEDS = {"f32": 27.4, "bf16": 48.2, "int8": 74.0, "file": 90.6, "int4": 118.2}


def heat(fits: dict[str, str] | None = None) -> HeatView:
    """Cells whose fit is given by format, one letter a context: f fits, t is tight."""
    words = {"f": "fits", "t": "tight"}

    def row(key: str) -> HeatRow:
        letters = (fits or {}).get(key, "f" * len(CONTEXTS))
        places = enumerate(zip(CONTEXTS, letters, strict=True))
        cells = [HeatCell(each, words[fit], SPEEDS[key] / (1 + place / 20)) for place, (each, fit) in places]
        return HeatRow(key, LABELS[key], tuple(cells))

    return HeatView(tuple(row(key) for key in LABELS), ("file", 8192), ("file", 8192))


FITS = VerdictView("fits", "Fits · 8.70 GB spare", "91 tok/s ±6% · first token 0.6 s", "perplexity +0.3%")
TUNING = TuningView(
    FORMATS,
    "file",
    "file",
    CONTEXTS,
    8192,
    8192,
    8192,
    verdict=VerdictView(
        "fits", "Fits · 8.70 GB spare", "91 tok/s ±6% · first token 0.6 s", "perplexity +0.3%"
    ),
    kv=KV,
    chosen_kv="16",
    loaded_kv="16",
    drafting=DraftingView(WAYS, "auto", "ngram"),
    heat=heat(),
    recommended="The most exact weights that fit with room to spare and are quicker than reading.",
)
TIGHT = replace(
    TUNING,
    chosen_format="bf16",
    chosen_context=4096,
    tight_from=4096,
    heat=replace(heat({"bf16": "fffttt"}), chosen=("bf16", 4096)),
    verdict=VerdictView(
        "tight", "Tight · 0.31 GB spare", "48 tok/s ±6% · first token 0.9 s", "perplexity +0.0%"
    ),
)
_THREE = (
    FormatChoice("bf16", "16-bit", "3.10 GB · 2.5 tok/s", "spills"),
    FormatChoice("int8", "8-bit", "1.70 GB · 27 tok/s"),
    FormatChoice("int4", "4-bit", "0.99 GB · 41 tok/s"),
)
_LONG = tuple(512 << power for power in range(9))
_TABLE = {
    "bf16": ("fffffsssn", (16.4, 16.3, 16.2, 16.1, 15.9, 3.3, 2.5, 1.8, None)),
    "int8": ("ffffffssn", (30.4, 30.3, 30.2, 29.8, 29.3, 27.2, 3.9, 2.1, None)),
    "int4": ("fffffffsn", (50.6, 50.3, 49.8, 48.1, 46.4, 41.0, 30.3, 3.0, None)),
}
_WORDS = {"f": "fits", "s": "spills", "n": "no"}
_GPU_HEAT = HeatView(
    tuple(
        HeatRow(
            key,
            LABELS[key],
            tuple(HeatCell(*each) for each in zip(_LONG, (_WORDS[one] for one in fits), speeds, strict=True)),
        )
        for key, (fits, speeds) in _TABLE.items()
    ),
    ("int4", 16384),
    ("int4", 8192),
)
GPU = TuningView(
    _THREE,
    "int4",
    "int4",
    _LONG,
    16384,
    8192,
    32768,
    spills_from=65536,
    no_fit_from=131072,
    verdict=VerdictView("fits", "Fits · 1.20 GB spare", "41 tok/s ±6% · first token 0.3 s"),
    apply="ready",
    reload_s=2.0,
    kv=KV,
    chosen_kv="16",
    loaded_kv="16",
    drafting=DraftingView(WAYS, "auto", "ngram"),
    gpu_layers=GpuLayersView(28, 28, 28, "NVIDIA GeForce MX250"),
    heat=_GPU_HEAT,
    recommended="The most exact weights that fit with room to spare and are quicker than reading.",
)
SPILLS = replace(
    GPU,
    chosen_format="bf16",
    chosen_context=65536,
    gpu_layers=GpuLayersView(17, 28, 28, "NVIDIA GeForce MX250"),
    verdict=VerdictView(
        "spills", "Spills 18% to RAM · about 6× slower", "1.8 tok/s ±20% · first token 1.4 s"
    ),
    heat=replace(_GPU_HEAT, chosen=("bf16", 65536)),
)
NO_FIT = replace(
    GPU,
    chosen_context=131072,
    apply="anyway",
    verdict=VerdictView("no", "Does not fit · 3.40 GB short", "Recommended: 4-bit, 16k context"),
    heat=replace(_GPU_HEAT, chosen=("int4", 131072)),
)
DRAFT_MODEL = replace(
    TUNING,
    drafting=DraftingView(WAYS, "draft", None, "SmolLM2-135M-Instruct-Q4_1 · 0.31 GB", "/models/s.gguf"),
    apply="ready",
    reload_s=14.0,
    verdict=VerdictView(
        "fits", "Fits · 8.39 GB spare", "91 tok/s ±6% · first token 0.6 s", "perplexity +0.3%"
    ),
)
