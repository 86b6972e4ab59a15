"""The lean decoder: one forward pass of a dense model over rows of any number of sequences.

It reads weights and caches and knows nothing of requests, sampling or files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.kv.cache import ContiguousCache, KVCache
from engine.models.attention import attend, first_visible, piece_mask
from engine.models.rotary import Rotary, rotate
from engine.native import step
from engine.native.library import NativeLibrary
from engine.quant.linear import Embedding, Linear
from engine.types import ModelSpec, RopeSpec


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
    """Weights of one block. ``qkv`` and ``gate_up`` give one or several products, read side by side.

    Norms and biases are float32; None: the model has none there. A bias is as long as its products together.
    The norms of q and k are [head_dim], or as long as all their heads.
    """

    qkv: tuple[Linear, ...]
    output: Linear
    gate_up: tuple[Linear, ...]
    down: Linear
    attention_norm: Tensor | None = None  # [hidden]
    mlp_norm: Tensor | None = None
    post_attention_norm: Tensor | None = None
    post_mlp_norm: Tensor | None = None
    q_norm: Tensor | None = None
    k_norm: Tensor | None = None
    qkv_bias: Tensor | None = None
    output_bias: Tensor | None = None
    gate_up_bias: Tensor | None = None
    down_bias: Tensor | None = None

    @property
    def linears(self) -> tuple[Linear, ...]:
        return (*self.qkv, self.output, *self.gate_up, self.down)

    @property
    def nbytes(self) -> int:
        norms = (self.attention_norm, self.mlp_norm, self.post_attention_norm, self.post_mlp_norm)
        biases = (self.qkv_bias, self.output_bias, self.gate_up_bias, self.down_bias)
        vectors = [each for each in (*norms, self.q_norm, self.k_norm, *biases) if each is not None]
        return sum(x.nbytes for x in self.linears) + sum(x.nbytes for x in vectors)


@dataclass(slots=True)
class Weights:
    """All weights of a decoder. A tied head is the embedding itself and is counted once."""

    embedding: Embedding  # [vocab, hidden]
    layers: list[Layer]
    output_norm: Tensor  # [hidden] float32
    head: Linear
    is_tied: bool

    @property
    def nbytes(self) -> int:
        head = 0 if self.is_tied else self.head.nbytes
        own = self.embedding.nbytes + self.output_norm.nbytes + head
        return own + sum(layer.nbytes for layer in self.layers)


@dataclass(frozen=True, slots=True)
class _Pass:
    """What all layers of one forward pass share."""

    segments: list[Segment]
    rotations: dict[RopeSpec, Tensor]  # [rows, 1, rotary_dim / 2]
    masks: dict[int | None, list[Tensor | None]]  # by window, one a segment


class Decoder:
    """A dense decoder by options: norms before or after each part, rotary attention with grouped keys, a
    gated feed-forward part.

    The residual stream is float32 in every format; products run in ``dtype``. Query and key rows are in the
    interleaved order (pairs side by side), so that a rotation is one complex product. ``rope_factors``
    [rotary_dim / 2] divide the frequencies.

    With ``native`` kernels, and weights held for them, a step of few rows is one call of theirs where they
    serve the model's options; prefill and everything else is torch's operations around each matrix's own
    product.
    """

    def __init__(
        self,
        spec: ModelSpec,
        weights: Weights,
        context: int,
        dtype: torch.dtype,
        kv_dtype: torch.dtype,
        native: NativeLibrary | None = None,
        rope_factors: Tensor | None = None,
    ) -> None:
        self._spec = spec
        self._options = spec.options
        self._layers = spec.layers
        self._weights = weights
        self._dtype = dtype
        self._kv_dtype = kv_dtype
        self._rotary = Rotary(spec, context, rope_factors)
        self._fused: step.FusedStep | None = None
        if native and step.serves(spec):
            self._fused = step.FusedStep(native, spec, weights, self._rotary.tables[spec.rope], kv_dtype)

    def bytes_by_part(self) -> tuple[int, int]:
        scratch = self._fused.scratch_nbytes if self._fused else 0
        return self._weights.nbytes, self._rotary.nbytes + scratch

    @property
    def kernels(self) -> str:
        """Names of the kernels that run the linear layers, each once."""
        linears = [linear for layer in self._weights.layers for linear in layer.linears]
        linears.append(self._weights.head)
        return " + ".join(dict.fromkeys(linear.kernel for linear in linears))

    def new_cache(self, capacity: int) -> KVCache:
        spec = self._spec
        return ContiguousCache(spec.num_layers, spec.num_kv_heads, spec.head_dim, capacity, self._kv_dtype)

    def forward(self, segments: list[Segment]) -> Tensor:
        if self._fused and sum(len(segment.ids) for segment in segments) <= step.MAX_ROWS:
            return self._fused.forward(segments)
        x = self._weights.embedding.rows([token for segment in segments for token in segment.ids])
        if self._options.embedding_scale != 1.0:
            x *= self._options.embedding_scale
        shared, scale = self._shared(segments), self._options.residual_scale
        for index, layer in enumerate(self._weights.layers):  # x: [rows, hidden]
            x.add_(self._attention(index, layer, x, shared), alpha=scale)
            x.add_(self._mlp(layer, x), alpha=scale)
        for segment in segments:
            segment.cache.advance(len(segment.ids))
        return self._logits(self._wanted_rows(x, segments))

    def _logits(self, x: Tensor) -> Tensor:
        """Float32 logits [rows, vocab] of the residual stream [rows, hidden]."""
        logits = self._weights.head(self._norm(x, self._weights.output_norm)).float()
        if self._options.logit_divisor != 1.0:
            logits = logits / self._options.logit_divisor
        cap = self._options.logit_cap
        return logits if cap is None else cap * torch.tanh(logits / cap)

    def _shared(self, segments: list[Segment]) -> _Pass:
        spec = self._spec
        ends = [(s.cache.length, s.cache.length + len(s.ids)) for s in segments]
        groups = spec.num_heads // spec.num_kv_heads
        windows = {layer.sliding_window for layer in self._layers}
        masks = {
            window: [piece_mask(end - start, start, window, groups, self._kv_dtype) for start, end in ends]
            for window in windows
        }
        return _Pass(segments, self._rotary.at([slice(*each) for each in ends]), masks)

    def _norm(self, x: Tensor, weight: Tensor | None) -> Tensor:
        """The input of a product: normalized, where there is a norm before it."""
        if weight is None:
            return x.to(self._dtype)
        return F.rms_norm(x, weight.shape, weight, self._spec.norm_eps).to(self._dtype)

    def _added(self, out: Tensor, bias: Tensor | None, norm: Tensor | None) -> Tensor:
        """What a part adds to the residual stream: its last product, with bias and norm where it has them."""
        if bias is not None:
            out = out + bias
        return out if norm is None else F.rms_norm(out.float(), norm.shape, norm, self._spec.norm_eps)

    def _mlp(self, layer: Layer, x: Tensor) -> Tensor:
        h = self._norm(x, layer.mlp_norm)
        both = _side_by_side(layer.gate_up, h, layer.gate_up_bias)
        gate, up = both if len(both) == 2 else both[0].chunk(2, dim=-1)
        if self._options.activation == "gelu_tanh":
            h = F.gelu(gate, approximate="tanh").mul_(up)
        else:
            h = F.silu(gate).mul_(up)
        return self._added(layer.down(h), layer.down_bias, layer.post_mlp_norm)

    def _attention(self, index: int, layer: Layer, x: Tensor, shared: _Pass) -> Tensor:
        """What the layer's attention adds to x [rows, hidden]; appends its keys and values to the caches."""
        spec, options, heads = self._spec, self._layers[index], self._spec.num_heads
        products = _side_by_side(layer.qkv, self._norm(x, layer.attention_norm), layer.qkv_bias)
        qkv = products[0] if len(products) == 1 else torch.cat(products, dim=-1)
        qkv = qkv.view(-1, heads + 2 * spec.num_kv_heads, spec.head_dim)
        turned, values = qkv[:, : heads + spec.num_kv_heads], qkv[:, heads + spec.num_kv_heads :]
        if layer.q_norm is not None and layer.k_norm is not None:
            normed = (
                self._norm_heads(turned[:, :heads], layer.q_norm),
                self._norm_heads(turned[:, heads:], layer.k_norm),
            )
            turned = torch.cat(normed, dim=1)
        if options.rope is not None:
            turned = rotate(turned, shared.rotations[options.rope])
        out = self._attend(index, turned[:, :heads], turned[:, heads:], values, shared)
        return self._added(layer.output(out), layer.output_bias, layer.post_attention_norm)

    def _norm_heads(self, x: Tensor, weight: Tensor) -> Tensor:
        """Normalize [rows, heads, dim] head by head, or all heads together, as the weight is long."""
        together = x.reshape(x.shape[0], -1, weight.shape[0]).float()
        return F.rms_norm(together, weight.shape, weight, self._spec.norm_eps).to(x.dtype).view(x.shape)

    def _attend(self, index: int, queries: Tensor, keys: Tensor, values: Tensor, shared: _Pass) -> Tensor:
        """Attention of every segment's rows over its cache, [rows, heads · dim]."""
        window, scale = self._layers[index].sliding_window, self._spec.attention_scale
        outputs, start = [], 0
        for segment, mask in zip(shared.segments, shared.masks[window], strict=True):
            end, first = start + len(segment.ids), first_visible(segment.cache.length, window)
            held_keys, held_values = segment.cache.append(index, keys[start:end], values[start:end])
            seen = held_keys[:, first:], held_values[:, first:]
            outputs.append(attend(queries[start:end], *seen, mask, scale, self._options.attention_cap))
            start = end
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs)

    def _wanted_rows(self, x: Tensor, segments: list[Segment]) -> Tensor:
        wanted, start = [], 0
        for segment in segments:
            end = start + len(segment.ids)
            wanted.append(slice(start, end) if segment.wants_all_logits else slice(end - 1, end))
            start = end
        return x[wanted[0]] if len(wanted) == 1 else torch.cat([x[rows] for rows in wanted])


def _side_by_side(linears: tuple[Linear, ...], h: Tensor, bias: Tensor | None) -> list[Tensor]:
    """The products of one input, and their common bias added."""
    products = [linear(h) for linear in linears]
    if bias is None:
        return products
    added, start = [], 0
    for product in products:
        end = start + product.shape[-1]
        added.append((product + bias[start:end]).to(h.dtype))
        start = end
    return added
