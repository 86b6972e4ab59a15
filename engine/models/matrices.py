"""Reads matrices from a file into the formats they are held in, strip by strip, in the decoder's row order.

Knows formats, packers and the order of rows; not how matrices make a model. Used on the engine thread.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

import torch
from torch import Tensor

from engine.fit.held import HeldMatrix
from engine.models.checkpoint import Checkpoint
from engine.models.families import family, tensor_names
from engine.models.placement import CPU
from engine.models.rotary import interleaved
from engine.models.strips import StripReader, strips
from engine.native.library import NativeLibrary
from engine.quant.arena import Arena
from engine.quant.bits_and_bytes import LlmInt8Linear, LlmInt8Packer, Nf4Linear, Nf4Packer
from engine.quant.dequantize import FLOAT_TYPES, dequantize
from engine.quant.formats import NATIVE_FORMATS
from engine.quant.gpu_linear import GpuDenseLinear, GpuInt4Linear, GpuInt4Packer
from engine.quant.linear import DENSE_TYPES, DenseLinear, Int4Linear, Int8Linear, NativeLinear
from engine.quant.packing import (
    Q4_TYPES,
    Int4Packer,
    Int8Packer,
    NativePacker,
    NativeRounder,
    unpack_q4,
)
from engine.quant.quantize import BLOCK_TYPES, quantize
from engine.types import ModelSpec

Held = (
    DenseLinear
    | Int4Linear
    | Int8Linear
    | Nf4Linear
    | LlmInt8Linear
    | NativeLinear
    | GpuDenseLinear
    | GpuInt4Linear
)
Step = tuple[int, Held | None]  # rows read so far, and the layer once it is whole
_TILE_ROWS = 16  # strips begin with a tile of the native kernels


class MatrixReader:
    """Reads one matrix after another. Beside what is held, memory for one strip of rows is taken.

    With a ``library`` everything is held for its kernels, in one piece of memory of ``held_bytes``. Off the
    processor, on another ``device``, a dense matrix takes memory here until it is whole.
    """

    def __init__(
        self,
        spec: ModelSpec,
        checkpoint: Checkpoint,
        strip_reader: StripReader,
        library: NativeLibrary | None,
        held_bytes: int,
        device: torch.device = CPU,
    ) -> None:
        self._spec = spec
        self._checkpoint = checkpoint
        self._strips = strip_reader
        self._names = tensor_names(spec)
        self._permuted = family(spec).permuted_qk
        self._library = library
        self._arena = Arena(held_bytes) if library else None
        self._device = device

    def read(self, matrix: HeldMatrix) -> Iterator[Step]:
        """Steps of reading a matrix; the last one has the layer."""
        if matrix.held in DENSE_TYPES:
            return self._dense(matrix)
        if self._library is not None:
            return self._native(matrix, self._library)
        return self._int4(matrix) if matrix.held == "int4g32" else self._rounded(matrix)

    def _dense(self, matrix: HeldMatrix) -> Iterator[Step]:
        memory = self._memory(matrix)
        out = memory.view(DENSE_TYPES[matrix.held]).view(matrix.rows, matrix.cols)
        start = 0
        for word in matrix.words:
            name = self._names[word]
            info = self._checkpoint.info(name)
            part = out[start : start + info.shape[0]]
            if FLOAT_TYPES.get(info.type) == out.dtype and not self._is_halved(word):
                for rows in self._strips.copy(name, part):
                    yield start + rows, None
            else:
                yield from self._fed(word, start, self._converted_into(part, info.type))
            start += info.shape[0]
        if self._device != CPU:
            yield start, GpuDenseLinear(out.to(self._device))
        elif self._library is None:
            yield start, DenseLinear(out)
        else:
            yield start, NativeLinear(self._library, matrix.held, matrix.rows, matrix.cols, memory)

    @staticmethod
    def _converted_into(out: Tensor, type_name: str) -> Callable[[Tensor, slice], None]:
        def use(raw: Tensor, strip: slice) -> None:
            out[strip] = dequantize(raw, type_name, (strip.stop - strip.start, out.shape[1]))

        return use

    def _native(self, matrix: HeldMatrix, library: NativeLibrary) -> Iterator[Step]:
        """Blocks laid out for the native kernels: the file's own, or rounded ones."""
        (word,) = matrix.words
        memory, cols = self._memory(matrix), matrix.cols
        info = self._checkpoint.info(self._names[word])
        is_own, is_float = NATIVE_FORMATS.get(info.type) == matrix.held, info.type in FLOAT_TYPES
        packer: NativePacker | NativeRounder
        if is_own:
            packer = NativePacker(library, info.type, matrix.held, cols, memory)
        else:
            packer = NativeRounder(library, info.type if is_float else "F32", matrix.held, cols, memory)

        def use(raw: Tensor, strip: slice) -> None:
            if not is_own and not is_float:
                raw = dequantize(raw, info.type, (strip.stop - strip.start, cols))
            packer.add(raw.data_ptr(), strip, torch.get_num_threads())

        if self._is_halved(word) or not (is_own or is_float):
            yield from self._fed(word, 0, use)
        else:
            for rows in self._strips.use(info.name, packer.add):
                yield rows, None
        yield matrix.rows, NativeLinear(library, matrix.held, matrix.rows, cols, memory)

    def _int4(self, matrix: HeldMatrix) -> Iterator[Step]:
        """4-bit blocks for torch's kernel: the file's own, or rounded ones."""
        packer: Int4Packer | GpuInt4Packer = Int4Packer(matrix.rows, matrix.cols)
        if self._device != CPU:
            packer = GpuInt4Packer(matrix.rows, matrix.cols, self._device)
        done = 0
        for word in matrix.words:
            info = self._checkpoint.info(self._names[word])

            def use(raw: Tensor, strip: slice, own_type: str = info.type) -> None:
                rows, block_type = strip.stop - strip.start, own_type
                if own_type not in Q4_TYPES:
                    block_type = BLOCK_TYPES["int4g32"]
                    raw = quantize(dequantize(raw, own_type, (rows, matrix.cols)), block_type)
                packer.add(*unpack_q4(raw, block_type, rows, matrix.cols))

            yield from self._fed(word, done, use)
            done += info.shape[0]
        yield done, packer.finish()

    def _rounded(self, matrix: HeldMatrix) -> Iterator[Step]:
        """Formats that are packed from floats alone."""
        packer, done = _packer(matrix, self._device), 0
        for word in matrix.words:
            info = self._checkpoint.info(self._names[word])

            def use(raw: Tensor, strip: slice, own_type: str = info.type) -> None:
                values = dequantize(raw, own_type, (strip.stop - strip.start, matrix.cols))
                packer.add(values.to(self._device))

            yield from self._fed(word, done, use)
            done += info.shape[0]
        yield done, packer.finish()

    def _fed(self, word: str, done: int, use: Callable[[Tensor, slice], None]) -> Iterator[Step]:
        """Call ``use(raw, rows)`` with the bytes of every strip of a tensor, in the decoder's order."""
        for strip in self._row_strips(word):
            raw = yield from self._raw(word, strip, done + strip.start)
            use(raw, strip)
            del raw
            yield done + strip.stop, None

    def _row_strips(self, word: str) -> Iterator[slice]:
        """The rows of a tensor, strip by strip; of queries and keys in whole heads."""
        rows, cols = self._checkpoint.info(self._names[word]).shape
        unit = self._spec.head_dim if self._is_halved(word) else _TILE_ROWS
        for units in strips(-(-rows // unit), cols * unit):
            yield slice(units.start * unit, min(units.stop * unit, rows))

    def _raw(self, word: str, strip: slice, done: int) -> Generator[Step, None, Tensor]:
        """The bytes of some rows in the decoder's order: a row's blocks move with it. Yields (done, None)
        while it waits for them.
        """
        waiting: Step = (done, None)
        raw = yield from self._strips.raw(self._names[word], strip, waiting)
        if not self._is_halved(word):
            return raw
        rows = raw.view(strip.stop - strip.start, -1)
        return interleaved(rows, self._spec.head_dim, self._spec.rotary_dim).view(-1)

    def _memory(self, matrix: HeldMatrix) -> Tensor:
        """Room for a matrix, uint8."""
        if self._arena is not None:
            return self._arena.take(matrix.nbytes)
        return torch.empty(matrix.nbytes, dtype=torch.uint8)

    def _is_halved(self, word: str) -> bool:
        """Whether these are query or key rows whose rotary pairs lie in halves, as most files keep them."""
        return not self._permuted and word.rpartition(".")[2] in ("q", "k")


def _packer(matrix: HeldMatrix, device: torch.device) -> Int8Packer | Nf4Packer | LlmInt8Packer:
    if matrix.held == "int8row":
        return Int8Packer(matrix.rows, matrix.cols, device)
    if matrix.held == "llm-int8":
        return LlmInt8Packer(matrix.rows, matrix.cols, device)
    return Nf4Packer(matrix.held, matrix.rows, matrix.cols, device)
