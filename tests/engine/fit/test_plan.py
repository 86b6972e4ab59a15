"""The plan: formats, contexts, verdicts and bytes from headers alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.errors import WishError
from engine.fit.advice import recommend
from engine.fit.bytes import kv_bytes, layer_bits, weight_bits, weight_bytes, working_bytes
from engine.fit.held import held_matrices
from engine.fit.kernels import possible_kernels
from engine.fit.plan import plan, prefill_piece
from engine.fit.scratch import linear_scratch_bytes
from engine.machine import Hardware
from engine.models.spec import read_spec
from engine.native.library import NativeLibrary
from engine.types import LoadSpec, ModelSpec
from tests.engine.tiny import tiny_folder
from tests.fakes import HARDWARE, make_spec

GB = 1_000_000_000


def wish(**changes: object) -> LoadSpec:
    return LoadSpec("/models/tiny.gguf", **changes)  # type: ignore[arg-type]


def shape(spec: ModelSpec, **changes: int) -> ModelSpec:
    return replace(spec, **changes)  # type: ignore[arg-type]


def test_auto_is_the_files_own_bits_for_a_gguf_and_bf16_for_a_folder() -> None:
    spec = make_spec()
    assert plan(spec, HARDWARE, wish()).format == "file"
    assert plan(spec, HARDWARE, wish(format="32")).format == "f32"
    assert plan(spec, HARDWARE, wish(format="16")).format == "bf16"


def test_the_kv_cache_is_32_bits_with_float32_and_else_16() -> None:
    spec = make_spec()
    assert plan(spec, HARDWARE, wish(format="f32")).kv_bits == 32
    assert plan(spec, HARDWARE, wish()).kv_bits == 16
    assert plan(spec, HARDWARE, wish(kv="32")).kv_bits == 32
    assert [plan(spec, HARDWARE, wish(kv=kv)).kv_bits for kv in ("8", "4")] == [8, 4]
    for kv in ("2", "7", "x"):
        with pytest.raises(WishError):
            plan(spec, HARDWARE, wish(kv=kv))


def test_the_default_context_is_the_trained_limit_but_at_most_8192() -> None:
    assert plan(make_spec(trained_context=2048), HARDWARE, wish()).context == 2048
    assert plan(make_spec(trained_context=131_072), HARDWARE, wish()).context == 8192
    assert plan(make_spec(trained_context=131_072), HARDWARE, wish(context=20_000)).context == 20_000


def test_a_context_past_training_is_allowed_with_a_word() -> None:  # B056
    made = plan(make_spec(trained_context=4096), HARDWARE, wish(context=16_384))
    assert made.context == 16_384
    assert any("4,096" in reason for reason in made.reasons)


@pytest.mark.parametrize(
    ("layers", "kv_heads", "dim", "context", "bits", "expected"),
    [
        (36, 8, 128, 32_768, 16, 4_831_838_208),  # B045: grouped keys count, not all heads
        (2, 2, 16, 100, 16, 25_600),
        (2, 2, 16, 100, 32, 51_200),
        (28, 8, 128, 40_960, 16, 4_697_620_480),  # B046: the explicit head size counts, 4.375 GiB
    ],
)
def test_kv_bytes(layers: int, kv_heads: int, dim: int, context: int, bits: int, expected: int) -> None:
    spec = shape(make_spec(), num_layers=layers, num_kv_heads=kv_heads, head_dim=dim)
    assert kv_bytes(spec, context, bits) == expected


def test_weights_cost_more_at_more_bits_and_a_tied_matrix_is_counted_once() -> None:
    spec = make_spec()
    by_format = [weight_bytes(spec, format) for format in ("file", "bf16", "f32")]
    assert by_format == sorted(by_format)
    words = [word for matrix in held_matrices(spec, "file") for word in matrix.words]
    assert len(words) == len(set(words)) == 1 + 7 * 2
    assert (layer_bits(spec, "file"), layer_bits(spec, "bf16"), layer_bits(spec, "f32")) == (4, 16, 32)


def typed(spec: ModelSpec, type_name: str) -> ModelSpec:
    """The spec with all matrices of one type, and 8 times as large, for its blocks."""
    matrices = (t for t in spec.tensors if len(t.shape) == 2)
    wide = {t.name: replace(t, type=type_name, shape=(8 * t.shape[0], 8 * t.shape[1])) for t in matrices}
    return replace(spec, tensors=tuple(wide.get(t.name, t) for t in spec.tensors))


def test_native_kernels_hold_every_tensor_by_itself_in_its_own_bits() -> None:
    spec = make_spec()
    native = replace(HARDWARE, native="avx2")
    made, stock = plan(spec, native, wish()), plan(spec, HARDWARE, wish())
    assert (made.kernels, made.is_native) == ("native avx2", True)
    assert (stock.kernels, stock.is_native) == ("torch", False)
    assert made.bytes.weights == weight_bytes(spec, "file", True) < stock.bytes.weights
    assert made.weight_bits == weight_bits(spec, "file", True) < stock.weight_bits
    matrices = held_matrices(spec, "file", True)
    assert {matrix.held for matrix in matrices} == {"int4"}
    assert [len(matrix.words) for matrix in matrices] == [1] * (1 + 7 * 2)
    stacked = [word for matrix in held_matrices(spec, "file") for word in matrix.words]
    assert [matrix.words[0] for matrix in matrices] == stacked


@pytest.mark.parametrize(
    ("type_name", "native", "stock"),
    [
        ("Q4_0", 4, 4),
        ("Q4_1", 4, 4),
        ("Q4_K", 4, 16),
        ("Q3_K", 4, 16),
        ("Q5_0", 5, 16),
        ("Q5_1", 5, 16),
        ("Q5_K", 5, 16),
        ("Q6_K", 6, 16),
        ("Q8_0", 8, 16),
        ("Q2_K", 16, 16),
        ("F16", 16, 16),
    ],
)
def test_the_bits_of_the_layers_depend_on_the_kernels(type_name: str, native: int, stock: int) -> None:
    spec = typed(make_spec(), type_name)
    assert layer_bits(spec, "file", True) == native
    assert layer_bits(spec, "file") == stock
    assert (layer_bits(spec, "bf16", True), layer_bits(spec, "f32", True)) == (16, 32)


@pytest.mark.parametrize(
    "change",
    [
        {"hidden_size": 72},
        {"intermediate_size": 100},
        {"head_dim": 24},
        {"num_heads": 3},  # 3 · 16 columns
    ],
)
def test_a_geometry_that_native_kernels_cannot_run_is_left_to_torch(change: dict[str, int]) -> None:
    spec = make_spec()
    assert possible_kernels(spec, "file", "avx2") == "native avx2"
    assert possible_kernels(spec, "file", None) == "torch"
    assert possible_kernels(shape(spec, **change), "file", "avx2") == "torch"


def test_the_working_memory_of_native_products_is_counted(kernels: NativeLibrary) -> None:
    for spec in (make_spec(), shape(make_spec(), hidden_size=2048, intermediate_size=8192)):
        for piece in (8, 256):
            for cols in (spec.hidden_size, spec.intermediate_size):
                scratch = kernels.functions.dk_linear_scratch(piece, cols, 2)
                assert linear_scratch_bytes(piece, cols) == scratch
            assert working_bytes(spec, 100, piece, True) > scratch


def with_free(free: int | None) -> Hardware:
    return replace(HARDWARE, ram_total_bytes=16 * GB, ram_free_bytes=free)


def test_the_verdict_follows_free_memory_and_what_a_replaced_model_gives_back() -> None:
    spec = shape(make_spec(), num_layers=2, head_dim=1 << 17)  # a KV cache of some gigabytes
    need = plan(spec, with_free(None), wish()).bytes
    need_bytes = need.total - need.overhead
    assert plan(spec, with_free(need_bytes + GB), wish()).verdict == "fits"
    assert plan(spec, with_free(need_bytes + GB // 10), wish()).verdict == "tight"
    short = plan(spec, with_free(need_bytes - GB), wish())
    assert (short.verdict, short.reasons[0]) == ("no", "1.00 GB short.")
    assert plan(spec, with_free(need_bytes - GB), wish(), held_bytes=2 * GB).verdict == "fits"


def test_unknown_memory_is_never_called_a_fit() -> None:
    made = plan(make_spec(), with_free(None), wish())
    assert made.verdict == "tight"
    assert "unknown" in made.reasons[0]


@pytest.mark.parametrize("change", [{"context": 1}, {"context": 0}, {"threads": 0}, {"device": "cuda:0"}])
def test_other_wishes_that_cannot_be_met_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(WishError):
        plan(make_spec(), HARDWARE, wish(**change))


def test_a_prefill_piece_depends_on_the_model_alone_and_shrinks_with_it() -> None:
    spec = make_spec()
    assert prefill_piece(spec, "file") == 256
    big = replace(spec, tensors=tuple(replace(t, shape=(1 << 15, 1 << 15)) for t in spec.tensors))
    assert prefill_piece(big, "file") == 8


def test_quicker_kernels_take_larger_pieces_of_what_they_serve() -> None:
    spec = make_spec()
    large = replace(spec, tensors=tuple(replace(t, shape=(1 << 12, 1 << 12)) for t in spec.tensors))
    sizes = [
        prefill_piece(large, "file", f"native {name}") for name in ("scalar", "neon", "avx2", "avx512vnni")
    ]
    assert sizes == sorted(sizes)
    assert sizes[0] < prefill_piece(large, "file") < sizes[-1]
    assert prefill_piece(large, "bf16", "native avx512vnni") == prefill_piece(large, "bf16")


def test_pieces_of_dense_matrices_are_no_shorter_than_pays() -> None:
    spec = make_spec()
    big = replace(spec, tensors=tuple(replace(t, shape=(1 << 15, 1 << 15)) for t in spec.tensors))
    for kernels, format, rows in (
        ("torch", "f32", 32),
        ("torch", "bf16", 32),
        ("torch", "f16", 32),
        ("native avx2", "bf16", 32),  # torch multiplies so many rows
        ("native avx2", "f32", 16),  # and ours these
    ):
        assert prefill_piece(big, format, kernels) == rows, (kernels, format)
    assert prefill_piece(spec, "f32", "native avx2") == 16
    assert prefill_piece(big, "f32", "native avx2", is_split=True) == 32


def test_auto_is_what_is_recommended_for_a_folder(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "m", hidden_size=256, intermediate_size=512)
    spec, asked = read_spec(str(folder)), LoadSpec(str(folder), device="cpu")
    rich = plan(spec, with_free(GB), asked)
    assert (rich.format, rich.wish) == ("bf16", asked)
    needs = {
        format: plan(spec, with_free(GB), replace(asked, format=format)).bytes
        for format in ("bf16", "int8", "int4")
    }
    for format in ("bf16", "int8", "int4"):
        free = needs[format].total - needs[format].overhead + 500
        machine = replace(with_free(free), ram_total_bytes=10_000)
        assert plan(spec, machine, asked).format == format
        assert recommend(spec, machine, asked).plan.format == format
    assert plan(spec, with_free(None), asked).verdict == "tight"
