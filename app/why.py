"""The line that says why: what limits the speed now, or why it is below what was predicted. Pure.

A conclusion is drawn only from what was measured; where nothing measured explains it, the line says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from app.machine_load import UNKNOWN_LOAD, MachineLoad
from engine.words import mark, tr
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
    """What limits the speed. ``kind`` names it, ``share`` is the one in the sentence.

    ``head`` is English; ``text`` too where it is always the same, as ``sentence`` translates both.
    """

    kind: str
    head: str
    text: str
    is_warning: bool = False
    share: float = 0.0

    @property
    def sentence(self) -> str:
        head, text = tr(self.head), tr(self.text)  # a text with figures was translated before they came in
        return f"{head}: {text}" if text else head

    @property
    def is_outside(self) -> bool:
        """Whether something else than the prediction is to blame."""
        return self.kind in _CAUSES_OUTSIDE


NOT_MEASURED = Verdict(
    "none", mark("Not measured yet"), mark("the first answer sets the gauges and checks the prediction")
)
READING = Verdict(
    "reading",
    mark("Slower for a moment"),
    mark("another chat's message is being read between the steps"),
)
UNEXPLAINED = Verdict(
    "unexplained", mark("Slower than predicted"), mark("the reason is not clear yet"), is_warning=True
)
UNCLEAR = Verdict("unclear", mark("Limit not clear yet"), "")


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
        return _slower("pages", tr("memory is short, and parts of the model come back from the disk"))
    if now.gpu_over_bytes > 0:
        text = tr("{size} more are reserved than the GPU has, and spill into RAM")
        return _slower("pages", text.format(size=numbers.size(now.gpu_over_bytes)))
    if machine.has_throttled:
        return _slower("throttled", tr("the processor is hot and slows itself down"))
    if machine.frequency is not None and machine.frequency < _FREQUENCY:
        text = tr("the processor runs at {share} of its frequency")
        if machine.is_on_battery:
            text = tr("the laptop is on battery, and the processor runs at {share} of its frequency")
        share = numbers.percent(machine.frequency)
        return _slower("throttled", text.format(share=share), machine.frequency)
    if (machine.stolen or 0.0) >= _STOLEN:
        text = tr("other machines of this host take {share} of its time")
        return _slower("stolen", text.format(share=numbers.percent(machine.stolen)), machine.stolen or 0.0)
    return _others(machine, now.threads)


def _others(machine: MachineLoad, threads: int) -> Verdict | None:
    """Other programs that are busy: on cores that this one needs, or beside it, on the same memory."""
    busy = machine.other_cpus or 0.0
    if busy < _OTHER_CPUS:
        return None
    kind, text = "bus", tr("another program uses {busy} of {count} cores and the same memory bus")
    if busy > machine.num_cpus - threads:
        kind, text = "cores", tr("another program uses {busy} of {count} cores")
    words = text.format(busy=numbers.decimal(busy, 1), count=machine.num_cpus)
    return _slower(kind, words, busy / machine.num_cpus)


def _on_disk(now: Situation) -> Verdict | None:
    if now.disk_layers:
        text = tr("{some} of {all} layers are read from the disk for every token")
        text = text.format(some=now.disk_layers, all=now.num_layers)
        return Verdict("disk", mark("Memory spilled"), text, is_warning=True)
    if now.spilled_layers:
        text = tr("{some} of {all} layers had no room on the GPU")
        text = text.format(some=now.spilled_layers, all=now.num_layers)
        return Verdict("spilled", mark("Memory spilled"), text, is_warning=True)
    return None


def _drafts(now: Situation) -> Verdict | None:
    gain = now.drafts_gain
    if gain is None or gain >= _DRAFTS_LOSE:
        return None
    text = tr("checking them costs more than they save, {share} of the speed without")
    text = text.format(share=numbers.percent(gain))
    return Verdict("drafts", mark("Drafts lose"), text, is_warning=True, share=gain)


def _kernels(now: Situation) -> Verdict | None:
    if not now.native_missing or not now.kernels.startswith("torch"):
        return None
    reads = tr("{kernels} reads the weights.").format(kernels=now.kernels)
    text = f"{reads} {now.native_missing.rstrip('.')}"
    return Verdict("kernels", mark("Slower kernel"), text, is_warning=True)


def _slower(kind: str, text: str, share: float = 0.0) -> Verdict:
    return Verdict(kind, mark("Slower than predicted"), text, is_warning=True, share=share)


def _bound(now: Situation) -> Verdict:
    """The largest part of a step, where one stands out and the prediction holds."""
    parts, predicted, measured = now.parts, now.predicted_tps, now.measured_tps
    if parts is None or parts.total_s <= 0 or not predicted or measured is None:
        return UNCLEAR
    if measured > _QUICKER * predicted or measured < predicted / _QUICKER:
        return UNCLEAR
    each = tr("each step") if now.num_chats > 1 or now.drafts_gain is not None else tr("each token")
    weights, kv, compute, fixed = (
        part / parts.total_s for part in (parts.weights_s, parts.kv_s, parts.compute_s, parts.fixed_s)
    )
    if max(weights, kv) >= _MAJORITY or weights + kv >= _MIXED_BYTES:
        if kv > weights:
            text = tr("{share} of {each} is reading {size} of context (KV cache)")
            text = text.format(share=numbers.percent(kv), each=each, size=numbers.size(parts.kv_bytes))
            return Verdict("kv", mark("Memory-bound"), text, share=kv)
        head, text = mark("Memory-bound"), tr("{share} of {each} is reading {size} of weights")
        if parts.fits_cache:
            head = mark("Cache-bound")
            text = tr("{share} of {each} is reading {size} of weights from the processor's cache")
        size = numbers.size(parts.weights_bytes)
        text = text.format(share=numbers.percent(weights), each=each, size=size)
        return Verdict("weights", head, text, share=weights)
    if compute >= _MAJORITY:
        text = tr("{share} of {each} is arithmetic that reading does not hide")
        if now.num_chats > 1:
            text = tr("{share} of {each} is arithmetic for {chats} chats that reading does not hide")
        text = text.format(share=numbers.percent(compute), each=each, chats=now.num_chats)
        return Verdict("arithmetic", mark("Compute-bound"), text, share=compute)
    if fixed >= _MAJORITY:
        text = tr("{share} of {each} is the fixed cost of {layers} layers")
        text = text.format(share=numbers.percent(fixed), each=each, layers=now.num_layers)
        return Verdict("fixed", mark("Overhead-bound"), text, share=fixed)
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
