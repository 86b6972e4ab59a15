"""The lean decoder: one forward pass of a dense model over rows of any number of sequences.

It reads weights and caches and knows nothing of requests, sampling or files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.capabilities import CAN_ALL, Capabilities
from engine.fit.kv_pages import LayerKind, pool_kinds, whole_kinds
from engine.kv.cache import ContiguousCache, DeviceCache, KVCache, SplitCache
from engine.kv.packer import TorchPacker
from engine.kv.pool import DENSE_BITS, KVPool, Packer
from engine.kv.store import KVStore, PagedStore, SlotStore
from engine.models.attention import Attention, PieceAttention, StepAttention
from engine.models.graph import AcceleratorRecorder, Recorder, StepGraphs, StepInputs
from engine.models.placement import CPU, Run, move
from engine.models.rotary import Rotary, rotate
from engine.native import step
from engine.native.library import NativeLibrary
from engine.native.packer import NativePacker
from engine.quant.linear import Embedding, Linear, biased_products
from engine.types import ModelSpec, RopeSpec
from engine.words import tr


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive new tokens of one sequence; its cache holds everything before them."""

    cache: KVCache
    ids: list[int]
    wants_all_logits: bool = False  # else the last row's alone,
    wants_logits: bool = True  # or none, where more of a prompt follows: the head is the largest matrix

    @property
    def num_logits(self) -> int:
        """Its last rows, whose logits are wanted."""
        return len(self.ids) if self.wants_all_logits else int(self.wants_logits)


class Runner(Protocol):
    """What the engine asks of a model, whoever computes it."""

    @property
    def kernels(self) -> str:
        """Names of the kernels that run the linear layers."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What it can do and what not."""
        ...

    def new_cache(self, capacity: int) -> KVCache:
        """An empty cache for one sequence of at most ``capacity`` tokens, that can be trimmed at will."""
        ...

    def new_store(self, context: int, piece: int, sequences: int) -> KVStore:
        """Room for the keys and values of chats of at most ``context`` tokens, ``sequences`` of which run at
        once and are read in pieces of ``piece`` rows. Bytes as planned.
        """
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
class _Part:
    """Consecutive layers on one device, and their tables there."""

    run: Run
    rotary: Rotary


@dataclass(frozen=True, slots=True)
class _Pass:
    """What the layers of one device share in one forward pass."""

    rotations: dict[RopeSpec, Tensor]  # [rows, 1, rotary_dim / 2]
    attention: Attention
    dtype: torch.dtype  # of what goes into products


class Decoder:
    """A dense decoder by options: norms before or after each part, rotary attention with grouped keys, a
    gated feed-forward part.

    The residual stream is float32 in every format. Query and key rows are in the interleaved order (pairs
    side by side), so that a rotation is one complex product. ``rope_factors`` [rotary_dim / 2] divide the
    frequencies.

    ``runs`` say which layers lie on which device, with their weights, caches and tables; the last one's has
    output norm and head. Only the residual stream crosses from one to the next.

    With ``native`` kernels, and weights held for them, a step of few rows is one call of theirs; a prefill is
    torch's operations around the products of their matrices.
    """

    def __init__(
        self,
        spec: ModelSpec,
        weights: Weights,
        context: int,
        runs: Sequence[Run],
        native: NativeLibrary | None = None,
        rope_factors: Tensor | None = None,
        record: Recorder | None = None,
    ) -> None:
        """``record`` records the steps of the last device; a device's own recorder where there is none."""
        self._spec = spec
        self._options = spec.options
        self._layers = spec.layers
        self._weights = weights
        tables = {run.device: Rotary(spec, context, rope_factors, run.device) for run in runs}
        self._parts = [_Part(run, tables[run.device]) for run in runs]
        last = runs[-1]
        if record is None and last.device.type != "cpu":
            record = AcceleratorRecorder(last.device)
        self._graphs = StepGraphs(self._step, last.layers, record) if record else None
        self._packer: Packer | None = None
        if last.kv.values < DENSE_BITS:
            heads = spec.num_kv_heads, spec.head_dim
            self._packer = (
                NativePacker(native, last.kv, *heads, last.kv_dtype)
                if native
                else TorchPacker(last.kv, spec.head_dim, last.kv_dtype)
            )
        self._fused: step.FusedStep | None = None
        if native and all(run.device == CPU for run in runs):
            self._fused = step.FusedStep(native, spec, weights, tables[CPU], context, last.kv_dtype, last.kv)

    def bytes_by_part(self) -> tuple[int, int]:
        tables = {id(part.rotary): part.rotary.nbytes for part in self._parts}
        scratch = self._fused.scratch_nbytes if self._fused else 0
        buffers = self._graphs.nbytes if self._graphs else 0
        return self._weights.nbytes, sum(tables.values()) + scratch + buffers

    @property
    def kernels(self) -> str:
        """Names of the kernels that run the linear layers, each once, and why steps are not recorded where
        they could be.
        """
        linears = [linear for layer in self._weights.layers for linear in layer.linears]
        linears.append(self._weights.head)
        names = " + ".join(dict.fromkeys(linear.kernel for linear in linears))
        failure = self._graphs.failure if self._graphs else ""
        if not failure:
            return names
        return tr("{kernels}, steps not recorded: {reason}").format(kernels=names, reason=failure)

    @property
    def capabilities(self) -> Capabilities:
        return CAN_ALL

    def new_cache(self, capacity: int) -> KVCache:
        if self._is_on_cpu:
            kinds = whole_kinds(self._spec, capacity)
            return self._pool(kinds, 1, keeps_windows=False).begin([], capacity)
        return self._device_cache(capacity)

    def new_store(self, context: int, piece: int, sequences: int) -> KVStore:
        if self._is_on_cpu:
            kinds = pool_kinds(self._spec, context, piece, sequences)
            return PagedStore(self._pool(kinds, sequences), context)
        return SlotStore([self._device_cache(context) for _ in range(sequences)])

    @property
    def _is_on_cpu(self) -> bool:
        return all(part.run.device == CPU for part in self._parts)

    def _pool(self, kinds: Sequence[LayerKind], sequences: int, keeps_windows: bool = True) -> KVPool:
        spec, run = self._spec, self._parts[-1].run
        heads = spec.num_kv_heads, spec.head_dim
        return KVPool(kinds, *heads, run.kv_dtype, run.kv, sequences, self._packer, keeps_windows)

    def _device_cache(self, capacity: int) -> ContiguousCache | SplitCache:
        """Places that a recorded step can be told once."""
        spec, runs = self._spec, [part.run for part in self._parts]
        parts = [
            ContiguousCache(
                len(run.layers), spec.num_kv_heads, spec.head_dim, capacity, run.kv_dtype, run.device
            )
            for run in runs
        ]
        return parts[0] if len(parts) == 1 else SplitCache(parts)

    def forward(self, segments: list[Segment]) -> Tensor:
        for segment in segments:
            has_room = segment.cache.reserve(len(segment.ids))
            assert has_room, "the scheduler asks for room before it runs anything"
        if self._fused and sum(len(segment.ids) for segment in segments) <= step.MAX_ROWS:
            return self._fused.forward(segments)
        x = self._weights.embedding.rows([token for segment in segments for token in segment.ids])
        if self._options.embedding_scale != 1.0:
            x *= self._options.embedding_scale
        for part in self._parts[:-1]:
            x = self._through(part, move(x, part.run.device), self._pass(part, segments))
        logits = self._last(move(x, self._parts[-1].run.device), segments)
        for segment in segments:
            segment.cache.advance(segment.ids)
        return logits

    def _last(self, x: Tensor, segments: list[Segment]) -> Tensor:
        """The layers of the last device and the logits, recorded where every segment has one row and wants
        its logits.
        """
        part, logits = self._parts[-1], None
        if self._graphs is not None and all(len(each.ids) == each.num_logits == 1 for each in segments):
            logits = self._graphs.run(x, [_on_device(segment.cache) for segment in segments])
        if logits is None:
            x = self._through(part, x, self._pass(part, segments))
            logits = self._logits(_wanted_rows(x, segments), part.run.dtype)
        return logits

    def _step(self, inputs: StepInputs) -> Tensor:
        """The same for one row of each cache, as it is recorded."""
        part, positions = self._parts[-1], inputs.positions
        attention = StepAttention(
            inputs.caches,
            positions,
            inputs.size,
            self._windows,
            self._spec.attention_scale,
            self._options.attention_cap,
            part.run.kv_dtype,
        )
        shared = _Pass(part.rotary.at_rows(positions), attention, part.run.dtype)
        return self._logits(self._through(part, inputs.x.clone(), shared), part.run.dtype)

    def _through(self, part: _Part, x: Tensor, shared: _Pass) -> Tensor:
        """The residual stream [rows, hidden] behind the layers of one device; ``x`` is changed."""
        scale = self._options.residual_scale
        for index in part.run.layers:
            layer = self._weights.layers[index]
            x.add_(self._attention(index, layer, x, shared), alpha=scale)
            x.add_(self._mlp(layer, x, shared), alpha=scale)
        return x

    def _logits(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """Float32 logits [rows, vocab] of the residual stream [rows, hidden]."""
        if not x.shape[0]:
            return x.new_empty(0, self._spec.vocab_size)
        logits = self._weights.head(self._norm(x, self._weights.output_norm, dtype)).float()
        if self._options.logit_divisor != 1.0:
            logits = logits / self._options.logit_divisor
        cap = self._options.logit_cap
        return logits if cap is None else cap * torch.tanh(logits / cap)

    @property
    def _windows(self) -> set[int | None]:
        return {layer.sliding_window for layer in self._layers}

    def _pass(self, part: _Part, segments: list[Segment]) -> _Pass:
        """The tables and masks of some segments on the device of a part."""
        spec, run = self._spec, part.run
        rows = [len(segment.ids) for segment in segments]
        caches = [segment.cache for segment in segments]
        attention = PieceAttention(
            caches,
            rows,
            self._windows,
            spec.num_heads // spec.num_kv_heads,
            spec.attention_scale,
            self._options.attention_cap,
            run.kv_dtype,
            run.device,
        )
        ends = [slice(c.length, c.length + count) for c, count in zip(caches, rows, strict=True)]
        return _Pass(part.rotary.at(ends), attention, run.dtype)

    def _norm(self, x: Tensor, weight: Tensor | None, dtype: torch.dtype) -> Tensor:
        """The input of a product: normalized, where there is a norm before it."""
        if weight is None:
            return x.to(dtype)
        return F.rms_norm(x, weight.shape, weight, self._spec.norm_eps).to(dtype)

    def _added(self, out: Tensor, bias: Tensor | None, norm: Tensor | None) -> Tensor:
        """What a part adds to the residual stream: its last product, with bias and norm where it has them."""
        if bias is not None:
            out = out + bias
        return out if norm is None else F.rms_norm(out.float(), norm.shape, norm, self._spec.norm_eps)

    def _mlp(self, layer: Layer, x: Tensor, shared: _Pass) -> Tensor:
        h = self._norm(x, layer.mlp_norm, shared.dtype)
        both = biased_products(layer.gate_up, h, layer.gate_up_bias)
        gate, up = both if len(both) == 2 else both[0].chunk(2, dim=-1)
        if self._options.activation == "gelu_tanh":
            h = F.gelu(gate, approximate="tanh").mul_(up)
        else:
            h = F.silu(gate).mul_(up)
        return self._added(layer.down(h), layer.down_bias, layer.post_mlp_norm)

    def _attention(self, index: int, layer: Layer, x: Tensor, shared: _Pass) -> Tensor:
        """What the layer's attention adds to x [rows, hidden]; appends its keys and values to the caches."""
        spec, options, heads = self._spec, self._layers[index], self._spec.num_heads
        parts = biased_products(layer.qkv, self._norm(x, layer.attention_norm, shared.dtype), layer.qkv_bias)
        qkv = parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)
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
        out = shared.attention(index, turned[:, :heads], turned[:, heads:], values, options.sliding_window)
        return self._added(layer.output(out), layer.output_bias, layer.post_attention_norm)

    def _norm_heads(self, x: Tensor, weight: Tensor) -> Tensor:
        """Normalize [rows, heads, dim] head by head, or all heads together, as the weight is long."""
        together = x.reshape(x.shape[0], -1, weight.shape[0]).float()
        return F.rms_norm(together, weight.shape, weight, self._spec.norm_eps).to(x.dtype).view(x.shape)


def _on_device(cache: KVCache) -> DeviceCache:
    assert isinstance(cache, ContiguousCache | SplitCache), "steps are recorded where caches are no pages"
    return cache


def _wanted_rows(x: Tensor, segments: list[Segment]) -> Tensor:
    wanted, start = [], 0
    for segment in segments:
        end = start + len(segment.ids)
        wanted.append(slice(end - segment.num_logits, end))
        start = end
    return x[wanted[0]] if len(wanted) == 1 else torch.cat([x[rows] for rows in wanted])
