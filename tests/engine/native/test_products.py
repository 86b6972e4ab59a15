"""Products of one input with several matrices: in one native call, with the bits they have alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from engine.models.decoder import Decoder
from engine.native.library import NativeLibrary
from engine.quant.linear import DenseLinear, products
from tests.engine.models.test_load import load, make_plan, write_model


@pytest.fixture
def decoder(request: pytest.FixtureRequest, kernels: NativeLibrary, tmp_path: Path) -> Decoder:
    path = write_model(tmp_path / "m.gguf", {}, request.param)
    return load(make_plan(path, "file", kernels.instruction_set))


@pytest.mark.parametrize("decoder", ["Q4_0", "Q6_K", "BF16"], indirect=True)
def test_products_together_have_the_bits_they_have_alone(decoder: Decoder) -> None:
    layer = decoder._weights.layers[0]
    for linears in (layer.qkv, layer.gate_up, (*layer.qkv, *layer.gate_up), layer.qkv[:1]):
        for rows in (1, 8, 9, 150):
            x = torch.randn(rows, decoder._spec.hidden_size)
            together = products(linears, x)
            for found, linear in zip(together, linears, strict=True):
                assert torch.equal(found, linear(x)), (rows, linear.kernel)


@pytest.mark.parametrize("decoder", ["Q4_0"], indirect=True)
def test_matrices_of_other_kernels_among_them_are_multiplied_one_by_one(decoder: Decoder) -> None:
    layer, x = decoder._weights.layers[0], torch.randn(20, decoder._spec.hidden_size)
    dense = DenseLinear(torch.randn(32, decoder._spec.hidden_size))
    found = products((layer.qkv[0], dense), x)
    assert torch.equal(found[0], layer.qkv[0](x))
    assert torch.equal(found[1], dense(x))
