"""The options that descriptions of every family become, and the families and options that are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.errors import EngineError, ModelFileError, UnsupportedModelError
from engine.models.families import tensor_names
from engine.models.spec import read_spec
from engine.types import DecoderOptions, LayerOptions, ModelSpec, RopeSpec
from tests.engine.models.family_writer import write_family_gguf
from tests.engine.models.writers import TINY, tiny_state, write_folder
from tests.engine.tiny import FAMILIES, tiny_folder


def spec_of(tmp_path: Path, **changes: Any) -> ModelSpec:
    """A folder with a Llama's tensors and another description."""
    config = TINY | changes
    return read_spec(str(write_folder(tmp_path / "m", tiny_state(config), config)))


def refused(place: Path, kind: type[EngineError], reason: str) -> None:
    with pytest.raises(kind, match=reason) as caught:
        read_spec(str(place))
    assert type(caught.value) is kind


def named(model_type: str, name: str) -> dict[str, Any]:
    return {"model_type": model_type, "architectures": [f"{name}ForCausalLM"]}


# -- options -----------------------------------------------------------------------------------------------


def test_a_llama_has_no_options(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    assert spec.options == DecoderOptions()
    assert spec.layers == (LayerOptions(None, RopeSpec()),) * 2
    assert spec.ropes == (RopeSpec(),)


OPTIONS: dict[str, dict[str, Any]] = {
    "mistral nemo": {},
    "qwen 2": {"biases": ("qkv",)},
    "qwen 3": {"qk_norm": "head"},
    "gemma": {"activation": "gelu_tanh", "embedding_scale": 8.0},
    "gemma 2": {
        "activation": "gelu_tanh",
        "embedding_scale": 8.0,
        "post_norms": True,
        "attention_cap": 3.0,
        "logit_cap": 5.0,
    },
    "gemma 3": {
        "activation": "gelu_tanh",
        "embedding_scale": 8.0,
        "post_norms": True,
        "qk_norm": "head",
    },
    "phi 4 mini": {"rotary_dim": 12},
    "granite": {
        "embedding_scale": 6.0,
        "residual_scale": 0.4,
        "attention_scale": 0.1,
        "logit_divisor": 3.0,
    },
    "granite with biases": {"attention_scale": 0.25, "biases": ("qkv", "o", "gate_up", "down")},
    "olmo 2": {"pre_norms": False, "post_norms": True, "qk_norm": "all"},
}


@pytest.mark.parametrize("family", OPTIONS)
@pytest.mark.parametrize("source", ["folder", "gguf"])
def test_a_family_is_its_options(family: str, source: str, tmp_path: Path) -> None:
    place = tiny_folder(tmp_path / "m", **FAMILIES[family])
    if source == "gguf":
        place = write_family_gguf(tmp_path / "m.gguf", place)
    spec = read_spec(str(place))
    expected = DecoderOptions(**OPTIONS[family])
    for name in DecoderOptions.__dataclass_fields__:
        if name not in ("layers", "attention_scale"):
            assert getattr(spec.options, name) == pytest.approx(getattr(expected, name)), name
    assert spec.attention_scale == pytest.approx(expected.attention_scale or spec.head_dim**-0.5)


@pytest.mark.parametrize("source", ["folder", "gguf"])
def test_layers_differ_in_window_and_rotation(source: str, tmp_path: Path) -> None:
    def layers(family: str) -> tuple[LayerOptions, ...]:
        place = tiny_folder(tmp_path / family, **FAMILIES[family])
        if source == "gguf":
            place = write_family_gguf(tmp_path / f"{family}.gguf", place)
        return read_spec(str(place)).layers

    local, everything = LayerOptions(8, RopeSpec(1e3)), LayerOptions(None, RopeSpec(1e5, "linear", 4.0))
    assert layers("gemma 3") == (local,) * 5 + (everything,)
    assert [layer.sliding_window for layer in layers("gemma 2")] == [8, None, 8]
    assert [layer.sliding_window for layer in layers("olmo 3")] == [8, 8, 8, None]
    assert [layer.rope.scaling for layer in layers("olmo 3") if layer.rope] == ["none"] * 3 + ["yarn"]
    assert [bool(layer.rope) for layer in layers("smollm 3")] == [True, True, True, False, True]
    assert {layer.sliding_window for layer in layers("phi 3 with a window")} == {8}


def test_windows_of_a_qwen_begin_where_its_config_says(tmp_path: Path) -> None:
    spec = read_spec(str(tiny_folder(tmp_path / "a", **FAMILIES["qwen 2 with windows"])))
    assert [layer.sliding_window for layer in spec.layers] == [None, 8, 8]
    spec = read_spec(str(tiny_folder(tmp_path / "b", family="qwen2", sliding_window=8)))
    assert spec.sliding_window is None  # the flag is off


def test_mistral_has_a_window_unless_it_says_null(tmp_path: Path) -> None:
    mistral = named("mistral", "Mistral")
    assert spec_of(tmp_path, **mistral).sliding_window == 4096
    assert spec_of(tmp_path, **mistral, sliding_window=None).sliding_window is None
    assert spec_of(tmp_path, **mistral, sliding_window=8).sliding_window == 8
    assert spec_of(tmp_path, **mistral).architecture == "mistral"


def test_null_key_heads_mean_one_for_each_head(tmp_path: Path) -> None:
    assert spec_of(tmp_path, **named("mistral", "Mistral"), num_key_value_heads=None).num_kv_heads == 4


def test_the_largest_gemmas_scale_scores_by_their_width(tmp_path: Path) -> None:
    for family, layers in (("gemma 2", 46), ("gemma 3", 62)):
        changes = FAMILIES[family] | {"num_hidden_layers": layers, "query_pre_attn_scalar": 64 // 4}
        folder = tiny_folder(tmp_path / family, **changes)
        gguf = write_family_gguf(tmp_path / f"{family}.gguf", folder)
        for place in (folder, gguf):
            assert read_spec(str(place)).attention_scale == pytest.approx(16**-0.5)


def test_a_gemma_inside_a_larger_model_needs_few_words(tmp_path: Path) -> None:
    """The published configs leave out what the architecture's defaults are."""
    inner = tmp_path / "inner"
    tiny_folder(inner, family="gemma3_text", head_dim=256, num_attention_heads=8, num_key_value_heads=4)
    written = read_spec(str(inner))
    state = {
        name.replace("model.", "language_model.model.", 1): torch.zeros(shape)
        for name, shape in ((tensor.name, tensor.shape) for tensor in written.tensors)
        if name != "lm_head.weight"
    }
    text = {
        "model_type": "gemma3_text",
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 3,
        "vocab_size": written.vocab_size,
        "sliding_window": 1024,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
    }
    config = {
        "model_type": "gemma3",
        "architectures": ["Gemma3ForConditionalGeneration"],
        "text_config": text,
    }
    spec = read_spec(str(write_folder(tmp_path / "m", state, config)))
    assert (spec.num_heads, spec.num_kv_heads, spec.head_dim) == (8, 4, 256)
    assert (spec.tied_embeddings, spec.trained_context) == (True, 131_072)
    assert spec.rope == RopeSpec(1e6, "linear", 8.0)
    assert spec.layers == (LayerOptions(1024, RopeSpec(1e4)),) * 3


# -- tensors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["folder", "gguf"])
def test_fused_tensors_are_the_parts_they_hold(source: str, tmp_path: Path) -> None:
    place = tiny_folder(tmp_path / "m", family="phi3")
    if source == "gguf":
        place = write_family_gguf(tmp_path / "m.gguf", place, "Q4_0")
    spec = read_spec(str(place))
    stored, names = {tensor.name: tensor for tensor in spec.tensors}, tensor_names(spec)
    q, k, v, gate, up = (stored[names[f"layers.1.{word}"]] for word in ("q", "k", "v", "gate", "up"))
    assert [each.shape for each in (q, k, v, gate, up)] == [(64, 64), (32, 64), (32, 64), (96, 64), (96, 64)]
    assert q.offset + q.nbytes == k.offset and k.offset + k.nbytes == v.offset
    assert gate.offset + gate.nbytes == up.offset


def test_a_fused_tensor_of_other_heads_is_refused(tmp_path: Path) -> None:
    place = tiny_folder(tmp_path / "m", family="phi3")
    text = (place / "config.json").read_text()
    (place / "config.json").write_text(text.replace('"num_key_value_heads": 2', '"num_key_value_heads": 4'))
    refused(place, ModelFileError, r"qkv_proj.*needs 64 \+ 64 \+ 64 rows")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_tensor_that_an_option_needs_must_be_there(family: str, tmp_path: Path) -> None:
    """Left out one by one: a norm, a bias, a fused matrix."""
    place = tiny_folder(tmp_path / "m", **FAMILIES[family])
    names = [name for name in tensor_names(read_spec(str(place))).values() if ".layers.1." in name]
    state: dict[str, Tensor] = load_file(place / "model.safetensors")
    for name in [name for name in names if name in state]:
        save_file({k: v for k, v in state.items() if k != name}, place / "model.safetensors")
        refused(place, ModelFileError, f"'{name}' is missing")


# -- refusals ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "kind", "reason"),
    [
        (named("qwen9_moe", "Qwen9Moe"), UnsupportedModelError, "not supported: Qwen9MoeForCausalLM"),
        (named("bert", "Bert"), UnsupportedModelError, "not supported: bert, an encoder"),
        (
            {"model_type": "qwen2", "architectures": ["Qwen2ForSequenceClassification"]},
            UnsupportedModelError,
            "Qwen2ForSequenceClassification",
        ),
        (named("phi3", "Phi3") | {"partial_rotary_factor": 0.2}, ModelFileError, "no whole pairs of 16"),
        (
            named("gemma3_text", "Gemma3") | {"use_bidirectional_attention": True},
            UnsupportedModelError,
            "looks ahead",
        ),
        (
            named("qwen3", "Qwen3") | {"attn_logit_softcapping": 30.0},
            UnsupportedModelError,
            "soft-capped attention",
        ),
        (named("gemma2", "Gemma2") | {"layer_types": ["full_attention"]}, ModelFileError, "list of 2 types"),
        (
            named("gemma2", "Gemma2") | {"layer_types": ["full_attention", "chunked_attention"]},
            UnsupportedModelError,
            "'chunked_attention'",
        ),
        (named("gemma2", "Gemma2") | {"layer_types": [1, []]}, UnsupportedModelError, "layers of the type 1"),
        (named("gemma2", "Gemma2") | {"final_logit_softcapping": -1}, ModelFileError, "above 0"),
        (named("gemma2", "Gemma2") | {"query_pre_attn_scalar": "256"}, ModelFileError, "not a number"),
        (
            named("gemma2", "Gemma2") | {"hidden_activation": "gelu", "num_experts": 8},
            UnsupportedModelError,
            "mixture of experts",
        ),
        (named("smollm3", "SmolLM3") | {"no_rope_layers": [1]}, ModelFileError, "zeros and ones"),
        (named("smollm3", "SmolLM3") | {"no_rope_layers": [1, 2]}, ModelFileError, "zeros and ones"),
        (named("smollm3", "SmolLM3") | {"no_rope_layer_interval": 0}, ModelFileError, "sensible range"),
        (named("gemma3_text", "Gemma3") | {"sliding_window_pattern": 0}, ModelFileError, "sensible range"),
        (
            named("gemma3_text", "Gemma3") | {"rope_parameters": {"full_attention": {}, "other": {}}},
            UnsupportedModelError,
            "differs from layer to layer",
        ),
        (
            named("gemma3_text", "Gemma3")
            | {"rope_parameters": {"sliding_attention": {"rope_type": "yarn"}}},
            UnsupportedModelError,
            "layers with a sliding window",
        ),
        (
            named("gemma3_text", "Gemma3")
            | {"rope_parameters": {"full_attention": 3, "sliding_attention": {}}},
            ModelFileError,
            "no object",
        ),
    ],
)
def test_what_cannot_run_is_refused_by_name(
    tmp_path: Path, changes: dict[str, Any], kind: type[EngineError], reason: str
) -> None:
    refused(write_folder(tmp_path / "m", tiny_state(), TINY | changes), kind, reason)


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({"general.architecture": "qwen3moe"}, "not supported: qwen3moe"),
        ({"general.architecture": "mamba"}, "not supported: mamba"),
        ({"general.architecture": "t5"}, "not supported: t5"),
        ({"gemma2.expert_count": 8}, "mixture of experts"),
        ({"gemma2.logit_scale": 2.0}, "scaled logits"),
        ({"gemma2.rope.dimension_count": 64}, "only 64 of 32"),
        ({"gemma2.attention.sliding_window_pattern": [True]}, "is not a list of 3 flags"),
        ({"gemma2.attention.sliding_window_pattern": [1, 0, 1]}, "is not a list of 3 flags"),
        ({"gemma2.final_logit_softcapping": -3.0}, "above 0"),
    ],
)
def test_what_a_gguf_cannot_have_is_refused_by_name(
    tmp_path: Path, metadata: dict[str, object], reason: str
) -> None:
    folder = tiny_folder(tmp_path / "m", **FAMILIES["gemma 2"])
    place = write_family_gguf(tmp_path / "m.gguf", folder, metadata=metadata)
    with pytest.raises((ModelFileError, UnsupportedModelError), match=reason):
        read_spec(str(place))
