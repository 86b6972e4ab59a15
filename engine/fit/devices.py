"""Which layers of a model lie on which device, and what each device then holds: pure arithmetic.

The first layers stay on the processor, the last ones go to the GPU with output norm and head, so that logits
and sampling are there. The embedding is looked up by rows, a few kilobytes a token: it stays on the processor
unless it is the head too.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import lru_cache

from engine.errors import WishError
from engine.fit.bytes import held_shapes, kv_bytes, tokenizer_bytes, weight_bytes, working_bytes
from engine.fit.held import HeldMatrix, held_matrices
from engine.fit.kv_bits import KVBits
from engine.fit.kv_pages import MAX_SEQUENCES, kinds_bytes, pool_kinds
from engine.machine import GPU_MARGIN, Gpu, Hardware
from engine.types import DeviceShare, LoadPlan, LoadSpec, MemoryParts, ModelSpec
from engine.words import decimal, tr

CPU = "cpu"
RUNTIME_BYTES = 275_000_000  # interpreter and torch after the first pass: 273 MB measured
GPU_RUNTIME_BYTES = 200_000_000  # workspaces of a GPU's libraries and recorded steps, an estimate
TIGHT_FRACTION = 0.03  # of all memory: less than this spare is not called "fits"
_VECTOR_BYTES = 4
_ROWS_BYTES = 4  # of an activation
_DENSE = ("bf16", "f16", "f32")  # the first of them that a GPU has stands in for what it has not


@dataclass(frozen=True, slots=True)
class Demand:
    """What is to be loaded, wherever it comes to lie. ``is_native``: layers on the processor are held for the
    native kernels.
    """

    spec: ModelSpec
    format: str
    is_native: bool
    context: int
    kv: KVBits
    piece: int  # rows of one prefill piece
    threads: int


@dataclass(frozen=True, slots=True)
class PlacedMatrix:
    """A matrix and the device that holds it."""

    matrix: HeldMatrix
    device: str


def resolve_gpu(hardware: Hardware, wish: LoadSpec) -> Gpu | None:
    """The GPU that a wish is for; None is the processor alone, or that nobody has looked for GPUs yet.

    ``auto`` takes the GPU with most free memory. Raises WishError for a device that is not there, naming
    those that are, and for layers on a GPU where there is none.
    """
    gpus, layers = hardware.gpus, wish.gpu_layers
    if layers is not None and layers < 0:
        raise WishError(
            tr("{layers} layers on the GPU cannot be used.").format(layers=layers), tr("Give 0 or more.")
        )
    if wish.device == CPU or (gpus == () and wish.device == "auto"):
        if layers:
            raise WishError(tr("Layers can lie on a GPU only where one is used."), _devices_hint(gpus or ()))
        return None
    if gpus is None:
        return None
    named = [gpu for gpu in gpus if wish.device in ("auto", gpu.device, gpu.device.partition(":")[0])]
    if not named:
        raise WishError(
            tr("Device {device} is not here.").format(device=repr(wish.device)), _devices_hint(gpus)
        )
    best = named[0] if wish.device != "auto" else max(named, key=_promise)
    return None if layers == 0 else best


def _promise(gpu: Gpu) -> tuple[bool, int]:
    """A card before what is a part of the processor, then the one with most free memory."""
    return not gpu.shares_ram, gpu.free_bytes or 0


def _devices_hint(gpus: tuple[Gpu, ...]) -> str:
    words = ["auto", CPU, *(gpu.device for gpu in gpus)]
    return tr("Choose {choices} or {last}.").format(choices=", ".join(words[:-1]), last=words[-1])


def most_gpu_layers(demand: Demand, gpu: Gpu) -> int:
    """How many layers fit on a GPU; none where its free memory is unknown. Where not all do, a margin stays
    free: what a driver takes for itself would slow down everything that is there.
    """
    if gpu.free_bytes is None:
        return 0

    def needs(layers: int) -> int:
        return _gpu_parts(demand, gpu, layers).total

    most = demand.spec.num_layers
    if needs(most) <= gpu.free_bytes:
        return most
    room = gpu.free_bytes - int(GPU_MARGIN * (gpu.total_bytes or gpu.free_bytes))
    return bisect_right(range(1, most), room, key=needs)


def device_shares(
    demand: Demand, hardware: Hardware, free_bytes: int | None, gpu: Gpu | None, gpu_layers: int
) -> tuple[DeviceShare, ...]:
    """What each device holds with the last ``gpu_layers`` on ``gpu``; ``free_bytes`` of the processor's
    memory are free for the model.
    """
    on_gpu = min(gpu_layers, demand.spec.num_layers) if gpu else 0
    rest = demand.spec.num_layers - on_gpu
    shares = [DeviceShare(CPU, hardware.cpu_name, rest, _cpu_parts(demand, on_gpu), free_bytes)]
    if gpu and on_gpu:
        parts = _gpu_parts(demand, gpu, on_gpu)
        shares.append(DeviceShare(gpu.device, gpu.name, on_gpu, parts, gpu.free_bytes))
    return tuple(shares)


def verdict(shares: tuple[DeviceShare, ...], hardware: Hardware, wants_gpu: bool) -> tuple[str, str]:
    """fits, tight, spills or no, and the sentence about what is spare or short.

    It spills where layers stay on the processor although a GPU is used.
    """
    gpus = {gpu.device: gpu for gpu in hardware.gpus or ()}
    unified = unified_devices(hardware)
    spares = [_spare(share, shares, unified) for share in shares]
    known = [spare for spare in spares if spare is not None]
    if known and min(known) < 0:
        return "no", tr("{size} GB short.").format(size=decimal(-min(known) / 1e9, 2))
    cpu_layers, layers = shares[0].layers, sum(share.layers for share in shares)
    split = ""
    if wants_gpu and cpu_layers:
        said = tr("{gpu_layers} of {layers} layers on the GPU.")
        split = said.format(gpu_layers=layers - cpu_layers, layers=layers) + " "
    if None in spares:
        return "spills" if split else "tight", split + tr("Free memory is unknown.")
    totals = {device: gpu.total_bytes for device, gpu in gpus.items()} | {CPU: hardware.ram_total_bytes}
    is_tight = any(
        spare < TIGHT_FRACTION * (totals[share.device] or share.free_bytes or 0)
        for spare, share in zip(known, shares, strict=True)
    )
    sentence = split + tr("{size} GB spare.").format(size=decimal(known[-1] / 1e9, 2))
    return ("spills" if split else "tight" if is_tight else "fits"), sentence


def unified_devices(hardware: Hardware) -> frozenset[str]:
    """The words of the GPUs that take their memory from the processor's."""
    return frozenset(gpu.device for gpu in hardware.gpus or () if gpu.shares_ram)


def _spare(share: DeviceShare, shares: tuple[DeviceShare, ...], unified: frozenset[str]) -> int | None:
    """Bytes that stay free."""
    shared = sum(other.bytes.total for other in shares if other.device in unified and share.device == CPU)
    return None if share.spare_bytes is None else share.spare_bytes - shared


def sum_parts(shares: tuple[DeviceShare, ...]) -> MemoryParts:
    """The bytes of all devices together."""
    parts = [share.bytes for share in shares]
    return MemoryParts(
        weights=sum(part.weights for part in parts),
        kv_reserved=sum(part.kv_reserved for part in parts),
        working=sum(part.working for part in parts),
        overhead=sum(part.overhead for part in parts),
    )


def gpu_parts(plan: LoadPlan) -> MemoryParts:
    """What of a plan's bytes is not in the processor's memory."""
    in_ram = {CPU} | unified_devices(plan.hardware)
    return sum_parts(tuple(share for share in plan.devices if share.device not in in_ram))


def placed_matrices(plan: LoadPlan) -> list[PlacedMatrix]:
    """All matrices of a plan in the order in which they are loaded."""
    gpu = next((gpu for gpu in plan.hardware.gpus or () if gpu.device == plan.device), None)
    spec, first = plan.model, plan.model.num_layers - plan.gpu_layers
    is_on_gpu = {word: gpu is not None and _is_behind(word, first, spec) for word in held_shapes(spec)}
    at_home = held_matrices(spec, plan.format, plan.is_native)
    placed = [PlacedMatrix(matrix, CPU) for matrix in at_home if not is_on_gpu[matrix.words[0]]]
    if gpu is not None:
        away = gpu_matrices(spec, plan.format, gpu.formats)
        placed += [PlacedMatrix(matrix, gpu.device) for matrix in away if is_on_gpu[matrix.words[0]]]
    return placed


def device_of(plan: LoadPlan, word: str) -> str:
    """Where the tensor of one of the decoder's words lies."""
    first = plan.model.num_layers - plan.gpu_layers
    return plan.device if plan.gpu_layers and _is_behind(word, first, plan.model) else CPU


def gpu_matrices(spec: ModelSpec, format: str, formats: tuple[str, ...]) -> list[HeldMatrix]:
    """All matrices as a GPU holds them that computes with ``formats``: dense ones stand in for what it has
    no product of.
    """
    dense = next(each for each in _DENSE if each in formats)
    known = {held: held for held in (*formats, "llm-int8")} | {"nf4cpu": "nf4"}
    return [
        replace(matrix, held=known.get(matrix.held, dense))
        for matrix in held_matrices(spec, format, is_gpu=True)
    ]


@dataclass(frozen=True, slots=True)
class _Weights:
    """Bytes of a model's weights in one home, by place."""

    embedding: int
    layers: tuple[int, ...]
    head: int  # with the output norm; a tied one is the embedding


@lru_cache(maxsize=64)  # a slider asks for the same model again and again
def _weights(spec: ModelSpec, format: str, is_native: bool, formats: tuple[str, ...] | None) -> _Weights:
    """On the processor, or on a GPU that computes with ``formats``."""
    matrices = (
        held_matrices(spec, format, is_native) if formats is None else gpu_matrices(spec, format, formats)
    )
    sizes = {word: _VECTOR_BYTES * shape[0] for word, shape in held_shapes(spec).items() if len(shape) == 1}
    sizes |= {matrix.words[0]: matrix.nbytes for matrix in matrices}
    layers = [0] * spec.num_layers
    for word, nbytes in sizes.items():
        index = _layer(word)
        if index is not None:
            layers[index] += nbytes
    return _Weights(sizes["embedding"], tuple(layers), sizes["output_norm"] + sizes.get("head", 0))


def _cpu_parts(demand: Demand, gpu_layers: int) -> MemoryParts:
    spec, layers = demand.spec, demand.spec.num_layers - gpu_layers
    if gpu_layers:
        weights = _weights(spec, demand.format, demand.is_native, None)
        held = sum(weights.layers[:layers]) + (0 if _is_tied(spec) else weights.embedding)
    else:
        held = weight_bytes(spec, demand.format, demand.is_native)
    working = demand.piece * spec.hidden_size * _ROWS_BYTES
    if layers:
        is_fused = demand.is_native and not gpu_layers  # only a whole model takes its steps in one call
        step_threads = demand.threads if is_fused else 0
        working = working_bytes(
            spec,
            demand.context,
            demand.piece,
            demand.is_native,
            step_threads,
            demand.kv,
            demand.format,
            demand.threads,
        )
    kv_reserved = _kv_bytes(demand, layers) if gpu_layers else _pool_bytes(demand)
    return MemoryParts(held, kv_reserved, working + tokenizer_bytes(spec), RUNTIME_BYTES)


def _gpu_parts(demand: Demand, gpu: Gpu, layers: int) -> MemoryParts:
    spec = demand.spec
    weights = _weights(spec, demand.format, False, gpu.formats)
    held = sum(weights.layers[spec.num_layers - layers :]) + weights.head
    held += weights.embedding if _is_tied(spec) else 0
    working = working_bytes(spec, demand.context, demand.piece, kv=demand.kv, format=demand.format)
    return MemoryParts(held, _kv_bytes(demand, layers), working, GPU_RUNTIME_BYTES)


def _pool_bytes(demand: Demand) -> int:
    """Of a model that lies on the processor alone, whose chats share pages."""
    kinds = pool_kinds(demand.spec, demand.context, demand.piece, MAX_SEQUENCES)
    return kinds_bytes(demand.spec, kinds, demand.kv, MAX_SEQUENCES)


def _kv_bytes(demand: Demand, layers: int) -> int:
    """Of one cache with a place for every token."""
    return kv_bytes(demand.spec, demand.context, demand.kv.values) * layers // demand.spec.num_layers


def _is_behind(word: str, first: int, spec: ModelSpec) -> bool:
    """Whether a word belongs to the layers from ``first`` on, or to what comes after them."""
    index = _layer(word)
    if index is not None:
        return index >= first
    outer = ("output_norm", "head", "embedding") if _is_tied(spec) else ("output_norm", "head")
    return first < spec.num_layers and word in outer


@lru_cache(maxsize=32)
def _is_tied(spec: ModelSpec) -> bool:
    return "head" not in held_shapes(spec)


def _layer(word: str) -> int | None:
    """The number of the layer that a word belongs to: "layers.3.q" is of layer 3."""
    parts = word.split(".")
    return int(parts[1]) if parts[0] == "layers" else None
