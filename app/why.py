"""The line that says why: what limits the speed now, or why it is below what was predicted. Pure.

A conclusion is drawn only from what was measured; where nothing measured explains it, the line says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from app.machine_load import UNKNOWN_LOAD, MachineLoad
from ui import numbers

HOLD_S = 2.0  # a sentence stands at least so long
SLOWER, SLOWER_S = 0.8, 3.0  # of what was predicted, and for how long
_SAME_SHARE = 0.05  # a share that moves less than this is no news
_MAJORITY = 0.5  # of a step: less is no limit
_MIXED_BYTES = 0.6  # weights and keys together: memory it is, whichever of them leads
_QUICKER = 1.25  # than predicted: the model of a step does not hold here
_PAGE_READS = 20.0  # a second: some happen at any time
_STOLEN = 0.05
_OTHER_CPUS = 0.5
_FREQUENCY = 0.8
_DRAFTS_LOSE = 0.97  # of the speed without them
_CAUSES_OUTSIDE = ("pages", "cores", "stolen", "bus", "throttled")


@dataclass(frozen=True, slots=True)
class StepParts:
    """Where the time of one step goes, as predicted; seconds, and the bytes it reads."""

    weights_s: float
    kv_s: float
    compute_s: float  # of arithmetic that reading does not hide: rows of several chats and drafts
    fixed_s: float
    weights_bytes: int
    kv_bytes: int
    fits_cache: bool = False  # weights are read quicker than memory gives them

    @property
    def total_s(self) -> float:
        return self.weights_s + self.kv_s + self.compute_s + self.fixed_s


@dataclass(frozen=True, slots=True)
class Situation:
    """All that is known of an answer at one moment. ``is_slower``: below 80 % of predicted for 3 s."""

    measured_tps: float | None = None
    predicted_tps: float | None = None
    is_slower: bool = False
    parts: StepParts | None = None
    machine: MachineLoad = UNKNOWN_LOAD
    threads: int = 1
    num_chats: int = 1
    disk_layers: int = 0
    num_layers: int = 0
    gpu_over_bytes: int = 0  # reserved on a GPU above the memory it has
    spilled_layers: int = 0  # on the processor although a GPU has the others
    kernels: str = ""
    native_missing: str = ""  # why the program's own kernels are not here, a sentence
    drafts_gain: float | None = None  # speed with the drafts that are checked over that without; None: none


@dataclass(frozen=True, slots=True)
class Verdict:
    """What limits the speed. ``kind`` names it, ``share`` is the one in the sentence."""

    kind: str
    head: str
    text: str
    is_warning: bool = False
    share: float = 0.0

    @property
    def sentence(self) -> str:
        return f"{self.head}: {self.text}" if self.text else self.head

    @property
    def is_outside(self) -> bool:
        """Whether something else than the prediction is to blame."""
        return self.kind in _CAUSES_OUTSIDE


NOT_MEASURED = Verdict(
    "none", "Not measured yet", "the first answer sets the gauges and checks the prediction"
)
READING = Verdict("reading", "Slower for a moment", "another chat's message is being read between the steps")
UNEXPLAINED = Verdict("unexplained", "Slower than predicted", "the reason is not clear yet", is_warning=True)
UNCLEAR = Verdict("unclear", "Limit not clear yet", "")


def explain(now: Situation) -> Verdict:
    """The verdict for this moment."""
    if now.measured_tps is None:
        return NOT_MEASURED
    always = _on_disk(now) or _drafts(now)
    if now.is_slower:
        return _outside(now) or always or _kernels(now) or UNEXPLAINED
    return always or _kernels(now) or _bound(now)


def _outside(now: Situation) -> Verdict | None:
    """What keeps an answer from the predicted speed, the surest sign first."""
    machine = now.machine
    if (machine.page_reads or 0.0) >= _PAGE_READS:
        return _slower("pages", "memory is short, and parts of the model come back from the disk")
    if now.gpu_over_bytes > 0:
        over = numbers.size(now.gpu_over_bytes)
        return _slower("pages", f"{over} more are reserved than the GPU has, and spill into RAM")
    if machine.has_throttled:
        return _slower("throttled", "the processor is hot and slows itself down")
    if machine.frequency is not None and machine.frequency < _FREQUENCY:
        why = "the laptop is on battery, and the processor" if machine.is_on_battery else "the processor"
        speed = numbers.percent(machine.frequency)
        return _slower("throttled", f"{why} runs at {speed} of its frequency", machine.frequency)
    if (machine.stolen or 0.0) >= _STOLEN:
        share = numbers.percent(machine.stolen)
        return _slower(
            "stolen", f"other machines of this host take {share} of its time", machine.stolen or 0.0
        )
    return _others(machine, now.threads)


def _others(machine: MachineLoad, threads: int) -> Verdict | None:
    """Other programs that are busy: on cores that this one needs, or beside it, on the same memory."""
    busy = machine.other_cpus or 0.0
    if busy < _OTHER_CPUS:
        return None
    cores = f"{numbers.decimal(busy, 1)} of {machine.num_cpus} cores"
    if busy > machine.num_cpus - threads:
        return _slower("cores", f"another program uses {cores}", busy / machine.num_cpus)
    return _slower("bus", f"another program uses {cores} and the same memory bus", busy / machine.num_cpus)


def _on_disk(now: Situation) -> Verdict | None:
    if now.disk_layers:
        text = f"{now.disk_layers} of {now.num_layers} layers are read from the disk for every token"
        return Verdict("disk", "Memory spilled", text, is_warning=True)
    if now.spilled_layers:
        text = f"{now.spilled_layers} of {now.num_layers} layers had no room on the GPU"
        return Verdict("spilled", "Memory spilled", text, is_warning=True)
    return None


def _drafts(now: Situation) -> Verdict | None:
    gain = now.drafts_gain
    if gain is None or gain >= _DRAFTS_LOSE:
        return None
    text = f"checking them costs more than they save, {numbers.percent(gain)} of the speed without"
    return Verdict("drafts", "Drafts lose", text, is_warning=True, share=gain)


def _kernels(now: Situation) -> Verdict | None:
    if not now.native_missing or not now.kernels.startswith("torch"):
        return None
    why = now.native_missing.rstrip(".")
    return Verdict("kernels", "Slower kernel", f"{now.kernels} reads the weights. {why}", is_warning=True)


def _slower(kind: str, text: str, share: float = 0.0) -> Verdict:
    return Verdict(kind, "Slower than predicted", text, is_warning=True, share=share)


def _bound(now: Situation) -> Verdict:
    """The largest part of a step, where one stands out and the prediction holds."""
    parts, predicted, measured = now.parts, now.predicted_tps, now.measured_tps
    if parts is None or parts.total_s <= 0 or not predicted or measured is None:
        return UNCLEAR
    if measured > _QUICKER * predicted or measured < predicted / _QUICKER:
        return UNCLEAR
    each = "step" if now.num_chats > 1 or now.drafts_gain is not None else "token"
    weights, kv, compute, fixed = (
        part / parts.total_s for part in (parts.weights_s, parts.kv_s, parts.compute_s, parts.fixed_s)
    )
    if max(weights, kv) >= _MAJORITY or weights + kv >= _MIXED_BYTES:
        if kv > weights:
            size = numbers.size(parts.kv_bytes)
            text = f"{numbers.percent(kv)} of each {each} is reading {size} of context (KV cache)"
            return Verdict("kv", "Memory-bound", text, share=kv)
        size = numbers.size(parts.weights_bytes)
        place = " from the processor's cache" if parts.fits_cache else ""
        text = f"{numbers.percent(weights)} of each {each} is reading {size} of weights{place}"
        return Verdict("weights", "Cache-bound" if place else "Memory-bound", text, share=weights)
    if compute >= _MAJORITY:
        chats = f" for {now.num_chats} chats" if now.num_chats > 1 else ""
        text = f"{numbers.percent(compute)} of each {each} is arithmetic{chats} that reading does not hide"
        return Verdict("arithmetic", "Compute-bound", text, share=compute)
    if fixed >= _MAJORITY:
        text = f"{numbers.percent(fixed)} of each {each} is the fixed cost of {now.num_layers} layers"
        return Verdict("fixed", "Overhead-bound", text, share=fixed)
    return UNCLEAR


class Slowness:
    """Whether an answer has been below 80 % of what was predicted for three seconds on end."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since_s: float | None = None

    def observe(self, measured_tps: float | None, predicted_tps: float) -> bool:
        """Take the speeds of this moment; an unknown one begins anew."""
        if measured_tps is None or measured_tps >= SLOWER * predicted_tps:
            self._since_s = None
        elif self._since_s is None:
            self._since_s = self._clock()
        return self._since_s is not None and self._clock() - self._since_s >= SLOWER_S


class SteadyVerdict:
    """A verdict that can be read: it stands two seconds at least, and does not count along with its share.

    ``clock`` gives seconds and never goes back.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since_s = float("-inf")
        self.shown = NOT_MEASURED

    def offer(self, verdict: Verdict) -> Verdict:
        """The verdict to show after ``verdict`` was found."""
        if not self.stands(verdict) and self._clock() - self._since_s >= HOLD_S:
            self.shown, self._since_s = verdict, self._clock()
        return self.shown

    def stands(self, verdict: Verdict) -> bool:
        """Whether what is shown says as much as ``verdict``."""
        is_same = (verdict.kind, verdict.head) == (self.shown.kind, self.shown.head)
        return is_same and abs(verdict.share - self.shown.share) < _SAME_SHARE
