"""From the tensors of a file to the weights of a decoder, matrix by matrix, in the planned format."""

from __future__ import annotations

from collections.abc import Generator

import torch
from torch import Tensor

from engine.fit.bytes import HeldMatrix, held_matrices
from engine.models.checkpoint import Checkpoint
from engine.models.decoder import Decoder, Layer, Weights
from engine.models.families import family, tensor_names
from engine.quant.linear import DenseLinear, Linear
from engine.quant.packing import pack_int4, unpack_q4
from engine.types import LoadPlan, LoadProgress, ModelSpec

_STRIP_ELEMENTS = 1 << 22  # 16 MB in float32
_DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def load_decoder(plan: LoadPlan, checkpoint: Checkpoint) -> Generator[LoadProgress, None, Decoder]:
    """Read all weights; yields after every matrix. Peak memory: what is held plus one matrix in float32."""
    spec = plan.model
    names = tensor_names(spec)
    reader = _Reader(spec, checkpoint)
    matrices = held_matrices(spec, plan.format)
    total = sum(matrix.nbytes for matrix in matrices)
    linears: dict[str, list[Linear]] = {}
    embedding, done = torch.empty(0), 0
    for matrix in matrices:
        with torch.inference_mode():
            if matrix.words == ("embedding",):
                embedding = reader.dense(matrix)
            else:
                linears.setdefault(_place(matrix.words[0]), []).append(reader.linear(matrix))
        done += matrix.nbytes
        yield LoadProgress(0.02 + 0.96 * done / total, "weights")
    with torch.inference_mode():
        weights = Weights(
            embedding=embedding,
            layers=[_layer(index, linears, names, checkpoint) for index in range(spec.num_layers)],
            output_norm=checkpoint.dequantize(names["output_norm"]),
            head=linears["head"][0] if "head" in linears else DenseLinear(embedding),
            is_tied="head" not in linears,
            rope_factors=_rope_factors(names, checkpoint),
        )
        dtype = torch.float32 if plan.format == "f32" else torch.bfloat16
        kv_dtype = torch.float32 if plan.kv_bits == 32 else torch.bfloat16
        return Decoder(spec, weights, plan.context, dtype, kv_dtype)


def _place(word: str) -> str:
    """The layer's place that a file tensor goes to: q, k and v share one, gate and up another."""
    kind = word.rpartition(".")[2]
    place = {"q": "qkv", "k": "qkv", "v": "qkv", "gate": "gate_up", "up": "gate_up"}.get(kind, kind)
    return word[: len(word) - len(kind)] + place


def _layer(
    index: int, linears: dict[str, list[Linear]], names: dict[str, str], checkpoint: Checkpoint
) -> Layer:
    prefix = f"layers.{index}."
    return Layer(
        attention_norm=checkpoint.dequantize(names[prefix + "attention_norm"]),
        qkv=tuple(linears[prefix + "qkv"]),
        output=linears[prefix + "o"][0],
        mlp_norm=checkpoint.dequantize(names[prefix + "mlp_norm"]),
        gate_up=tuple(linears[prefix + "gate_up"]),
        down=linears[prefix + "down"][0],
    )


def _rope_factors(names: dict[str, str], checkpoint: Checkpoint) -> Tensor | None:
    return checkpoint.dequantize(names["rope_factors"]) if "rope_factors" in names else None


class _Reader:
    """Reads stacked matrices in the decoder's row order."""

    def __init__(self, spec: ModelSpec, checkpoint: Checkpoint) -> None:
        self._spec = spec
        self._checkpoint = checkpoint
        self._names = tensor_names(spec)
        self._tensors = {tensor.name: tensor for tensor in spec.tensors}
        self._permuted = family(spec).permuted_qk

    def linear(self, matrix: HeldMatrix) -> Linear:
        if matrix.held == "int4g32":
            return self._int4(matrix)
        return DenseLinear(self.dense(matrix))

    def dense(self, matrix: HeldMatrix) -> Tensor:
        """[rows, cols] in float32 or bfloat16, filled in strips so that only one strip is in float32."""
        out = torch.empty(matrix.rows, matrix.cols, dtype=_DTYPES[matrix.held])
        start = 0
        for word in matrix.words:
            name = self._names[word]
            rows = self._tensors[name].shape[0]
            part = out[start : start + rows]
            strip = max(1, _STRIP_ELEMENTS // matrix.cols)
            for first in range(0, rows, strip):
                last = min(first + strip, rows)
                part[first:last] = self._checkpoint.dequantize(name, slice(first, last))
            if self._is_halved(word):
                part.copy_(self._interleaved(part))
            start += rows
        return out

    def _int4(self, matrix: HeldMatrix) -> Linear:
        values, scales = [], []
        for word in matrix.words:
            tensor = self._tensors[self._names[word]]
            raw = self._checkpoint.raw(tensor.name)
            part, scale = unpack_q4(raw, tensor.type, *tensor.shape)
            assert not self._is_halved(word), "4-bit blocks come from GGUF files, whose rows are in pairs"
            values.append(part)
            scales.append(scale)
        return pack_int4(torch.cat(values), torch.cat(scales))

    def _is_halved(self, word: str) -> bool:
        """Whether these are query or key rows as Hugging Face keeps them: halves apart."""
        return not self._permuted and word.rpartition(".")[2] in ("q", "k")

    def _interleaved(self, rows: Tensor) -> Tensor:
        """Rows [heads · dim, ...] with rotary pairs side by side instead of in two halves."""
        dim = self._spec.head_dim
        halves = rows.view(-1, 2, dim // 2, *rows.shape[1:])  # [heads, 2, dim / 2, ...]
        return halves.transpose(1, 2).reshape(rows.shape)
