"""The lean decoder: one forward pass of a Llama-like model over rows of any number of sequences.

It reads weights and caches and knows nothing of requests, sampling or files.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.kv.cache import ContiguousCache, KVCache
from engine.native import step
from engine.native.library import NativeLibrary
from engine.quant.linear import Embedding, Linear
from engine.types import ModelSpec, RopeSpec

_TABLE_ROWS = 4096


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive new tokens of one sequence; its cache holds everything before them."""

    cache: KVCache
    ids: list[int]
    wants_all_logits: bool = False  # else the last row's alone


class Runner(Protocol):
    """What the engine asks of a model, whoever computes it."""

    @property
    def kernels(self) -> str:
        """Names of the kernels that run the linear layers."""
        ...

    def new_cache(self, capacity: int) -> KVCache:
        """An empty cache for one sequence of at most ``capacity`` tokens."""
        ...

    def forward(self, segments: list[Segment]) -> Tensor:
        """Append the segments to their caches; return float32 logits [rows wanted, vocab], in order."""
        ...

    def bytes_by_part(self) -> tuple[int, int]:
        """Bytes held as weights, and as working memory that stays (tables)."""
        ...


@dataclass(slots=True)
class Layer:
    """Weights of one block. ``qkv`` and ``gate_up`` give one or several products, read side by side."""

    attention_norm: Tensor  # [hidden] float32
    qkv: tuple[Linear, ...]
    output: Linear
    mlp_norm: Tensor  # [hidden] float32
    gate_up: tuple[Linear, ...]
    down: Linear

    @property
    def nbytes(self) -> int:
        linears = (*self.qkv, self.output, *self.gate_up, self.down)
        return self.attention_norm.nbytes + self.mlp_norm.nbytes + sum(x.nbytes for x in linears)


@dataclass(slots=True)
class Weights:
    """All weights of a decoder. A tied head is the embedding itself and is counted once."""

    embedding: Embedding  # [vocab, hidden]
    layers: list[Layer]
    output_norm: Tensor  # [hidden] float32
    head: Linear
    is_tied: bool
    rope_factors: Tensor | None = None  # [head_dim / 2], divides the frequencies

    @property
    def nbytes(self) -> int:
        head = 0 if self.is_tied else self.head.nbytes
        factors = 0 if self.rope_factors is None else self.rope_factors.nbytes
        own = self.embedding.nbytes + self.output_norm.nbytes + head + factors
        return own + sum(layer.nbytes for layer in self.layers)


def rope_frequencies(rope: RopeSpec, dim: int) -> Tensor:
    """Angular frequencies [dim / 2] in float64: theta^(−2i/dim), stretched as the model was trained.

    Sources: RoFormer (arXiv 2104.09864); linear: arXiv 2306.15595; llama3: Llama 3.1's reference
    ``apply_scaling``, which leaves short waves, divides long ones and blends between.
    """
    inverse = 1.0 / rope.theta ** (torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    if rope.scaling == "linear":
        return inverse / rope.factor
    if rope.scaling != "llama3":
        return inverse
    wave = 2 * math.pi / inverse
    turns = rope.original_context / wave
    blend = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
    blend = blend.clamp(0.0, 1.0)  # 0: long waves, divided; 1: short waves, kept
    return inverse * ((1 - blend) / rope.factor + blend)


def rope_table(frequencies: Tensor, context: int) -> Tensor:
    """Unit rotations e^{i·position·frequency}, complex64 [context, dim / 2], from angles in float64."""
    table = torch.empty(context, frequencies.shape[0], dtype=torch.complex64)
    for start in range(0, context, _TABLE_ROWS):  # in strips: the angles of a long context are large
        positions = torch.arange(start, min(start + _TABLE_ROWS, context), dtype=torch.float64)
        angles = torch.outer(positions, frequencies.double())
        table[start : start + _TABLE_ROWS] = torch.polar(torch.ones_like(angles), angles)
    return table


class Decoder:
    """A Llama-like model: pre-norm, rotary attention with grouped keys, gated SiLU.

    The residual stream is float32 in every format; products run in ``dtype``. Query and key rows are in the
    interleaved order (pairs side by side), so that a rotation is one complex product.

    With ``native`` kernels, and weights held for them, a step of few rows is one call of theirs; prefill and
    everything else is torch's operations around each matrix's own product.
    """

    def __init__(
        self,
        spec: ModelSpec,
        weights: Weights,
        context: int,
        dtype: torch.dtype,
        kv_dtype: torch.dtype,
        native: NativeLibrary | None = None,
    ) -> None:
        self._spec = spec
        self._weights = weights
        self._dtype = dtype
        self._kv_dtype = kv_dtype
        self._groups = spec.num_heads // spec.num_kv_heads
        frequencies = rope_frequencies(spec.rope, spec.head_dim)
        if weights.rope_factors is not None:
            frequencies = frequencies / weights.rope_factors.double()
        self._rotations = rope_table(frequencies, context)
        self._fused = step.FusedStep(native, spec, weights, self._rotations, kv_dtype) if native else None

    def bytes_by_part(self) -> tuple[int, int]:
        scratch = self._fused.scratch_nbytes if self._fused else 0
        return self._weights.nbytes, self._rotations.nbytes + scratch

    @property
    def kernels(self) -> str:
        """Names of the kernels that run the linear layers, each once."""
        linears: list[Linear] = []
        for layer in self._weights.layers:
            linears += (*layer.qkv, layer.output, *layer.gate_up, layer.down)
        linears.append(self._weights.head)
        return " + ".join(dict.fromkeys(linear.kernel for linear in linears))

    def new_cache(self, capacity: int) -> KVCache:
        spec = self._spec
        return ContiguousCache(spec.num_layers, spec.num_kv_heads, spec.head_dim, capacity, self._kv_dtype)

    def forward(self, segments: list[Segment]) -> Tensor:
        if self._fused and sum(len(segment.ids) for segment in segments) <= step.MAX_ROWS:
            return self._fused.forward(segments)
        ids = [token for segment in segments for token in segment.ids]
        x = self._weights.embedding.rows(ids)  # [rows, hidden]
        rotations = self._rotations_of(segments)
        masks = [self._mask(segment) for segment in segments]
        for index, layer in enumerate(self._weights.layers):
            h = self._norm(x, layer.attention_norm)
            x += layer.output(self._attention(index, layer, h, segments, rotations, masks))
            x += self._mlp(layer, self._norm(x, layer.mlp_norm))
        for segment in segments:
            segment.cache.advance(len(segment.ids))
        h = self._norm(self._wanted_rows(x, segments), self._weights.output_norm)
        return self._weights.head(h).float()

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, weight.shape, weight, self._spec.norm_eps).to(self._dtype)

    def _mlp(self, layer: Layer, h: Tensor) -> Tensor:
        if len(layer.gate_up) == 1:
            gate, up = layer.gate_up[0](h).chunk(2, dim=-1)
        else:
            gate, up = layer.gate_up[0](h), layer.gate_up[1](h)
        return layer.down(F.silu(gate).mul_(up))

    def _attention(
        self,
        index: int,
        layer: Layer,
        h: Tensor,
        segments: list[Segment],
        rotations: Tensor,
        masks: list[Tensor | None],
    ) -> Tensor:
        """Attention output [rows, heads · dim]; appends this layer's keys and values to the caches."""
        spec, rows = self._spec, h.shape[0]
        products = [linear(h) for linear in layer.qkv]
        qkv = products[0] if len(products) == 1 else torch.cat(products, dim=-1)
        qkv = qkv.view(rows, spec.num_heads + 2 * spec.num_kv_heads, spec.head_dim)
        rotated = self._rotate(qkv[:, : spec.num_heads + spec.num_kv_heads], rotations)
        queries, keys = rotated[:, : spec.num_heads], rotated[:, spec.num_heads :]
        values = qkv[:, spec.num_heads + spec.num_kv_heads :]
        outputs, start = [], 0
        for segment, mask in zip(segments, masks, strict=True):
            end = start + len(segment.ids)
            cached = segment.cache.append(index, keys[start:end], values[start:end])
            outputs.append(self._attend(queries[start:end], *cached, mask))
            start = end
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs)

    def _attend(self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """Queries [rows, heads, dim] over [kv_heads, length, dim] → [rows, heads · dim].

        The heads that share a key head are laid along the query axis: keys are read once for all of them,
        and a one-token step needs no mask.
        """
        spec, rows = self._spec, queries.shape[0]
        if rows == 1 and spec.sliding_window:
            keys, values = keys[:, -spec.sliding_window :], values[:, -spec.sliding_window :]
        q = queries.view(rows, spec.num_kv_heads, self._groups, spec.head_dim)
        q = q.permute(1, 2, 0, 3).reshape(1, spec.num_kv_heads, self._groups * rows, spec.head_dim)
        keys, values = keys.to(q.dtype).unsqueeze(0), values.to(q.dtype).unsqueeze(0)
        out = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
        out = out.view(spec.num_kv_heads, self._groups, rows, spec.head_dim).permute(2, 0, 1, 3)
        return out.reshape(rows, spec.num_heads * spec.head_dim)

    def _rotate(self, x: Tensor, rotations: Tensor) -> Tensor:
        """Turn pairs of [rows, heads, dim] by [rows, 1, dim / 2]."""
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * rotations).flatten(-2).to(x.dtype)

    def _rotations_of(self, segments: list[Segment]) -> Tensor:
        parts = [self._rotations[s.cache.length : s.cache.length + len(s.ids)] for s in segments]
        return (parts[0] if len(parts) == 1 else torch.cat(parts)).unsqueeze(1)

    def _mask(self, segment: Segment) -> Tensor | None:
        """Additive mask [groups · rows, length + rows] of a piece; None for a single row."""
        rows, start = len(segment.ids), segment.cache.length
        if rows == 1:
            return None
        query = torch.arange(start, start + rows)[:, None]
        key = torch.arange(start + rows)[None, :]
        hidden = key > query
        if self._spec.sliding_window:
            hidden |= key <= query - self._spec.sliding_window
        mask = torch.zeros(hidden.shape, dtype=self._dtype).masked_fill_(hidden, float("-inf"))
        return mask.repeat(self._groups, 1)

    def _wanted_rows(self, x: Tensor, segments: list[Segment]) -> Tensor:
        wanted, start = [], 0
        for segment in segments:
            end = start + len(segment.ids)
            wanted.append(slice(start, end) if segment.wants_all_logits else slice(end - 1, end))
            start = end
        return x[wanted[0]] if len(wanted) == 1 else torch.cat([x[rows] for rows in wanted])
