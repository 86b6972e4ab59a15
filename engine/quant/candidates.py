"""Kernels of linear layers as they are on this machine, each with matrices of its own to multiply.

Knows how every kernel wants its weights; not how it is timed or which one is taken.
"""

from __future__ import annotations

import ctypes
import functools
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.fit.kernels import kernel_name
from engine.hardware.probe import has_bitsandbytes
from engine.native import library as native
from engine.native.library import Format, Matrix
from engine.quant import bits_and_bytes
from engine.quant.arena import Arena
from engine.quant.bits_and_bytes import NF4_GROUP
from engine.quant.formats import held_nbytes
from engine.quant.linear import DENSE_TYPES, INT4

Product = Callable[[int], object]  # multiplies the copy of this number
Shape = tuple[int, int]  # of a matrix: [out, in]
_SANE = 0x3C  # in each byte: about 1 as float16, 0.01 as bfloat16 and as float32
_NF4_LEVELS = 16
_FILLED_BYTES = 16 << 20


class Cursor:
    """Where reading goes on in a piece of memory that holds copies of a matrix, whoever reads them: behind
    what was read last, so that it has left the caches when its turn comes again.
    """

    def __init__(self) -> None:
        self._end = 0.0  # as a part of the whole

    def next(self, num: int) -> int:
        """Which of ``num`` copies, evenly spread, to read now."""
        index = math.ceil(self._end * num - 1e-6) % num
        self._end = (index + 1) / num
        return index


@dataclass(frozen=True, slots=True)
class Candidate:
    """One kernel with ``num_copies`` matrices. ``prepare(rows)`` makes an input of so many rows and gives the
    function that multiplies it; both may raise anything where the kernel cannot do that here.
    """

    name: str
    format: str  # a key of WEIGHT_FORMATS, or another kernel's own
    bits: float  # per weight, with scales
    nbytes: int  # of one matrix: what a product reads
    num_copies: int
    cursor: Cursor
    prepare: Callable[[int], Product]


@contextmanager
def running(threads: int) -> Iterator[None]:
    """Products on so many threads, and nothing kept for gradients, until the block ends."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.inference_mode():
            yield
    finally:
        torch.set_num_threads(before)


class Memory:
    """Bytes that stand for the weights of all candidates that take them as they are, once they are filled."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self.cursor = Cursor()
        self._bytes = Arena(nbytes).take(nbytes)

    def fill(self) -> Iterator[None]:
        """Write sane values, piece by piece: taking so much memory from the system may take long."""
        for start in range(0, self.nbytes, _FILLED_BYTES):
            self._bytes[start : start + _FILLED_BYTES].fill_(_SANE)
            yield

    def copies(self, nbytes: int) -> list[Tensor]:
        """As many pieces of ``nbytes`` as there is room for, each on a boundary of 64 bytes.

        Raises ValueError where there is no room for one.
        """
        if nbytes > self.nbytes:
            raise ValueError(f"a matrix of {nbytes / 1e6:,.0f} MB is too large to be timed")
        stride = -(-nbytes // 64) * 64
        starts = range(0, self.nbytes - nbytes + 1, stride)
        return [self._bytes[start : start + nbytes] for start in starts]


@dataclass(frozen=True, slots=True)
class Bench:
    """What candidates are made for: matrices of ``shape`` in ``memory``, on so many threads."""

    shape: Shape
    memory: Memory
    threads: int


Maker = Callable[[Bench], Candidate]


def makers(formats: Sequence[str] | None = None) -> dict[str, Maker]:
    """What makes each candidate, by its name; all, or those of some formats. Nothing is tried yet."""
    library = native.load()
    found: dict[str, tuple[str, Maker]] = {}
    if library is not None:
        for held in (format.name.lower() for format in Format):
            name = kernel_name(held, f"native {library.instruction_set}")
            found[name] = held, functools.partial(_native, name, held)
    found |= {
        "torch int4pack": ("int4g32", _int4pack),
        "torch int8pack": ("int8row", _int8pack),
        "fbgemm int8 dynamic": ("int8row", _fbgemm),
        "torch bf16": ("bf16", functools.partial(_dense, "bf16")),
        "torch f16": ("f16", functools.partial(_dense, "f16")),
        "torch f32": ("f32", functools.partial(_dense, "f32")),
    }
    if has_bitsandbytes():
        found["bitsandbytes nf4"] = ("nf4cpu", _nf4)
    return {name: maker for name, (held, maker) in found.items() if formats is None or held in formats}


def _shared(
    name: str, format: str, nbytes: int, bench: Bench, num_copies: int, prepare: Callable[[int], Product]
) -> Candidate:
    """A candidate whose matrices lie in the common memory."""
    bits = 8 * nbytes / math.prod(bench.shape)
    return Candidate(name, format, bits, nbytes, num_copies, bench.memory.cursor, prepare)


def _native(name: str, held: str, bench: Bench) -> Candidate:
    """Ours, as the decode step calls them: no memory is taken and no dtype is changed for a product."""
    library = native.load()
    assert library is not None
    native.connect_parallel(library)
    functions, (rows, cols) = library.functions, bench.shape
    if cols % 32:
        raise ValueError(f"it needs columns in multiples of 32, not {cols:,}")
    nbytes = held_nbytes(held, rows, cols)
    copies = bench.memory.copies(nbytes)
    matrices = [Matrix(copy.data_ptr(), rows, cols, Format[held.upper()]) for copy in copies]

    def prepare(num: int) -> Product:
        x, out = torch.randn(num, cols), torch.empty(num, rows)
        scratch = torch.empty(functions.dk_linear_scratch(num, cols, bench.threads), dtype=torch.uint8)

        def multiply(index: int) -> None:
            pointers = x.data_ptr(), out.data_ptr()
            functions.dk_linear(
                ctypes.byref(matrices[index]), 1, *pointers, num, bench.threads, scratch.data_ptr()
            )

        return multiply

    return _shared(name, held, nbytes, bench, len(matrices), prepare)


def _dense(format: str, bench: Bench) -> Candidate:
    dtype = DENSE_TYPES[format]
    nbytes = held_nbytes(format, *bench.shape)
    weights = [copy.view(dtype).view(bench.shape) for copy in bench.memory.copies(nbytes)]

    def prepare(num: int) -> Product:
        x = torch.randn(num, bench.shape[1], dtype=dtype)
        return lambda index: F.linear(x, weights[index])

    return _shared(f"torch {format}", format, nbytes, bench, len(weights), prepare)


def _int4pack(bench: Bench) -> Candidate:
    rows, cols = bench.shape
    nbytes = held_nbytes(INT4.name, rows, cols)
    padded = -(-rows // INT4.row_multiple) * INT4.row_multiple
    values_bytes = padded * cols // 2
    weights = [
        (
            copy[:values_bytes].view(padded, cols // 2),
            copy[values_bytes:].view(torch.bfloat16).view(cols // INT4.group, padded, 2),
        )
        for copy in bench.memory.copies(nbytes)
    ]

    def prepare(num: int) -> Product:
        x = torch.randn(num, cols, dtype=torch.bfloat16)

        def multiply(index: int) -> Tensor:
            values, scales = weights[index]
            return torch._weight_int4pack_mm_for_cpu(x, values, INT4.group, scales)

        return multiply

    return _shared("torch int4pack", INT4.name, nbytes, bench, len(weights), prepare)


def _int8pack(bench: Bench) -> Candidate:
    rows, cols = bench.shape
    nbytes = rows * cols + 2 * rows  # a bfloat16 scale for each row
    weights = [
        (copy[: rows * cols].view(torch.int8).view(rows, cols), copy[rows * cols :].view(torch.bfloat16))
        for copy in bench.memory.copies(nbytes)
    ]

    def prepare(num: int) -> Product:
        x = torch.randn(num, cols, dtype=torch.bfloat16)
        return lambda index: torch._weight_int8pack_mm(x, *weights[index])

    return _shared("torch int8pack", "int8row", nbytes, bench, len(weights), prepare)


def _fbgemm(bench: Bench) -> Candidate:
    """torch's dynamically quantized product; it packs the weights into memory of its own."""
    rows, cols = bench.shape
    nbytes = rows * cols
    values = bench.memory.copies(nbytes)[0].view(torch.int8).view(rows, cols)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # all of torch's quantized tensors are deprecated
        quantized = torch._make_per_tensor_quantized_tensor(values, 0.01, 0)
        packed = [
            torch.ops.quantized.linear_prepack(quantized, None)
            for _ in range(max(1, bench.memory.nbytes // nbytes))
        ]

    def prepare(num: int) -> Product:
        x = torch.randn(num, cols)
        return lambda index: torch.ops.quantized.linear_dynamic(x, packed[index])

    return Candidate("fbgemm int8 dynamic", "int8row", 8.0, nbytes, len(packed), Cursor(), prepare)


def _nf4(bench: Bench) -> Candidate:
    """The CPU kernel of bitsandbytes, called without its layer; only processors with AVX-512 BF16 have it."""
    if not bits_and_bytes.functional().has_avx512bf16():
        raise ValueError("it needs a processor with AVX-512 BF16")
    rows, cols = bench.shape
    if rows % 32 or cols % NF4_GROUP:
        raise ValueError(f"it needs rows in multiples of 32 and columns in multiples of {NF4_GROUP}")
    num_scales = rows * cols // NF4_GROUP
    nbytes = rows * cols // 2 + 2 * num_scales
    levels = torch.linspace(-1, 1, _NF4_LEVELS)
    weights = [
        (
            copy[: rows * cols // 2].view(rows, cols // 2),
            copy[rows * cols // 2 :].view(torch.bfloat16).view(cols // NF4_GROUP, rows),
        )
        for copy in bench.memory.copies(nbytes)
    ]

    def prepare(num: int) -> Product:
        x = torch.randn(num, cols, dtype=torch.bfloat16)

        def multiply(index: int) -> Any:
            values, scales = weights[index]
            return torch.ops.bitsandbytes.gemv_4bit(x, values, bench.shape, scales, levels, NF4_GROUP)

        return multiply

    return _shared("bitsandbytes nf4", "nf4cpu", nbytes, bench, len(weights), prepare)
