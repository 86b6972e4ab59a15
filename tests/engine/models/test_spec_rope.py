"""What files say about rotary positions, B042: every spelling, the context they mean, and what is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.errors import EngineError, ModelFileError, UnsupportedModelError
from engine.models import families
from engine.models.spec import read_spec
from engine.types import ModelSpec, RopeSpec
from tests.engine.models.writers import TINY, quantized, tiny_state, write_folder, write_llama_gguf


def tiny(path: Path, **options: Any) -> str:
    return str(write_llama_gguf(path, tiny_state(), TINY, **options))


def folder(tmp_path: Path, **changes: Any) -> str:
    return str(write_folder(tmp_path / "m", tiny_state(), TINY | changes))


def spec_of(tmp_path: Path, **changes: Any) -> ModelSpec:
    return read_spec(folder(tmp_path, **changes))


def refused(path: str, kind: type[EngineError], reason: str) -> None:
    with pytest.raises(kind, match=reason) as caught:
        read_spec(path)
    assert type(caught.value) is kind


# -- GGUF ------------------------------------------------------------------------------------------------


GGUF_YARN = {
    "llama.rope.scaling.type": "yarn",
    "llama.rope.scaling.factor": 4.0,
    "llama.rope.scaling.original_context_length": 32,
}


@pytest.mark.parametrize(
    ("metadata", "rope"),
    [
        ({"llama.rope.scaling.type": "none"}, RopeSpec()),
        (
            {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0},
            RopeSpec(1e4, "linear", 4.0),
        ),
        ({"llama.rope.scale_linear": 2.0}, RopeSpec(1e4, "linear", 2.0)),
        ({"llama.rope.scale_linear": 1.0}, RopeSpec()),
        ({"llama.rope.dimension_count": 16}, RopeSpec()),
        (
            GGUF_YARN | {"llama.rope.scaling.yarn_beta_fast": 16.0},
            RopeSpec(
                1e4, "yarn", 4.0, original_context=32, beta_fast=16.0, attention_factor=1 + 0.1 * math.log(4)
            ),
        ),
    ],
)
def test_rope_options_are_read(tmp_path: Path, metadata: dict[str, object], rope: RopeSpec) -> None:
    assert read_spec(tiny(tmp_path / "a.gguf", metadata=metadata)).rope == rope


@pytest.mark.parametrize(
    ("metadata", "kind", "reason"),
    [
        ({"llama.rope.scaling.type": "yarn"}, ModelFileError, r"scaling\.factor"),
        (GGUF_YARN | {"llama.rope.scaling.attn_factor": 1.2}, UnsupportedModelError, "attention factor"),
        (GGUF_YARN | {"llama.rope.scaling.yarn_beta_fast": 0.5}, ModelFileError, "above beta_slow"),
        (GGUF_YARN | {"llama.rope.freq_base": 1.0}, ModelFileError, "more than 1"),
        ({"llama.rope.scaling.type": "longrope"}, UnsupportedModelError, "'longrope'"),
        ({"llama.rope.scaling.type": "spiral"}, UnsupportedModelError, "'spiral'"),
        ({"llama.rope.scaling.type": "linear"}, ModelFileError, r"scaling\.factor"),
        ({"llama.rope.scaling.type": 3}, ModelFileError, "not text"),
        ({"llama.rope.freq_base": 0.0}, ModelFileError, "freq_base"),
        ({"llama.rope.freq_base": float("nan")}, ModelFileError, "freq_base"),
        ({"llama.rope.dimension_count": 8}, UnsupportedModelError, "partial rotary"),
    ],
)
def test_other_rope_options_are_refused_by_name(
    tmp_path: Path, metadata: dict[str, object], kind: type[EngineError], reason: str
) -> None:
    refused(tiny(tmp_path / "a.gguf", metadata=metadata), kind, reason)


def test_yarn_stretches_the_trained_context(tmp_path: Path) -> None:
    assert read_spec(tiny(tmp_path / "a.gguf", metadata=GGUF_YARN)).trained_context == 128
    far = GGUF_YARN | {"llama.rope.scaling.original_context_length": 100}
    assert read_spec(tiny(tmp_path / "b.gguf", metadata=far)).trained_context == 400


def test_factors_of_longrope_come_in_two_tensors(tmp_path: Path) -> None:
    both = [quantized(f"rope_factors_{kind}.weight", torch.ones(8), "F32") for kind in ("long", "short")]
    context = {"llama.rope.scaling.original_context_length": 64}
    rope = read_spec(tiny(tmp_path / "a.gguf", metadata=context, extra=both)).rope
    assert (rope.scaling, rope.original_context) == ("longrope", 64)
    path = tiny(tmp_path / "b.gguf", metadata=context, extra=both[:1])
    refused(path, ModelFileError, "rope_factors_short.weight' is missing")


def test_rope_factors_of_llama_3_are_a_tensor(tmp_path: Path) -> None:
    factors = quantized("rope_freqs.weight", torch.ones(8), "F32")
    spec = read_spec(tiny(tmp_path / "a.gguf", extra=[factors]))
    assert families.tensor_names(spec)["rope_factors"] == "rope_freqs.weight"
    wrong = quantized("rope_freqs.weight", torch.ones(9), "F32")
    refused(tiny(tmp_path / "b.gguf", extra=[wrong]), ModelFileError, "rope_freqs.* needs \\[8\\]")


# -- folders ---------------------------------------------------------------------------------------------

LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}

YARN = RopeSpec(1e4, "yarn", 4.0, original_context=128, attention_factor=1 + 0.1 * math.log(4))
LONGROPE = {"rope_type": "longrope", "short_factor": [1.0] * 8, "long_factor": [2.0] * 8}


@pytest.mark.parametrize(
    ("changes", "rope"),
    [
        ({}, RopeSpec()),
        ({"rope_scaling": None, "rope_theta": 5e5}, RopeSpec(5e5)),
        ({"rope_scaling": {"type": "linear", "factor": 2}}, RopeSpec(1e4, "linear", 2.0)),
        ({"rope_scaling": {"rope_type": "linear", "factor": 2.5}}, RopeSpec(1e4, "linear", 2.5)),
        ({"rope_scaling": LLAMA3, "rope_theta": 5e5}, RopeSpec(5e5, "llama3", 8.0, 1.0, 4.0, 64)),
        ({"rope_parameters": LLAMA3 | {"rope_theta": 3e5}}, RopeSpec(3e5, "llama3", 8.0, 1.0, 4.0, 64)),
        ({"rope_parameters": {"rope_theta": 7e5, "rope_type": "default"}}, RopeSpec(7e5)),
        ({"rope_scaling": {"rope_type": "default"}, "rope_theta": 7e5}, RopeSpec(7e5)),
        (
            {"rope_scaling": {"type": "linear", "factor": 2}, "rope_parameters": {"rope_theta": 9e5}},
            RopeSpec(9e5, "linear", 2.0),
        ),
        ({"rope_scaling": {"type": "yarn", "factor": 4}}, YARN),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4}}, YARN),
        (
            {"rope_scaling": {"rope_type": "yarn", "factor": 4, "attention_factor": 1.5, "truncate": False}},
            replace(YARN, attention_factor=1.5, is_truncated=False),
        ),
        (
            {"rope_scaling": LONGROPE | {"original_max_position_embeddings": 32}},
            RopeSpec(
                1e4,
                "longrope",
                original_context=32,
                attention_factor=math.sqrt(1 + math.log(128 / 32) / math.log(32)),
                short_factors=(1.0,) * 8,
                long_factors=(2.0,) * 8,
            ),
        ),
    ],
)
def test_every_spelling_of_rope_scaling_is_read(
    tmp_path: Path, changes: dict[str, Any], rope: RopeSpec
) -> None:
    assert spec_of(tmp_path, **changes).rope == rope


@pytest.mark.parametrize(
    ("scaling", "kind", "reason"),
    [
        ({"type": "yarn", "factor": 0.5}, ModelFileError, "from 1 to"),
        ({"type": "yarn", "factor": 4, "beta_fast": 1}, ModelFileError, "above beta_slow"),
        ({"type": "yarn", "factor": 4, "rope_theta": 1}, ModelFileError, "more than 1"),
        ({"type": "longrope", "long_factor": [1.0]}, ModelFileError, "short_factor is missing"),
        (LONGROPE | {"long_factor": [1.0]}, ModelFileError, "has 1 numbers, but there are 8 pairs"),
        (LONGROPE | {"short_factor": [1.0] * 7 + [-1]}, ModelFileError, "above 0"),
        (LONGROPE | {"short_factor": [1.0] * 7 + ["2"]}, ModelFileError, "not a number"),
        (LONGROPE | {"short_factor": 2.0}, ModelFileError, "not a list"),
        ({"type": "dynamic", "factor": 2}, UnsupportedModelError, "'dynamic'"),
        ({"type": "spiral"}, UnsupportedModelError, "'spiral'"),
        ({"type": "linear", "factor": "8"}, ModelFileError, "factor is '8', not a number"),
        ({"type": "linear"}, ModelFileError, "factor is missing"),
        ({"type": "linear", "factor": 0.5}, ModelFileError, "from 1 to"),
        ({"type": "linear", "factor": 10**400}, ModelFileError, "out of any sensible range"),
        ({"type": 5}, ModelFileError, "not text"),
        ({"rope_type": "llama3", "factor": 8}, ModelFileError, "low_freq_factor is missing"),
        (LLAMA3 | {"low_freq_factor": 4.0}, ModelFileError, "below high_freq_factor"),
        ("linear", ModelFileError, "not an object"),
        ({"full_attention": {"rope_theta": 1e4}}, UnsupportedModelError, "differs from layer to layer"),
        ({"rope_type": "default", "partial_rotary_factor": 0.5}, UnsupportedModelError, "partial"),
    ],
)
def test_unknown_and_broken_rope_scaling_is_refused(
    tmp_path: Path, scaling: object, kind: type[EngineError], reason: str
) -> None:
    refused(folder(tmp_path, rope_scaling=scaling), kind, reason)


@pytest.mark.parametrize(
    ("scaling", "context"),
    [
        ({"type": "linear", "factor": 4}, 128),
        ({"type": "linear", "factor": 4, "original_max_position_embeddings": 100}, 400),
        (LLAMA3, 128),
        (LONGROPE, 128),
        ({"type": "yarn", "factor": 4}, 512),
        ({"type": "yarn", "factor": 4, "original_max_position_embeddings": 16}, 128),
    ],
)
def test_the_trained_context_follows_the_type(tmp_path: Path, scaling: dict[str, Any], context: int) -> None:
    assert spec_of(tmp_path, rope_scaling=scaling).trained_context == context
