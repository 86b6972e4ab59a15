"""The plan of a model that transformers runs: on one device, the last layers on the disk if memory is short.

Pure arithmetic, standard library only.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

from engine.errors import WishError
from engine.fit import generic_bytes
from engine.fit.bytes import tokenizer_bytes
from engine.fit.choices import resolve_context, resolve_format, resolve_threads
from engine.fit.devices import CPU, GPU_RUNTIME_BYTES, RUNTIME_BYTES, TIGHT_FRACTION, resolve_gpu, sum_parts
from engine.fit.disk import disk_bytes
from engine.machine import Gpu, Hardware
from engine.types import DeviceShare, LoadPlan, LoadSpec, MemoryParts, ModelSpec
from engine.words import decimal, tr

LIBRARY_BYTES = 140_000_000  # transformers beside torch, once it is imported: 133 MB measured
_PIECE_S = 0.1
_PIECE_OPS = {"f32": 30e9, "bf16": 60e9, "f16": 15e9}  # products per second of 2 cores, low on purpose
_LEAST_PIECE, _LEAST_SCAN_PIECE, _MOST_PIECE = 8, 64, 256


def plan_generic(spec: ModelSpec, hardware: Hardware, wish: LoadSpec, held_bytes: int = 0) -> LoadPlan:
    """As `engine.fit.plan.plan`. Raises WishError for a wish such a model cannot have."""
    assert spec.generic is not None
    format = _format(spec, wish)
    context, kv_bits = resolve_context(spec, wish.context), _kv_bits(format, wish)
    threads = resolve_threads(hardware, wish.threads)
    piece = prefill_piece(spec, format)
    whole = MemoryParts(
        weights=generic_bytes.weight_bytes(spec, format),
        kv_reserved=generic_bytes.kv_bytes(spec, context, kv_bits),
        working=generic_bytes.working_bytes(spec, context, piece, format, threads),
    )
    free = None if hardware.ram_free_bytes is None else hardware.ram_free_bytes + held_bytes
    gpu = _gpu(spec, hardware, wish, whole, format)
    room = None if free is None else free - tokenizer_bytes(spec)
    disk_layers, parts = (0, whole) if gpu else _within(spec, format, whole, room)
    shares = _shares(spec, hardware, gpu, parts, disk_layers, free)
    found, spare = _verdict(shares[-1], hardware, disk_layers)
    return LoadPlan(
        model=spec,
        wish=wish,
        hardware=replace(hardware, ram_free_bytes=free),
        format=format,
        weight_bits=8 * whole.weights / max(1, spec.num_params),
        context=context,
        kv_bits=kv_bits,
        device=gpu.device if gpu else CPU,
        threads=threads,
        prefill_piece=piece,
        bytes=sum_parts(shares),
        verdict=found,
        reasons=(spare, *_reasons(spec, disk_layers)),
        devices=shares,
        disk_layers=disk_layers,
    )


def prefill_piece(spec: ModelSpec, format: str) -> int:
    """Rows of one prefill piece: a power of two that takes about 100 ms at a modest rate. State space layers
    pad every piece, so theirs is no shorter than pays.
    """
    assert spec.generic is not None
    active = max(1.0, spec.num_params * spec.generic.read_fraction)
    rows = _PIECE_S * _PIECE_OPS[format] / (2 * active)
    has_scan = any(layer.recurrent for layer in spec.generic.cache)
    piece = _LEAST_SCAN_PIECE if has_scan else _LEAST_PIECE
    while piece * 2 <= min(rows, _MOST_PIECE):
        piece *= 2
    return piece


def _format(spec: ModelSpec, wish: LoadSpec) -> str:
    format = resolve_format(spec, wish.format)
    if format == "file":
        return "bf16"
    if format not in generic_bytes.FORMATS:
        raise WishError(
            tr("Format {format} cannot be used with this model: it runs through transformers.").format(
                format=wish.format
            ),
            tr("Choose bf16, f16 or f32."),
        )
    return format


def _kv_bits(format: str, wish: LoadSpec) -> int:
    bits = 32 if format == "f32" else 16
    if wish.kv not in ("auto", str(bits)):
        raise WishError(
            tr(
                "KV precision {precision} cannot be used with {format} here: "
                "the model runs through transformers."
            ).format(precision=wish.kv, format=format),
            tr("Choose auto or {precision}.").format(precision=bits),
        )
    return bits


def _gpu(spec: ModelSpec, hardware: Hardware, wish: LoadSpec, whole: MemoryParts, format: str) -> Gpu | None:
    """The GPU that takes the whole model, if one does; on none or several devices it is not split."""
    gpu = resolve_gpu(hardware, wish)
    if gpu is None or wish.gpu_layers == 0:
        return None
    if wish.gpu_layers is not None and wish.gpu_layers < spec.num_layers:
        raise WishError(
            tr("This model cannot be split between processor and GPU: it runs through transformers."),
            tr("Put all layers on the GPU, or none."),
        )
    fits = gpu.free_bytes is not None and whole.total + GPU_RUNTIME_BYTES <= gpu.free_bytes
    is_wanted = wish.device != "auto" or wish.gpu_layers is not None
    return gpu if format in gpu.formats and (fits or is_wanted) else None


def _within(spec: ModelSpec, format: str, whole: MemoryParts, free: int | None) -> tuple[int, MemoryParts]:
    """How many layers stay on the disk for the rest to fit in memory, and that rest: the fewest, or none
    where not even all would do. A layer is in memory while it computes.
    """
    layers = generic_bytes.layer_bytes(spec, format)
    if free is None or whole.total <= free or not any(layers):
        return 0, whole
    for count, away in enumerate(accumulate(reversed(layers)), 1):
        widest = max(layers[len(layers) - count :])
        rest = replace(whole, weights=whole.weights - away, working=whole.working + widest)
        if rest.total <= free:
            return count, rest
    return 0, whole


def _shares(
    spec: ModelSpec,
    hardware: Hardware,
    gpu: Gpu | None,
    parts: MemoryParts,
    disk_layers: int,
    free: int | None,
) -> tuple[DeviceShare, ...]:
    if gpu is None:
        working = parts.working + tokenizer_bytes(spec)
        own = replace(parts, working=working, overhead=RUNTIME_BYTES + LIBRARY_BYTES)
        return (DeviceShare(CPU, hardware.cpu_name, spec.num_layers - disk_layers, own, free),)
    outside = MemoryParts(working=tokenizer_bytes(spec), overhead=RUNTIME_BYTES + LIBRARY_BYTES)
    base = DeviceShare(CPU, hardware.cpu_name, 0, outside, free)
    own = replace(parts, overhead=GPU_RUNTIME_BYTES)
    return base, DeviceShare(gpu.device, gpu.name, spec.num_layers, own, gpu.free_bytes)


def _verdict(share: DeviceShare, hardware: Hardware, disk_layers: int) -> tuple[str, str]:
    """fits, tight, spills or no, and the sentence about what is spare or short where the model lies. On the
    disk it spills.
    """
    spare = share.spare_bytes
    if spare is None:
        return "tight", tr("Free memory is unknown.")
    if spare < 0:
        return "no", tr("{size} GB short.").format(size=decimal(-spare / 1e9, 2))
    is_tight = spare < TIGHT_FRACTION * (hardware.ram_total_bytes or share.free_bytes or 0)
    found = "spills" if disk_layers else "tight" if is_tight else "fits"
    return found, tr("{size} GB spare.").format(size=decimal(spare / 1e9, 2))


def _reasons(spec: ModelSpec, disk_layers: int) -> tuple[str, ...]:
    assert spec.generic is not None
    said = [tr("Runs through transformers, slower: {reason}.").format(reason=spec.generic.reason)]
    if disk_layers:
        size = decimal(disk_bytes(spec, disk_layers) / 1e9, 2)
        words = tr("{disk_layers} of {layers} layers stay on the disk: every step reads {size} GB of them.")
        said.append(words.format(disk_layers=disk_layers, layers=spec.num_layers, size=size))
    if spec.capabilities.no_trim:
        said.append(spec.capabilities.no_trim)
    return tuple(said)
