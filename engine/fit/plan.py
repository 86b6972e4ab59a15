"""From a wish, a model's header and a machine to a plan: pure arithmetic, instant while a slider moves."""

from __future__ import annotations

from dataclasses import replace

from engine.errors import WishError
from engine.fit.bytes import layer_bits
from engine.fit.choices import (
    lack,
    refuse_lack,
    resolve_context,
    resolve_format,
    resolve_kv,
    resolve_threads,
)
from engine.fit.devices import CPU, Demand, device_shares, most_gpu_layers, resolve_gpu, sum_parts, verdict
from engine.fit.draft import draft_wish, left_over, with_draft
from engine.fit.generic_plan import plan_generic
from engine.fit.kernels import chosen_kernels
from engine.fit.kv_pages import MAX_SEQUENCES
from engine.fit.notes import format_notes, kv_notes
from engine.fit.preference import best_quality, formats_by_quality, worth_it
from engine.fit.scratch import MAX_ROWS
from engine.fit.spill import roomy, with_spill
from engine.machine import Gpu, Hardware
from engine.types import LoadPlan, LoadSpec, ModelSpec
from engine.words import figure, tr

_PIECE_S = 0.1
_PIECE_OPS = 200e9  # products per second of 2 cores with bfloat16 inputs, low on purpose
_F32_PIECE_OPS = 60e9
_LEAST_PIECE, _MOST_PIECE = 8, 256
_LEAST_STOCK_PIECE = 32  # of torch's products, which rearrange the weights: 16 take nearly as long
DENSE_KV_BITS = 16  # numbers of fewer bits have scales
GPU_PIECE = 256  # rows, where no layer is on the processor
_DENSE_BITS, _F32_BITS = 16, 32
_NATIVE_PIECE_OPS = {
    "native avx512vnni": 800e9,
    "native avx2": 300e9,
    "native neon": 200e9,
    "native scalar": 20e9,
}


def plan(
    spec: ModelSpec,
    hardware: Hardware,
    wish: LoadSpec,
    held_bytes: int = 0,
    draft: ModelSpec | None = None,
) -> LoadPlan:
    """Resolve ``wish`` for ``spec`` on ``hardware``. ``held_bytes`` is what a model about to be replaced
    holds: it counts as free. A plan that does not fit is returned with verdict ``no``, not raised. ``draft``
    is the header of the wish's draft model, which gets the memory that is left.

    Raises WishError for a format, KV precision, device or context that cannot be used.
    """
    made = _plan_of_both(spec, hardware, wish, held_bytes, draft)
    if made.verdict != "spills":
        return made
    as_meant = replace(wish, gpu_layers=0 if wish.gpu_layers == 0 else None, format=made.format)
    return with_spill(made, _plan_of_both(spec, roomy(hardware), as_meant, 0, draft))


def replanned(made: LoadPlan, hardware: Hardware) -> LoadPlan:
    """The plan for the same wish with what is known of the machine by now."""
    draft = made.draft.model if made.draft else None
    return replace(plan(made.model, hardware, made.wish, draft=draft), max_sequences=made.max_sequences)


def without_draft(made: LoadPlan) -> LoadPlan:
    """The same plan for the model alone."""
    return replace(plan(made.model, made.hardware, made.wish), max_sequences=made.max_sequences)


def _plan_of_both(
    spec: ModelSpec, hardware: Hardware, wish: LoadSpec, held_bytes: int, draft: ModelSpec | None
) -> LoadPlan:
    """The same without what it costs where it spills. ``auto`` becomes the recommended format of a folder."""
    if wish.format == "auto" and spec.generic is None and spec.source != "gguf":
        tried = (
            _plan_with_draft(spec, hardware, replace(wish, format=format), held_bytes, draft)
            for format in formats_by_quality(spec)
        )
        return replace(best_quality(worth_it(tried)), wish=wish)
    return _plan_with_draft(spec, hardware, wish, held_bytes, draft)


def _plan_with_draft(
    spec: ModelSpec, hardware: Hardware, wish: LoadSpec, held_bytes: int, draft: ModelSpec | None
) -> LoadPlan:
    made = _plan_alone(spec, hardware, wish, held_bytes)
    if draft is None:
        return made
    return with_draft(made, _plan_alone(draft, left_over(made), draft_wish(made, draft)))


def _plan_alone(spec: ModelSpec, hardware: Hardware, wish: LoadSpec, held_bytes: int = 0) -> LoadPlan:
    """The same for the model alone, in a format that the wish names."""
    if spec.generic is not None:
        made = plan_generic(spec, hardware, wish, held_bytes)
        return replace(made, reasons=(*made.reasons, *_trained(spec, made.context)))
    format = resolve_format(spec, wish.format)
    gpu = resolve_gpu(hardware, wish)
    if hardware.gpus is not None or wish.device == CPU:  # else nobody knows yet
        refuse_lack(format, hardware, gpu.device if gpu else CPU)
    threads = resolve_threads(hardware, wish.threads)
    free = None if hardware.ram_free_bytes is None else hardware.ram_free_bytes + held_bytes
    chosen, demand, gpu_layers = _on_devices(spec, hardware, wish, format, threads, gpu)
    shares = device_shares(demand, hardware, free, gpu, gpu_layers)
    found, spare = verdict(shares, hardware, wants_gpu=gpu is not None)
    if found == "no" and chosen == "torch" and hardware.native and hardware.kernel_times:
        # torch's kernels were only the quicker ones; ours hold the weights in less memory
        return _plan_alone(spec, replace(hardware, kernel_times=()), wish, held_bytes)
    if shares[0].layers and gpu and lack(format, hardware, CPU):
        found = "no"
    parts = sum_parts(shares)
    return LoadPlan(
        model=spec,
        wish=wish,
        hardware=replace(hardware, ram_free_bytes=free),
        format=format,
        weight_bits=8 * parts.weights / max(1, spec.num_params),
        context=demand.context,
        kv_bits=demand.kv.values,
        key_bits=demand.kv.keys,
        device=shares[-1].device,
        threads=threads,
        prefill_piece=demand.piece,
        bytes=parts,
        verdict=found,
        reasons=(
            spare,
            *_trained(spec, demand.context),
            *format_notes(spec, format, demand.is_native, hardware.native),
            *kv_notes(demand.kv),
        ),
        max_sequences=1 if shares[-1].device != CPU else MAX_SEQUENCES,
        kernels=chosen,
        devices=shares,
    )


def depends_on_gpus(made: LoadPlan) -> bool:
    """Whether it takes a look at the machine's GPUs to say if a plan can be carried out: nobody has looked
    yet, and the processor alone is not enough or not meant.
    """
    wish, hardware = made.wish, made.hardware
    is_for_gpu = wish.device not in ("auto", CPU) or bool(wish.gpu_layers)
    is_not_for_cpu = made.verdict == "no" or lack(made.format, hardware, CPU) is not None
    return hardware.gpus is None and wish.device != CPU and (is_for_gpu or is_not_for_cpu)


def _on_devices(
    spec: ModelSpec, hardware: Hardware, wish: LoadSpec, format: str, threads: int, gpu: Gpu | None
) -> tuple[str, Demand, int]:
    """The kernels of the layers on the processor, what is to be loaded, and how many layers ``gpu`` takes: as
    many as fit unless the wish names a number.
    """
    context, kv = resolve_context(spec, wish.context), resolve_kv(spec, format, wish.kv)
    if gpu is not None and kv.values < DENSE_KV_BITS:
        raise WishError(
            tr("KV precision {precision} needs all layers on the processor in this version.").format(
                precision=wish.kv
            ),
            tr("Choose auto, 32 or 16, or the processor as the device."),
        )
    if gpu is not None:
        all_away = Demand(spec, format, False, context, kv, GPU_PIECE, threads)
        wanted = most_gpu_layers(all_away, gpu) if wish.gpu_layers is None else wish.gpu_layers
        if wanted >= spec.num_layers:
            return "torch", all_away, spec.num_layers
    chosen = chosen_kernels(spec, format, threads, hardware)
    piece = prefill_piece(spec, format, chosen, is_split=gpu is not None)
    demand = Demand(spec, format, chosen != "torch", context, kv, piece, threads)
    if gpu is None:
        return chosen, demand, 0
    return chosen, demand, most_gpu_layers(demand, gpu) if wish.gpu_layers is None else wish.gpu_layers


def prefill_piece(spec: ModelSpec, format: str, kernels: str = "torch", is_split: bool = False) -> int:
    """Rows of one prefill piece: a power of two from 8 to 256 that takes about 100 ms at a modest rate, more
    where fewer rows would hardly be quicker. A model ``is_split`` between processor and GPU takes no step in
    one call of our kernels.

    It depends on the model and the kernels alone, so that an answer with a fixed seed repeats.
    """
    bits = layer_bits(spec, format, kernels != "torch")
    if bits < _DENSE_BITS:
        ops = _PIECE_OPS if kernels == "torch" else _NATIVE_PIECE_OPS[kernels]
        return _rows(spec, ops, _LEAST_PIECE)
    if bits == _F32_BITS and kernels != "torch" and not is_split:
        return MAX_ROWS  # as many as our kernels take, which are quicker than torch's with any number
    ops = _F32_PIECE_OPS if bits == _F32_BITS or format == "f16" else _PIECE_OPS
    return _rows(spec, ops, _LEAST_STOCK_PIECE)


def _rows(spec: ModelSpec, ops: float, least: int) -> int:
    """A power of two of rows with so many additions and products a second."""
    rows = _PIECE_S * ops / (2 * max(1, spec.num_params))
    piece = least
    while piece * 2 <= min(rows, _MOST_PIECE):
        piece *= 2
    return piece


def training_sentence(spec: ModelSpec) -> str:
    """Said where a context is longer than what the model was trained for."""
    return tr("The model was trained for {tokens} tokens.").format(tokens=figure(spec.trained_context))


def _trained(spec: ModelSpec, context: int) -> tuple[str, ...]:
    return (training_sentence(spec),) if context > spec.trained_context else ()
