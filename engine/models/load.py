"""From the tensors of a file to the weights of a decoder, matrix by matrix, in the planned format."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import torch
from torch import Tensor

from engine.fit.bytes import HeldMatrix, held_matrices
from engine.models.checkpoint import Checkpoint
from engine.models.decoder import Decoder, Layer, Weights
from engine.models.families import family, tensor_names
from engine.quant.linear import DenseLinear, Linear
from engine.quant.packing import Int4Packer, unpack_q4
from engine.types import LoadPlan, LoadProgress, ModelSpec

_STRIP_ELEMENTS = 1 << 22
_DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def load_decoder(plan: LoadPlan, checkpoint: Checkpoint) -> Generator[LoadProgress, None, Decoder]:
    """Read all weights; yields after every strip of rows. Peak memory: what is held plus one strip."""
    spec = plan.model
    names = tensor_names(spec)
    reader = _Reader(spec, checkpoint)
    matrices = held_matrices(spec, plan.format)
    total = sum(matrix.nbytes for matrix in matrices)
    linears: dict[str, list[Linear]] = {}
    embedding, done = torch.empty(0), 0
    for matrix in matrices:
        loading = reader.int4(matrix) if matrix.held == "int4g32" else reader.dense(matrix)
        held: Linear | None = None
        while held is None:
            with torch.inference_mode():
                rows, held = next(loading)
            yield LoadProgress(0.02 + 0.96 * (done + matrix.nbytes * rows / matrix.rows) / total, "weights")
        done += matrix.nbytes
        if matrix.words == ("embedding",):
            assert isinstance(held, DenseLinear)
            embedding = held.weight
        else:
            linears.setdefault(_place(matrix.words[0]), []).append(held)
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
    """Reads stacked matrices in the decoder's row order, strip by strip."""

    def __init__(self, spec: ModelSpec, checkpoint: Checkpoint) -> None:
        self._spec = spec
        self._checkpoint = checkpoint
        self._names = tensor_names(spec)
        self._tensors = {tensor.name: tensor for tensor in spec.tensors}
        self._permuted = family(spec).permuted_qk

    def dense(self, matrix: HeldMatrix) -> Iterator[tuple[int, Linear | None]]:
        """A matrix in float32 or bfloat16: (rows read so far, the layer once it is whole)."""
        out = torch.empty(matrix.rows, matrix.cols, dtype=_DTYPES[matrix.held])
        start = 0
        for word in matrix.words:
            name = self._names[word]
            rows = self._tensors[name].shape[0]
            part = out[start : start + rows]
            for strip in _strips(rows, matrix.cols):
                part[strip] = self._checkpoint.dequantize(name, strip)
                yield start + strip.stop, None
            if self._is_halved(word):
                part.copy_(self._interleaved(part))
            start += rows
        yield start, DenseLinear(out)

    def int4(self, matrix: HeldMatrix) -> Iterator[tuple[int, Linear | None]]:
        """4-bit blocks repacked: (rows read so far, the layer once it is whole)."""
        packer = Int4Packer(matrix.rows, matrix.cols)
        done = 0
        for word in matrix.words:
            assert not self._is_halved(word), "4-bit blocks come from GGUF files, whose rows are in pairs"
            tensor = self._tensors[self._names[word]]
            for strip in _strips(tensor.shape[0], matrix.cols):
                raw = self._checkpoint.raw(tensor.name, strip)
                packer.add(*unpack_q4(raw, tensor.type, strip.stop - strip.start, matrix.cols))
                done += strip.stop - strip.start
                yield done, None
        yield done, packer.finish()

    def _is_halved(self, word: str) -> bool:
        """Whether these are query or key rows as Hugging Face keeps them: halves apart."""
        return not self._permuted and word.rpartition(".")[2] in ("q", "k")

    def _interleaved(self, rows: Tensor) -> Tensor:
        """Rows [heads · dim, ...] with rotary pairs side by side instead of in two halves."""
        dim = self._spec.head_dim
        halves = rows.view(-1, 2, dim // 2, *rows.shape[1:])  # [heads, 2, dim / 2, ...]
        return halves.transpose(1, 2).reshape(rows.shape)


def _strips(rows: int, cols: int) -> Iterator[slice]:
    """Rows in strips of about 4 million elements: well under 100 ms each, Cancel waits for no longer."""
    height = max(1, _STRIP_ELEMENTS // cols)
    for first in range(0, rows, height):
        yield slice(first, min(first + height, rows))
