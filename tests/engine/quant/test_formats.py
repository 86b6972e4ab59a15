"""The tables of tensor types and weight formats."""

from __future__ import annotations

import gguf
import pytest

from engine.native.library import Format, NativeLibrary
from engine.quant import formats

# the gguf package counts a float32 pair here; ggml's block_q8_1 holds two float16
_DIFFERS = {"Q8_1"}


def test_blocks_and_numbers_agree_with_the_format_authors() -> None:
    for kind, (block, block_bytes) in gguf.constants.GGML_QUANT_SIZES.items():
        ours = formats.by_ggml_id(int(kind))
        assert ours is not None
        assert ours.name == kind.name
        if kind.name not in _DIFFERS:
            assert (ours.block, ours.block_bytes) == (block, block_bytes)


def test_what_is_supported_is_said_exactly() -> None:
    supported = {kind.name for kind in formats.TENSOR_TYPES.values() if kind.supported}
    small = {"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"}
    assert supported == {"F32", "F16", "BF16"} | small


def test_every_number_has_a_name() -> None:
    assert formats.ggml_name(2) == "Q4_0"
    assert formats.ggml_name(31).startswith("Q4_0_4_4")
    assert "200" in formats.ggml_name(200)
    assert formats.by_ggml_id(31) is None


@pytest.mark.parametrize(
    ("type_name", "shape", "expected"),
    [
        ("F32", (3, 5), 60),
        ("BF16", (7,), 14),
        ("F32", (), 4),
        ("Q4_1", (576, 1536), 552_960),
        ("Q8_0", (49152, 576), 30_081_024),
        ("Q6_K", (2, 512), 840),
        ("F4", (2, 4), 4),
    ],
)
def test_bytes_of_a_tensor(type_name: str, shape: tuple[int, ...], expected: int) -> None:
    assert formats.nbytes(type_name, shape) == expected


@pytest.mark.parametrize(
    ("type_name", "shape"),
    [
        ("Q4_0", (32, 33)),
        ("Q4_K", (2, 32)),
        ("F32", (0,)),
        ("F32", (-1, 4)),
        ("F32", (1 << 62, 4)),
        ("Q8_0", ()),
    ],
)
def test_impossible_shapes_have_no_bytes(type_name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"shape|rows"):
        formats.nbytes(type_name, shape)


def test_bits_count_scales() -> None:
    assert formats.TENSOR_TYPES["Q4_1"].bits == 5.0
    assert formats.TENSOR_TYPES["Q8_0"].bits == 8.5
    assert formats.TENSOR_TYPES["Q6_K"].bits == 6.5625


@pytest.mark.parametrize(
    ("name", "rows", "cols", "expected"),
    [
        ("f32", 10, 64, 2560),
        ("bf16", 10, 64, 1280),
        ("int4g32", 16, 64, 640),
        ("int4g32", 1, 64, 640),  # padded to 16 rows
        ("int4g32", 576, 576, 576 * 576 * 5 // 8),
        ("int4", 16, 64, 576),
        ("int4", 17, 32, 2 * 320),  # two tiles, and a tile's 288 bytes end on a line of 64
        ("int4z", 16, 32, 320),
        ("int5z", 16, 32, 384),
        ("int6h", 16, 256, 3392),  # 3360
        ("int6h", 33, 512, 3 * 6720),
        ("int8", 1, 96, 1664),  # 1632
        ("int8row", 10, 80, 820),  # a scale of two bytes for each row
        ("nf4cpu", 33, 64, 64 * 34),  # padded to 64 rows
        ("llm-int8", 3, 20, 72),
    ],
)
def test_held_bytes_count_scales_and_padding(name: str, rows: int, cols: int, expected: int) -> None:
    assert formats.held_nbytes(name, rows, cols) == expected


def test_bits_are_those_of_a_matrix_without_padding() -> None:
    bits = {
        "f32": 32,
        "bf16": 16,
        "f16": 16,
        "int4g32": 5,
        "int8row": 8,
        "nf4": 4.5,
        "nf4cpu": 4.25,
        "llm-int8": 8,
        "int4": 4.5,
        "int4z": 5,
        "int4k": 4.625,
        "int4h": 4.5625,
        "int5": 5.5,
        "int5z": 6,
        "int5k": 5.625,
        "int6h": 6.5625,
        "int8": 8.5,
    }
    assert {name: held.bits for name, held in formats.WEIGHT_FORMATS.items()} == bits
    for name, each in bits.items():
        values_bytes = formats.held_nbytes(name, 64, 512) - 64 * formats.WEIGHT_FORMATS[name].row_bytes
        assert values_bytes * 8 / (64 * 512) == each


def test_every_quantized_type_but_q2_k_has_a_native_format_of_no_fewer_bits() -> None:
    quantized = {kind.name for kind in formats.TENSOR_TYPES.values() if kind.supported and kind.block > 1}
    assert set(formats.NATIVE_FORMATS) == quantized - {"Q2_K"}
    for name, held in formats.NATIVE_FORMATS.items():
        assert formats.WEIGHT_FORMATS[held].bits >= formats.TENSOR_TYPES[name].bits


@pytest.mark.parametrize("format", [format.name.lower() for format in Format])
def test_held_bytes_are_the_native_librarys(format: str, kernels: NativeLibrary) -> None:
    count = kernels.functions.dk_matrix_bytes
    for rows in (1, 15, 16, 17, 100, 576, 49_152):
        for cols in (32, 64, 96, 128, 256, 576, 768, 1536, 1792, 8192):
            if cols % formats.WEIGHT_FORMATS[format].block == 0:
                assert formats.held_nbytes(format, rows, cols) == count(Format[format.upper()], rows, cols)


@pytest.mark.parametrize(
    ("name", "cols", "multiple"), [("int4g32", 40, 32), ("int8", 80, 32), ("int4k", 128, 256)]
)
def test_a_row_that_does_not_fill_its_groups_and_blocks_cannot_be_held(
    name: str, cols: int, multiple: int
) -> None:
    with pytest.raises(ValueError, match=f"multiples of {multiple}"):
        formats.held_nbytes(name, 16, cols)
