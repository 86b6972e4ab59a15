"""The fused decode step: a decoder's weights and caches as the native kernels want them, and one call a step.

Knows torch tensors and the C structs; not which model this is or what the tokens mean.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from engine.native.library import Format, Layer, Matrix, Model, NativeLibrary
from engine.native.library import Segment as NativeSegment
from engine.quant.linear import DenseLinear, NativeLinear
from engine.types import DecoderOptions, ModelSpec

if TYPE_CHECKING:
    from engine.models import decoder

MAX_ROWS = 16  # of one step; a longer piece is a prefill, whose products pay for unpacking the weights


def serves(spec: ModelSpec) -> bool:
    """Whether the fused step computes all that the model's options ask for: a Llama's, with any scale of the
    scores. Where it does not, every step goes through torch's operations and the native products of the
    single matrices.
    """
    return replace(spec.options, attention_scale=None) == DecoderOptions()


class FusedStep:
    """One forward pass over up to MAX_ROWS rows in one native call, which holds no interpreter lock.

    Keeps what its addresses point to alive. Runs on as many threads as torch has at the moment.
    """

    def __init__(
        self,
        library: NativeLibrary,
        spec: ModelSpec,
        weights: decoder.Weights,
        rotations: Tensor,
        kv_dtype: torch.dtype,
    ) -> None:
        self._functions = library.functions
        self._vocab = spec.vocab_size
        self._kept = (weights, rotations)
        self._context = rotations.shape[0]
        self._layers = (Layer * spec.num_layers)(*(_layer(layer) for layer in weights.layers))
        self._model = Model(
            layers=spec.num_layers,
            hidden=spec.hidden_size,
            heads=spec.num_heads,
            kv_heads=spec.num_kv_heads,
            head_dim=spec.head_dim,
            intermediate=spec.intermediate_size,
            sliding_window=spec.sliding_window or 0,
            kv_format=Format.F32 if kv_dtype == torch.float32 else Format.BF16,
            norm_eps=spec.norm_eps,
            attention_scale=spec.attention_scale,
            layer=self._layers,
            embedding=_matrix(weights.embedding),
            head=_matrix(weights.head),
            output_norm=weights.output_norm.data_ptr(),
            rotations=rotations.data_ptr(),
        )
        self._scratch = torch.empty(0, dtype=torch.uint8)

    def _check(self, segments: Sequence[decoder.Segment]) -> None:
        """What native code would read past its memory for; the engine lets no such segment through."""
        for segment in segments:
            end = segment.cache.length + len(segment.ids)
            assert segment.ids and min(segment.ids) >= 0 and max(segment.ids) < self._vocab, "unknown token"
            assert end <= min(segment.cache.capacity, self._context), "no room in the cache or the context"

    @property
    def scratch_nbytes(self) -> int:
        """Bytes of working memory held from step to step."""
        return self._scratch.nbytes

    def forward(self, segments: Sequence[decoder.Segment]) -> Tensor:
        """Append the segments to their caches; float32 logits [rows wanted, vocab], in order."""
        self._check(segments)
        natives = (NativeSegment * len(segments))(*(_segment(segment) for segment in segments))
        ids = [token for segment in segments for token in segment.ids]
        wanted = sum(len(segment.ids) if segment.wants_all_logits else 1 for segment in segments)
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
            segment.cache.advance(len(segment.ids))
        return logits


def _layer(layer: decoder.Layer) -> Layer:
    (q, k, v), (gate, up) = layer.qkv, layer.gate_up
    assert layer.attention_norm is not None and layer.mlp_norm is not None, "as `serves` has found"
    return Layer(
        attention_norm=layer.attention_norm.data_ptr(),
        mlp_norm=layer.mlp_norm.data_ptr(),
        q=_matrix(q),
        k=_matrix(k),
        v=_matrix(v),
        o=_matrix(layer.output),
        gate=_matrix(gate),
        up=_matrix(up),
        down=_matrix(layer.down),
    )


def _matrix(held: object) -> Matrix:
    """A held matrix as the kernels see it."""
    if isinstance(held, NativeLinear):
        return held.matrix
    assert isinstance(held, DenseLinear), "a plan for the native kernels holds nothing else"
    weight = held.weight
    format = Format.F32 if weight.dtype == torch.float32 else Format.BF16
    return Matrix(weight.data_ptr(), weight.shape[0], weight.shape[1], format)


def _segment(segment: decoder.Segment) -> NativeSegment:
    keys, values = segment.cache.storage
    return NativeSegment(
        keys=keys.data_ptr(),
        values=values.data_ptr(),
        layer_stride=keys.stride(0) * keys.element_size(),
        head_stride=keys.stride(1) * keys.element_size(),
        length=segment.cache.length,
        rows=len(segment.ids),
        wants_all=segment.wants_all_logits,
    )
