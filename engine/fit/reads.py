"""What a decode step and a piece of a prompt read: bytes of weights by format and device, keys and values.

Knows where a plan holds what; not how long anything takes. Pure arithmetic, standard library only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from engine.fit import generic_bytes
from engine.fit.bytes import weight_bytes
from engine.fit.devices import CPU, PlacedMatrix, placed_matrices
from engine.fit.held import HeldMatrix, held_matrices
from engine.fit.kernels import read_matrices
from engine.fit.kv_bits import RECENT_TOKENS
from engine.fit.kv_pages import planned_bits, token_bytes
from engine.types import LoadPlan, ModelSpec

_RING_BYTES = 2  # of a number that is kept at 16 bits too


@dataclass(frozen=True, slots=True)
class StepBytes:
    """Bytes that one step reads."""

    weights: int
    kv: int

    @property
    def total(self) -> int:
        return self.weights + self.kv


@dataclass(frozen=True, slots=True)
class Reads:
    """Bytes of weights that a step reads: on the processor by format as held, and elsewhere."""

    held: tuple[tuple[str, int], ...]
    gpu_bytes: int = 0

    @property
    def ram_bytes(self) -> int:
        return sum(nbytes for _, nbytes in self.held)

    @property
    def total(self) -> int:
        return self.ram_bytes + self.gpu_bytes

    def without(self, other: Reads) -> Reads:
        """The same but for what the other one reads."""
        held = Counter(dict(self.held))
        held.subtract(dict(other.held))
        left = tuple((name, nbytes) for name, nbytes in held.items() if nbytes)
        return Reads(left, self.gpu_bytes - other.gpu_bytes)


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


def head_reads(made: LoadPlan) -> Reads:
    """What the logits read: the head, or the embedding where that is the head too. A piece of a prompt has
    none, but the last one; nothing is known of it where transformers computes them in every pass.
    """
    spec = made.model
    if spec.generic is not None:
        return Reads(())
    placed = _placed(made)
    head = next((each for each in placed if "head" in each.matrix.words), placed[0])
    if head.device != CPU:
        return Reads((), head.matrix.nbytes)
    return Reads(_by_format([head.matrix]))


def _placed(made: LoadPlan) -> list[PlacedMatrix]:
    if made.gpu_layers:
        return placed_matrices(made)
    matrices = held_matrices(made.model, made.format, made.is_native)
    return [PlacedMatrix(matrix, CPU) for matrix in matrices]


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


def _generic_reads(made: LoadPlan) -> Reads:
    """Of the experts only those that are chosen. What comes from the disk is read in memory then."""
    total = generic_bytes.read_bytes(made.model, made.format)
    return Reads((), total) if made.device != CPU else Reads(((made.format, total),))


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
