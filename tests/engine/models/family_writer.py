"""Writes the GGUF of a Hugging Face folder of any family as a converter would: names, order, offsets, keys.

Knows the two formats alone; nothing of the program's own table.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from tests.engine.models.writers import RawTensor, Typed, byte_vocabulary, permuted, quantized, write_gguf

ARCHITECTURES = {"mistral": "llama", "gemma3_text": "gemma3", "olmo3": "olmo2"}  # other ones keep their name
_PERMUTED = ("llama", "granite", "smollm3")
_OUTER = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
}
_LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.qkv_proj": "attn_qkv",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.gate_up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def write_family_gguf(
    path: Path, folder: Path, type_name: str = "F32", metadata: Mapping[str, object] | None = None
) -> Path:
    """The GGUF of a folder's weights, matrices in ``type_name``; ``metadata`` is added or replaces."""
    config = json.loads((folder / "config.json").read_text())
    state = load_file(folder / "model.safetensors")
    tensors = [_tensor(name, weight, config, type_name) for name, weight in state.items()]
    vocabulary = byte_vocabulary(["<s>", "<|im_start|>", "<|im_end|>"])
    keys = family_metadata(config) | vocabulary | dict(metadata or {})
    return write_gguf(path, keys, tensors + _rope_tensors(config))


def family_metadata(config: Mapping[str, Any]) -> dict[str, object]:
    """The metadata keys, without a tokenizer, from the values of a config.json."""
    architecture = _architecture(config)
    heads = config["num_attention_heads"]
    values: dict[str, object] = {
        "block_count": config["num_hidden_layers"],
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "feed_forward_length": config["intermediate_size"],
        "attention.head_count": heads,
        "attention.head_count_kv": config["num_key_value_heads"],
        "attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
    }
    if config.get("head_dim"):
        values |= {"attention.key_length": config["head_dim"], "attention.value_length": config["head_dim"]}
    values |= _rope(config, architecture) | _window(config, architecture) | _numbers(config, architecture)
    named = {f"{architecture}.{key}": value for key, value in values.items()}
    return {"general.architecture": architecture, "general.name": "tiny"} | named


def _architecture(config: Mapping[str, Any]) -> str:
    kind: str = config["model_type"]
    return ARCHITECTURES.get(kind, kind)


def _tensor(name: str, weight: Tensor, config: Mapping[str, Any], type_name: str) -> RawTensor:
    architecture, (base, end) = _architecture(config), name.rsplit(".", 1)
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    if architecture in _PERMUTED and base.endswith(("q_proj", "k_proj")):
        weight = permuted(weight.view(weight.shape[0], -1), weight.shape[0] // head_dim).view(weight.shape)
    if architecture.startswith("gemma") and name.endswith("norm.weight"):
        weight = weight + 1
    return quantized(f"{_base(base, config)}.{end}", weight, type_name if weight.dim() > 1 else "F32")


def _base(base: str, config: Mapping[str, Any]) -> str:
    if base in _OUTER:
        return _OUTER[base]
    _, _, layer, rest = base.split(".", 3)
    if rest == "post_attention_layernorm":
        has_both = config["model_type"] in ("gemma2", "gemma3_text", "olmo2", "olmo3")
        return f"blk.{layer}.{'post_attention_norm' if has_both else 'ffn_norm'}"
    return f"blk.{layer}.{_LAYER[rest]}"


def _rope(config: Mapping[str, Any], architecture: str) -> dict[str, object]:
    given = config["rope_parameters"]
    full, local = given.get("full_attention", given), given.get("sliding_attention", {})
    values: dict[str, object] = {"rope.freq_base": full["rope_theta"]}
    if full["rope_type"] in ("linear", "yarn"):
        values |= {"rope.scaling.type": full["rope_type"], "rope.scaling.factor": full["factor"]}
    if full["rope_type"] == "yarn":
        values |= {
            "rope.scaling.original_context_length": full["original_max_position_embeddings"],
            "rope.scaling.yarn_beta_fast": full["beta_fast"],
        }
    if architecture == "gemma3" and local:
        values["rope.freq_base_swa"] = local["rope_theta"]
    if architecture == "phi3":
        original = config["original_max_position_embeddings"]
        head_dim = config["hidden_size"] // config["num_attention_heads"]
        values["rope.dimension_count"] = int(full["partial_rotary_factor"] * head_dim)
        values["rope.scaling.original_context_length"] = original
        if full["rope_type"] == "longrope":
            scale = config["max_position_embeddings"] / original
            values["rope.scaling.attn_factor"] = math.sqrt(1 + math.log(scale) / math.log(original))
    return values


def _rope_tensors(config: Mapping[str, Any]) -> list[RawTensor]:
    rope = config["rope_parameters"]
    if rope.get("rope_type") != "longrope":
        return []
    return [
        quantized(f"rope_factors_{kind}.weight", torch.tensor(rope[f"{kind}_factor"]), "F32")
        for kind in ("long", "short")
    ]


def _window(config: Mapping[str, Any], architecture: str) -> dict[str, object]:
    window = config.get("sliding_window")
    if architecture not in ("llama", "gemma2", "gemma3", "phi3", "olmo2") or not window:
        return {}
    values: dict[str, object] = {"attention.sliding_window": window}
    if architecture == "olmo2" or "full_attention" in config.get("layer_types", [])[:1]:
        slides = [kind == "sliding_attention" for kind in config["layer_types"]]
        values["attention.sliding_window_pattern"] = Typed("array:bool", slides)
    return values


def _numbers(config: Mapping[str, Any], architecture: str) -> dict[str, object]:
    if architecture == "granite":
        return {
            "attention.scale": float(config["attention_multiplier"]),
            "embedding_scale": float(config["embedding_multiplier"]),
            "residual_scale": float(config["residual_multiplier"]),
            "logit_scale": float(config["logits_scaling"]),
        }
    keys = {"attn_logit_softcapping": "gemma2", "final_logit_softcapping": "gemma"}
    return {
        key: config[key] for key, kind in keys.items() if architecture.startswith(kind) and config.get(key)
    }
