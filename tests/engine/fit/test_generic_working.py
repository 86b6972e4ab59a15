"""Planned working memory of models that transformers runs, against what torch allocates: within 10 %."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.fit.bytes import working_bytes
from engine.models.decoder import Runner, Segment
from engine.waiting import drained
from tests.engine.models.generic_models import GENERIC, MORE, loading, plan_for
from tests.engine.peak import peak_bytes
from tests.engine.tiny import tiny_folder

pytestmark = pytest.mark.usefixtures("one_thread")

CONTEXT = 1024
WIDE = {  # enough for what grows with the sizes to be most of it
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_attention_heads": 8,
    "initializer_range": 0.02,
}
LATENT = {
    "num_key_value_heads": 8,
    "kv_lora_rank": 128,
    "q_lora_rank": 192,
    "qk_rope_head_dim": 32,
    "qk_nope_head_dim": 64,
    "v_head_dim": 64,
}


def mamba2(heads: int, dim: int, state: int, chunk: int, groups: int = 1) -> dict[str, int]:
    return {
        "mamba_n_heads": heads,
        "mamba_d_head": dim,
        "mamba_d_state": state,
        "mamba_chunk_size": chunk,
        "mamba_n_groups": groups,
    }


def delta(key_heads: int, heads: int, key_dim: int, dim: int) -> dict[str, int]:
    return {
        "linear_num_key_heads": key_heads,
        "linear_num_value_heads": heads,
        "linear_key_head_dim": key_dim,
        "linear_value_head_dim": dim,
    }


def kda(heads: int, dim: int) -> dict[str, Any]:
    config = {"num_heads": heads, "head_dim": dim, "short_conv_kernel_size": 4}
    return LATENT | {"linear_attn_config": config | {"kda_layers": [1], "full_attn_layers": [2]}}


KINDS: dict[str, dict[str, Any]] = {
    "deepseek_v3": LATENT,
    "deepseek_v2": LATENT,
    "granitemoehybrid": mamba2(8, 64, 64, 128),
    "falcon_h1": mamba2(8, 64, 64, 128) | {"mamba_d_ssm": 512},
    "mamba2": {"num_heads": 8, "head_dim": 64, "state_size": 64, "chunk_size": 128},
    "qwen3_next": delta(4, 8, 64, 64),
    "qwen3_5_text": delta(4, 8, 64, 64),
    "kimi_linear": kda(4, 32),
    "jamba": {"mamba_d_state": 16, "mamba_dt_rank": 16},
    "mamba": {"state_size": 16, "intermediate_size": 512, "time_step_rank": 16},
    "gpt2": {"num_key_value_heads": 8, "intermediate_size": 1024},
    "gpt_neox": {"num_key_value_heads": 8},
    "opt": {"num_key_value_heads": 8, "ffn_dim": 512},
    "gemma3n_text": {
        "num_hidden_layers": 6,
        "num_kv_shared_layers": 2,
        "layer_types": ["sliding_attention", "full_attention"] * 3,
        "hidden_size_per_layer_input": 32,
        "vocab_size_per_layer_input": 259,
        "laurel_rank": 8,
        "intermediate_size": [512] * 6,
        "activation_sparsity_pattern": [0.0] * 6,
    },
    "gemma4_text": {"hidden_size_per_layer_input": 32, "head_dim": 32, "global_head_dim": 64},
    "gemma4_unified_text": {"head_dim": 32, "global_head_dim": 128},
}
"""What is made wider of some, so that the layers that give a kind its name are the widest of it."""


def held_at_most(runner: Runner, context: int, rows: int) -> int:
    """Bytes of the widest moment of the first piece and of the last one. Memory of the cache is there before,
    as far as it is reserved.
    """

    def read(tokens: int) -> None:
        runner.forward([Segment(cache, [1] * tokens)])

    with torch.inference_mode():
        cache = runner.new_cache(context)
        read(2)
        cache.trim(0)
        first = peak_bytes(lambda: read(rows))
        if getattr(runner, "_is_stepwise", False):
            return max(first, peak_bytes(lambda: read(1)))
        return max(first, peak_bytes(lambda: read(rows), before=lambda: read(context - 2 * rows)))


def check(folder: Path, name: str, context: int = CONTEXT, rows: int = 0, **changes: Any) -> None:
    options = (GENERIC | MORE).get(name, {})
    sizes = options | WIDE | {"max_position_embeddings": context} | KINDS.get(name, {}) | changes
    tiny_folder(folder, family=name, **sizes)
    for format in ("f32", "bf16"):
        made = replace(plan_for(folder, format, context), threads=1)
        piece = rows or made.prefill_piece
        real = held_at_most(drained(loading(made)), context, piece)
        planned = working_bytes(made.model, context, piece, format=format, threads=1)
        assert planned == pytest.approx(real, rel=0.1), (format, piece)


@pytest.mark.parametrize("name", [*GENERIC, *MORE])
def test_every_kind_takes_what_was_planned(name: str, tmp_path: Path) -> None:
    check(tmp_path / "m", name)


@pytest.mark.parametrize(
    "name", ["gpt2", "gpt_neox", "opt", "gemma3n_text", "gemma4_text", "gemma4_unified_text"]
)
def test_what_layers_have_beside_the_usual_parts_is_planned(name: str, tmp_path: Path) -> None:
    check(tmp_path / "m", name)


@pytest.mark.parametrize("rows", [8, 64])
@pytest.mark.parametrize("name", [*GENERIC, *MORE])
def test_short_pieces_take_what_was_planned(rows: int, name: str, tmp_path: Path) -> None:
    check(tmp_path / "m", name, rows=rows)


@pytest.mark.parametrize("name", ["qwen3_moe", "gpt_oss", "deepseek_v3", "granitemoehybrid", "falcon_h1"])
def test_long_contexts_take_what_was_planned(name: str, tmp_path: Path) -> None:
    check(tmp_path / "m", name, context=2560)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("qwen3_moe", {"head_dim": 64}),
        ("qwen3_moe", {"head_dim": 64, "num_key_value_heads": 8}),
        ("qwen3_moe", {"moe_intermediate_size": 1024, "context": 768}),
        ("qwen3_moe", {"num_experts": 64, "num_experts_per_tok": 8, "context": 768}),
        ("mixtral", {"intermediate_size": 2048, "context": 768}),
        ("gpt_oss", {"intermediate_size": 2048, "context": 768, "rows": 64}),
        ("deepseek_v3", {"qk_nope_head_dim": 32, "v_head_dim": 96}),
        ("deepseek_v3", {"v_head_dim": 96}),  # as wide as the keys
        ("deepseek_v3", {"qk_rope_head_dim": 64, "v_head_dim": 32}),
        ("granitemoehybrid", mamba2(8, 64, 16, 16)),
        ("granitemoehybrid", mamba2(8, 64, 128, 64)),
        ("granitemoehybrid", mamba2(32, 16, 16, 256)),
        ("granitemoehybrid", mamba2(16, 32, 256, 256, groups=4)),
        ("granitemoehybrid", mamba2(8, 64, 128, 256) | {"rows": 64}),
        ("qwen3_next", delta(2, 4, 16, 16)),
        ("qwen3_next", delta(8, 8, 16, 128)),
        ("qwen3_next", delta(8, 8, 128, 16)),
        ("qwen3_next", delta(4, 8, 128, 128) | {"rows": 32}),
        ("qwen3_5_text", delta(4, 8, 128, 64)),
        ("kimi_linear", kda(8, 64)),
        ("kimi_linear", kda(4, 128) | {"rows": 32}),
        ("kimi_linear", kda(4, 8)),
        ("jamba", {"mamba_d_state": 64}),
        ("jamba", {"mamba_d_state": 4, "mamba_expand": 4}),
        ("jamba", {"context": 8192}),
        ("mamba", {"state_size": 4}),
        ("gemma3n_text", {"altup_num_inputs": 2, "hidden_size_per_layer_input": 128}),
        (
            "gemma4_unified_text",
            {"num_key_value_heads": 4, "num_global_key_value_heads": 2, "attention_k_eq_v": True},
        ),
    ],
)
def test_other_sizes_take_what_was_planned(name: str, changes: dict[str, Any], tmp_path: Path) -> None:
    check(tmp_path / "m", name, **changes)


OTHERS = """
    bloom cohere2 falcon flint gpt_neox_japanese granite_swa granitemoe_swa llama4_text mpt vaultgemma
"""
"""Attention with tables of scores or two masks, and experts that compute every row."""


@pytest.mark.slow  # it imports the modules of all of them
@pytest.mark.parametrize("name", OTHERS.split())
def test_what_the_table_of_architectures_says_takes_what_was_planned(name: str, tmp_path: Path) -> None:
    check(tmp_path / "m", name, num_hidden_layers=4)
