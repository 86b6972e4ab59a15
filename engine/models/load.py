"""From the tensors of a file to the weights of a decoder, matrix by matrix, in the planned format."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import torch
from torch import Tensor

from engine.fit.bytes import HeldMatrix, held_matrices
from engine.models.checkpoint import Checkpoint
from engine.models.decoder import Decoder, Layer, Weights
from engine.models.families import GROUPS, family, tensor_names
from engine.models.rotary import interleaved
from engine.models.strips import StripReader, strips
from engine.models.vectors import VectorReader
from engine.native import library as native
from engine.native.library import NativeLibrary
from engine.quant.arena import Arena
from engine.quant.dequantize import FLOAT_TYPES
from engine.quant.linear import DENSE_TYPES, DenseLinear, Int4Linear, NativeLinear
from engine.quant.packing import Int4Packer, NativePacker, unpack_q4
from engine.types import LoadPlan, LoadProgress, ModelSpec

_Held = DenseLinear | Int4Linear | NativeLinear


def load_decoder(plan: LoadPlan, checkpoint: Checkpoint) -> Generator[LoadProgress, None, Decoder]:
    """Read all weights; yields after every strip of rows. Peak memory: what is held plus one strip."""
    matrices = held_matrices(plan.model, plan.format, plan.is_native)
    total = sum(matrix.nbytes for matrix in matrices)
    library = _library() if plan.is_native else None
    held: dict[str, list[_Held]] = {}
    done = 0
    with StripReader(checkpoint, plan.threads) as strip_reader:
        reader = _Reader(plan.model, checkpoint, strip_reader, library, total)
        for matrix in matrices:
            loading = reader.read(matrix)
            made: _Held | None = None
            while made is None:
                with torch.inference_mode():
                    rows, made = next(loading)
                fraction = (done + matrix.nbytes * rows / matrix.rows) / total
                yield LoadProgress(0.02 + 0.96 * fraction, "weights")
            done += matrix.nbytes
            held.setdefault(_place(matrix.words[0]), []).append(made)
    with torch.inference_mode():
        return _decoder(plan, checkpoint, held, library)


def _library() -> NativeLibrary:
    """The native kernels on torch's threads."""
    library = native.load()
    assert library is not None, "a plan has native kernels only where the probe found them"
    native.connect_parallel(library)
    return library


def _decoder(
    plan: LoadPlan, checkpoint: Checkpoint, held: dict[str, list[_Held]], library: NativeLibrary | None
) -> Decoder:
    spec, vectors = plan.model, VectorReader(plan.model, checkpoint)
    embedding = held["embedding"][0]
    assert not isinstance(embedding, Int4Linear), "its rows could not be looked up"
    weights = Weights(
        embedding=embedding,
        layers=[_layer(f"layers.{index}.", held, vectors) for index in range(spec.num_layers)],
        output_norm=vectors.read("output_norm"),
        head=held["head"][0] if "head" in held else embedding,
        is_tied="head" not in held,
    )
    # the native kernels take and give float32, whatever they compute with
    dtype = torch.float32 if plan.format == "f32" or library else torch.bfloat16
    kv_dtype = torch.float32 if plan.kv_bits == 32 else torch.bfloat16
    return Decoder(spec, weights, plan.context, dtype, kv_dtype, library, vectors.rope_factors(plan.context))


def _place(word: str) -> str:
    """The layer's place that a file tensor goes to: q, k and v share one, gate and up another."""
    kind = word.rpartition(".")[2]
    place = next((group for group, words in GROUPS.items() if kind in words), kind)
    return word[: len(word) - len(kind)] + place


def _layer(prefix: str, held: dict[str, list[_Held]], vectors: VectorReader) -> Layer:
    return Layer(
        qkv=tuple(held[prefix + "qkv"]),
        output=held[prefix + "o"][0],
        gate_up=tuple(held[prefix + "gate_up"]),
        down=held[prefix + "down"][0],
        attention_norm=vectors.find(prefix + "attention_norm"),
        mlp_norm=vectors.find(prefix + "mlp_norm"),
        post_attention_norm=vectors.find(prefix + "post_attention_norm"),
        post_mlp_norm=vectors.find(prefix + "post_mlp_norm"),
        q_norm=vectors.find(prefix + "q_norm"),
        k_norm=vectors.find(prefix + "k_norm"),
        qkv_bias=vectors.bias(prefix, "qkv"),
        output_bias=vectors.bias(prefix, "o"),
        gate_up_bias=vectors.bias(prefix, "gate_up"),
        down_bias=vectors.bias(prefix, "down"),
    )


class _Reader:
    """Reads matrices in the decoder's row order into the formats they are held in, strip by strip."""

    def __init__(
        self,
        spec: ModelSpec,
        checkpoint: Checkpoint,
        strip_reader: StripReader,
        library: NativeLibrary | None,
        held_bytes: int,
    ) -> None:
        self._spec = spec
        self._checkpoint = checkpoint
        self._strips = strip_reader
        self._names = tensor_names(spec)
        self._permuted = family(spec).permuted_qk
        self._library = library
        self._arena = Arena(held_bytes) if library else None

    def read(self, matrix: HeldMatrix) -> Iterator[tuple[int, _Held | None]]:
        """(rows read so far, the layer once it is whole), again and again."""
        if matrix.held in DENSE_TYPES:
            return self._dense(matrix)
        return self._int4(matrix) if self._library is None else self._packed(matrix, self._library)

    def _dense(self, matrix: HeldMatrix) -> Iterator[tuple[int, _Held | None]]:
        memory = self._memory(matrix)
        out = memory.view(DENSE_TYPES[matrix.held]).view(matrix.rows, matrix.cols)
        start = 0
        for word in matrix.words:
            name = self._names[word]
            part = out[start : start + self._checkpoint.info(name).shape[0]]
            for rows in self._floats(name, part):
                yield start + rows, None
            if self._is_halved(word):
                part.copy_(interleaved(part, self._spec.head_dim, self._spec.rotary_dim))
            start += part.shape[0]
        if self._library is None:
            yield start, DenseLinear(out)
        else:
            yield start, NativeLinear(self._library, matrix.held, matrix.rows, matrix.cols, memory)

    def _floats(self, name: str, out: Tensor) -> Iterator[int]:
        """Rows read so far of a tensor of any type, into floats."""
        if FLOAT_TYPES.get(self._checkpoint.info(name).type) == out.dtype:
            yield from self._strips.copy(name, out)
            return
        for strip in strips(*out.shape):
            out[strip] = self._checkpoint.dequantize(name, strip)
            yield strip.stop

    def _packed(self, matrix: HeldMatrix, library: NativeLibrary) -> Iterator[tuple[int, _Held | None]]:
        """Blocks of any type laid out for the native kernels."""
        (word,) = matrix.words
        name, memory = self._names[word], self._memory(matrix)
        packer = NativePacker(library, self._checkpoint.info(name).type, matrix.held, matrix.cols, memory)
        if self._is_halved(word):
            for strip, raw in self._paired(name):
                packer.add(raw.data_ptr(), strip)
                yield strip.stop, None
        else:
            for rows in self._strips.use(name, packer.add):
                yield rows, None
        yield matrix.rows, NativeLinear(library, matrix.held, matrix.rows, matrix.cols, memory)

    def _int4(self, matrix: HeldMatrix) -> Iterator[tuple[int, _Held | None]]:
        """4-bit blocks repacked for torch's kernel."""
        packer = Int4Packer(matrix.rows, matrix.cols)
        done = 0
        for word in matrix.words:
            tensor = self._checkpoint.info(self._names[word])
            for strip, raw in self._paired(tensor.name) if self._is_halved(word) else self._raw(tensor.name):
                packer.add(*unpack_q4(raw, tensor.type, strip.stop - strip.start, matrix.cols))
                done += strip.stop - strip.start
                yield done, None
        yield done, packer.finish()

    def _raw(self, name: str) -> Iterator[tuple[slice, Tensor]]:
        """The bytes of a tensor, strip by strip."""
        for strip in strips(*self._checkpoint.info(name).shape):
            yield strip, self._checkpoint.raw(name, strip)

    def _paired(self, name: str) -> Iterator[tuple[slice, Tensor]]:
        """As `_raw`, the rows of whole heads in the decoder's order: a row's blocks move with it."""
        rows, cols = self._checkpoint.info(name).shape
        dim, rotary = self._spec.head_dim, self._spec.rotary_dim
        for heads in strips(rows // dim, cols * dim):
            strip = slice(heads.start * dim, heads.stop * dim)
            raw = self._checkpoint.raw(name, strip)
            yield strip, interleaved(raw.view(strip.stop - strip.start, -1), dim, rotary).view(-1)

    def _memory(self, matrix: HeldMatrix) -> Tensor:
        """Room for a matrix, uint8."""
        if self._arena is not None:
            return self._arena.take(matrix.nbytes)
        return torch.empty(matrix.nbytes, dtype=torch.uint8)

    def _is_halved(self, word: str) -> bool:
        """Whether these are query or key rows whose rotary pairs lie in halves, as most files keep them."""
        return not self._permuted and word.rpartition(".")[2] in ("q", "k")
