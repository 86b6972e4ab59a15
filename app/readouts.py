"""From engine values to what the window shows: wording, rounding and parts that add up. Pure functions."""

from __future__ import annotations

from pathlib import Path

from engine.errors import EngineError
from engine.events import AnswerStats, LoadProgress, MemoryReport, StepStats
from engine.fit.bytes import layer_bits
from engine.machine import Hardware
from engine.types import LoadPlan, ModelSpec
from engine.words import mark, tr
from ui import numbers
from ui.gauge_values import MemoryView
from ui.numbers import NBSP
from ui.values import ChipView, MachineView, ModelRow, ModelState, StatusView

FEWEST_PROMPT_TOKENS = 16
FORMAT_LABELS = {
    "f32": mark("32-bit"),
    "bf16": mark("16-bit"),
    "f16": "FP16",
    "int8": mark("8-bit"),
    "llm-int8": "LLM.int8",
    "int4": mark("4-bit"),
    "nf4": "NF4",
}


def bits_label(made: LoadPlan) -> str:
    """ "4-bit", "5-bit", ... "32-bit": what most of the layers are held in; NF4 and its like by name."""
    label = FORMAT_LABELS.get(made.format)
    return tr(label) if label else bits_words(layer_bits(made.model, made.format, made.is_native))


def bits_words(bits: object) -> str:
    """ "5-bit"."""
    return tr("{bits}-bit").format(bits=bits)


def chip_view(made: LoadPlan, state: ModelState, progress: LoadProgress | None = None) -> ChipView:
    """``progress`` is that of a load; in whole seconds, so that the chip does not change all the time."""
    detail = f"{bits_label(made)} · {numbers.context(made.context)}"
    if progress is None:
        return ChipView(state, made.model.name, detail)
    left_s = None if progress.remaining_s is None else round(progress.remaining_s)
    return ChipView(state, made.model.name, detail, progress.percent, left_s)


def stats_line(stats: AnswerStats | StepStats) -> str:
    """Measured figures of a finished answer; what was not measured is left out."""
    accepted = drafts_accepted(stats)
    words = tr("{share} of drafts accepted")
    drafts = [] if accepted is None else [words.format(share=numbers.percent(accepted))]
    figures = _figures(_tokens(stats.generated_tokens), stats.decode_tps, stats.ttft_s)
    return " · ".join([figures, *drafts])


def live_line(event: StepStats) -> str:
    """Figures of an answer that is being written."""
    return _figures(tr("%n token(s) so far", "", event.generated_tokens), event.decode_tps, event.ttft_s)


def drafts_accepted(figures: AnswerStats | StepStats) -> float | None:
    """The share of the drafted tokens that stood; None where nothing was drafted."""
    return figures.accepted_tokens / figures.drafted_tokens if figures.drafted_tokens else None


def _tokens(count: int) -> str:
    return tr("%n token(s)", "", count)


def _figures(tokens: str, decode_tps: float | None, ttft_s: float | None) -> str:
    speed = [] if decode_tps is None else [tr("{speed}\u00a0tok/s").format(speed=numbers.tps(decode_tps))]
    words = tr("first token {seconds}\u00a0s")
    first = [] if ttft_s is None else [words.format(seconds=numbers.seconds(ttft_s))]
    return " · ".join([tokens, *speed, *first])


def prompt_speed(stats: AnswerStats) -> float | None:
    """Prefill speed worth showing: a handful of tokens is one short step and says little."""
    return stats.prefill_tps if stats.prompt_tokens - stats.reused_tokens >= FEWEST_PROMPT_TOKENS else None


def machine_view(hardware: Hardware) -> MachineView:
    ram = tr("{total} RAM, {free} free").format(
        total=_gb(hardware.ram_total_bytes), free=_gb(hardware.ram_free_bytes)
    )
    return MachineView(hardware.cpu_name, f"{_cores(hardware)} · {ram}")


def _cores(hardware: Hardware) -> str:
    return tr("%n core(s)", "", hardware.physical_cores)


def status_view(hardware: Hardware | None, is_downloading: bool, kernels: str = "") -> StatusView:
    """Device facts, the loaded model's kernels, and a privacy line that is true at this moment."""
    privacy = (
        tr("Only model files are downloaded; chats stay here")
        if is_downloading
        else tr("Nothing leaves this computer")
    )
    if hardware is None:
        return StatusView("", (), privacy)
    facts = (kernels,) if kernels else ()
    return StatusView(
        f"{hardware.cpu_name} · {_cores(hardware)}", facts, privacy, kernels_sentence(hardware, kernels)
    )


def kernels_sentence(hardware: Hardware, kernels: str) -> str:
    """What reads the weights, and what is lost where the program's own kernels are missing."""
    named = tr("Weights are read by {kernels}.").format(kernels=kernels) if kernels else ""
    return f"{named} {hardware.native_missing}".strip()


def pending_bytes(report: MemoryReport, wanted: LoadPlan | None) -> int:
    """What loading ``wanted`` would add to what is held."""
    if wanted is None:
        return 0
    own, needed = report.in_ram, wanted.ram_bytes
    held = own.weights_bytes + own.kv_reserved_bytes + own.working_bytes
    return max(0, needed.total - needed.overhead - held)


def memory_view(report: MemoryReport, pending: int = 0) -> MemoryView:
    """The memory bar: the engine's parts as measured, the rest of the used memory as other programs. Of
    memory on GPUs it shows nothing.

    The runtime's own share (interpreter, torch) counts as working memory, so that the parts add up.
    """
    report = report.in_ram
    total, free = report.ram_total_bytes, report.ram_free_bytes
    kv_unused = report.kv_reserved_bytes - report.kv_used_bytes
    if total is None or free is None:
        return MemoryView(
            weights=report.weights_bytes,
            kv_used=report.kv_used_bytes,
            kv_reserved=kv_unused,
            working=report.working_bytes + report.overhead_bytes,
            pending=pending,
            kv_waste=report.kv_waste_bytes,
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
        kv_waste=report.kv_waste_bytes,
    )


def model_row(path: str, result: ModelSpec | EngineError, loaded: str) -> ModelRow:
    """A row of the picker; ``loaded`` is the path of the model in memory."""
    if isinstance(result, EngineError):
        return ModelRow(path, Path(path).name, reason=str(result))
    size = sum(tensor.nbytes for tensor in result.tensors)
    detail = tr("{millions} M parameters · {bits} bits · {size} GB").format(
        millions=numbers.decimal(result.num_params / 1e6, 0),
        bits=numbers.decimal(result.weight_bits, 1),
        size=numbers.decimal(size / 1e9, 2),
    )
    return ModelRow(path, result.name, detail, is_loaded=path == loaded)


def _gb(num_bytes: int | None) -> str:
    return f"{numbers.gigabytes(num_bytes)}{NBSP}GB"
