"""Which tensor gets which type, and how large the shapes are."""

from __future__ import annotations

import math

import pytest

from app.bench.model_types import SHAPES, Shape, parse_mix, shape_named
from engine.errors import WishError


def num_params(shape: Shape) -> int:
    return shape.vocab * shape.hidden + shape.layers * sum(map(math.prod, shape.matrices().values()))


@pytest.mark.parametrize(("name", "billions"), [("0.5B", 0.49), ("1B", 1.07), ("3B", 2.97)])
def test_a_shape_has_about_the_parameters_of_its_name(name: str, billions: float) -> None:
    assert num_params(SHAPES[name]) / 1e9 == pytest.approx(billions, abs=0.005)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=lambda shape: shape.name)
def test_rows_hold_whole_blocks_of_every_type(shape: Shape) -> None:
    assert all(cols % 256 == 0 for _, cols in shape.matrices().values())
    assert shape.heads % shape.kv_heads == 0


def test_a_single_type_is_everywhere() -> None:
    mix = parse_mix("Q5_1")
    assert {mix.of(name, layer, 16) for name in ("attn_v", "ffn_up") for layer in range(16)} == {"Q5_1"}
    assert mix.head == "Q5_1"


def test_a_k_mix_favours_the_head_and_half_of_the_values_and_down_projections() -> None:
    mix = parse_mix("Q4_K_M")
    for favoured in ("attn_v", "ffn_down"):
        layers = [layer for layer in range(16) if mix.of(favoured, layer, 16) == "Q6_K"]
        assert layers == [0, 1, 4, 7, 10, 13, 14, 15]
    assert {mix.of("attn_q", layer, 16) for layer in range(16)} == {"Q4_K"}
    assert mix.head == "Q6_K"


def test_named_tensors_can_be_changed() -> None:
    mix = parse_mix("Q4_K_M,head=Q8_0,ffn_down=F16")
    assert (mix.head, mix.of("ffn_down", 0, 16), mix.of("attn_v", 0, 16)) == ("Q8_0", "F16", "Q6_K")


@pytest.mark.parametrize(
    "text", ["", "Q9_9", "Q4_0,head", "Q4_0,head=Q9_9", "Q4_0,nose=Q8_0", "IQ4_XS", "Q2_K"]
)
def test_what_cannot_be_made_is_refused(text: str) -> None:
    with pytest.raises(WishError):
        parse_mix(text)


def test_an_unknown_shape_is_refused_with_the_known_ones() -> None:
    with pytest.raises(WishError, match=r"0\.5B, 1B, 3B"):
        shape_named("2B")
