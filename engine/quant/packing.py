"""Weights packed for the kernels: GGUF's blocks without a detour through 16 bits, and rounded floats.

For native kernels the library does it, see engine/native/pack_blocks.inl. For torch's int4 kernels:
Q4_0: w = d (q − 8). Q4_1: w = d q + m = d (q − 8) + (m + 8 d). Q4_K likewise, with a scale and a minimum for
each 32 values. All are the kernel's w = (q − 8) scale + zero, exact up to the rounding of scale and zero to
bfloat16. Block layouts: ggml's ``block_q4_0`` and ``block_q4_1`` (32 values; low nibbles first, then high
ones).
"""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from engine.native.library import Format, NativeLibrary
from engine.quant.dequantize import q4_k_parts
from engine.quant.formats import TENSOR_TYPES
from engine.quant.linear import INT4, Int4Linear, Int8Linear
from engine.quant.quantize import BLOCK_TYPES

_BLOCK_ROWS = 64  # a multiple of the kernel's block of rows on every instruction set
_INT8_LARGEST = 127
_PIECE = 1 << 18  # elements rounded at once: what is in between stays in the caches
_SCALE_BYTES = {"Q4_0": 2, "Q4_1": 4}
_SUPER_BLOCK = TENSOR_TYPES["Q4_K"].block
Q4_TYPES = (*_SCALE_BYTES, "Q4_K")
"""Types of blocks that `unpack_q4` takes apart."""


def unpack_q4(raw: Tensor, tensor_type: str, rows: int, cols: int) -> tuple[Tensor, Tensor]:
    """Split blocks [bytes] uint8 into values [rows, cols] int32 (0..15) and [rows, cols / 32, 2] float32
    (scale, zero). ``raw`` is not changed.
    """
    if tensor_type == "Q4_K":
        values, params = q4_k_parts(raw.view(rows * cols // _SUPER_BLOCK, -1))
        return values.view(rows, cols).to(torch.int32), params.view(rows, cols // INT4.group, 2)
    head = _SCALE_BYTES[tensor_type]
    blocks = raw.view(rows, cols // INT4.group, head + INT4.group // 2)
    nibbles = blocks[..., head:]
    values = torch.cat((nibbles & 15, nibbles >> 4), dim=-1)  # [rows, groups, 32]
    params = blocks[..., :head].contiguous().view(torch.float16).float()  # [rows, groups, 1 or 2]
    scale = params[..., 0]
    zero = torch.zeros_like(scale) if tensor_type == "Q4_0" else params[..., 1] + 8 * scale
    return values.view(rows, cols).to(torch.int32), torch.stack((scale, zero), dim=-1)


class Int4Packer:
    """Packs a matrix [rows, cols] for the int4 kernel as its rows come in.

    The kernel lays out blocks of rows one behind another, so blocks can be packed alone; rows that do not
    fill a block wait for the next ones. Peak memory: the packed matrix and what ``add`` was given.
    """

    def __init__(self, rows: int, cols: int) -> None:
        self._rows = rows
        padded = -(-rows // INT4.row_multiple) * INT4.row_multiple
        self._packed = torch.empty(padded, cols // 2, dtype=torch.uint8)
        self._scales_zeros = torch.empty(cols // INT4.group, padded, 2, dtype=torch.bfloat16)
        self._done = 0
        self._values = torch.empty(0, cols, dtype=torch.int32)  # not packed yet

    def add(self, values: Tensor, scales_zeros: Tensor) -> None:
        """The next rows: values [n, cols] int32 (0..15) and [n, groups, 2] float32."""
        start = self._done + self._values.shape[0]
        by_group = scales_zeros.to(torch.bfloat16).transpose(0, 1)  # [groups, n, 2]
        self._scales_zeros[:, start : start + values.shape[0]] = by_group
        waiting = torch.cat((self._values, values)) if self._values.shape[0] else values
        whole = waiting.shape[0] // _BLOCK_ROWS * _BLOCK_ROWS
        self._pack(waiting[:whole])
        self._values = waiting[whole:].clone()

    def finish(self) -> Int4Linear:
        """The layer, once all rows are in; what is missing to the kernel's multiple is zero."""
        assert self._done + self._values.shape[0] == self._rows
        missing = self._packed.shape[0] - self._rows
        if missing:
            self._values = torch.cat((self._values, self._values.new_zeros(missing, self._values.shape[1])))
            self._scales_zeros[:, self._rows :] = 0
        self._pack(self._values)
        return Int4Linear(self._packed, self._scales_zeros, self._rows)

    def _pack(self, values: Tensor) -> None:
        if values.shape[0]:
            end = self._done + values.shape[0]
            self._packed[self._done : end] = torch._convert_weight_to_int4pack_for_cpu(values, 1)
            self._done = end


class Int8Packer:
    """Rounds a matrix [rows, cols] to 8 bits with a scale for each row, as its rows come in."""

    def __init__(self, rows: int, cols: int, device: torch.device | None = None) -> None:
        self._values = torch.empty(rows, cols, dtype=torch.int8, device=device)
        self._scales = torch.empty(rows, dtype=torch.bfloat16, device=device)
        self._done = 0

    def add(self, values: Tensor) -> None:
        """The next rows, float32 [n, cols]. Scales are rounded to bfloat16 before the values are."""
        height = max(1, _PIECE // values.shape[1])
        for start in range(0, values.shape[0], height):
            self._round(values[start : start + height])

    def _round(self, values: Tensor) -> None:
        rows = slice(self._done, self._done + values.shape[0])
        scales = (values.abs().amax(dim=1) / _INT8_LARGEST).to(torch.bfloat16)
        inverse = torch.where(scales != 0, 1 / scales.float(), 0)
        self._values[rows] = (values * inverse[:, None]).round_().clamp_(-_INT8_LARGEST, _INT8_LARGEST)
        self._scales[rows] = scales
        self._done = rows.stop

    def finish(self) -> Int8Linear:
        """The layer, once all rows are in."""
        assert self._done == self._values.shape[0]
        return Int8Linear(self._values, self._scales)


class NativePacker:
    """Lays rows of blocks into the tiles of a native matrix; its parts may come from several threads at once.

    ``memory`` is uint8 of held_nbytes.
    """

    def __init__(
        self, library: NativeLibrary, tensor_type: str, held: str, cols: int, memory: Tensor
    ) -> None:
        self._pack = library.functions.dk_pack
        self._type = TENSOR_TYPES[tensor_type].ggml_id
        self._format = Format[held.upper()]
        self._cols = cols
        self._memory = memory  # kept: a last part may come when the load has been dropped
        self._address = memory.data_ptr()

    def add(self, address: int, rows: slice, threads: int = 1) -> None:
        """Rows of the file's matrix, their blocks at ``address``. All parts but the last begin and end at a
        multiple of 16 rows. Runs without the interpreter lock, on ``threads`` of torch's threads or, with
        one, on the calling thread alone.
        """
        count = rows.stop - rows.start
        result = self._pack(
            self._type, address, count, self._cols, self._format, self._address, rows.start, threads
        )
        assert result == 0, "formats.NATIVE_FORMATS lists what the library can pack"


class NativeRounder:
    """Rounds rows of floats of ``source_type`` (F32, F16, BF16) to blocks and packs these: otherwise as a
    NativePacker.
    """

    def __init__(
        self, library: NativeLibrary, source_type: str, held: str, cols: int, memory: Tensor
    ) -> None:
        blocks = TENSOR_TYPES[BLOCK_TYPES[held]]
        self._quantize = library.functions.dk_quantize
        self._types = TENSOR_TYPES[source_type].ggml_id, blocks.ggml_id
        self._cols = cols
        self._row_bytes = cols // blocks.block * blocks.block_bytes
        self._packer = NativePacker(library, blocks.name, held, cols, memory)

    def add(self, address: int, rows: slice, threads: int = 1) -> None:
        """As `NativePacker.add`, with floats at ``address``."""
        count = rows.stop - rows.start
        blocks = (ctypes.c_uint8 * (count * self._row_bytes))()
        source, kind = self._types
        place = ctypes.addressof(blocks)
        result = self._quantize(source, address, count, self._cols, kind, place, threads)
        assert result == 0, "quantize.BLOCK_TYPES lists what the library can round to"
        self._packer.add(place, rows, threads)
