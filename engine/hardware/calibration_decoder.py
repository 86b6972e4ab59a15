"""Small decoders without a file, for measurements: layers of the starter model's shape, or narrower ones.

Knows how a decoder is put together; not what is timed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.fit.kv_bits import KV16, KVBits
from engine.kv.pool import PagedCache
from engine.models.decoder import Decoder, Layer, Segment, Weights
from engine.models.placement import CPU, Run
from engine.native.library import NativeLibrary
from engine.quant.formats import held_nbytes
from engine.quant.linear import DenseLinear, NativeLinear
from engine.types import ModelSpec, RopeSpec

HIDDEN, INNER, HEADS, KV_HEADS, DIM = 576, 1536, 9, 3, 64  # SmolLM2-135M's
NARROW = 192  # an inner size of hardly any weights
_VOCAB, _LINE = 256, 64
_NATIVE_HOME = "int4z"
_SANE = 0x3C  # in each byte: see engine.quant.candidates


class _Place:
    """Where the next weights lie: in the ``memory`` that is there, or in memory of their own."""

    def __init__(self, memory: Tensor | None) -> None:
        self._memory = memory
        self._used = 0

    def take(self, nbytes: int) -> Tensor:
        if self._memory is None:
            return torch.full((nbytes,), _SANE, dtype=torch.uint8)
        begin, self._used = self._used, self._used + -(-nbytes // _LINE) * _LINE
        return self._memory[begin : begin + nbytes]


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of such a decoder, whose layers have weights of their own where ``is_shared`` is false.
    ``native``: None for torch's kernels in bfloat16.
    """

    layers: int
    context: int
    native: NativeLibrary | None
    heads: int = HEADS
    inner: int = INNER
    kv: KVBits = KV16
    is_shared: bool = False
    memory: Tensor | None = None  # uint8: where the weights lie, one behind the other

    @property
    def spec(self) -> ModelSpec:
        return ModelSpec(
            path="",
            source="gguf",
            name="calibration",
            architecture="llama",
            num_layers=self.layers,
            hidden_size=HIDDEN,
            intermediate_size=self.inner,
            num_heads=self.heads,
            num_kv_heads=KV_HEADS,
            head_dim=DIM,
            vocab_size=_VOCAB,
            trained_context=self.context,
            norm_eps=1e-5,
            rope=RopeSpec(),
            tied_embeddings=True,
            sliding_window=None,
            files=(),
            tensors=(),
        )

    @property
    def shapes(self) -> dict[str, tuple[int, int]]:
        """Of a layer's matrices."""
        queries, keys = self.heads * DIM, KV_HEADS * DIM
        return {
            "q": (queries, HIDDEN),
            "k": (keys, HIDDEN),
            "v": (keys, HIDDEN),
            "o": (HIDDEN, queries),
            "gate": (self.inner, HIDDEN),
            "up": (self.inner, HIDDEN),
            "down": (HIDDEN, self.inner),
        }

    @property
    def held(self) -> str:
        return _NATIVE_HOME if self.native else "bf16"

    @property
    def layer_bytes(self) -> int:
        """Of the weights that each layer multiplies with."""
        return sum(held_nbytes(self.held, *shape) for shape in self.shapes.values())

    def make(self) -> Decoder:
        """The decoder; its numbers mean nothing."""
        place = _Place(self.memory)
        first = self._layer(place)
        others = [first if self.is_shared else self._layer(place) for _ in range(1, self.layers)]
        table = self._matrix(_Place(None), _VOCAB, HIDDEN)
        weights = Weights(table, [first, *others], torch.ones(HIDDEN), table, True)
        dtype = torch.float32 if self.native else torch.bfloat16
        kv_dtype = torch.float32 if self.kv.values == 32 else torch.bfloat16
        run = Run(CPU, range(self.layers), dtype, kv_dtype, self.kv)
        return Decoder(self.spec, weights, self.context, [run], self.native)

    def _layer(self, place: _Place) -> Layer:
        made = {name: self._matrix(place, *shape) for name, shape in self.shapes.items()}
        return Layer(
            qkv=(made["q"], made["k"], made["v"]),
            output=made["o"],
            gate_up=(made["gate"], made["up"]),
            down=made["down"],
            attention_norm=torch.ones(HIDDEN),
            mlp_norm=torch.ones(HIDDEN),
        )

    def _matrix(self, place: _Place, rows: int, cols: int) -> NativeLinear | DenseLinear:
        memory = place.take(held_nbytes(self.held, rows, cols))
        if self.native is None:
            return DenseLinear(memory.view(torch.bfloat16).view(rows, cols))
        return NativeLinear(self.native, self.held, rows, cols, memory)


def filled_cache(decoder: Decoder, tokens: int, room: int) -> PagedCache:
    """A cache that holds so many tokens, of which nothing was computed, with ``room`` for more."""
    cache = decoder.new_cache(tokens + room)
    assert isinstance(cache, PagedCache)
    for plane in cache.pool.planes:
        for tensor in plane:
            tensor.view(torch.uint8).fill_(_SANE)
    if tokens:
        cache.reserve(tokens)
        cache.advance([0] * tokens)
    return cache


def passing(decoder: Decoder, cache: PagedCache, rows: int) -> Callable[[], object]:
    """A function that runs ``rows`` new tokens behind what ``cache`` holds now, and takes them back."""
    length, ids = cache.length, [0] * rows

    def work() -> None:
        cache.trim(length)
        decoder.forward([Segment(cache, ids)])
        cache.trim(length)

    return work
