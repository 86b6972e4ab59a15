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
from engine.machine import Gpu
from engine.types import DeviceShare, LoadPlan
from engine.words import decimal, figure, tr

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
        said = (
            tr("{name} does not fit in memory: {reason}")
            if made.verdict == "no"
            else tr("{name} fits too tightly for the strict guard: {reason}")
        )
        reason = made.reasons[0]
        raise MemoryLimitError(said.format(name=made.model.name, reason=reason), what_fits(made, guard))


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
            raise MemoryLimitError(
                _short_by_now(made, share, needed, available), what_fits(replanned(made, now))
            )


def _short_by_now(made: LoadPlan, share: DeviceShare, needed: int, available: int) -> str:
    said = (
        tr("The model needs {needed} GB and {free} GB are free.")
        if share.device == CPU
        else tr("The model needs {needed} GB on {device} and {free} GB are free.")
    )
    said = said.format(needed=decimal(needed / 1e9, 2), free=decimal(available / 1e9, 2), device=share.name)
    if made.verdict == "no":
        return said
    since = tr("Another program has taken memory since it was planned.")
    return f"{said} {since}"


def _needed(made: LoadPlan, share: DeviceShare) -> int:
    """Bytes of a share that are not there yet; the processor's memory has those of unified GPUs too."""
    if share.device != CPU:
        return share.needed_bytes
    unified = unified_devices(made.hardware)
    return share.needed_bytes + sum(each.needed_bytes for each in made.devices if each.device in unified)


def what_fits(made: LoadPlan, guard: str = RELAXED) -> str:
    """A sentence about the nearest wish that a guard lets pass on the machine of a plan."""
    refused = _REFUSED[guard]
    if made.draft is not None and without_draft(made).verdict not in refused:
        return tr("It fits without the draft model.")
    if (fewer := _fewer_gpu_layers(made)) is not None and fewer.verdict not in refused:
        if not fewer.gpu_layers:
            return tr("It fits with all layers on the processor.")
        return tr("It fits with %n layer(s) on the GPU.", "", fewer.gpu_layers)
    wish = replace(made.wish, draft="", anyway=False)
    longest = longest_context(made.model, made.hardware, replace(wish, format=made.format)) or 0
    longest = min(longest, made.context)
    if guard == RELAXED and longest >= min(_WORTH_HAVING, default_context(made.model)):
        said = tr("It fits with a context of {context} tokens, or choose a smaller format.")
        return said.format(context=figure(longest))
    for preference in PREFERENCES:
        nearest = recommend(made.model, made.hardware, wish, preference).plan
        if nearest.verdict not in refused:
            return tr("It fits as {format} with a context of {context} tokens.").format(
                format=nearest.format, context=figure(nearest.context)
            )
    said = tr("Not even its smallest form fits: {size} GB must be free. Choose a smaller model.")
    return said.format(size=decimal(_least_bytes(made) / 1e9, 1))


def _fewer_gpu_layers(made: LoadPlan) -> LoadPlan | None:
    """The plan with as many layers on the GPU as there is room for, where the wish names more."""
    if not made.wish.gpu_layers:
        return None
    wish = replace(made.wish, format=made.format, gpu_layers=None)
    found = replanned(replace(made, wish=wish), made.hardware)
    return found if found.gpu_layers < min(made.wish.gpu_layers, made.model.num_layers) else None


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
