"""How each matrix is held: one function decides for every wish, type and word."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.fit.bytes import weight_bytes
from engine.fit.choices import FORMATS
from engine.fit.held import held_format, held_matrices
from engine.quant.formats import NATIVE_FORMATS, TENSOR_TYPES, WEIGHT_FORMATS
from engine.types import ModelSpec, TensorInfo
from tests.fakes import make_spec

SHAPE = (512, 256)
TYPES = [kind.name for kind in TENSOR_TYPES.values() if kind.supported]
WORDS = ("embedding", "q", "down", "head")


def held(word: str, type_name: str, format: str, is_native: bool, shape: tuple[int, int] = SHAPE) -> str:
    return held_format(word, TensorInfo("x", shape, type_name, 0, 0, 0), format, is_native)


def typed(type_name: str) -> ModelSpec:
    """A spec of matrices wide enough for every type."""
    spec = make_spec()
    wide = (
        replace(t, type=type_name, shape=(8 * t.shape[0], 8 * t.shape[1])) if len(t.shape) == 2 else t
        for t in spec.tensors
    )
    return replace(spec, tensors=tuple(wide))


@pytest.mark.parametrize("format", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("type_name", TYPES)
def test_dense_formats_hold_everything_so(type_name: str, format: str) -> None:
    assert {held(word, type_name, format, native) for word in WORDS for native in (True, False)} == {format}


@pytest.mark.parametrize("type_name", TYPES)
def test_the_file_format_keeps_what_the_kernels_have_a_home_for(type_name: str) -> None:
    for word in WORDS:
        assert held(word, type_name, "file", True) == NATIVE_FORMATS.get(type_name, "bf16")
    stock = "int4g32" if type_name in ("Q4_0", "Q4_1") else "bf16"
    assert held("q", type_name, "file", False) == stock
    assert held("embedding", type_name, "file", False) == "bf16"  # its rows are looked up


@pytest.mark.parametrize("type_name", TYPES)
def test_eight_bits_are_eight_bits_everywhere(type_name: str) -> None:
    for word in WORDS:
        assert held(word, type_name, "int8", True) == "int8"
        assert held(word, type_name, "int8", False) == "int8row"


@pytest.mark.parametrize(
    ("type_name", "layers", "outer"),
    [
        ("F32", "int4z", "int8"),
        ("BF16", "int4z", "int8"),
        ("Q8_0", "int4z", "int8"),
        ("Q6_K", "int4z", "int6h"),
        ("Q5_1", "int4z", "int5z"),
        ("Q4_K", "int4k", "int4k"),
        ("Q4_0", "int4", "int4"),
        ("Q4_1", "int4z", "int4z"),
        ("Q3_K", "int4h", "int4h"),
        ("Q2_K", "int4z", "int8"),
    ],
)
def test_four_bits_leave_what_has_no_more_and_spare_embedding_and_head(
    type_name: str, layers: str, outer: str
) -> None:
    assert held("down", type_name, "int4", True) == layers
    assert held("head", type_name, "int4", True) == held("embedding", type_name, "int4", True) == outer
    assert held("down", type_name, "int4", False) == "int4g32"
    assert held("head", type_name, "int4", False) == "int8row"


def test_bitsandbytes_leaves_embedding_and_head_at_16_bits() -> None:
    assert [held(word, "BF16", "nf4", False) for word in WORDS] == ["bf16", "nf4cpu", "nf4cpu", "bf16"]
    assert [held(word, "BF16", "llm-int8", False) for word in WORDS] == [
        "bf16",
        "llm-int8",
        "llm-int8",
        "bf16",
    ]


@pytest.mark.parametrize(("cols", "nf4", "int4"), [(96, "bf16", "int4g32"), (80, "bf16", "bf16")])
def test_columns_that_do_not_fill_a_group_stay_at_16_bits(cols: int, nf4: str, int4: str) -> None:
    shape = (64, cols)
    assert held("q", "F32", "nf4", False, shape) == nf4
    assert held("q", "F32", "int4", False, shape) == int4
    assert held("q", "F32", "int8", False, shape) == "int8row"


@pytest.mark.parametrize("is_native", [True, False])
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("type_name", TYPES)
def test_every_matrix_has_a_home_with_known_bytes(type_name: str, format: str, is_native: bool) -> None:
    spec = typed(type_name)
    if is_native and format in ("f16", "nf4", "llm-int8"):
        return  # torch's and bitsandbytes' alone
    matrices = held_matrices(spec, format, is_native)
    words = [word for matrix in matrices for word in matrix.words]
    assert len(words) == len(set(words)) == 1 + 7 * spec.num_layers
    assert sum(matrix.nbytes for matrix in matrices) < weight_bytes(spec, format, is_native)
    for matrix in matrices:
        bits = 8 * matrix.nbytes / (matrix.rows * matrix.cols)
        assert WEIGHT_FORMATS[matrix.held].bits <= bits < 1.1 * WEIGHT_FORMATS[matrix.held].bits


def test_fewer_bits_take_fewer_bytes() -> None:
    spec = typed("BF16")
    for is_native in (True, False):
        sizes = [weight_bytes(spec, format, is_native) for format in ("f32", "bf16", "int8", "int4")]
        assert sizes == sorted(sizes, reverse=True)
    assert weight_bytes(spec, "f16") == weight_bytes(spec, "bf16")
