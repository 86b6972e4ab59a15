"""Held matrices as layers: products and rows in every format, in the dtype of what goes in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from engine.native.library import NativeLibrary
from engine.quant import linear
from engine.quant.formats import NATIVE_FORMATS, held_nbytes
from engine.quant.linear import DenseLinear, Int8Linear, NativeLinear, product_of_rows
from tests.engine.quant.test_dequantize import random_blocks
from tests.engine.quant.test_native_packing import all_rows, pack

BATCHES = [1, 2, 5, 8, 9, 40]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Teams of threads are the native tests' matter; products this small only wait for them."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def dense(kernels: NativeLibrary, weight: Tensor) -> NativeLinear:
    held = {torch.float32: "f32", torch.bfloat16: "bf16"}[weight.dtype]
    return NativeLinear(kernels, held, *weight.shape, weight.contiguous().view(-1).view(torch.uint8))


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("type_name", NATIVE_FORMATS)
def test_a_native_product_is_that_of_its_rows(type_name: str, batch: int, kernels: NativeLibrary) -> None:
    linear = pack(kernels, type_name, random_blocks(type_name, (40, 512)), 512)
    x = torch.randn(batch, 512, generator=torch.Generator().manual_seed(batch))
    y, weight = linear(x), all_rows(linear)
    assert (y.shape, y.dtype) == ((batch, 40), torch.float32)
    # inputs are rounded to 8 bits for every 32 of them: half a step, 1/254 of the largest, each
    steps = x.abs().view(batch, -1, 32).amax(-1) / 254
    bound = steps.repeat_interleave(32, dim=1) @ weight.abs().T
    assert ((y - x @ weight.T).abs() <= bound * 1.01 + 1e-3).all()


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 1e-2)])
def test_a_dense_native_product_is_torchs(
    dtype: torch.dtype, tolerance: float, batch: int, kernels: NativeLibrary
) -> None:
    weight, x = torch.randn(33, 96).to(dtype), torch.randn(batch, 96)
    linear = dense(kernels, weight)
    torch.testing.assert_close(linear(x), x @ weight.float().T, rtol=tolerance, atol=20 * tolerance)
    assert torch.equal(linear.rows([32, 0, 5]), weight[[32, 0, 5]].float())


def test_the_product_has_the_dtype_of_the_input_which_may_have_any_strides(kernels: NativeLibrary) -> None:
    linear = pack(kernels, "Q8_0", random_blocks("Q8_0", (20, 64)), 64)
    x = torch.randn(64, 6).T
    assert torch.equal(linear(x), linear(x.contiguous()))
    half = linear(x.bfloat16())
    assert half.dtype == torch.bfloat16
    assert torch.equal(half, linear(x.bfloat16().float()).bfloat16())


def test_a_layer_counts_its_bytes_and_names_its_kernel(kernels: NativeLibrary) -> None:
    linear = pack(kernels, "Q4_K", random_blocks("Q4_K", (20, 256)), 256)
    assert linear.nbytes == held_nbytes("int4k", 20, 256)
    assert linear.kernel == f"decodeck int4k {kernels.instruction_set}"
    assert (linear.matrix.rows, linear.matrix.cols) == (20, 256)
    assert linear.matrix.data == linear._memory.data_ptr()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_of_an_embedding_are_fresh_float32(dtype: torch.dtype, kernels: NativeLibrary) -> None:
    weight = torch.randn(10, 32).to(dtype)
    for embedding in (DenseLinear(weight), dense(kernels, weight)):
        before = weight.clone()
        rows = embedding.rows([3, 3, 9])
        assert torch.equal(rows, weight[[3, 3, 9]].float())
        rows += 1
        assert torch.equal(weight, before)
        assert embedding.nbytes == weight.nbytes


def test_products_work_in_inference_mode(kernels: NativeLibrary) -> None:
    linear = pack(kernels, "Q4_0", random_blocks("Q4_0", (16, 32)), 32)
    x = torch.randn(3, 32)
    with torch.inference_mode():
        assert torch.equal(linear(x.clone()), linear(x))


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 300.0])
def test_float16_products_are_right_beyond_its_range(batch: int, scale: float) -> None:
    generator = torch.Generator().manual_seed(batch)
    weight = torch.randn(70, 96, generator=generator).half()
    x = scale * torch.randn(batch, 96, generator=generator)
    x[0, 3] = 1e6 * scale  # massive activations of real models reach far
    y = DenseLinear(weight)(x)
    assert y.dtype == torch.float32
    torch.testing.assert_close(y, x @ weight.float().T, rtol=2e-3, atol=2e-2 * scale)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("has_fast", [True, False])
def test_products_of_many_rows_do_not_depend_on_how_a_matrix_is_converted(
    has_fast: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linear, "_has_bf16_products", lambda: has_fast)
    monkeypatch.setattr(linear, "_BLOCK_ELEMENTS", 7 * 64)  # ten blocks, the last one smaller
    weight, x = torch.randn(66, 64).to(dtype), torch.randn(20, 64)
    for inputs in (x, x.bfloat16()):
        y = product_of_rows(inputs, weight)
        assert (y.shape, y.dtype) == ((20, 66), inputs.dtype)
        torch.testing.assert_close(y.float(), x @ weight.float().T, rtol=2e-2, atol=0.2)


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("cols", [32, 80, 96, 576])
def test_eight_bits_with_a_scale_a_row_are_multiplied_and_looked_up(cols: int, batch: int) -> None:
    generator = torch.Generator().manual_seed(cols)
    values = torch.randint(-127, 128, (50, cols), generator=generator, dtype=torch.int32).to(torch.int8)
    scales = torch.rand(50, generator=generator).bfloat16()
    held, weight = Int8Linear(values, scales), values.float() * scales.float()[:, None]
    x = torch.randn(batch, cols, generator=generator)
    y = held(x)
    assert (y.shape, y.dtype) == ((batch, 50), torch.float32)
    bound = (x.abs() @ weight.abs().T) * 2**-7 + 1e-3  # inputs and products are bfloat16
    assert ((y - x @ weight.T).abs() <= bound).all()
    assert torch.equal(held.rows([49, 0, 0]), weight[[49, 0, 0]])
    assert held.nbytes == held_nbytes("int8row", 50, cols)
