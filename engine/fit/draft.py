"""A draft model beside its target: on the same device, with the memory that the target leaves.

The bytes of the two are added here and nowhere else. Pure arithmetic, standard library only.
"""

from __future__ import annotations

from dataclasses import fields, replace

from engine.errors import WishError
from engine.fit.devices import CPU, sum_parts, unified_devices, verdict
from engine.machine import Hardware
from engine.types import NO_BYTES, DeviceShare, LoadPlan, LoadSpec, MemoryParts, ModelSpec
from engine.words import decimal, tr

_VERDICTS = ("fits", "tight", "spills", "no")  # the best first


def draft_wish(target: LoadPlan, draft: ModelSpec) -> LoadSpec:
    """How a draft model is loaded: in its own format, for the chats of its target."""
    return LoadSpec(draft.path, context=target.context, device=target.device, threads=target.threads)


def check_trims(target: ModelSpec, draft: ModelSpec) -> None:
    """Raise WishError where one of the two cannot take back a token, as a wrong guess needs."""
    for spec in (target, draft):
        if spec.capabilities.no_trim:
            said = tr("{name} cannot go with a draft model.").format(name=spec.name)
            raise WishError(f"{said} {spec.capabilities.no_trim}")


def left_over(target: LoadPlan) -> Hardware:
    """The machine with what a target leaves free. The runtime of a device is paid for once."""
    used = {share.device: share.bytes.total - share.bytes.overhead for share in target.devices}
    hardware = target.hardware
    gpus = hardware.gpus and tuple(
        replace(gpu, free_bytes=_less(gpu.free_bytes, used.get(gpu.device, 0))) for gpu in hardware.gpus
    )
    in_ram = used[CPU] + sum(used.get(device, 0) for device in unified_devices(hardware))
    return replace(hardware, ram_free_bytes=_less(hardware.ram_free_bytes, in_ram), gpus=gpus)


def with_draft(target: LoadPlan, draft: LoadPlan) -> LoadPlan:
    """The plan of both. ``draft`` was made for what the target leaves over."""
    runtimes = {share.device: share.bytes.overhead for share in target.devices}
    shares = tuple(_beside(share, runtimes[share.device]) for share in draft.devices)
    draft = replace(draft, devices=shares, bytes=sum_parts(shares))
    added = {share.device: share.bytes for share in shares}
    both = tuple(
        replace(share, bytes=_sum(share.bytes, added.get(share.device, NO_BYTES))) for share in target.devices
    )
    found, spare = verdict(both, target.hardware, wants_gpu=target.device != CPU)
    note = tr("The draft model {name} takes {size} GB beside it.").format(
        name=draft.model.name, size=decimal(draft.bytes.total / 1e9, 2)
    )
    return replace(
        target,
        bytes=sum_parts(both),
        verdict=max(found, target.verdict, key=_VERDICTS.index),
        reasons=(spare, note, *target.reasons[1:]),
        devices=both,
        draft=draft,
    )


def _beside(share: DeviceShare, runtime_bytes: int) -> DeviceShare:
    """A draft's share of a device whose runtime its target has paid for already."""
    overhead = max(0, share.bytes.overhead - runtime_bytes)
    return replace(share, bytes=replace(share.bytes, overhead=overhead))


def _sum(one: MemoryParts, other: MemoryParts) -> MemoryParts:
    return MemoryParts(*(getattr(one, each.name) + getattr(other, each.name) for each in fields(MemoryParts)))


def _less(free_bytes: int | None, used_bytes: int) -> int | None:
    return None if free_bytes is None else max(0, free_bytes - used_bytes)
