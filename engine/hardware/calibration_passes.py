"""Trials of whole passes: what a step and a piece of a prompt take beside their products, and attention.

Knows which differences say what; decoders come from calibration_decoder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from engine.calibration import AttentionSpeed, KernelSpeed, PassSpeed, alone, at, rising, together
from engine.fit.kernels import kernel_name
from engine.fit.kv_bits import KV16, KVBits, token_bytes
from engine.hardware import heap
from engine.hardware.calibration_decoder import (
    DIM,
    HEADS,
    HIDDEN,
    INNER,
    KV_HEADS,
    NARROW,
    Shape,
    filled_cache,
    passing,
)
from engine.hardware.calibration_kernels import run_bytes
from engine.hardware.calibration_trials import PairedReads, PlainReads, QuickestRun, Trial
from engine.native.library import NativeLibrary
from engine.quant.candidates import Memory

_FEW_LAYERS = 1
_MORE_LAYERS = {"native": 8, "torch": 3}  # weights that no core's own cache holds
_CACHE_LAYERS, _TOKENS = 4, 2048
_SHORT_PIECE, _LONG_PIECE, _SCORED_PIECE = 32, 256, 64  # rows
_PIECE_BYTES = 16 << 20  # more than a layer of the longest one takes
KV = (KVBits(16, 16), KVBits(8, 8), KVBits(32, 32), KVBits(4, 4))
_FAR_QUERIES = 3  # of a key head
QUERIES = {"native": (1, 2, 3, 4, 5, 8), "torch": (1, 3, 8)}  # that share a key head


@dataclass(slots=True)
class PassTrials:
    """Steps and pieces of decoders with one layer and with several, in an empty context; and of pieces
    behind a long one.
    """

    runner: str
    native: NativeLibrary | None
    memory: Memory
    plain: PlainReads
    far: PairedReads | None = None  # a step whose weights come from memory
    passes: dict[tuple[int, int], QuickestRun] = field(default_factory=dict)  # by layers and rows
    scored: dict[int, QuickestRun] = field(default_factory=dict)  # by tokens before them

    @property
    def layers(self) -> tuple[int, int]:
        return _FEW_LAYERS, _FEW_LAYERS + _MORE_LAYERS[self.runner]

    def prepare(self) -> Iterator[Trial]:
        heap.expect_blocks(_PIECE_BYTES)  # a model that was loaded has taught the C library as much
        for layers in self.layers:
            decoder = Shape(layers, _LONG_PIECE, self.native).make()
            cache = filled_cache(decoder, 0, _LONG_PIECE)
            for rows in (1, _SHORT_PIECE, _LONG_PIECE):
                self.passes[layers, rows] = QuickestRun(passing(decoder, cache, rows))
                yield self.passes[layers, rows]
        self.far = self._from_memory()
        yield self.far
        decoder = Shape(_FEW_LAYERS, _TOKENS + _SCORED_PIECE, self.native, inner=NARROW).make()
        for tokens in (0, _TOKENS):
            cache = filled_cache(decoder, tokens, _SCORED_PIECE)
            self.scored[tokens] = QuickestRun(passing(decoder, cache, _SCORED_PIECE))
            yield self.scored[tokens]

    def _from_memory(self) -> PairedReads:
        """Steps of decoders whose weights lie one behind the other, so that none is still in the cache."""
        shape = self._far_shape
        nbytes = shape.layers * shape.layer_bytes
        decoders = [replace(shape, memory=each).make() for each in self.memory.copies(nbytes)]
        cache = filled_cache(decoders[0], 0, 1)
        steps = [passing(decoder, cache, 1) for decoder in decoders]
        return PairedReads(lambda: steps[self.memory.cursor.next(len(steps))](), nbytes, self.plain)

    @property
    def _far_shape(self) -> Shape:
        """With as many layers as make a run from memory."""
        one = Shape(1, 1, self.native)
        return replace(one, layers=max(1, run_bytes(self.memory) // one.layer_bytes))

    def _far_layer_s(self, kernel: KernelSpeed, read_gbps: float, overlap: float, step_s: float) -> float:
        """What a layer takes beside its weights where these come from memory."""
        assert self.far is not None
        shape = self._far_shape
        nbytes = shape.layers * shape.layer_bytes
        reading_s = 1e-9 * nbytes * together(at(kernel.cache_ns, 1), kernel.memory_ns, overlap)
        return max(0.0, 1e-9 * nbytes * self.far.ratio / read_gbps - reading_s - step_s) / shape.layers

    def speed(self, kernels: Sequence[KernelSpeed], read_gbps: float, overlap: float) -> PassSpeed | None:
        """What was measured, less what products take; None where a trial was not sampled."""
        shape = Shape(1, _LONG_PIECE, self.native)
        name = kernel_name(shape.held, f"native {self.native.instruction_set}" if self.native else "torch")
        kernel = next((each for each in kernels if each.kernel == name), None)
        trials = (*self.passes.values(), *self.scored.values(), self.far)
        if kernel is None or not all(each and each.is_known for each in trials):
            return None
        few, more = self.layers

        def layer_s(rows: int) -> float:
            took_s = (self.passes[more, rows].least_s - self.passes[few, rows].least_s) / (more - few)
            return max(0.0, took_s - products_s(rows))

        def products_s(rows: int) -> float:
            return 1e-9 * shape.layer_bytes * at(kernel.cache_ns, rows)

        row_s = max(0.0, layer_s(_LONG_PIECE) - layer_s(_SHORT_PIECE)) / (_LONG_PIECE - _SHORT_PIECE)
        numbers = HIDDEN + INNER + (HEADS + 2 * KV_HEADS) * DIM
        step_s = max(0.0, self.passes[few, 1].least_s - few * (layer_s(1) + products_s(1)))
        scored_s = max(0.0, self.scored[_TOKENS].least_s - self.scored[0].least_s)
        return PassSpeed(
            runner=self.runner,
            step_s=step_s,
            layer_s=layer_s(1),
            memory_layer_s=self._far_layer_s(kernel, read_gbps, overlap, step_s),
            piece_layer_s=max(layer_s(1), layer_s(_SHORT_PIECE) - _SHORT_PIECE * row_s),
            number_ns=1e9 * row_s / numbers,
            score_ns=1e9 * scored_s / (_FEW_LAYERS * _SCORED_PIECE * _TOKENS * HEADS * DIM),
        )


@dataclass(slots=True)
class AttentionTrials:
    """Steps behind a long context and in an empty one, with some numbers of queries for each key head; and
    behind contexts that no cache of the processor holds.
    """

    runner: str
    native: NativeLibrary | None
    kv: KVBits
    plain: PlainReads
    far: PairedReads | None = None
    steps: dict[tuple[int, int], QuickestRun] = field(default_factory=dict)  # by queries and tokens
    pieces: dict[int, QuickestRun] = field(default_factory=dict)  # by tokens; of fewer than 16 bits

    def prepare(self) -> Iterator[Trial]:
        caches = {
            tokens: filled_cache(self._shape(1).make(), tokens, _SHORT_PIECE) for tokens in (0, _TOKENS)
        }
        for queries in QUERIES[self.runner]:
            decoder = self._shape(queries).make()
            for tokens, cache in caches.items():
                self.steps[queries, tokens] = QuickestRun(passing(decoder, cache, 1))
                yield self.steps[queries, tokens]
        if self.native and self.kv == KV16:
            self.far = self._from_memory()
            yield self.far
        if self.kv.values < 16:
            decoder = self._shape(1).make()
            for tokens, cache in caches.items():
                self.pieces[tokens] = QuickestRun(passing(decoder, cache, _SHORT_PIECE))
                yield self.pieces[tokens]

    def _from_memory(self) -> PairedReads:
        """One step after the other behind contexts of their own."""
        decoder = self._shape(_FAR_QUERIES).make()
        count = max(1, self.plain.nbytes // self._nbytes)
        caches = [filled_cache(decoder, _TOKENS, 1) for _ in range(count)]
        steps = [passing(decoder, cache, 1) for cache in caches]

        def work() -> None:
            for step in steps:
                step()

        return PairedReads(work, count * self._nbytes, self.plain)

    def far_ns(self, read_gbps: float, overlap: float) -> float:
        """Nanoseconds to have a byte from memory; 0 where that was not sampled."""
        empty, full = (self.steps.get((_FAR_QUERIES, tokens)) for tokens in (0, _TOKENS))
        if not (self.far and self.far.is_known and empty and full and empty.is_known and full.is_known):
            return 0.0
        near, beside = (1e9 * each / self._nbytes for each in (full.least_s - empty.least_s, empty.least_s))
        return alone(max(0.0, self.far.ratio / read_gbps - beside), max(0.0, near), overlap)

    @property
    def _nbytes(self) -> int:
        """Of the keys and values that a step reads."""
        return _CACHE_LAYERS * KV_HEADS * token_bytes(self.kv, DIM) * _TOKENS

    def speed(self, score_ns: float, far_ns: float) -> AttentionSpeed | None:
        """What was measured; None where nothing was sampled."""
        nbytes = self._nbytes
        took_s = {
            queries: self._took_s({tokens: self.steps[queries, tokens] for tokens in (0, _TOKENS)})
            for queries in QUERIES[self.runner]
            if (queries, _TOKENS) in self.steps
        }
        curve = rising({queries: 1e9 * each / nbytes for queries, each in took_s.items() if each})
        if not curve:
            return None
        scores = _CACHE_LAYERS * _SHORT_PIECE * _TOKENS * KV_HEADS * DIM
        piece_s = self._took_s(self.pieces) or 0.0
        piece_ns = max(0.0, 1e9 * piece_s - score_ns * scores) / nbytes
        return AttentionSpeed(self.runner, self.kv.keys, self.kv.values, curve, piece_ns, far_ns)

    def _shape(self, queries: int) -> Shape:
        """Heads that share the same caches, whatever the number of their queries."""
        context, heads = _TOKENS + _SHORT_PIECE, queries * KV_HEADS
        return Shape(_CACHE_LAYERS, context, self.native, heads, NARROW, self.kv, is_shared=True)

    @staticmethod
    def _took_s(by_tokens: dict[int, QuickestRun]) -> float | None:
        """How much longer it took behind the long context; None where that was not sampled."""
        if not by_tokens or not all(trial.is_known for trial in by_tokens.values()):
            return None
        return max(1e-9, by_tokens[_TOKENS].least_s - by_tokens[0].least_s)
