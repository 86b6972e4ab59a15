"""The guard: which plans are refused before anything is loaded, and what would fit instead.

Knows plans and words; the engine's own look at the memory when it loads is behind it.
"""

from __future__ import annotations

from dataclasses import replace

from engine.errors import MemoryLimitError, WishError
from engine.fit.advice import PREFERENCES, longest_context, recommend
from engine.fit.choices import default_context
from engine.fit.devices import CPU, unified_devices
from engine.fit.plan import plan, replanned, without_draft
from engine.types import DeviceShare, Gpu, LoadPlan

STRICT, RELAXED, OFF = LEVELS = ("strict", "relaxed", "off")
"""strict: only what fits with a margin and in the memory meant for it | relaxed: all that fits | off: all."""

_REFUSED = {STRICT: ("no", "spills", "tight"), RELAXED: ("no",), OFF: ()}
_WORTH_HAVING = 2048  # tokens: a shorter context is offered only where no other format has a longer one


def is_refused(made: LoadPlan, guard: str = RELAXED) -> bool:
    """Whether a guard of one of LEVELS keeps a plan from being loaded. What is not known is not refused."""
    is_known = made.spare_bytes is not None or made.verdict == "no"
    return is_known and not made.wish.anyway and made.verdict in _REFUSED[guard]


def check(made: LoadPlan, guard: str = RELAXED) -> None:
    """Raise MemoryLimitError, with what would fit, where the guard refuses a plan."""
    if is_refused(made, guard):
        short = "does not fit in memory" if made.verdict == "no" else "fits too tightly for the strict guard"
        raise MemoryLimitError(f"{made.model.name} {short}: {made.reasons[0]}", what_fits(made, guard))


def check_again(made: LoadPlan, ram_free_bytes: int | None, gpus: tuple[Gpu, ...]) -> None:
    """Raise MemoryLimitError, with what would fit, where a device has less memory free by now than a plan
    puts there. Nothing of it may be loaded yet.
    """
    if made.wish.anyway:
        return
    now = replace(made.hardware, ram_free_bytes=ram_free_bytes, gpus=gpus)
    free = {gpu.device: gpu.free_bytes for gpu in gpus} | {CPU: ram_free_bytes}
    for share in made.devices:
        needed, available = _needed(made, share), free.get(share.device)
        if available is not None and needed > available:
            taken = " Another program has taken memory since it was planned." if made.verdict != "no" else ""
            where = "" if share.device == CPU else f" on {share.name}"
            raise MemoryLimitError(
                f"The model needs {needed / 1e9:.2f} GB{where} and {available / 1e9:.2f} GB are free.{taken}",
                what_fits(replanned(made, now)),
            )


def _needed(made: LoadPlan, share: DeviceShare) -> int:
    """Bytes of a share that are not there yet; the processor's memory has those of unified GPUs too."""
    if share.device != CPU:
        return share.bytes.total
    unified = unified_devices(made.hardware)
    shared = sum(other.bytes.total for other in made.devices if other.device in unified)
    return share.bytes.total - share.bytes.overhead + shared


def what_fits(made: LoadPlan, guard: str = RELAXED) -> str:
    """A sentence about the nearest wish that a guard lets pass on the machine of a plan."""
    refused = _REFUSED[guard]
    if made.draft is not None and without_draft(made).verdict not in refused:
        return "It fits without the draft model."
    wish = replace(made.wish, draft="", anyway=False)
    longest = longest_context(made.model, made.hardware, replace(wish, format=made.format)) or 0
    longest = min(longest, made.context)
    if guard == RELAXED and longest >= min(_WORTH_HAVING, default_context(made.model)):
        return f"It fits with a context of {longest:,} tokens, or choose a smaller format."
    for preference in PREFERENCES:
        nearest = recommend(made.model, made.hardware, wish, preference).plan
        if nearest.verdict not in refused:
            return f"It fits as {nearest.format} with a context of {nearest.context:,} tokens."
    least = f"{_least_bytes(made) / 1e9:.1f} GB must be free"
    return f"Not even its smallest form fits: {least}. Choose a smaller model."


def _least_bytes(made: LoadPlan) -> int:
    """Of the smallest format, with a context that is just worth having."""
    needs = []
    for format in ("file", "bf16", "int8", "int4"):
        wish = replace(made.wish, format=format, kv="auto", draft="", context=min(512, made.context))
        try:
            parts = plan(made.model, made.hardware, wish).bytes
        except WishError:
            continue
        needs.append(parts.total - parts.overhead)
    return min(needs)
