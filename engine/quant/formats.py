"""The tensor types of model files and the formats weights are held in: bits, groups and bytes.

Pure tables and arithmetic; does not know files, torch or kernels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from engine.words import figure, tr


@dataclass(frozen=True, slots=True)
class TensorType:
    """A type tensors are stored in: `block` elements of a row take `block_bytes` bytes.

    `ggml_id` is the number GGUF uses, None where GGUF has no such type. `supported` says that
    weights of this type can be read; the others are known by name alone.
    """

    name: str
    ggml_id: int | None
    block: int
    block_bytes: int
    supported: bool

    @property
    def bits(self) -> float:
        """Bits per element, scales included."""
        return 8 * self.block_bytes / self.block


# name: (ggml id, block, bytes of a block), from ggml-common.h and the safetensors format page
_SUPPORTED: dict[str, tuple[int | None, int, int]] = {
    "F32": (0, 1, 4),
    "F16": (1, 1, 2),
    "BF16": (30, 1, 2),
    "Q4_0": (2, 32, 18),
    "Q4_1": (3, 32, 20),
    "Q5_0": (6, 32, 22),
    "Q5_1": (7, 32, 24),
    "Q8_0": (8, 32, 34),
    "Q2_K": (10, 256, 84),
    "Q3_K": (11, 256, 110),
    "Q4_K": (12, 256, 144),
    "Q5_K": (13, 256, 176),
    "Q6_K": (14, 256, 210),
}
_NAMED_ONLY: dict[str, tuple[int | None, int, int]] = {
    "Q8_1": (9, 32, 36),
    "Q8_K": (15, 256, 292),
    "IQ2_XXS": (16, 256, 66),
    "IQ2_XS": (17, 256, 74),
    "IQ3_XXS": (18, 256, 98),
    "IQ1_S": (19, 256, 50),
    "IQ4_NL": (20, 32, 18),
    "IQ3_S": (21, 256, 110),
    "IQ2_S": (22, 256, 82),
    "IQ4_XS": (23, 256, 136),
    "I8": (24, 1, 1),
    "I16": (25, 1, 2),
    "I32": (26, 1, 4),
    "I64": (27, 1, 8),
    "F64": (28, 1, 8),
    "IQ1_M": (29, 256, 56),
    "TQ1_0": (34, 256, 54),
    "TQ2_0": (35, 256, 66),
    "MXFP4": (39, 32, 17),
    "NVFP4": (40, 64, 36),
    "Q1_0": (41, 128, 18),
    "BOOL": (None, 1, 1),
    "U8": (None, 1, 1),
    "U16": (None, 1, 2),
    "U32": (None, 1, 4),
    "U64": (None, 1, 8),
    "C64": (None, 1, 8),
    "F8_E4M3": (None, 1, 1),
    "F8_E5M2": (None, 1, 1),
    "F8_E8M0": (None, 1, 1),
    "F8_E4M3FNUZ": (None, 1, 1),
    "F8_E5M2FNUZ": (None, 1, 1),
    "F6_E2M3": (None, 4, 3),
    "F6_E3M2": (None, 4, 3),
    "F4": (None, 2, 1),
}
# numbers that GGUF once gave away and withdrew
_WITHDRAWN = {
    4: "Q4_2",
    5: "Q4_3",
    31: "Q4_0_4_4",
    32: "Q4_0_4_8",
    33: "Q4_0_8_8",
    36: "IQ4_NL_4_4",
    37: "IQ4_NL_4_8",
    38: "IQ4_NL_8_8",
}

TENSOR_TYPES: dict[str, TensorType] = {
    name: TensorType(name, ggml_id, block, block_bytes, table is _SUPPORTED)
    for table in (_SUPPORTED, _NAMED_ONLY)
    for name, (ggml_id, block, block_bytes) in table.items()
}
_BY_ID = {kind.ggml_id: kind for kind in TENSOR_TYPES.values() if kind.ggml_id is not None}


def by_ggml_id(ggml_id: int) -> TensorType | None:
    """The type that GGUF numbers `ggml_id`, or None where it is unknown or withdrawn."""
    return _BY_ID.get(ggml_id)


def ggml_name(ggml_id: int) -> str:
    """A name for the type numbered `ggml_id` in a message, unknown and withdrawn ones too."""
    kind = _BY_ID.get(ggml_id)
    if kind is not None:
        return kind.name
    withdrawn = _WITHDRAWN.get(ggml_id)
    if withdrawn:
        return tr("{type} (withdrawn from GGUF)").format(type=withdrawn)
    return tr("number {number} (unknown)").format(number=ggml_id)


def nbytes(type_name: str, shape: Sequence[int]) -> int:
    """Bytes of a tensor of this type; `shape` is in torch order, blocks run along its last size.

    Raises ValueError for a size below 1, a last size that is no multiple of the block, or a result
    of 2**63 bytes and more. KeyError for an unknown type.
    """
    kind = TENSOR_TYPES[type_name]
    if any(size < 1 for size in shape):
        raise ValueError(tr("the shape {shape} has a size below 1").format(shape=list(shape)))
    row = shape[-1] if shape else 1
    if row % kind.block:
        said = tr("{type} needs rows of a multiple of {multiple} elements, not {row}")
        raise ValueError(said.format(type=type_name, multiple=kind.block, row=figure(row)))
    size = math.prod(shape) // kind.block * kind.block_bytes
    if size >= 1 << 63:
        raise ValueError(tr("the shape {shape} is larger than any file").format(shape=list(shape)))
    return size


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """A format weights are held in while the model is loaded.

    Each `group` elements of a row share `group_bytes` of scales, each `block` of them `block_bytes` more
    (1: no groups, no blocks), and the whole row `row_bytes`; rows are padded to a multiple of
    `row_multiple`, and so many together to a multiple of `align_bytes`.
    """

    name: str
    element_bits: int
    group: int = 1
    group_bytes: int = 0
    block: int = 1
    block_bytes: int = 0
    row_multiple: int = 1
    align_bytes: int = 1
    row_bytes: int = 0

    @property
    def bits(self) -> float:
        """Bits per element, scales of groups included; padding and what a whole row shares are not."""
        return self.element_bits + 8 * (self.group_bytes / self.group + self.block_bytes / self.block)


def _tiled(name: str, element_bits: int, group_bytes: int, block_bytes: int = 0) -> WeightFormat:
    """A format of engine/native/layout.h: tiles of 16 rows, groups of 32 columns, blocks of 256 if any."""
    block = 256 if block_bytes else 1
    return WeightFormat(name, element_bits, 32, group_bytes, block, block_bytes, 16, 64)


WEIGHT_FORMATS: dict[str, WeightFormat] = {
    held.name: held
    for held in (
        WeightFormat("f32", 32),
        WeightFormat("bf16", 16),
        WeightFormat("f16", 16),
        # torch's int4pack: 4-bit elements, a bf16 scale and a bf16 zero for each 32 of them
        WeightFormat("int4g32", 4, 32, 4, row_multiple=16),
        # torch's int8pack: a bf16 scale for each row
        WeightFormat("int8row", 8, row_bytes=2),
        # bitsandbytes: 4-bit indexes of a table and a float32 scale for each 64 of them (bf16 for its CPU
        # kernel, in tiles of 32 rows); 8-bit elements with a float32 scale for each row
        WeightFormat("nf4", 4, 64, 4),
        WeightFormat("nf4cpu", 4, 64, 2, row_multiple=32),
        WeightFormat("llm-int8", 8, row_bytes=4),
        # the native kernels' own: a group has float16 scales, or two small factors of its block's
        _tiled("int4", 4, 2),
        _tiled("int4z", 4, 4),
        _tiled("int4k", 4, 2, 4),
        _tiled("int4h", 4, 2, 2),
        _tiled("int5", 5, 2),
        _tiled("int5z", 5, 4),
        _tiled("int5k", 5, 2, 4),
        _tiled("int6h", 6, 2, 2),
        _tiled("int8", 8, 2),
    )
}

# The native format that holds a tensor type's own values and scales. Q2_K has none: it has a scale and a
# minimum for every 16 columns.
NATIVE_FORMATS: dict[str, str] = {
    "Q4_0": "int4",
    "Q4_1": "int4z",
    "Q4_K": "int4k",
    "Q3_K": "int4h",
    "Q5_0": "int5",
    "Q5_1": "int5z",
    "Q5_K": "int5k",
    "Q6_K": "int6h",
    "Q8_0": "int8",
}


def fills_groups(format_name: str, rows: int, cols: int) -> bool:
    """Whether a [rows, cols] matrix can be held in a format: its columns fill groups and blocks."""
    held = WEIGHT_FORMATS[format_name]
    return cols % max(held.group, held.block) == 0


def held_nbytes(format_name: str, rows: int, cols: int) -> int:
    """Bytes of a [rows, cols] matrix held in a format, padding included.

    Raises ValueError where `cols` does not fill groups or blocks, KeyError for an unknown format.
    """
    held = WEIGHT_FORMATS[format_name]
    multiple = max(held.group, held.block)
    if cols % multiple:
        raise ValueError(f"{format_name} needs columns in multiples of {multiple}, not {cols:,}")
    scale_bytes = cols // held.group * held.group_bytes + cols // held.block * held.block_bytes
    row_bytes = cols * held.element_bits // 8 + scale_bytes + held.row_bytes
    tile_bytes = -(-held.row_multiple * row_bytes // held.align_bytes) * held.align_bytes
    return -(-rows // held.row_multiple) * tile_bytes
