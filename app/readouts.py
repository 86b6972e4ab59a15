"""From engine values to what the window shows: wording, rounding and parts that add up. Pure functions."""

from __future__ import annotations

from pathlib import Path

from engine.errors import EngineError
from engine.fit.bytes import layer_bits
from engine.fit.plan import plan, training_sentence
from engine.types import AnswerStats, Hardware, LoadPlan, LoadSpec, MemoryReport, ModelSpec, StepStats
from ui import numbers
from ui.numbers import NBSP
from ui.values import (
    ChipView,
    FormatChoice,
    MachineView,
    MemoryView,
    ModelRow,
    ModelState,
    StatusView,
    TuningView,
    VerdictView,
)

SHORTEST_CONTEXT = 512
FEWEST_PROMPT_TOKENS = 16
_VERDICTS = {"fits": "Fits", "tight": "Tight", "no": "Does not fit"}
_TOOLTIPS = {
    "file": "The bits the file has, wherever the kernels can hold them; everything else is held at 16 bits",
    "bf16": "bfloat16: twice the bytes of 8-bit, no further loss",
    "f32": "float32: exact, and the most bytes to read for each token",
}


def bits_label(made: LoadPlan) -> str:
    """ "4-bit", "5-bit", ... "32-bit": what most of the layers are held in."""
    return f"{layer_bits(made.model, made.format, made.is_native)}-bit"


def chip_view(made: LoadPlan, state: ModelState, percent: int | None = None) -> ChipView:
    detail = f"{bits_label(made)} · {numbers.context(made.context)}"
    return ChipView(state, made.model.name, detail, percent)


def stats_line(stats: AnswerStats) -> str:
    """Measured figures of a finished answer; what was not measured is left out."""
    return _figures(_tokens(stats.generated_tokens), stats.decode_tps, stats.ttft_s)


def live_line(event: StepStats) -> str:
    """Figures of an answer that is being written."""
    return _figures(f"{_tokens(event.generated_tokens)} so far", event.decode_tps, event.ttft_s)


def _tokens(count: int) -> str:
    return f"{numbers.count(count)} token{'s' * (count != 1)}"


def _figures(tokens: str, decode_tps: float | None, ttft_s: float | None) -> str:
    speed = [] if decode_tps is None else [f"{numbers.tps(decode_tps)}{NBSP}tok/s"]
    first = [] if ttft_s is None else [f"first token {numbers.seconds(ttft_s)}{NBSP}s"]
    return " · ".join([tokens, *speed, *first])


def prompt_speed(stats: AnswerStats) -> float | None:
    """Prefill speed worth showing: a handful of tokens is one short step and says little."""
    return stats.prefill_tps if stats.prompt_tokens - stats.reused_tokens >= FEWEST_PROMPT_TOKENS else None


def machine_view(hardware: Hardware) -> MachineView:
    ram = f"{_gb(hardware.ram_total_bytes)} RAM, {_gb(hardware.ram_free_bytes)} free"
    return MachineView(hardware.cpu_name, f"{_cores(hardware)} · {ram}")


def _cores(hardware: Hardware) -> str:
    return f"{hardware.physical_cores} core{'s' * (hardware.physical_cores != 1)}"


def status_view(hardware: Hardware | None, is_downloading: bool, kernels: str = "") -> StatusView:
    """Device facts, the loaded model's kernels, and a privacy line that is true at this moment."""
    privacy = (
        "Only model files are downloaded; chats stay here"
        if is_downloading
        else "Nothing leaves this computer"
    )
    if hardware is None:
        return StatusView("", (), privacy)
    facts = (kernels,) if kernels else ()
    return StatusView(
        f"{hardware.cpu_name} · {_cores(hardware)}", facts, privacy, kernels_sentence(hardware, kernels)
    )


def kernels_sentence(hardware: Hardware, kernels: str) -> str:
    """What reads the weights, and what is lost where the program's own kernels are missing."""
    named = f"Weights are read by {kernels}." if kernels else ""
    return f"{named} {hardware.native_missing}".strip()


def pending_bytes(report: MemoryReport, wanted: LoadPlan | None) -> int:
    """What loading ``wanted`` would add to what is held."""
    if wanted is None:
        return 0
    held = report.weights_bytes + report.kv_reserved_bytes + report.working_bytes
    return max(0, wanted.bytes.total - wanted.bytes.overhead - held)


def memory_view(report: MemoryReport, pending: int = 0) -> MemoryView:
    """The memory bar: the engine's parts as measured, the rest of the used memory as other programs.

    The runtime's own share (interpreter, torch) counts as working memory, so that the parts add up.
    """
    total, free = report.ram_total_bytes, report.ram_free_bytes
    kv_unused = report.kv_reserved_bytes - report.kv_used_bytes
    if total is None or free is None:
        return MemoryView(
            weights=report.weights_bytes,
            kv_used=report.kv_used_bytes,
            kv_reserved=kv_unused,
            working=report.working_bytes + report.overhead_bytes,
            pending=pending,
        )
    used = total - free
    # Reserved cache that no token has touched takes no memory yet: it is drawn out of what is free.
    own = report.weights_bytes + report.kv_used_bytes + report.working_bytes + report.overhead_bytes
    reserved = min(kv_unused, free)
    return MemoryView(
        total=total,
        weights=report.weights_bytes,
        kv_used=report.kv_used_bytes,
        kv_reserved=reserved,
        working=min(report.working_bytes + report.overhead_bytes, max(0, used - report.weights_bytes)),
        other=max(0, used - own),
        free=free - reserved,
        pending=pending,
    )


def format_keys(spec: ModelSpec, is_native: bool) -> tuple[str, ...]:
    """Formats worth offering: the file's own only where it is smaller than 16 bits."""
    return ("f32", "bf16", "file") if layer_bits(spec, "file", is_native) < 16 else ("f32", "bf16")


def context_stops(spec: ModelSpec) -> tuple[int, ...]:
    """Slider stops: powers of two up to twice the trained limit, and the limit itself."""
    stops = {spec.trained_context}
    stop = min(SHORTEST_CONTEXT, spec.trained_context)
    while stop <= 2 * spec.trained_context:
        stops.add(stop)
        stop *= 2
    return tuple(sorted(stops))


def tuning_view(
    loaded: LoadPlan,
    wish: LoadSpec,
    hardware: Hardware,
    held_bytes: int,
    apply: str,
    percent: int | None,
    load_s: float | None = None,
) -> TuningView:
    """The dock's settings for a wish beside the loaded plan. Pure arithmetic over headers.

    ``load_s`` is what loading ``loaded`` took; another format is taken to load at the same bytes a second.
    """
    left = 1.0 - (percent or 0) / 100
    spec = loaded.model
    wanted = plan(spec, hardware, wish, held_bytes)

    def verdict_of(format: str, context: int) -> LoadPlan:
        changed = LoadSpec(wish.path, format, context, wish.kv, wish.device, wish.threads)
        return plan(spec, hardware, changed, held_bytes)

    keys = format_keys(spec, verdict_of("file", wanted.context).is_native)
    choices = [(key, verdict_of(key, wanted.context)) for key in keys]
    stops = context_stops(spec)
    verdicts = [(stop, verdict_of(wanted.format, stop).verdict) for stop in stops]
    return TuningView(
        formats=tuple(
            FormatChoice(
                key,
                bits_label(made),
                f"{_gb(made.bytes.weights)}",
                made.verdict,
                _TOOLTIPS[key],
            )
            for key, made in choices
        ),
        chosen_format=wanted.format,
        loaded_format=loaded.format,
        context_stops=stops,
        chosen_context=wanted.context,
        loaded_context=loaded.context,
        trained_context=spec.trained_context,
        tight_from=next((stop for stop, verdict in verdicts if verdict == "tight"), None),
        no_fit_from=next((stop for stop, verdict in verdicts if verdict == "no"), None),
        verdict=verdict_view(wanted),
        apply=apply,
        apply_percent=percent,
        reload_s=None if load_s is None else left * load_s * wanted.bytes.weights / loaded.bytes.weights,
    )


def model_row(path: str, result: ModelSpec | EngineError, loaded: str) -> ModelRow:
    """A row of the picker; ``loaded`` is the path of the model in memory."""
    if isinstance(result, EngineError):
        return ModelRow(path, Path(path).name, reason=str(result))
    size = sum(tensor.nbytes for tensor in result.tensors)
    detail = (
        f"{result.num_params / 1e6:,.0f} M parameters · {result.weight_bits:.1f} bits · {size / 1e9:.2f} GB"
    )
    return ModelRow(path, result.name, detail, is_loaded=path == loaded)


def verdict_view(made: LoadPlan) -> VerdictView:
    """What a plan needs of what is free, in words."""
    need = made.bytes.total - made.bytes.overhead
    title = _VERDICTS[made.verdict]
    if made.free_bytes is not None:
        spare = made.free_bytes - need
        title += f" · {_gb(abs(spare))} {'spare' if spare >= 0 else 'short'}"
    detail = f"Weights {_gb(made.bytes.weights)}, KV cache {_gb(made.bytes.kv_reserved)}"
    return VerdictView(
        made.verdict, title, training_sentence(made.model) if made.exceeds_training else detail
    )


def _gb(num_bytes: int | None) -> str:
    return f"{numbers.gigabytes(num_bytes)}{NBSP}GB"
