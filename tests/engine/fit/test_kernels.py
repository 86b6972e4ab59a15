"""The choice between two homes: what is worth a measurement, and what measured times mean for a plan."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.fit.bytes import weight_bytes
from engine.fit.kernels import STOCK_LAYER_US, chosen_kernels, kernel_name, kernel_pair, read_matrices
from engine.fit.plan import plan
from engine.machine import Hardware, KernelPair, KernelTimes
from engine.quant.formats import held_nbytes
from engine.types import LoadSpec, ModelSpec
from tests.fakes import HARDWARE, make_spec

NATIVE = replace(HARDWARE, native="avx2")
SCALE = 32


def large_spec(type_name: str = "Q4_0", vocab: int = 1024) -> ModelSpec:
    """The header of a model of some 50 million parameters, all its matrices of one type."""
    small, tensors = make_spec(), []
    for tensor in small.tensors:
        shape = tuple(SCALE * size for size in tensor.shape)
        shape = (vocab, shape[1]) if "token_embd" in tensor.name else shape
        tensors.append(replace(tensor, shape=shape, type=type_name if len(shape) == 2 else "F32"))
    sizes = {name: SCALE * getattr(small, name) for name in ("hidden_size", "intermediate_size", "head_dim")}
    return replace(small, tensors=tuple(tensors), vocab_size=vocab, **sizes)


def measured(spec: ModelSpec, native_us: float, stock_us: float, format: str = "file") -> Hardware:
    """The machine after a measurement of the model's matrix."""
    pair = kernel_pair(spec, format, 2)
    assert pair is not None
    return replace(NATIVE, kernel_times=(KernelTimes(pair, native_us, stock_us),))


@pytest.mark.parametrize(
    ("type_name", "format", "expected"),
    [
        ("Q4_0", "file", ("int4", "int4g32")),
        ("Q4_1", "file", ("int4z", "int4g32")),
        ("Q4_0", "bf16", ("bf16", "bf16")),
        ("F16", "file", ("bf16", "bf16")),
        ("Q8_0", "f32", ("f32", "f32")),
    ],
)
def test_a_pair_is_the_most_read_matrix_in_two_homes_of_the_same_bits(
    type_name: str, format: str, expected: tuple[str, str]
) -> None:
    pair = kernel_pair(large_spec(type_name), format, 3)
    assert pair == KernelPair(*expected, rows=3072, cols=2048, threads=3)  # gate and up, twice each


@pytest.mark.parametrize("type_name", ["Q8_0", "Q4_K", "Q6_K", "Q5_1"])
def test_bits_that_torch_has_no_home_for_leave_nothing_to_choose(type_name: str) -> None:
    assert kernel_pair(large_spec(type_name), "file", 2) is None


def test_a_home_that_takes_far_more_memory_is_none() -> None:
    spec = large_spec("Q4_0", vocab=10_000)  # the embedding is held at 16 bits
    assert weight_bytes(spec, "file", False) > 1.5 * weight_bytes(spec, "file", True)
    assert kernel_pair(spec, "file", 2) is None


def test_a_tiny_model_and_an_odd_geometry_are_not_worth_a_measurement() -> None:
    assert kernel_pair(make_spec(), "f32", 2) is None
    assert kernel_pair(replace(large_spec(), head_dim=24), "f32", 2) is None


def test_a_huge_matrix_is_timed_by_some_of_its_rows() -> None:
    pair = kernel_pair(large_spec("BF16", vocab=1 << 20), "bf16", 2)
    assert pair is not None
    assert (pair.rows, pair.cols) == (8192, 2048)


def test_ours_are_taken_until_times_say_otherwise() -> None:
    spec = large_spec()
    assert chosen_kernels(spec, "file", 2, NATIVE) == "native avx2"
    assert chosen_kernels(spec, "file", 2, measured(spec, 100.0, 100.0)) == "native avx2"
    assert chosen_kernels(spec, "file", 2, measured(spec, 1000.0, 10.0)) == "torch"
    assert chosen_kernels(spec, "file", 2, HARDWARE) == "torch"


def test_times_of_another_format_or_number_of_threads_say_nothing() -> None:
    spec = large_spec()
    slow = measured(spec, 1000.0, 10.0)
    assert chosen_kernels(spec, "file", 1, slow) == "native avx2"
    assert chosen_kernels(spec, "f32", 2, slow) == "native avx2"


def test_the_small_operations_of_torchs_step_and_the_bytes_of_each_home_count() -> None:
    spec = large_spec()
    ours, stock = (
        sum(m.nbytes for m in read_matrices(spec, "file", is_native)) / held_nbytes(held, 3072, 2048)
        for is_native, held in ((True, "int4"), (False, "int4g32"))
    )
    assert stock > ours  # its tied head is held at 16 bits
    even = (2 * spec.num_layers * STOCK_LAYER_US + 100.0 * stock) / ours
    assert chosen_kernels(spec, "file", 2, measured(spec, 0.99 * even, 100.0)) == "native avx2"
    assert chosen_kernels(spec, "file", 2, measured(spec, 1.01 * even, 100.0)) == "torch"


def test_a_plan_counts_the_bytes_of_the_home_that_is_taken() -> None:
    spec, wish = large_spec(), LoadSpec("/models/tiny.gguf")
    made = plan(spec, measured(spec, 1000.0, 10.0), wish, held_bytes=5)
    assert (made.kernels, made.is_native) == ("torch", False)
    assert made.bytes.weights == weight_bytes(spec, "file", False)
    assert made.free_bytes == (HARDWARE.ram_free_bytes or 0) + 5
    assert plan(spec, made.hardware, wish) == made  # it can be made again from what it carries


def test_a_kernel_has_the_name_that_its_layer_gives_itself() -> None:
    assert kernel_name("int4z", "native avx2") == "decodeck int4z avx2"
    assert [kernel_name(held, "torch") for held in ("f32", "bf16", "int4g32")] == [
        "torch f32",
        "torch bf16",
        "torch int4pack",
    ]
