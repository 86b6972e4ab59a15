"""The working memory of the fused decode step: the arithmetic of engine/native/scratch.cpp, for the plan.

Standard library only. A test holds both to the same byte.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.fit.kv_bits import KV16, KVBits
from engine.types import ModelSpec

MAX_ROWS = 16  # of one step; a longer piece is a prefill, whose products pay for unpacking the weights
_MAX_TEAM = 128  # threads; kMaxThreads of engine/native/team.h
_KEY_CHUNK, _KEY_BLOCK = 256, 16  # kKeyChunk and kKeyBlock of engine/native/kernels.h
_GROUP = 32  # columns of activations that share a scale
_LINE = 64  # bytes that every piece of memory is rounded up to
_POINTER_BYTES = 8
_ROW_GROUP_BYTES = 48  # RowGroup of engine/native/kernels.h


@dataclass(frozen=True, slots=True)
class StepSize:
    """What the working memory of a step depends on beside the model."""

    rows: int  # new tokens of all segments
    widest: int  # those of the segment with most of them
    positions: int  # of the longest segment, new tokens included
    threads: int  # that torch's parallel runtime gives the kernels
    kv: KVBits = KV16

    @classmethod
    def largest(cls, context: int, threads: int, kv: KVBits = KV16) -> StepSize:
        """The largest step in a context of so many tokens."""
        return cls(MAX_ROWS, MAX_ROWS, context, threads, kv)

    @property
    def pieces(self) -> int:
        """Pieces that attention over the longest segment is cut into: chunks, and two of the rings."""
        return -(-self.positions // _KEY_CHUNK) + (2 if self.kv.has_rings else 0)


def step_scratch_bytes(spec: ModelSpec, size: StepSize) -> int:
    """Bytes of dk_step's scratch: what all threads see, and what each has for itself."""
    shared, own = _Arena(), _Arena()
    _place_shared(shared, spec, size)
    _place_own(own, spec, size)
    return shared.used + min(max(1, size.threads), _MAX_TEAM) * own.used


def linear_scratch_bytes(rows: int, cols: int) -> int:
    """Bytes of dk_linear's scratch, for many rows: activations, and the same group by group."""
    activations = -(-_activation_bytes(rows, cols) // _LINE) * _LINE
    return activations + (rows * (cols // _GROUP) * _ROW_GROUP_BYTES if rows > MAX_ROWS else 0)


class _Arena:
    """Counts pieces of memory that lie one behind the other, each on a line of its own."""

    def __init__(self) -> None:
        self.used = 0

    def take(self, nbytes: int) -> None:
        self.used += -(-nbytes // _LINE) * _LINE

    def words(self, count: int) -> None:
        """Floats or integers of 32 bits."""
        self.take(4 * count)


def _place_shared(arena: _Arena, spec: ModelSpec, size: StepSize) -> None:
    query, key = spec.num_heads * spec.head_dim, spec.num_kv_heads * spec.head_dim
    for cols in (spec.hidden_size, spec.hidden_size, spec.hidden_size, query, key, key, query):
        arena.words(size.rows * cols)
    arena.words(size.pieces * size.rows * spec.num_heads * (spec.head_dim + 2))
    arena.take(_activation_bytes(size.rows, spec.intermediate_size))
    arena.words(size.rows)


def _place_own(arena: _Arena, spec: ModelSpec, size: StepSize) -> None:
    queries = size.widest * (spec.num_heads // spec.num_kv_heads)
    padded = -(-spec.head_dim // _GROUP) * _GROUP
    arena.take(_activation_bytes(size.rows, max(spec.hidden_size, spec.num_heads * spec.head_dim)))
    for count in (queries * spec.head_dim, queries, queries):
        arena.words(count)
    arena.take(queries * _POINTER_BYTES)
    for count in (queries * _KEY_CHUNK, _KEY_BLOCK * spec.head_dim, padded, size.rows, size.rows):
        arena.words(count)
    arena.words(2 * _KEY_CHUNK // _KEY_BLOCK)
    if size.kv.keys < 16:
        arena.take(_activation_bytes(queries, padded))
    if size.kv.values < 16:
        arena.take(queries * _KEY_CHUNK)
        for _ in "scales", "sums":
            arena.words(queries * _KEY_CHUNK // _KEY_BLOCK)


def _activation_bytes(rows: int, cols: int) -> int:
    """Activations as floats and as 8 bits with the sums and scales of their groups, in six pieces."""
    return rows * (5 * cols + 20 * (cols // _GROUP)) + 6 * _LINE
