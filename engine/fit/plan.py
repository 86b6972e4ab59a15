"""From a wish, a model's header and a machine to a plan: pure arithmetic, instant while a slider moves."""

from __future__ import annotations

from dataclasses import replace

from engine.errors import WishError
from engine.fit.bytes import kv_bytes, layer_bits, weight_bits, weight_bytes, working_bytes
from engine.fit.kernels import chosen_kernels
from engine.types import Hardware, LoadPlan, LoadSpec, MemoryParts, ModelSpec

DEFAULT_CONTEXT = 8192  # longest default until the plan recommends one
RUNTIME_BYTES = 260_000_000  # interpreter and torch after the first product: 249 MB measured
TIGHT_FRACTION = 0.03  # of all memory: less than this spare is not called "fits"
MIN_CONTEXT = 2

FORMATS = ("file", "f32", "bf16")
_ALIASES = {"32": "f32", "16": "bf16"}
_KNOWN_FORMATS = ("f16", "int8", "int4", "nf4", "8", "4", "llm-int8")
_PIECE_S = 0.1
_PIECE_OPS = {"f32": 60e9, "bf16": 200e9, "file": 200e9}  # products per second of 2 cores, low on purpose
_DENSE_BITS = 16  # torch multiplies many rows of dense matrices, whoever holds them
_NATIVE_PIECE_OPS = {
    "native avx512bf16": 800e9,
    "native avx512vnni": 800e9,
    "native avx2": 300e9,
    "native neon": 200e9,
    "native scalar": 20e9,
}


def plan(spec: ModelSpec, hardware: Hardware, wish: LoadSpec, held_bytes: int = 0) -> LoadPlan:
    """Resolve ``wish`` for ``spec`` on ``hardware``. ``held_bytes`` is what a model about to be replaced
    holds: it counts as free. A plan that does not fit is returned with verdict ``no``, not raised.

    Raises WishError for a format, KV precision, device or context that cannot be used.
    """
    format = resolve_format(spec, wish.format)
    context = _context(spec, wish.context)
    kv_bits = _kv_bits(format, wish.kv)
    threads = _threads(hardware, wish.threads)
    chosen = chosen_kernels(spec, format, threads, hardware)
    is_native = chosen != "torch"
    piece = prefill_piece(spec, format, chosen)
    parts = MemoryParts(
        weights=weight_bytes(spec, format, is_native),
        kv_reserved=kv_bytes(spec, context, kv_bits),
        working=working_bytes(spec, context, piece, is_native),
        overhead=RUNTIME_BYTES,
    )
    free = None if hardware.ram_free_bytes is None else hardware.ram_free_bytes + held_bytes
    verdict, reasons = _verdict(spec, parts, free, hardware.ram_total_bytes, context)
    if verdict == "no" and not is_native and hardware.native and hardware.kernel_times:
        # torch's kernels were only the quicker ones; ours hold the weights in less memory
        return plan(spec, replace(hardware, kernel_times=()), wish, held_bytes)
    return LoadPlan(
        model=spec,
        wish=wish,
        hardware=replace(hardware, ram_free_bytes=free),
        format=format,
        weight_bits=weight_bits(spec, format, is_native),
        context=context,
        kv_bits=kv_bits,
        device=_device(wish.device),
        threads=threads,
        prefill_piece=piece,
        bytes=parts,
        verdict=verdict,
        reasons=reasons,
        kernels=chosen,
    )


def resolve_format(spec: ModelSpec, format: str) -> str:
    """``auto`` is the file's own bits for a GGUF and bf16 for a folder; aliases 32 and 16 are understood."""
    if format == "auto":
        return "file" if spec.source == "gguf" else "bf16"
    resolved = _ALIASES.get(format, format)
    if resolved in FORMATS:
        return resolved
    if resolved in _KNOWN_FORMATS:
        raise WishError(f"Format {format} does not exist in this version.", f"Choose {', '.join(FORMATS)}.")
    raise WishError(f"Format {format!r} is unknown.", f"Choose auto, {', '.join(FORMATS)}.")


def prefill_piece(spec: ModelSpec, format: str, kernels: str = "torch") -> int:
    """Rows of one prefill piece: a power of two from 8 to 256 that takes about 100 ms at a modest rate.

    It depends on the model and the kernels alone, so that an answer with a fixed seed repeats.
    """
    ops_per_row = 2 * max(1, spec.num_params)
    is_quantized = kernels != "torch" and layer_bits(spec, format, True) < _DENSE_BITS
    ops = _NATIVE_PIECE_OPS[kernels] if is_quantized else _PIECE_OPS[format]
    rows = _PIECE_S * ops / ops_per_row
    piece = 8
    while piece * 2 <= min(rows, 256):
        piece *= 2
    return piece


def default_context(spec: ModelSpec) -> int:
    return min(spec.trained_context, DEFAULT_CONTEXT)


def training_sentence(spec: ModelSpec) -> str:
    """Said where a context is longer than what the model was trained for."""
    return f"The model was trained for {spec.trained_context:,} tokens."


def _context(spec: ModelSpec, context: int | None) -> int:
    if context is None:
        return default_context(spec)
    if context < MIN_CONTEXT:
        raise WishError(f"A context of {context} tokens cannot be used.", f"Give at least {MIN_CONTEXT}.")
    return context


def _kv_bits(format: str, kv: str) -> int:
    if kv == "auto":
        return 32 if format == "f32" else 16
    if kv in ("32", "16"):
        return int(kv)
    if kv in ("8", "4"):
        raise WishError(f"KV precision {kv} does not exist in this version.", "Choose auto, 32 or 16.")
    raise WishError(f"KV precision {kv!r} is unknown.", "Choose auto, 32 or 16.")


def _device(device: str) -> str:
    if device in ("auto", "cpu"):
        return "cpu"
    raise WishError(f"Device {device!r} cannot be used in this version.", "Choose auto or cpu.")


def _threads(hardware: Hardware, threads: int | None) -> int:
    if threads is None:
        return hardware.physical_cores
    if not 1 <= threads <= 1024:
        raise WishError(f"{threads} threads cannot be used.", "Give a number from 1 to 1024.")
    return threads


def _verdict(
    spec: ModelSpec, parts: MemoryParts, free: int | None, total: int | None, context: int
) -> tuple[str, tuple[str, ...]]:
    reasons = []
    if context > spec.trained_context:
        reasons.append(training_sentence(spec))
    if free is None:
        return "tight", ("Free memory is unknown.", *reasons)
    spare = free - (parts.total - parts.overhead)
    if spare < 0:
        return "no", (f"{-spare / 1e9:.2f} GB short.", *reasons)
    verdict = "fits" if spare >= TIGHT_FRACTION * (total or free) else "tight"
    return verdict, (f"{spare / 1e9:.2f} GB spare.", *reasons)
