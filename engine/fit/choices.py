"""What a wish comes to, part by part: format, context, KV precision, device, threads; resolved or refused.

Knows the words of a wish and what a machine has; no bytes and no times.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import WishError
from engine.fit.kv_bits import HEAD_MULTIPLE, KV16, KVBits
from engine.machine import Hardware
from engine.types import ModelSpec
from engine.words import tr

DEFAULT_CONTEXT = 8192  # longest default until the plan recommends one
MIN_CONTEXT = 2

FORMATS = ("file", "f32", "bf16", "f16", "int8", "int4", "nf4", "llm-int8")
_ALIASES = {"32": "f32", "16": "bf16", "8": "int8", "4": "int4"}


@dataclass(frozen=True, slots=True)
class Lack:
    """Why a format cannot run here: a few words for a small place, a sentence, and what to do."""

    words: str
    sentence: str
    hint: str


_ROUGH_KEYS = ("gemma3", "gemma3_text")  # architectures, as in ModelSpec


def resolve_format(spec: ModelSpec, format: str) -> str:
    """One of FORMATS. ``auto`` is the file's own bits for a GGUF and bf16 for a folder; the aliases 32, 16,
    8 and 4 are understood. Raises WishError for anything else.
    """
    if format == "auto":
        return "file" if spec.source == "gguf" else "bf16"
    resolved = _ALIASES.get(format, format)
    if resolved not in FORMATS:
        raise WishError(
            tr("Format {format} is unknown.").format(format=repr(format)),
            tr("Choose auto, {formats}.").format(formats=", ".join(FORMATS)),
        )
    return resolved


def lack(format: str, hardware: Hardware, device: str) -> Lack | None:
    """What the machine lacks for weights in ``format`` on ``device``, None where it has all."""
    is_cuda = device.startswith("cuda")
    if format not in ("nf4", "llm-int8"):
        return None
    if format == "llm-int8" and not is_cuda:
        sentence = tr("LLM.int8 runs on NVIDIA GPUs (CUDA) only.")
        return Lack(tr("needs CUDA"), sentence, tr("Choose {format}.").format(format="int8"))
    if format == "nf4" and not is_cuda and "avx512_bf16" not in hardware.instruction_sets:
        sentence = tr("NF4 needs an NVIDIA GPU (CUDA) or a processor with AVX-512 BF16.")
        return Lack(tr("not on this CPU"), sentence, tr("Choose {format}.").format(format="int4"))
    if not hardware.has_bitsandbytes:
        sentence = tr("{format} needs the library bitsandbytes, which is not installed.").format(
            format=format
        )
        hint = tr("Run pip install bitsandbytes, or choose int4 or int8.")
        return Lack(tr("no bitsandbytes"), sentence, hint)
    return None


def refuse_lack(format: str, hardware: Hardware, device: str) -> None:
    """Raise WishError where the machine lacks what the format needs."""
    found = lack(format, hardware, device)
    if found is not None:
        raise WishError(found.sentence, found.hint)


def default_context(spec: ModelSpec) -> int:
    return min(spec.trained_context, DEFAULT_CONTEXT)


def resolve_context(spec: ModelSpec, context: int | None) -> int:
    """Tokens; None is the default. Raises WishError for too few."""
    if context is None:
        return default_context(spec)
    if context < MIN_CONTEXT:
        raise WishError(
            tr("A context length of {context} cannot be used.").format(context=context),
            tr("Give at least {least}.").format(least=MIN_CONTEXT),
        )
    return context


def resolve_kv(spec: ModelSpec, format: str, kv: str) -> KVBits:
    """Bits of a number in the KV cache; ``auto`` is 32 with float32 weights and else 16. Keys that
    round badly are kept at 8 bits at least.

    Raises WishError for what there is not, and for what the heads of this model are too odd for.
    """
    if kv == "auto":
        return KVBits(32, 32) if format == "f32" else KV16
    if kv not in ("32", "16", "8", "4"):
        raise WishError(
            tr("KV precision {precision} is unknown.").format(precision=repr(kv)),
            tr("Choose auto, 32, 16, 8 or 4."),
        )
    bits = int(kv)
    if bits < 16 and spec.head_dim % HEAD_MULTIPLE:
        raise WishError(
            tr(
                "KV precision {precision} needs heads of a multiple of {multiple} numbers; "
                "this model's have {size}."
            ).format(precision=kv, multiple=HEAD_MULTIPLE, size=spec.head_dim),
            tr("Choose auto, 32 or 16."),
        )
    return KVBits(max(bits, 8) if keys_round_badly(spec) else bits, bits)


def keys_round_badly(spec: ModelSpec) -> bool:
    """Whether keys of 4 bits would change attention too much.

    A bias that is trained on keys (Qwen 2 and 2.5) makes a few of their columns many times larger than the
    others, which a rotation only spreads. Gemma 3 has no bias, and with keys of 4 bits a perplexity that is
    4 % worse on the 270M model, against 0.5 % with 8; the attention weights of its layers move by 0.05 nats,
    those of SmolLM2 by 0.02.
    """
    return "qkv" in spec.options.biases or spec.architecture in _ROUGH_KEYS


def resolve_threads(hardware: Hardware, threads: int | None) -> int:
    """Those that were measured to read weights quickest, else one for each physical core, unless the wish
    names a number. Raises WishError for a wild one.
    """
    if threads is None:
        return hardware.best_threads or hardware.physical_cores
    check_threads(threads)
    return threads


def check_threads(threads: int) -> None:
    """Raise WishError for a number that no machine has."""
    if not 1 <= threads <= 1024:
        raise WishError(
            tr("{threads} threads cannot be used.").format(threads=threads),
            tr("Give a number from 1 to 1024."),
        )
