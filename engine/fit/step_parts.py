"""How long each part of a decode step takes, by what it reads and what was measured of the machine.

Weights come once for all rows of a step, keys and values of every sequence by themselves. Pure arithmetic,
standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.calibration import AttentionSpeed, Calibration, Curve, KernelSpeed, PassSpeed, at, together
from engine.fit.devices import CPU
from engine.fit.disk import disk_bytes
from engine.fit.kernels import kernel_name
from engine.fit.reads import Reads, kv_read_bytes, reads_of
from engine.fit.scratch import MAX_ROWS
from engine.fit.speed_defaults import DEVICE_GBPS, DISK_GBPS, DRAW_NS, PASSES, machine_default
from engine.types import LoadPlan

GENERIC_CACHE_PASSES = 3  # a step of transformers' cache reads it, and copies it to have room for one more
_DEVICE_STEP_S = 1e-3  # of a step on a GPU: starting it, and the way to it and back
_DENSE_FORMATS = ("f32", "bf16", "f16")
# With more rows, or more than a step of ours has, torch multiplies (see engine.quant.linear), which
# rearranges the matrix before: it comes from memory first.
_STOCK_ROWS = 8


@dataclass(frozen=True, slots=True)
class StepParts:
    """Seconds of a step: weights from memory and out of the cache, attention, what is fixed, and other
    devices and disks.
    """

    memory: float = 0.0
    cache: float = 0.0
    attention: float = 0.0
    fixed: float = 0.0
    away: float = 0.0

    @property
    def values(self) -> tuple[float, float, float, float, float]:
        return self.memory, self.cache, self.attention, self.fixed, self.away

    @property
    def total(self) -> float:
        return sum(self.values)


def step_parts(made: LoadPlan, tokens: int, rows: int, sequences: int, known: Calibration) -> StepParts:
    """Seconds of one step of ``sequences`` chats with ``tokens`` tokens and ``rows`` new ones each."""
    if sequences > 1 and not made.model.capabilities.can_batch:
        one = step_parts(made, tokens, rows, 1, known)
        return StepParts(*(sequences * value for value in one.values))
    parts = pass_parts(made, reads_of(made), tokens, rows, sequences, known)
    return replace(parts, fixed=parts.fixed + draws_s(made, rows * sequences, known))


def pass_parts(
    made: LoadPlan, reads: Reads, tokens: int, rows: int, sequences: int, known: Calibration
) -> StepParts:
    """The same of a pass that ``reads`` these weights, and of no choice of tokens behind it."""
    speeds, spec = Speeds(made, known), made.model
    kv_bytes = sequences * kv_read_bytes(made, tokens)
    near_kv = kv_bytes * (spec.num_layers - made.gpu_layers) // max(1, spec.num_layers)
    share = known.memory_share(reads.ram_bytes + near_kv)
    memory, cache = speeds.weights_s(reads, rows * sequences, share)
    queries = rows * spec.num_heads // spec.num_kv_heads
    layers = spec.num_layers - made.gpu_layers
    return StepParts(
        memory=memory,
        cache=cache,
        attention=1e-9 * near_kv * speeds.kv_ns(queries, share),
        fixed=speeds.passes.step_s + layers * _layer_s(speeds.passes, share),
        away=_away_s(made, reads, kv_bytes - near_kv, known),
    )


def draws_s(made: LoadPlan, rows: int, known: Calibration) -> float:
    """Seconds of choosing so many tokens."""
    return 1e-9 * rows * made.model.vocab_size * (known.draw_ns or DRAW_NS)


class Speeds:
    """The measured speeds that a plan goes by; estimates by the bandwidth where there are none."""

    def __init__(self, made: LoadPlan, known: Calibration) -> None:
        self._made = made
        self._known = known
        self._estimated = machine_default(made.hardware, known.read_gbps)
        # With fewer threads arithmetic takes longer, and so does reading: a core alone cannot fill the bus.
        self._slower = known.threads / made.threads if known.threads and made.threads else 1.0

    def are_measured(self, reads: Reads) -> bool:
        """Whether nothing is an estimate: the plan's passes, and its kernels, were measured."""
        passes = {each.runner for each in self._known.passes}
        kernels = {each.kernel for each in self._known.kernels}
        return self._runner in passes and kernels.issuperset(
            map(self._name, (held for held, _ in reads.held))
        )

    @property
    def passes(self) -> PassSpeed:
        """Of the plan's runner."""
        return next(each for each in (*self._known.passes, *PASSES) if each.runner == self._runner)

    @property
    def attention(self) -> AttentionSpeed:
        """Of the plan's keys and values; of other bits a number takes about as long."""
        made = self._made
        bits = made.key_bits or made.kv_bits, made.kv_bits
        runner = "native" if made.is_native else "torch"
        listed = [*self._known.attention, *self._estimated.attention]
        alike = [each for each in listed if each.runner == runner]
        found = next((each for each in alike if (each.key_bits, each.value_bits) == bits), None)
        if found is not None:
            return found
        near = alike[0]
        times = (near.key_bits + near.value_bits) / sum(bits)
        curve = tuple((queries, times * ns) for queries, ns in near.cache_ns)
        return AttentionSpeed(runner, *bits, curve, near.piece_ns, near.memory_ns)

    def weights_s(self, reads: Reads, rows: int, share: float) -> tuple[float, float]:
        """Seconds of the products of so many rows: with what comes from memory, a ``share`` of all, and with
        what lies in the cache.
        """
        memory = cache = 0.0
        for held, nbytes in reads.held:
            found = self._kernel(self._name(held))
            arithmetic = self._slower * _by_rows(found.cache_ns, rows)
            reading = found.memory_ns * max(1.0, self._slower)
            in_turn = held in _DENSE_FORMATS and rows > (MAX_ROWS if self._made.is_native else _STOCK_ROWS)
            both = together(arithmetic, reading, 1.0 if in_turn else self._known.overlap)
            memory += 1e-9 * share * nbytes * both
            cache += 1e-9 * (1 - share) * nbytes * arithmetic
        return memory, cache

    def kv_ns(self, queries: int, share: float) -> float:
        """Nanoseconds of a byte of keys and values that ``queries`` rows of queries share."""
        attention, known = self.attention, self._known
        arithmetic = self._slower * _by_rows(attention.cache_ns, queries)
        reading = attention.memory_ns or 1 / known.read_gbps
        times = GENERIC_CACHE_PASSES if self._made.model.generic else 1
        far = together(arithmetic, reading, known.overlap)
        return times * (share * far + (1 - share) * arithmetic)

    @property
    def _runner(self) -> str:
        if self._made.model.generic is not None:
            return "generic"
        return "native" if self._made.is_native else "torch"

    def _name(self, held: str) -> str:
        return kernel_name(held, self._made.kernels)

    def _kernel(self, name: str) -> KernelSpeed:
        listed = (*self._known.kernels, *self._estimated.kernels)
        return next((each for each in listed if each.kernel == name), listed[0])


def _layer_s(passes: PassSpeed, share: float) -> float:
    """What each layer takes beside its weights, a ``share`` of which comes from memory."""
    return share * passes.memory_layer_s + (1 - share) * passes.layer_s


def _by_rows(curve: Curve, rows: int) -> float:
    """A curve by rows; beyond its last point in proportion to them."""
    last = curve[-1][0]
    return at(curve, rows) * max(1.0, rows / last)


def _away_s(made: LoadPlan, reads: Reads, kv_bytes: int, known: Calibration) -> float:
    """Seconds of what a GPU reads, and of what comes from the disk into memory, as the files have it."""
    disk_s = disk_bytes(made.model, made.disk_layers) / 1e9 / (known.disk_gbps or DISK_GBPS)
    if made.device == CPU:
        return disk_s
    gbps = DEVICE_GBPS.get(made.device.partition(":")[0], DEVICE_GBPS["mps"])
    return disk_s + _DEVICE_STEP_S + (reads.gpu_bytes + kv_bytes) / 1e9 / gbps
