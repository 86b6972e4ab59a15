"""From plans to what the Tuning panel shows: choices with sizes and speeds, zones, verdict, heatmap, words.

Pure functions; knows no widget and makes only the plans that no survey has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from app.landscape import Forecast, Landscape, Refusal, context_stops
from app.quality_record import QualityFigure, figure_of
from app.quality_words import NOT_MEASURED, quality_line, quality_sentence, unmeasured_sentence
from app.readouts import FORMAT_LABELS, bits_label, bits_words
from engine.errors import WishError
from engine.fit import generic_bytes
from engine.fit.bytes import layer_bits
from engine.fit.choices import lack
from engine.fit.kernels import possible_kernels
from engine.fit.plan import plan
from engine.fit.speed import Prediction, predict
from engine.machine import Hardware
from engine.types import LoadPlan, ModelSpec
from engine.words import mark, number, tr
from ui import numbers
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

MOST_COLUMNS = 9  # of the heatmap; the shortest contexts go first
_OFFERED = ("f32", "bf16", "int8", "file", "int4", "nf4")  # from many bits to few
_ALL_FORMATS = ("f32", "bf16", "f16", "int8", "llm-int8", "file", "int4", "nf4")
_TOOLTIPS = {
    "file": mark(
        "The bits the file has, wherever the kernels can hold them; everything else is held at 16 bits"
    ),
    "bf16": mark("bfloat16: twice the bytes of 8-bit, no further loss"),
    "f16": mark("float16: as many bytes as bfloat16, more digits and less range"),
    "f32": mark("float32: exact, and the most bytes to read for each token"),
    "int8": mark("Weights rounded to 8 bits: hardly a difference to 16"),
    "llm-int8": mark("LLM.int8 of bitsandbytes: 8 bits, with outliers computed in 16"),
    "int4": mark(
        "The layers' weights rounded to 4 bits, embedding and head to 8: fewest bytes, some quality lost"
    ),
    "nf4": mark("NormalFloat 4 of bitsandbytes: the layers' weights at 4 bits, embedding and head at 16"),
}
_KV_TOOLTIPS = {
    32: mark("Exact, and twice the memory of 16 bits"),
    16: mark("As the model computes: no loss"),
    8: mark("Half the memory of 16 bits: hardly a loss"),
    4: mark("A quarter of the memory of 16 bits: a small loss; the last 128 tokens stay at 16 bits"),
}
_DRAFTING = (
    ("auto", mark("Auto"), mark("Whatever promises more tokens per step, and nothing where drafts lose")),
    ("off", mark("Off"), mark("One token per step")),
    ("ngram", mark("N-gram"), mark("Guesses what the chat has said before: quotes, code, lists")),
    ("draft", mark("Model"), mark("A smaller model with the same vocabulary guesses; it takes memory too")),
)
_BASES = {
    "measured": mark("Predicted from what was measured of this computer."),
    "corrected": mark("Predicted from what was measured of this computer and of real answers."),
    "default": mark("Predicted from typical values: what this model computes with was not measured here."),
}


@dataclass(frozen=True, slots=True)
class Scene:
    """What a view is made of: what is loaded, the plan of the wish, and what was surveyed around it.

    ``load_s`` is what loading ``loaded`` took; ``left_s`` is measured while it is being replaced. ``figures``
    are all that are known of the model's quality.
    """

    loaded: LoadPlan
    wanted: LoadPlan
    landscape: Landscape
    apply: str = "hidden"
    percent: int | None = None
    load_s: float | None = None
    left_s: float | None = None
    speculate: str = "auto"
    figures: Sequence[QualityFigure] = ()
    is_recommended: bool = False


def tuning_view(scene: Scene) -> TuningView:
    """The dock's settings for a wish beside what is loaded."""
    loaded, wanted, landscape = scene.loaded, scene.wanted, scene.landscape
    stops = context_stops(landscape.ground, landscape.advice)
    return TuningView(
        formats=tuple(_format_choices(scene)),
        chosen_format=wanted.format,
        loaded_format=loaded.format,
        context_stops=stops,
        chosen_context=wanted.context,
        loaded_context=loaded.context,
        trained_context=loaded.model.trained_context,
        **_zones(landscape, wanted.format),
        verdict=verdict_view(wanted, predict(wanted), landscape, scene.figures),
        apply=scene.apply,
        apply_percent=scene.percent,
        reload_s=_reload_s(scene),
        kv=kv_choices(wanted, {loaded.kv_bits, wanted.kv_bits}),
        chosen_kv=str(wanted.kv_bits),
        loaded_kv=str(loaded.kv_bits),
        drafting=drafting_view(wanted, loaded, scene.speculate),
        gpu_layers=gpu_layers_view(wanted, loaded),
        heat=heat_view(landscape, (wanted.format, wanted.context), (loaded.format, loaded.context)),
        preference=landscape.ground.preference,
        recommended=landscape.advice.reason if landscape.advice is not None else "",
        is_recommended=scene.is_recommended,
    )


def _reload_s(scene: Scene) -> float | None:
    """What is left of a load, or what one would take at the same bytes a second as the last one."""
    if scene.left_s is not None or scene.load_s is None:
        return scene.left_s
    left = 1.0 - (scene.percent or 0) / 100
    return left * scene.load_s * scene.wanted.bytes.weights / max(1, scene.loaded.bytes.weights)


# Formats


def format_keys(spec: ModelSpec, hardware: Hardware, in_use: Collection[str] = ()) -> tuple[str, ...]:
    """Formats worth offering: the file's own only where it is smaller than 16 bits, and whatever is loaded or
    chosen already.
    """
    if spec.generic is not None:
        return tuple(key for key in _ALL_FORMATS if key in generic_bytes.FORMATS)
    is_native = possible_kernels(spec, "file", hardware.native) != "torch"
    is_small = layer_bits(spec, "file", is_native) < 16
    offered = {key for key in _OFFERED if key != "file" or is_small} | set(in_use)
    return tuple(key for key in _ALL_FORMATS if key in offered)


def _format_choices(scene: Scene) -> Iterator[FormatChoice]:
    landscape, wanted = scene.landscape, scene.wanted
    for key in landscape.ground.formats:
        forecast = landscape.at(key, wanted.context)
        if forecast is not None:
            yield format_choice(key, forecast, scene.figures)
        elif key in landscape.refused:
            yield missing_format(key, landscape.refused[key], wanted.hardware, wanted.device)


def format_choice(key: str, forecast: Forecast, figures: Sequence[QualityFigure] = ()) -> FormatChoice:
    """The segment of a format that can run here; ``figures`` are all that were measured of the model."""
    made = forecast.plan
    bits = number(round(made.weight_bits, 1))
    label = tr("File {bits}-bit").format(bits=bits) if key == "file" else tr(FORMAT_LABELS[key])
    detail = tr("{size} · {speed}\u00a0tok/s").format(
        size=numbers.size(_own_weights(made)), speed=numbers.predicted_tps(forecast.speed.half)
    )
    tooltip = ". ".join([tr(_TOOLTIPS[key]), *made.reasons[1:]])
    quality, why = _quality(made, figures)
    quality = quality or (tr(NOT_MEASURED) if figures else "")
    return FormatChoice(key, label, detail, made.verdict, tooltip, quality, why)


def missing_format(key: str, refusal: Refusal, hardware: Hardware, device: str) -> FormatChoice:
    """The segment of one that cannot, with the reason."""
    missing = lack(key, hardware, device)
    words = missing.words if missing else tr("not here")
    return FormatChoice(key, _label(key), words, "off", str(refusal))


def _label(key: str) -> str:
    return tr(FORMAT_LABELS[key]) if key in FORMAT_LABELS else tr("File", "a format: the bits the file has")


def _own_weights(made: LoadPlan) -> int:
    """Without those of a draft model, which are the same whatever the format."""
    return made.bytes.weights - (made.draft.bytes.weights if made.draft is not None else 0)


def _quality(made: LoadPlan, figures: Sequence[QualityFigure]) -> tuple[str, str]:
    """Words and a sentence about what was measured of a plan's quality; without words where nothing was."""
    figure = figure_of(made, figures)
    if figure is not None:
        return quality_line(figure, made), quality_sentence(figure, made)
    return "", unmeasured_sentence(made)


# The other settings


def _zones(landscape: Landscape, format: str) -> dict[str, int | None]:
    """From which context on a format is tight, spills or does not fit, by the names of the view's fields."""
    row = landscape.rows.get(format, ())
    places = list(zip(landscape.contexts, (each.plan.verdict for each in row), strict=False))
    names = {"tight": "tight_from", "spills": "spills_from", "no": "no_fit_from"}
    return {
        name: next((context for context, found in places if found == verdict), None)
        for verdict, name in names.items()
    }


def kv_choices(wanted: LoadPlan, in_use: Collection[int]) -> tuple[OptionChoice, ...]:
    """KV precisions beside the planned one: 32 bits only where they are in use already."""
    draft = wanted.draft.model if wanted.draft is not None else None
    hardware = wanted.hardware

    def choice(bits: int) -> OptionChoice:
        label, words = bits_words(bits), tr(_KV_TOOLTIPS[bits])
        wish = replace(wanted.wish, format=wanted.format, context=wanted.context, kv=str(bits))
        try:
            is_wanted = bits == wanted.kv_bits
            made = wanted if is_wanted else plan(wanted.model, hardware, wish, draft=draft)
        except WishError as error:
            return OptionChoice(str(bits), label, "off", f"{error.message} {error.hint}".strip())
        needs = tr("{size} for this context").format(size=numbers.size(made.bytes.kv_reserved))
        if made.key_bits not in (None, bits):
            keys = tr("Keys stay at {bits} bits: this family's round badly").format(bits=made.key_bits)
            words = f"{words}. {keys}"
        return OptionChoice(str(bits), label, made.verdict, f"{words}. {needs}")

    return tuple(choice(bits) for bits in (32, 16, 8, 4) if bits != 32 or 32 in in_use)


def drafting_view(wanted: LoadPlan, loaded: LoadPlan, speculate: str) -> DraftingView:
    """Who guesses tokens. Without a draft model, that choice can only be the one that is being made."""
    no_trim = loaded.model.capabilities.no_trim
    choices = tuple(
        OptionChoice(key, tr(label), "off" if no_trim and key != "off" else "fits", no_trim or tr(words))
        for key, label, words in _DRAFTING
    )
    in_use = "draft" if loaded.draft is not None else "ngram"
    draft = wanted.draft
    model = f"{draft.model.name} · {numbers.size(draft.bytes.total)}" if draft is not None else ""
    chosen = "off" if no_trim else speculate
    return DraftingView(
        choices, chosen, in_use if chosen == "auto" else None, model, draft.model.path if draft else ""
    )


def gpu_layers_view(wanted: LoadPlan, loaded: LoadPlan) -> GpuLayersView | None:
    """How the layers are split; None where there is no GPU to split with."""
    gpus = wanted.hardware.gpus
    if not gpus or wanted.wish.device == "cpu" or wanted.model.generic is not None:
        return None
    name = next((gpu.name for gpu in gpus if gpu.device == wanted.device), gpus[0].name)
    return GpuLayersView(wanted.gpu_layers, loaded.gpu_layers, wanted.model.num_layers, name)


def heat_view(landscape: Landscape, chosen: tuple[str, int], loaded: tuple[str, int]) -> HeatView | None:
    """Formats that can run here by context; None before all of it was surveyed."""
    if len(landscape.contexts) < 2 or not landscape.rows:
        return None

    def cell(context: int, forecast: Forecast) -> HeatCell:
        return HeatCell(context, forecast.plan.verdict, forecast.speed.half)

    rows = tuple(
        HeatRow(
            key,
            _label(key),
            tuple(cell(*each) for each in zip(landscape.contexts, row, strict=True))[-MOST_COLUMNS:],
        )
        for key, row in landscape.rows.items()
    )
    return HeatView(rows, chosen, loaded)


# The verdict


def verdict_view(
    made: LoadPlan,
    speed: Prediction,
    landscape: Landscape | None = None,
    figures: Sequence[QualityFigure] = (),
) -> VerdictView:
    """Whether a plan fits, in words, and how fast it will be; what is recommended where it does not fit."""
    quality, _ = _quality(made, figures)
    reasons = " ".join(made.reasons)
    if made.verdict == "no":
        return VerdictView("no", _title(made), _instead(landscape), quality, reasons)
    first = tr("The first token is that of a prompt of {tokens} tokens.").format(tokens=numbers.count(1024))
    tooltip = f"{reasons} {tr(_BASES[speed.basis])} {first}"
    return VerdictView(made.verdict, _title(made), speed_line(speed), quality, tooltip)


def speed_line(speed: Prediction) -> str:
    """ "41 tok/s ±6% · first token 0.3 s": a prediction never stands without its ±."""
    first = numbers.decimal(speed.ttft_1k_s, 1 if speed.ttft_1k_s < 9.95 else 0)
    return tr("{speed}\u00a0tok/s ±{share} · first token {seconds}\u00a0s").format(
        speed=numbers.predicted_tps(speed.half), share=numbers.percent(speed.band), seconds=first
    )


def _title(made: LoadPlan) -> str:
    spare = made.spare_bytes
    if made.verdict == "spills":
        to_disk, to_ram = tr("Spills {share} to disk · {slower}"), tr("Spills {share} to RAM · {slower}")
        words = to_disk if made.disk_layers else to_ram
        return words.format(share=numbers.percent(made.spilled), slower=_slower(made.slowdown))
    if spare is None:
        return tr("Tight · free memory unknown")
    if made.verdict == "no":
        return tr("Does not fit · {size} short").format(size=numbers.size(max(0, -spare)))
    words = tr("Fits · {size} spare") if made.verdict == "fits" else tr("Tight · {size} spare")
    return words.format(size=numbers.size(spare))


def _slower(factor: float) -> str:
    """In whole factors: what is predicted is not known better."""
    if factor < 1.5:
        return tr("a little slower")
    return tr("about {factor}× slower").format(factor=round(factor))


def _instead(landscape: Landscape | None) -> str:
    advice = landscape.advice if landscape is not None else None
    if advice is None or advice.plan.verdict == "no":
        return tr("Choose a smaller model")
    return tr("Recommended: {format}, {tokens} context").format(
        format=bits_label(advice.plan), tokens=numbers.context(advice.plan.context)
    )
