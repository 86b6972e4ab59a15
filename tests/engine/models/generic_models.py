"""Tiny random models of architectures that run through transformers, and how the engine loads them."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from engine.events import LoadProgress
from engine.fit.plan import plan
from engine.models.checkpoint import Checkpoint
from engine.models.decoder import Runner
from engine.models.generic import load_generic
from engine.models.spec import read_spec
from engine.types import LoadPlan, LoadSpec
from engine.waiting import drained
from tests.engine.models.built import TORCH
from tests.engine.tiny import tiny_folder

_EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 48}
_LATENT = {
    "kv_lora_rank": 32,
    "q_lora_rank": 24,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "v_head_dim": 20,
    "num_key_value_heads": 4,
}
_STATE_SPACE = {
    "mamba_n_heads": 8,
    "mamba_d_head": 16,
    "mamba_d_state": 16,
    "mamba_n_groups": 2,
    "mamba_expand": 2,
    "mamba_chunk_size": 16,
}
_DELTA_RULE = {
    "num_hidden_layers": 4,
    "head_dim": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "shared_expert_intermediate_size": 48,
}
GENERIC: dict[str, dict[str, Any]] = {
    "qwen3_moe": {"head_dim": 16, "num_experts": 4, **_EXPERTS},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "gpt_oss": {
        "num_hidden_layers": 4,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "head_dim": 16,
        "sliding_window": 8,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
    },
    "deepseek_v3": {
        "n_routed_experts": 8,
        "n_group": 2,
        "topk_group": 1,
        "first_k_dense_replace": 1,
        **_EXPERTS,
        **_LATENT,
    },
    "granitemoehybrid": {
        "num_hidden_layers": 3,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "shared_intermediate_size": 96,
        "layer_types": ["mamba", "attention", "mamba"],
        **_STATE_SPACE,
    },
    "lfm2": {
        "num_hidden_layers": 3,
        "layer_types": ["conv", "full_attention", "conv"],
        "block_ff_dim": 96,
    },
}
"""The architectures that are proved in every respect."""

MORE: dict[str, dict[str, Any]] = {
    "deepseek_v2": {"n_routed_experts": 8, "n_group": 2, "topk_group": 1, **_EXPERTS, **_LATENT},
    "qwen3_next": {"num_experts": 4, **_EXPERTS, **_DELTA_RULE},
    "qwen3_5_text": _DELTA_RULE,
    "kimi_linear": {
        "num_experts": 4,
        "num_experts_per_token": 2,
        "moe_intermediate_size": 48,
        "num_hidden_layers": 2,
        "first_k_dense_replace": 1,
        "layer_types": ["linear_attention", "full_attention"],
        "linear_attn_config": {
            "num_heads": 4,
            "head_dim": 16,
            "short_conv_kernel_size": 4,
            "kda_layers": [1],
            "full_attn_layers": [2],
        },
        **_LATENT,
    },
    "jamba": {
        "num_hidden_layers": 4,
        "attn_layer_period": 2,
        "attn_layer_offset": 1,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "mamba_d_state": 8,
        "mamba_dt_rank": 8,
        "use_mamba_kernels": False,
    },
    "mamba": {"state_size": 8, "intermediate_size": 128},
    "mamba2": {"num_heads": 8, "head_dim": 16, "state_size": 16, "n_groups": 1, "chunk_size": 16},
    "falcon_h1": {
        "mamba_n_heads": 4,
        "mamba_d_head": 32,
        "mamba_d_ssm": 128,
        "mamba_d_state": 16,
        "mamba_n_groups": 1,
        "mamba_chunk_size": 16,
        "head_dim": 16,
    },
}
"""Other kinds of states, and layers that have both kinds of caches."""


def generic_folder(folder: Path, family: str, **changes: Any) -> Path:
    """A complete folder. Buffers that the library leaves at zero are random: they must be read too."""
    options = (GENERIC | MORE)[family]
    tiny_folder(folder, family=family, **(options | changes))
    path = folder / "model.safetensors"
    state = load_file(path)
    generator = torch.Generator().manual_seed(3)
    for name, tensor in state.items():
        if name.endswith(("e_score_correction_bias", "sinks")):
            tensor.normal_(generator=generator)
    save_file(state, path, {"format": "pt"})
    return folder


def plan_for(folder: Path, format: str = "f32", context: int = 128, disk_layers: int = 0) -> LoadPlan:
    made = plan(read_spec(str(folder)), TORCH, LoadSpec(str(folder), format=format, context=context))
    return replace(made, disk_layers=disk_layers)


def loading(made: LoadPlan) -> Generator[LoadProgress, None, Runner]:
    with Checkpoint(made.model) as checkpoint:
        return (yield from load_generic(made, checkpoint))


def build_generic(folder: Path, format: str = "f32", disk_layers: int = 0) -> Runner:
    return drained(loading(plan_for(folder, format, disk_layers=disk_layers)))
