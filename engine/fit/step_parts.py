"""What one decode step reads, and how long each part of it takes by what was measured of the machine.

Weights come once for all rows of a step, keys and values of every sequence by themselves. Pure arithmetic,
standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from engine.calibration import AttentionSpeed, Calibration, Curve, KernelSpeed, PassSpeed, at
from engine.fit import generic_bytes
from engine.fit.bytes import weight_bytes
from engine.fit.devices import CPU, placed_matrices
from engine.fit.held import HeldMatrix, held_matrices
from engine.fit.kernels import kernel_name, read_matrices
from engine.fit.kv_bits import RECENT_TOKENS
from engine.fit.kv_pages import planned_bits, token_bytes
from engine.fit.speed_defaults import DEVICE_GBPS, DISK_GBPS, DRAW_NS, PASSES, machine_default
from engine.types import LoadPlan, ModelSpec

GENERIC_CACHE_PASSES = 3  # a step of transformers' cache reads it, and copies it to have room for one more
_DEVICE_STEP_S = 1e-3  # of a step on a GPU: starting it, and the way to it and back
_RING_BYTES = 2  # of a number that is kept at 16 bits too
_OVERLAP = 3  # see `together`


@dataclass(frozen=True, slots=True)
class StepBytes:
    """Bytes that one step reads."""

    weights: int
    kv: int

    @property
    def total(self) -> int:
        return self.weights + self.kv


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


@dataclass(frozen=True, slots=True)
class Reads:
    """Bytes of weights that a step reads: on the processor by format as held, and elsewhere."""

    held: tuple[tuple[str, int], ...]
    gpu_bytes: int = 0
    disk_bytes: int = 0

    @property
    def ram_bytes(self) -> int:
        return sum(nbytes for _, nbytes in self.held)

    @property
    def total(self) -> int:
        return self.ram_bytes + self.gpu_bytes + self.disk_bytes


def reads_of(made: LoadPlan) -> Reads:
    """What a step of a plan reads of its weights: all but the embedding, unless that is the head too."""
    spec = made.model
    if spec.generic is not None:
        return _generic_reads(made)
    if made.gpu_layers == 0:
        return _cpu_reads(spec, made.format, made.is_native)
    placed = placed_matrices(made)
    has_head = any("head" in each.matrix.words for each in placed)
    read = [each for each in placed if not (has_head and "embedding" in each.matrix.words)]
    on_cpu = _by_format(each.matrix for each in read if each.device == CPU)
    return Reads(on_cpu, sum(each.matrix.nbytes for each in read if each.device != CPU))


def kv_read_bytes(made: LoadPlan, tokens: int) -> int:
    """Bytes of keys and values that a step of one chat of so many tokens reads: a layer with a window no more
    than that.
    """
    spec = made.model
    if spec.generic is not None:
        return generic_bytes.kv_bytes(spec, tokens, made.kv_bits)
    kv, dense = planned_bits(made), 2 * spec.num_kv_heads * spec.head_dim * _RING_BYTES
    total = 0
    for options in spec.layers:
        seen = tokens if options.sliding_window is None else min(tokens, options.sliding_window)
        recent = min(seen, RECENT_TOKENS) if kv.has_rings else 0
        total += (seen - recent) * token_bytes(spec, kv) + recent * dense
    return total


def step_parts(made: LoadPlan, tokens: int, rows: int, sequences: int, known: Calibration) -> StepParts:
    """Seconds of one step of ``sequences`` chats with ``tokens`` tokens and ``rows`` new ones each."""
    if sequences > 1 and not made.model.capabilities.can_batch:
        one = step_parts(made, tokens, rows, 1, known)
        return StepParts(*(sequences * value for value in one.values))
    speeds, spec = Speeds(made, known), made.model
    reads, kv_bytes = reads_of(made), sequences * kv_read_bytes(made, tokens)
    near_kv = kv_bytes * (spec.num_layers - made.gpu_layers) // max(1, spec.num_layers)
    share = known.memory_share(reads.ram_bytes + near_kv)
    memory, cache = speeds.weights_s(reads, rows * sequences, share)
    queries = rows * spec.num_heads // spec.num_kv_heads
    layers = spec.num_layers - made.gpu_layers
    draws = 1e-9 * rows * sequences * spec.vocab_size * (known.draw_ns or DRAW_NS)
    return StepParts(
        memory=memory,
        cache=cache,
        attention=1e-9 * near_kv * speeds.kv_ns(queries, share),
        fixed=speeds.passes.step_s + layers * _layer_s(speeds.passes, share) + draws,
        away=_away_s(made, reads, kv_bytes - near_kv, known),
    )


def together(arithmetic: float, reading: float) -> float:
    """Time of computing with what is read meanwhile. The two overlap, the less the nearer they are to each
    other: (aᵖ + rᵖ)^(1/p) with p = 3, as measured on kernels that take one to sixteen rows.
    """
    return float((arithmetic**_OVERLAP + reading**_OVERLAP) ** (1 / _OVERLAP))


def alone(both: float, arithmetic: float) -> float:
    """The time of reading alone, where it takes ``both`` `together` with the arithmetic; 0 at least."""
    return float(max(0.0, both**_OVERLAP - arithmetic**_OVERLAP) ** (1 / _OVERLAP))


class Speeds:
    """The measured speeds that a plan goes by; estimates by the bandwidth where there are none."""

    def __init__(self, made: LoadPlan, known: Calibration) -> None:
        self._made = made
        self._known = known
        self._estimated = machine_default(made.hardware, known.read_gbps)
        # With fewer threads arithmetic takes longer, and so does reading: a core alone cannot fill the bus.
        self._slower = known.threads / made.threads if known.threads and made.threads else 1.0

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
        return AttentionSpeed(runner, *bits, curve, near.piece_ns)

    def weights_s(self, reads: Reads, rows: int, share: float) -> tuple[float, float]:
        """Seconds of the products of so many rows: with what comes from memory, a ``share`` of all, and with
        what lies in the cache.
        """
        memory = cache = 0.0
        for held, nbytes in reads.held:
            found = self._kernel(kernel_name(held, self._made.kernels))
            arithmetic = self._slower * _by_rows(found.cache_ns, rows)
            reading = found.memory_ns * max(1.0, self._slower)
            memory += 1e-9 * share * nbytes * together(arithmetic, reading)
            cache += 1e-9 * (1 - share) * nbytes * arithmetic
        return memory, cache

    def kv_ns(self, queries: int, share: float) -> float:
        """Nanoseconds of a byte of keys and values that ``queries`` rows of queries share."""
        arithmetic = self._slower * _by_rows(self.attention.cache_ns, queries)
        times = GENERIC_CACHE_PASSES if self._made.model.generic else 1
        return times * (share * together(arithmetic, 1 / self._known.read_gbps) + (1 - share) * arithmetic)

    @property
    def _runner(self) -> str:
        if self._made.model.generic is not None:
            return "generic"
        return "native" if self._made.is_native else "torch"

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
    """Seconds of what a GPU reads, and of what comes from the disk."""
    disk_s = reads.disk_bytes / 1e9 / (known.disk_gbps or DISK_GBPS)
    if made.device == CPU:
        return disk_s
    gbps = DEVICE_GBPS.get(made.device.partition(":")[0], DEVICE_GBPS["mps"])
    return disk_s + _DEVICE_STEP_S + (reads.gpu_bytes + kv_bytes) / 1e9 / gbps


def _generic_reads(made: LoadPlan) -> Reads:
    """Of the experts only those that are chosen; a layer on the disk comes as a whole."""
    spec, generic = made.model, made.model.generic
    assert generic is not None
    total = generic_bytes.read_bytes(spec, made.format)
    if made.device != CPU:
        return Reads((), total)
    layers = generic_bytes.layer_bytes(spec, made.format)
    on_disk = sum(layers[len(layers) - made.disk_layers :]) if made.disk_layers else 0
    near = max(0, total - int(on_disk * generic.read_fraction))
    return Reads(((made.format, near),), disk_bytes=on_disk)


@lru_cache(maxsize=64)  # a slider asks for the same model again and again
def _cpu_reads(spec: ModelSpec, format: str, is_native: bool) -> Reads:
    held = dict(_by_format(read_matrices(spec, format, is_native)))
    matrices = sum(matrix.nbytes for matrix in held_matrices(spec, format, is_native))
    widest = max(held, key=lambda name: held[name])
    held[widest] += weight_bytes(spec, format, is_native) - matrices  # norms and biases, a thousandth of all
    return Reads(tuple(held.items()))


def _by_format(matrices: Iterable[HeldMatrix]) -> tuple[tuple[str, int], ...]:
    held: dict[str, int] = {}
    for matrix in matrices:
        held[matrix.held] = held.get(matrix.held, 0) + matrix.nbytes
    return tuple(held.items())
