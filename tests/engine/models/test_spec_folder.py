"""From Hugging Face folders to specs: config values, weight files, and what is never run."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.errors import EngineError, ModelFileError, UnsafeModelError, UnsupportedModelError
from engine.fit.bytes import weight_bytes
from engine.models import families
from engine.models.spec import read_spec, scan_folder
from engine.types import ModelSpec
from tests.engine.models.writers import TINY, tiny_state, write_folder, write_llama_gguf
from tests.engine.tiny import tiny_folder

SHARDS = [f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3)]


def folder(tmp_path: Path, config: dict[str, Any] | None = None, **changes: Any) -> Path:
    config = TINY | (config or {}) | changes
    return write_folder(tmp_path / "m", tiny_state(config), config)


def spec_of(tmp_path: Path, **changes: Any) -> ModelSpec:
    return read_spec(str(folder(tmp_path, **changes)))


def refused(path: Path, kind: type[EngineError], reason: str) -> EngineError:
    with pytest.raises(kind, match=reason) as caught:
        read_spec(str(path))
    assert type(caught.value) is kind
    return caught.value


def test_a_folder_says_what_it_is(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    assert (spec.path, spec.source, spec.name) == (str(tmp_path / "m"), "safetensors", "m")
    assert (spec.num_layers, spec.hidden_size, spec.intermediate_size, spec.vocab_size) == (2, 64, 96, 96)
    assert (spec.num_heads, spec.num_kv_heads, spec.head_dim, spec.trained_context) == (4, 2, 16, 128)
    assert spec.files == (str(tmp_path / "m" / "model.safetensors"),)
    assert not families.family(spec).permuted_qk
    names, shapes = families.tensor_names(spec), families.tensor_shapes(spec)
    stored = {tensor.name: tensor.shape for tensor in spec.tensors}
    assert {word: stored[name] for word, name in names.items()} == {word: shapes[word] for word in names}


@pytest.mark.parametrize("file", ["model.safetensors", "config.json"])
def test_a_file_inside_stands_for_its_folder(tmp_path: Path, file: str) -> None:
    place = folder(tmp_path)
    assert read_spec(str(place / file)) == read_spec(str(place))


@pytest.mark.parametrize(
    "changes",
    [{}, {"tie_word_embeddings": True}, {"sliding_window": 8}, {"head_dim": 32}, {"rope_theta": 5e5}],
)
def test_what_transformers_saves_is_read(tmp_path: Path, changes: dict[str, Any]) -> None:
    (tmp_path / "t").mkdir()
    spec = read_spec(str(tiny_folder(tmp_path / "t", **changes)))
    assert spec.architecture == ("mistral" if "sliding_window" in changes else "llama")
    assert spec.sliding_window == changes.get("sliding_window")
    assert spec.tied_embeddings == changes.get("tie_word_embeddings", False)
    assert spec.head_dim == changes.get("head_dim", 16)
    assert spec.trained_context == 512


# -- B043 ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "head_dim"),
    [
        ({"head_dim": 32}, 32),
        ({"hidden_size": 60, "num_attention_heads": 8, "head_dim": 16}, 16),
        ({"head_dim": None}, 16),
    ],
)
def test_the_head_size_is_the_stated_one_and_null_means_hidden_over_heads(
    tmp_path: Path, changes: dict[str, Any], head_dim: int
) -> None:
    spec = spec_of(tmp_path, **changes)
    assert spec.head_dim == head_dim
    shapes = {tensor.name: tensor.shape for tensor in spec.tensors}
    assert shapes["model.layers.0.self_attn.q_proj.weight"][0] == spec.num_heads * head_dim


def test_heads_that_do_not_divide_hidden_need_a_stated_size(tmp_path: Path) -> None:
    place = folder(tmp_path, hidden_size=60, num_attention_heads=8, head_dim=16)
    config = TINY | {"hidden_size": 60, "num_attention_heads": 8}
    (place / "config.json").write_text(json.dumps(config))
    refused(place, ModelFileError, "does not divide hidden_size 60")


# -- B041 ------------------------------------------------------------------------------------------------


def tied_folder(tmp_path: Path, case: str) -> Path:
    tied = case in "abd"
    state = tiny_state(TINY | {"tie_word_embeddings": case in "ade"})
    config: dict[str, Any] = TINY | {"tie_word_embeddings": tied}
    if case == "d":
        config = {"model_type": "llama", "text_config": config, "architectures": ["Whatever"]}
    return write_folder(tmp_path / case, state, config)


@pytest.mark.parametrize("case", ["a", "b", "d"])
def test_a_tied_head_is_the_embedding_and_counts_once(tmp_path: Path, case: str) -> None:
    spec = read_spec(str(tied_folder(tmp_path, case)))
    assert spec.tied_embeddings
    assert "head" not in families.tensor_names(spec)
    body = sum(weight.numel() for weight in tiny_state(TINY | {"tie_word_embeddings": True}).values())
    assert spec.num_params == body
    assert weight_bytes(spec, "f32") == 4 * body


def test_an_untied_head_counts_too(tmp_path: Path) -> None:
    spec = read_spec(str(tied_folder(tmp_path, "c")))
    assert families.tensor_names(spec)["head"] == "lm_head.weight"
    assert weight_bytes(spec, "f32") == 4 * sum(weight.numel() for weight in tiny_state().values())


def test_an_untied_model_without_head_is_refused(tmp_path: Path) -> None:
    refused(tied_folder(tmp_path, "e"), ModelFileError, r"lm_head\.weight' is missing")


@pytest.mark.parametrize("prefix", ["language_model.model.", "model.language_model."])
def test_a_language_model_inside_a_larger_one_is_read_without_its_eyes(tmp_path: Path, prefix: str) -> None:
    head = "language_model.lm_head.weight" if prefix.startswith("language") else "lm_head.weight"
    state = {name.replace("model.", prefix, 1): weight for name, weight in tiny_state().items()}
    state[head] = state.pop("lm_head.weight")
    state["vision_tower.patch.weight"] = torch.zeros(3, 3)
    config = {"model_type": "llava", "text_config": TINY, "vision_config": {}}
    spec = read_spec(str(write_folder(tmp_path / "m", state, config)))
    assert families.tensor_names(spec)["head"] == head
    assert spec.num_params == sum(weight.numel() for weight in tiny_state().values())


# -- B040 ------------------------------------------------------------------------------------------------


def with_code(place: Path, marker: Path) -> Path:
    (place / "modeling_x.py").write_text(f"open({str(marker)!r}, 'w')\n")
    (place / "tokenizer_config.json").write_text('{"auto_map": {"AutoTokenizer": ["modeling_x.X", null]}}')
    return place


AUTO_MAP = {
    "auto_map": {"AutoModelForCausalLM": "modeling_x.X"},
    "trust_remote_code": True,
    "model_file": "x.py",
}


def test_code_beside_a_known_architecture_is_ignored(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    place = with_code(folder(tmp_path, AUTO_MAP), marker)
    assert read_spec(str(place)).architecture == "llama"
    assert not marker.exists()


@pytest.mark.parametrize(
    "config",
    [{"model_type": "own", "architectures": ["OwnModel"]}, {"architectures": ["OwnLlamaForCausalLM"]}],
)
def test_an_architecture_that_needs_code_is_unsafe(tmp_path: Path, config: dict[str, Any]) -> None:
    marker = tmp_path / "marker"
    place = with_code(folder(tmp_path, AUTO_MAP | config), marker)
    refused(place, UnsafeModelError, "Python code of its own")
    assert [type(result) for _, result in scan_folder(str(tmp_path))] == [UnsafeModelError]
    assert not marker.exists()


def test_an_unknown_architecture_without_code_is_unsupported(tmp_path: Path) -> None:
    place = folder(tmp_path, model_type="qwen9", architectures=["Qwen9ForCausalLM"])
    refused(place, UnsupportedModelError, "architecture not supported: Qwen9ForCausalLM")
    place = folder(tmp_path, architectures=["LlamaForSequenceClassification"])
    refused(place, UnsupportedModelError, "LlamaForSequenceClassification")


def test_a_folder_with_one_gguf_and_a_config_is_the_gguf(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(AUTO_MAP))
    path = write_llama_gguf(tmp_path / "a.gguf", tiny_state(), TINY)
    assert read_spec(str(tmp_path)).path == str(path)
    write_llama_gguf(tmp_path / "b.gguf", tiny_state(), TINY)
    refused(tmp_path, ModelFileError, "2 GGUF models")


# -- B039 ------------------------------------------------------------------------------------------------


class _Marks:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self.marker), "w")


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.safetensors"])
def test_a_pickle_is_refused_and_never_opened_as_one(tmp_path: Path, name: str) -> None:
    marker = tmp_path / "marker"
    place = folder(tmp_path)
    (place / "model.safetensors").unlink()
    (place / name).write_bytes(pickle.dumps(_Marks(marker)))
    error = refused(place, UnsafeModelError, name)
    assert "safetensors" in error.hint
    assert [type(result) for _, result in scan_folder(str(tmp_path))] == [UnsafeModelError]
    assert not marker.exists()


def test_pickles_beside_good_weights_are_left_alone(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    place = folder(tmp_path)
    for name in ("optimizer.pt", "training_args.bin"):
        (place / name).write_bytes(pickle.dumps(_Marks(marker)))
    assert isinstance(read_spec(str(place)), ModelSpec)
    assert not marker.exists()


def test_an_index_that_names_pickles_is_unsafe(tmp_path: Path) -> None:
    place = sharded(tmp_path)
    (place / "model.safetensors.index.json").write_text('{"weight_map": {"a": "pytorch_model.bin"}}')
    refused(place, UnsafeModelError, "pytorch_model.bin")


# -- B035 ------------------------------------------------------------------------------------------------


def sharded(tmp_path: Path, state: dict[str, Tensor] | None = None) -> Path:
    return write_folder(tmp_path / "m", state or tiny_state(), TINY, shards=3)


def test_shards_are_one_model(tmp_path: Path) -> None:
    spec = read_spec(str(sharded(tmp_path)))
    assert [Path(file).name for file in spec.files] == SHARDS
    assert spec.num_params == sum(weight.numel() for weight in tiny_state().values())
    assert {tensor.file for tensor in spec.tensors} == {0, 1, 2}


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    place = sharded(tmp_path)
    (place / SHARDS[1]).unlink()
    refused(place, ModelFileError, f"{SHARDS[1]}: this part of the weights is missing")


def test_an_empty_shard_is_named(tmp_path: Path) -> None:
    place = sharded(tmp_path)
    (place / SHARDS[1]).write_bytes(b"")
    refused(place, ModelFileError, f"{SHARDS[1]}.* empty")


def test_a_shard_under_another_case_is_missing_and_both_names_are_said(tmp_path: Path) -> None:
    place = sharded(tmp_path)
    (place / SHARDS[1]).rename(place / SHARDS[1].replace("model", "Model"))
    error = refused(place, ModelFileError, SHARDS[1])
    assert SHARDS[1].replace("model", "Model") in error.hint


@pytest.mark.parametrize("end", [".safetensors", ".bin"])
def test_a_shard_s_name_is_told_short_and_commands_no_terminal(tmp_path: Path, end: str) -> None:
    place = sharded(tmp_path)
    name = "\x1b]0;pwned\x07\x1b[31m" + "RED" * 1000 + end
    (place / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}))
    kind = ModelFileError if end == ".safetensors" else UnsafeModelError
    error = refused(place, kind, r"\]0;pwned \[31mRED")
    assert str(error).isprintable()
    assert len(str(error)) < len(str(place)) + 250


@pytest.mark.parametrize(("name", "most"), [("vocab_size", 1 << 22), ("num_hidden_layers", 1 << 10)])
def test_sizes_beyond_any_model_are_refused_with_name_and_value(tmp_path: Path, name: str, most: int) -> None:
    state = tiny_state() | {f"model.layers.{layer}.x": torch.zeros(1) for layer in range(1100)}
    place = write_folder(tmp_path / "m", state, TINY | {name: most + 1})
    refused(place, ModelFileError, f"is {most + 1:,}; at most {most:,} are believable")


def test_a_tensor_the_index_promises_must_be_in_its_file(tmp_path: Path) -> None:
    place = sharded(tmp_path)
    path = place / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    index["weight_map"]["model.norm.weight"] = SHARDS[0]
    path.write_text(json.dumps(index))
    refused(place, ModelFileError, rf"{SHARDS[0]}: tensor 'model\.norm\.weight' is not in this file")


@pytest.mark.parametrize(
    "file", ["../out.safetensors", "/etc/passwd", "a/b.safetensors", "..\\a.safetensors", "", 5, ["a"], {}]
)
def test_an_index_cannot_point_outside_its_folder(tmp_path: Path, file: object) -> None:
    place = sharded(tmp_path)
    (place / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": file}}))
    refused(place, ModelFileError, "not the name of a file beside it")


def test_shards_without_their_index_are_refused(tmp_path: Path) -> None:
    place = sharded(tmp_path)
    (place / "model.safetensors.index.json").unlink()
    refused(place, ModelFileError, r"index\.json is missing")


# -- damaged and unsupported -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("{", "not valid JSON"),
        ("[1]", "not a JSON object"),
        ("[" * 100_000, "too deeply nested"),
        ('{"model_type": "llama", "hidden_size": ' + "9" * 9999 + "}", "not valid JSON"),
        ("{}", "model_type is missing"),
        ('{"model_type": "llama", "text_config": 3}', "text_config"),
        ("\xff", "not valid JSON"),
    ],
)
def test_a_broken_config_is_refused_in_one_sentence(tmp_path: Path, text: str, reason: str) -> None:
    place = folder(tmp_path)
    (place / "config.json").write_bytes(text.encode("latin-1"))
    error = refused(place, ModelFileError, reason)
    assert "config.json" in error.message


def test_a_huge_config_is_not_read(tmp_path: Path) -> None:
    place = folder(tmp_path)
    with (place / "config.json").open("wb") as file:
        file.truncate(1 << 30)
    refused(place, ModelFileError, "far too many")


@pytest.mark.parametrize(
    ("changes", "kind", "reason"),
    [
        ({"quantization_config": {"quant_method": "gptq"}}, UnsupportedModelError, "'gptq'"),
        (
            {"hidden_act": "gelu", "partial_rotary_factor": 0.5},
            UnsupportedModelError,
            "partial rotary|'gelu'",
        ),
        ({"attention_bias": True}, ModelFileError, r"q_proj\.bias' and 7 more is missing"),
        ({"mlp_bias": True}, ModelFileError, r"gate_proj\.bias' and 5 more is missing"),
        ({"attention_bias": 1}, ModelFileError, "not true or false"),
        ({"attn_logit_softcapping": 50.0}, UnsupportedModelError, "soft-capped attention"),
        ({"partial_rotary_factor": 0.5}, UnsupportedModelError, "partial rotary"),
        ({"num_local_experts": 8}, UnsupportedModelError, "mixture of experts"),
        ({"vocab_size": 97}, ModelFileError, r"embed_tokens.*needs \[97, 64\]"),
        ({"num_hidden_layers": 3}, ModelFileError, "layers.2.input_layernorm.weight' and 8 more is missing"),
        ({"num_hidden_layers": 1}, UnsupportedModelError, "does not know"),
        ({"num_hidden_layers": 10**9}, ModelFileError, "claims 1,000,000,000 layers"),
        ({"num_hidden_layers": -1}, ModelFileError, "sensible range"),
        ({"hidden_size": 64.5}, ModelFileError, "not a whole number"),
        ({"hidden_size": None}, ModelFileError, "hidden_size is missing"),
        ({"rms_norm_eps": float("nan")}, ModelFileError, "rms_norm_eps"),
        ({"tie_word_embeddings": "yes"}, ModelFileError, "not true or false"),
    ],
)
def test_values_that_cannot_be_are_refused_by_name(
    tmp_path: Path, changes: dict[str, Any], kind: type[EngineError], reason: str
) -> None:
    place = folder(tmp_path)
    (place / "config.json").write_text(json.dumps(TINY | changes))
    refused(place, kind, reason)


def test_a_type_that_cannot_run_is_named_with_its_tensor(tmp_path: Path) -> None:
    state = tiny_state()
    state["model.norm.weight"] = torch.zeros(64, dtype=torch.int64)
    place = write_folder(tmp_path / "m", state)
    refused(place, UnsupportedModelError, r"'model\.norm\.weight' has the type I64")


def test_buffers_of_old_files_are_ignored(tmp_path: Path) -> None:
    state = tiny_state() | {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(8)}
    spec = read_spec(str(write_folder(tmp_path / "m", state)))
    assert all("inv_freq" not in tensor.name for tensor in spec.tensors)


def test_biases_in_the_weights_are_refused(tmp_path: Path) -> None:
    state = tiny_state() | {"model.layers.0.self_attn.q_proj.bias": torch.ones(64)}
    refused(write_folder(tmp_path / "m", state), UnsupportedModelError, "biases")


def test_weights_without_a_config_and_a_config_without_weights_are_refused(tmp_path: Path) -> None:
    place = folder(tmp_path)
    (place / "config.json").rename(tmp_path / "config.json")
    refused(place, ModelFileError, r"config\.json is missing")
    refused(place / "model.safetensors", ModelFileError, r"config\.json is missing")
    refused(tmp_path, ModelFileError, "no weights here")


def test_an_adapter_is_not_a_model(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text("{}")
    refused(tmp_path, UnsupportedModelError, "adapter")
