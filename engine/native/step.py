"""The fused decode step: a decoder's weights and caches as the native kernels want them, and one call a step.

Knows torch tensors and the C structs; not which model this is or what the tokens mean.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from engine.fit.kv_bits import RING_TOKENS, KVBits
from engine.fit.kv_pages import whole_kinds
from engine.fit.scratch import MAX_ROWS as MAX_ROWS
from engine.kv.pool import PagedCache
from engine.models.rotary import Rotary
from engine.native.library import Activation, Format, Layer, Matrix, Model, NativeLibrary, Plane, Span
from engine.native.library import Segment as NativeSegment
from engine.quant.linear import NativeLinear
from engine.types import LayerOptions, ModelSpec

if TYPE_CHECKING:
    from engine.models import decoder


class FusedStep:
    """One forward pass over up to MAX_ROWS rows in one native call, which holds no interpreter lock.

    It computes all that a decoder's options ask for. Keeps what its addresses point to alive. Runs on as many
    threads as torch has at the moment.
    """

    def __init__(
        self,
        library: NativeLibrary,
        spec: ModelSpec,
        weights: decoder.Weights,
        rotary: Rotary,
        context: int,
        kv_dtype: torch.dtype,
        kv: KVBits,
    ) -> None:
        self._functions = library.functions
        self._vocab = spec.vocab_size
        self._kept = (weights, rotary)
        self._context = context
        self._layers = (Layer * spec.num_layers)()
        for index, (layer, options) in enumerate(zip(weights.layers, spec.layers, strict=True)):
            self._layers[index] = _layer(layer, options, rotary, context)
        for plane, kind in enumerate(whole_kinds(spec, context)):
            for plane_layer, index in enumerate(kind.layers):
                self._layers[index].plane, self._layers[index].plane_layer = plane, plane_layer
        self._model = _model(spec, weights)
        set_formats(self._model, kv, kv_dtype)
        self._model.layer = self._layers
        self._scratch = torch.empty(0, dtype=torch.uint8)

    def _check(self, segments: Sequence[decoder.Segment]) -> None:
        """What native code would read past its memory for; the engine lets no such segment through."""
        for segment in segments:
            end = segment.cache.length + len(segment.ids)
            assert segment.ids and min(segment.ids) >= 0 and max(segment.ids) < self._vocab, "unknown token"
            assert end <= min(segment.cache.capacity, self._context), "no room in the cache or the context"

    @property
    def scratch_nbytes(self) -> int:
        """Bytes of working memory held from step to step; engine/fit/scratch.py plans them."""
        return self._scratch.nbytes

    def forward(self, segments: Sequence[decoder.Segment]) -> Tensor:
        """Append the segments to their caches; float32 logits [rows wanted, vocab], in order."""
        self._check(segments)
        natives = (NativeSegment * len(segments))(*map(_segment, segments))
        ids = [token for segment in segments for token in segment.ids]
        wanted = sum(segment.num_logits for segment in segments)
        logits = torch.empty(wanted, self._vocab, dtype=torch.float32)
        threads, model = torch.get_num_threads(), ctypes.byref(self._model)
        scratch_bytes = self._functions.dk_step_scratch(model, natives, len(segments), threads)
        if scratch_bytes > self._scratch.nbytes:
            self._scratch = torch.empty(scratch_bytes, dtype=torch.uint8)  # torch begins tensors on 64 bytes
        self._functions.dk_step(
            model,
            natives,
            len(segments),
            (ctypes.c_int32 * len(ids))(*ids),
            logits.data_ptr(),
            threads,
            self._scratch.data_ptr(),
        )
        for segment in segments:
            segment.cache.advance(segment.ids)
        return logits


def _model(spec: ModelSpec, weights: decoder.Weights) -> Model:
    options = spec.options
    return Model(
        layers=spec.num_layers,
        hidden=spec.hidden_size,
        heads=spec.num_heads,
        kv_heads=spec.num_kv_heads,
        head_dim=spec.head_dim,
        intermediate=spec.intermediate_size,
        rotary_dim=spec.rotary_dim,
        activation=Activation[options.activation.upper()],
        joint_head_norms=options.qk_norm == "all",
        norm_eps=spec.norm_eps,
        attention_scale=spec.attention_scale,
        attention_cap=options.attention_cap or 0.0,
        embedding_scale=options.embedding_scale,
        residual_scale=options.residual_scale,
        logit_divisor=options.logit_divisor,
        logit_cap=options.logit_cap or 0.0,
        embedding=_matrix(weights.embedding),
        head=_matrix(weights.head),
        output_norm=weights.output_norm.data_ptr(),
    )


def set_formats(model: Model, kv: KVBits, dtype: torch.dtype) -> None:
    """Tell the kernels how planes hold keys and values: in 8 or 4 bits, else in ``dtype``."""
    dense = Format.F32 if dtype == torch.float32 else Format.BF16
    packed = {8: Format.INT8, 4: Format.INT4}
    model.key_format, model.value_format = packed.get(kv.keys, dense), packed.get(kv.values, dense)
    model.ring_tokens = RING_TOKENS if kv.has_rings else 0


def _layer(layer: decoder.Layer, options: LayerOptions, rotary: Rotary, context: int) -> Layer:
    (q, k, v), (gate, up) = layer.qkv, layer.gate_up
    window = options.sliding_window
    return Layer(
        attention_norm=_address(layer.attention_norm),
        mlp_norm=_address(layer.mlp_norm),
        post_attention_norm=_address(layer.post_attention_norm),
        post_mlp_norm=_address(layer.post_mlp_norm),
        q_norm=_address(layer.q_norm),
        k_norm=_address(layer.k_norm),
        qkv_bias=_address(layer.qkv_bias),
        output_bias=_address(layer.output_bias),
        gate_up_bias=_address(layer.gate_up_bias),
        down_bias=_address(layer.down_bias),
        rotations=None if options.rope is None else rotary.tables[options.rope].data_ptr(),
        q=_matrix(q),
        k=_matrix(k),
        v=_matrix(v),
        o=_matrix(layer.output),
        gate=_matrix(gate),
        up=_matrix(up),
        down=_matrix(layer.down),
        sliding_window=0 if window is None or window >= context else window,
    )


def _address(vector: Tensor | None) -> int | None:
    if vector is None:
        return None
    assert vector.dtype == torch.float32 and vector.is_contiguous()
    return vector.data_ptr()


def _matrix(held: object) -> Matrix:
    """A held matrix as the kernels see it."""
    assert isinstance(held, NativeLinear), "a plan for the native kernels holds nothing else"
    return held.matrix


def _segment(segment: decoder.Segment) -> NativeSegment:
    cache, rows = segment.cache, len(segment.ids)
    assert isinstance(cache, PagedCache), "what the kernels run on is paged"
    kinds = range(len(cache.pool.planes))
    return NativeSegment(
        planes=(Plane * len(kinds))(*(plane_of(cache, kind, rows) for kind in kinds)),
        length=cache.length,
        rows=rows,
        wanted=segment.num_logits,
        ring_first=cache.ring_first,
    )


def plane_of(cache: PagedCache, kind: int, rows: int) -> Plane:
    """A plane of ``cache`` for ``rows`` new tokens as the kernels see it."""
    keys, values = cache.pool.planes[kind]
    ring_keys, ring_values = cache.rings[kind] if cache.rings else (None, None)
    spans = cache.spans(kind, rows)
    return Plane(
        keys=keys.data_ptr(),
        values=values.data_ptr(),
        ring_keys=None if ring_keys is None else ring_keys.data_ptr(),
        ring_values=None if ring_values is None else ring_values.data_ptr(),
        layer_stride=keys.shape[1] * keys.shape[2],
        head_stride=keys.shape[2],
        spans=(Span * len(spans))(*(Span(*span) for span in spans)),
        num_spans=len(spans),
    )
