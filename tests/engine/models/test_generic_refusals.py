"""What keeps a model from running through transformers, said by name before a weight is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.errors import EngineError, ModelFileError, UnsafeModelError, UnsupportedModelError
from engine.models.checkpoint import Checkpoint
from engine.models.generic_table import REFUSED
from engine.models.spec import read_spec, scan_folder
from tests.engine.models.built import EXACT, run, some_ids
from tests.engine.models.generic_models import build_generic, generic_folder
from tests.engine.models.writers import write_gguf
from tests.engine.tiny import oracle_logits, tiny_folder

State = dict[str, torch.Tensor]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return generic_folder(tmp_path / "m", "mixtral")


def change_config(folder: Path, **changes: Any) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return folder


def change_state(folder: Path, change: Callable[[State], State]) -> Path:
    path = folder / "model.safetensors"
    save_file(change(load_file(path)), path, {"format": "pt"})
    return folder


def refused(folder: Path, kind: type[EngineError], reason: str) -> EngineError:
    with pytest.raises(kind, match=reason) as caught:
        read_spec(str(folder))
    return caught.value


# -- from the header ---------------------------------------------------------------------------------------


def test_what_is_no_chat_model_is_refused_by_name(folder: Path) -> None:
    for model_type, why in REFUSED.items():
        change_config(folder, model_type=model_type, architectures=None)
        refused(folder, UnsupportedModelError, f"not supported: {model_type}, {why[:20]}")


@pytest.mark.parametrize(
    ("changes", "kind", "reason"),
    [
        ({"model_type": "qwen9"}, UnsupportedModelError, "not supported: MixtralForCausalLM"),
        ({"architectures": ["MixtralForTokenClassification"]}, UnsupportedModelError, "MixtralForToken"),
        ({"quantization_config": {"quant_method": "mxfp4"}}, UnsupportedModelError, "quantized .'mxfp4'"),
        ({"is_encoder_decoder": True}, UnsupportedModelError, "an encoder beside"),
        ({"num_local_experts": 1 << 30}, ModelFileError, "num_local_experts is .*65,536 are believable"),
        ({"num_hidden_layers": 500}, ModelFileError, "claims 500 layers"),
        ({"num_hidden_layers": None}, ModelFileError, "num_hidden_layers is missing"),
        ({"hidden_size": "64"}, ModelFileError, "hidden_size is '64', not a whole number"),
        ({"hidden_size": 1 << 20}, ModelFileError, "at most 131,072 are believable"),
        ({"vocab_size": None}, ModelFileError, "vocab_size is missing"),
    ],
)
def test_what_a_config_cannot_say(
    folder: Path, changes: dict[str, Any], kind: type[EngineError], reason: str
) -> None:
    refused(change_config(folder, **changes), kind, reason)


def test_pickled_weights_are_refused(folder: Path) -> None:  # B039
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert "safetensors" in refused(folder, UnsafeModelError, "Python pickle").hint


def test_weights_in_8_bits_of_their_own_kind_are_refused(folder: Path) -> None:
    change_state(folder, lambda state: {name: x.to(torch.float8_e4m3fn) for name, x in state.items()})
    refused(folder, UnsupportedModelError, "has the type F8_E4M3")


def test_a_gguf_of_such_an_architecture_stays_refused_by_name(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", {"general.architecture": "qwen3moe"}, [])
    refused(path, EngineError, "qwen3moe|no weights")


# -- code of a folder --------------------------------------------------------------------------------------


def with_code(folder: Path, marker: Path, **changes: Any) -> Path:
    (folder / "modeling_x.py").write_text(f"open({str(marker)!r}, 'w')\n")
    auto_map = {"AutoModelForCausalLM": "modeling_x.X", "AutoConfig": "modeling_x.Y"}
    return change_config(folder, auto_map=auto_map, trust_remote_code=True, **changes)


def test_an_architecture_that_needs_code_is_unsafe(folder: Path, tmp_path: Path) -> None:  # B040
    with_code(folder, tmp_path / "marker", model_type="own", architectures=["OwnForCausalLM"])
    refused(folder, UnsafeModelError, "Python code of its own")
    assert [type(result) for _, result in scan_folder(str(tmp_path))] == [UnsafeModelError]


def test_code_beside_a_known_architecture_is_never_run(folder: Path, tmp_path: Path) -> None:  # B040
    ids = some_ids(12)
    expected = oracle_logits(folder, ids)
    with_code(folder, tmp_path / "marker")
    torch.testing.assert_close(run(build_generic(folder), ids, [12]), expected, **EXACT)
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize(
    "values",
    [
        {"attn_implementation": "someone/kernels", "_attn_implementation": "someone/kernels"},
        {"experts_implementation": "someone/kernels", "fusion_config": {"patch_embeddings": True}},
        {"output_attentions": True, "output_hidden_states": True, "output_router_logits": True},
        {"use_cache": False, "return_dict": False, "torch_dtype": "float16", "dtype": "bfloat16"},
        {"transformers_weights": "other.safetensors"},
    ],
)
def test_what_a_config_says_of_how_to_compute_is_not_followed(folder: Path, values: dict[str, Any]) -> None:
    ids = some_ids(12)
    expected = oracle_logits(folder, ids)
    change_config(folder, **values)
    torch.testing.assert_close(run(build_generic(folder), ids, [5]), expected, **EXACT)


# -- from the names and shapes of tensors, before one is read ----------------------------------------------


def without(name: str) -> Callable[[State], State]:
    return lambda state: {each: tensor for each, tensor in state.items() if name not in each}


def resized(name: str) -> Callable[[State], State]:
    return lambda state: {n: x[:-1].contiguous() if name in n else x for n, x in state.items()}


@pytest.mark.parametrize(
    ("change", "kind", "reason"),
    [
        (without("lm_head"), ModelFileError, r"'lm_head\.weight' is missing"),
        (without("embed_tokens"), ModelFileError, r"embed_tokens\.weight' is missing"),
        (without("layers.1.input_layernorm"), ModelFileError, r"input_layernorm\.weight' is missing"),
        (resized("layers.1.self_attn.q_proj"), ModelFileError, r"shape \[63, 64\],.*needs \[64, 64\]"),
        (
            lambda state: state | {"model.layers.0.self_attn.q_proj.bias": torch.zeros(64)},
            UnsupportedModelError,
            r"MixtralForCausalLM does not know \('model\.layers\.0\.self_attn\.q_proj\.bias'",
        ),
        (
            lambda state: state | {"model.norm.weight": torch.zeros(64, dtype=torch.int32)},
            UnsupportedModelError,
            "has the type I32",
        ),
    ],
)
def test_tensors_that_do_not_belong_are_named_before_any_is_read(
    folder: Path,
    change: Callable[[State], State],
    kind: type[EngineError],
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    change_state(folder, change)

    def fail(*_: object) -> None:
        raise AssertionError("a weight was read")

    monkeypatch.setattr(Checkpoint, "read_into", fail)
    with pytest.raises(kind, match=reason):
        build_generic(folder)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (without("experts.3.w1"), "is not one of 4 alike"),
        (without("experts.2"), "is not one of 4 alike"),
        (resized("experts.2.w1"), "is not one of 4 alike"),
        (resized(".w1."), "is of 191 rows where the model has 192"),
    ],
)
def test_experts_that_do_not_fit_together_are_named(
    folder: Path, change: Callable[[State], State], reason: str
) -> None:
    with pytest.raises(ModelFileError, match=rf"experts\.0\.w[123]\.weight' {reason}"):
        build_generic(change_state(folder, change))


def test_a_config_that_contradicts_itself_is_an_error_about_the_model(folder: Path) -> None:
    change_config(folder, num_attention_heads=5)
    with pytest.raises(EngineError, match=r"shape|transformers cannot run this mixtral"):
        build_generic(folder)


# -- the lean decoder's own families -----------------------------------------------------------------------


def test_an_option_the_lean_decoder_lacks_runs_through_transformers(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "m", family="gemma3_text", head_dim=16, attn_logit_softcapping=3.0)
    spec, ids = read_spec(str(folder)), some_ids(30)
    assert spec.generic is not None
    assert spec.generic.reason == "the model uses soft-capped attention (attn_logit_softcapping = 3.0)"
    torch.testing.assert_close(run(build_generic(folder), ids, [13]), oracle_logits(folder, ids), **EXACT)


def test_an_activation_the_lean_decoder_lacks_runs_through_transformers(tmp_path: Path) -> None:
    folder, ids = tiny_folder(tmp_path / "m", hidden_act="gelu"), some_ids(30)
    generic = read_spec(str(folder)).generic
    assert generic is not None
    assert generic.reason.startswith("the activation 'gelu'")
    torch.testing.assert_close(run(build_generic(folder), ids, [13]), oracle_logits(folder, ids), **EXACT)


def test_attention_that_looks_ahead_is_not_a_decoder_in_any_hands(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "m", family="gemma3_text", head_dim=16, use_bidirectional_attention=True)
    refused(folder, UnsupportedModelError, "looks ahead")


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ({"num_local_experts": 4}, "mixture of experts"),
        ({"attn_logit_softcapping": 3.0}, "soft-capped"),
        ({"hidden_act": "gelu", "num_experts": 4}, "'gelu'|mixture of experts"),
    ],
)
def test_an_option_that_transformers_would_leave_out_is_refused(
    option: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    refused(change_config(tiny_folder(tmp_path / "m"), **option), UnsupportedModelError, reason)


@pytest.mark.parametrize("is_tied", [False, True])
@pytest.mark.parametrize("prefix", ["language_model.model.", "model.language_model."])
def test_the_language_model_of_a_larger_one_is_run_without_its_eyes(
    prefix: str, is_tied: bool, tmp_path: Path
) -> None:
    folder, ids = generic_folder(tmp_path / "m", "qwen3_moe", tie_word_embeddings=is_tied), some_ids(20)
    expected = oracle_logits(folder, ids)
    head = "language_model.lm_head.weight" if prefix.startswith("language") else "lm_head.weight"

    def larger(state: State) -> State:
        named = {name.replace("model.", prefix, 1): tensor for name, tensor in state.items()}
        if not is_tied:
            named[head] = named.pop("lm_head.weight")
        return named | {"model.visual.patch_embed.weight": torch.zeros(3, 3)}

    change_state(folder, larger)
    text = json.loads((folder / "config.json").read_text())
    tie = text.pop("tie_word_embeddings")
    config = {"model_type": "vl", "architectures": ["VL"], "text_config": text, "tie_word_embeddings": tie}
    (folder / "config.json").write_text(json.dumps(config))
    spec = read_spec(str(folder))
    assert not any("visual" in tensor.name for tensor in spec.tensors)
    torch.testing.assert_close(run(build_generic(folder), ids, [20]), expected, **EXACT)
