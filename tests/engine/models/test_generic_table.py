"""The table of architectures against the library it describes."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers import CONFIG_MAPPING, AutoModelForCausalLM
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from engine.errors import ModelFileError
from engine.fit.bytes import kv_bytes
from engine.models.decoder import Segment
from engine.models.generic_runner import GenericRunner
from engine.models.generic_spec import from_config
from engine.models.generic_table import CLASSES, EAGER, KEPT_F32, REFUSED, STEPWISE
from engine.types import ModelSpec
from tests.engine.models.built import run, some_ids
from tests.engine.models.generic_models import GENERIC, MORE

OUTER = {"fuyu", "got_ocr2", "moss_transcribe_diarize"}
"""Models that read images and speech; the language model within them is of another type."""

UNTRIED = {"cohere_compass_text", "qwen4_exp_text"}
"""Architectures whose configuration takes no sizes as small as those here."""


def test_the_table_holds_every_language_model_of_the_library() -> None:
    known = dict(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
    outer = {name for name in known if f"{name}_text" in known} | OUTER
    assert set(CLASSES) | set(REFUSED) | outer == set(known)
    assert not set(CLASSES) & set(REFUSED)
    assert {name: known[name] for name in CLASSES} == CLASSES


@pytest.mark.slow  # it imports the modules of all of them
def test_the_tables_special_cases_are_the_librarys() -> None:
    assert set(CLASSES) >= STEPWISE
    kept, eager = {}, set()
    for name, class_name in CLASSES.items():
        kind = getattr(transformers, class_name)
        parts = tuple(kind._keep_in_fp32_modules_strict or ())
        if parts:
            kept[name] = {part.removeprefix("mlp.") for part in parts}
        if not kind._supports_sdpa:
            eager.add(name)
    assert {name: set(parts) for name, parts in KEPT_F32.items()} == {n: kept[n] for n in KEPT_F32}
    assert eager >= EAGER


TRIED = sorted(set(CLASSES) - UNTRIED)
_USUAL = """
    deepseek_v3 deepseek_v4 falcon_h1 gemma3n_text gemma4_text gemma4_unified_text glm_moe_dsa gpt2 gpt_oss
    granitemoehybrid lfm2 llama longcat_flash mimo_v2_flash mixtral qwen3_5_text qwen3_moe qwen3_next
"""
USUAL = frozenset(_USUAL.split())
"""What is tried at every change."""

# -- every architecture of the table, tiny -----------------------------------------------------------------

SIZES: dict[str, Any] = {
    "vocab_size": 259,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 512,
    "initializer_range": 0.3,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
EXPERTS = {"num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 48}
ROUTED = EXPERTS | {"n_routed_experts": 8, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1}
LATENT = ROUTED | {
    "kv_lora_rank": 32,
    "q_lora_rank": 24,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "v_head_dim": 20,
    "num_key_value_heads": 4,
    "head_dim": 8,
}
INDEXED = LATENT | {"index_n_heads": 2, "index_head_dim": 16, "index_topk": 64}
DELTA = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "shared_expert_intermediate_size": 48,
}
GEMMA4 = {
    "num_hidden_layers": 6,
    "layer_types": ["sliding_attention", "full_attention"] * 3,
    "num_kv_shared_layers": 2,
    "sliding_window": 8,
    "attention_k_eq_v": True,
    "global_head_dim": 48,
    "num_global_key_value_heads": 1,
    "hidden_size_per_layer_input": 16,
}
INKLING = ROUTED | {
    "layer_types": ["hybrid_sliding", "hybrid"] * 2,
    "swa_num_attention_heads": 4,
    "swa_num_key_value_heads": 4,
    "swa_head_dim": 8,
    "sliding_window_size": 8,
}
OWN: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("axk1", "deepseek_v2", "deepseek_v3", "glm4_moe_lite"), LATENT),
    **dict.fromkeys(("minicpm3", "sarvam_mla", "youtu"), LATENT),
    **dict.fromkeys(("axk2", "deepseek_v32", "glm_moe_dsa"), INDEXED),
    "hy_v4": INDEXED | {"indexer_types": ["full", "shared"] * 2},
    "minimax_m3_vl_text": ROUTED
    | {"layer_types": ["full_attention", "minimax_m3_sparse"] * 2, "index_n_heads": 2, "index_head_dim": 16},
    "bailing_hybrid": LATENT | {"num_hidden_layers": 8, "head_dim": 16},
    "deepseek_v4": ROUTED
    | {
        "num_key_value_heads": 1,
        "layer_types": [
            "sliding_attention",
            "heavily_compressed_attention",
            "compressed_sparse_attention",
            "compressed_sparse_attention",
        ],
        "compress_rates": {"heavily_compressed_attention": 16, "compressed_sparse_attention": 4},
        "sliding_window": 8,
        "index_n_heads": 2,
        "index_head_dim": 32,
    },
    "dots3_note_text": INDEXED
    | {
        "head_dim": 24,
        "sliding_window": 8,
        "swa_num_attention_heads": 4,
        "swa_num_key_value_heads": 4,
        "swa_kv_lora_rank": 48,
        "swa_head_dim": 32,
        "swa_qk_nope_head_dim": 20,
    },
    "dbrx": {
        "d_model": 64,
        "n_heads": 4,
        "n_layers": 3,
        "max_seq_len": 512,
        "attn_config": {"kv_n_heads": 2, "clip_qkv": 8, "rope_theta": 1e4},
        "ffn_config": {"ffn_hidden_size": 96, "moe_num_experts": 4, "moe_top_k": 2},
    },
    "gemma3n_text": {
        "num_hidden_layers": 6,
        "num_kv_shared_layers": 2,
        "layer_types": ["sliding_attention", "full_attention"] * 3,
        "sliding_window": 8,
        "hidden_size_per_layer_input": 16,
        "vocab_size_per_layer_input": 259,
        "laurel_rank": 8,
        "intermediate_size": [96] * 6,
        "activation_sparsity_pattern": [0.0] * 6,
    },
    "qwen3_5_text": DELTA,
    "qwen3_5_moe_text": DELTA | ROUTED,
    "gpt_neo": {
        "num_layers": 4,
        "num_heads": 4,
        "attention_types": [[["global", "local"], 2]],
        "window_size": 8,
    },
    "longcat_flash": LATENT
    | {
        "num_layers": 2,
        "zero_expert_num": 2,
        "moe_topk": 2,
        "expert_ffn_hidden_size": 48,
        "ffn_hidden_size": 96,
    },
    "bamba": {
        "mamba_n_heads": 8,
        "mamba_d_head": 16,
        "mamba_d_state": 16,
        "mamba_n_groups": 1,
        "mamba_chunk_size": 16,
        "attn_layer_indices": [1],
    },
    "mamba2": {"num_heads": 8, "head_dim": 16, "state_size": 16, "n_groups": 1, "chunk_size": 16},
    "falcon_mamba": {"state_size": 8},
    "zamba": {
        "num_hidden_layers": 8,
        "attn_layer_period": 4,
        "attn_layer_offset": 2,
        "n_mamba_heads": 2,
        "mamba_d_state": 8,
        "mamba_dt_rank": 8,
        "use_mamba_kernels": False,
    },
    "nemotron_h": ROUTED
    | {
        "hybrid_override_pattern": "M-*M",
        "mamba_num_heads": 8,
        "mamba_head_dim": 16,
        "ssm_state_size": 16,
        "n_groups": 1,
        "chunk_size": 16,
        "moe_shared_expert_intermediate_size": 48,
        "time_step_min": 1e-9,  # the library holds to it in pieces and not in steps
    },
    "codegen": {"rotary_dim": 8, "n_inner": None},
    "gptj": {"rotary_dim": 8, "n_inner": None},
    "hunyuan_v1_moe": {"num_experts": 4, "moe_topk": 2},
    "lfm2_moe": ROUTED | {"layer_types": ["conv", "full_attention"] * 2, "num_dense_layers": 1},
    "dots1": ROUTED | {"n_shared_experts": 1, "sliding_window": 8},
    **dict.fromkeys(("gemma4_text", "gemma4_unified_text"), GEMMA4),
    **dict.fromkeys(("inkling_text", "inkling2_text"), INKLING),
    "inkling2_loop_text": INKLING
    | {
        "n_layers_per_attn_res_block": 1,
        "loop_layer_index_start": 1,
        "loop_layer_index_end": 3,
        "loop_num_passes": 3,
    },
    "mimo_v2_flash": ROUTED | {"v_head_dim": 24, "sliding_window": 8},
    "zaya": {"layer_types": ["hybrid", "hybrid_sliding"] * 2, "sliding_window": 8},
}


def tiny_model(name: str, dtype: torch.dtype = torch.float32) -> Any:
    options = SIZES | OWN.get(name, (GENERIC | MORE).get(name, {}))
    if not any(field.name == "num_key_value_heads" for field in fields(CONFIG_MAPPING[name])):
        options = {key: value for key, value in options.items() if key != "num_key_value_heads"}
    without = {key: value for key, value in options.items() if key != "head_dim"}
    for values in (options, options | EXPERTS, options | ROUTED, without):
        try:
            config = CONFIG_MAPPING[name](**values)
            with torch.device("meta"):
                size = sum(x.numel() for x in AutoModelForCausalLM.from_config(config).parameters())
            assert size < 150e6
            torch.manual_seed(0)
            return AutoModelForCausalLM.from_config(config, dtype=dtype).eval()
        except Exception as error:
            last = error
    raise last


def spec_of(name: str, model: Any) -> ModelSpec:
    values = model.config.to_dict() | {"model_type": name}
    return from_config(Path("tiny"), values, (), (), CLASSES[name], "it is tested")


@pytest.mark.slow
@pytest.mark.parametrize("name", TRIED)
def test_every_architecture_continues_as_it_would_have_read_at_once(name: str) -> None:
    torch.set_num_threads(1)
    model, ids = tiny_model(name), [5 + token % 200 for token in some_ids(40)]
    with torch.no_grad():
        for parameter, weight in model.named_parameters():
            if parameter.endswith("norm.weight"):
                weight.uniform_(0.5, 1.5)
        expected = model(input_ids=torch.tensor([ids])).logits[0]
    runner = GenericRunner(model, spec_of(name, model))
    found = run(runner, ids, [7, 9, 1, 3])
    scale = float(expected.abs().max())
    torch.testing.assert_close(found, expected, rtol=0, atol=5e-3 * max(1.0, scale))
    if runner.capabilities.can_trim:
        cache = runner.new_cache(40)
        with torch.inference_mode():
            runner.forward([Segment(cache, ids)])
            cache.trim(11)
            again = runner.forward([Segment(cache, ids[11:], wants_all_logits=True)])
        torch.testing.assert_close(again, expected[11:], rtol=0, atol=5e-3 * max(1.0, scale))


CONTEXTS = (127, 255)
"""At which no block of tokens is full that is compressed to one vector: so much waits for it as ever can."""


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in USUAL else pytest.mark.slow) for n in TRIED]
)
def test_every_architecture_keeps_the_bytes_that_were_planned(name: str) -> None:
    torch.set_num_threads(1)
    for dtype, bits in ((torch.float32, 32), (torch.bfloat16, 16)):
        model = tiny_model(name, dtype)
        for part, kept in model._get_dtype_plan(dtype).items():
            for parameter_name, parameter in model.named_parameters():
                if re.search(part, parameter_name):
                    parameter.data = parameter.data.to(kept)
        spec = spec_of(name, model)
        runner = GenericRunner(model, spec)
        assert spec.capabilities == runner.capabilities
        for context in CONTEXTS:
            cache = runner.new_cache(context)
            steps = context if spec.generic and spec.generic.is_stepwise else 3
            with torch.inference_mode():
                for rows in (context - steps, *[1] * steps):
                    if rows:
                        runner.forward([Segment(cache, [5] * rows)])
            assert kv_bytes(spec, context, bits) == cache.nbytes, (dtype, context)


RELEASED: dict[str, dict[str, Any]] = {
    "bailing_hybrid": {},
    "deepseek_v4": {"layer_types": None, "compress_rates": None, "compress_ratios": [0, 128, 4, 4, 0]},
    "dots3_note_text": {},
    "gemma3n_text": {},
    "gemma4_text": {},
    "gemma4_unified_text": {},
    "inkling_text": {"layer_types": None, "local_layer_ids": [0, 2]},
    "longcat_flash": {"num_hidden_layers": None},
    "mimo_v2_flash": {},
    "minimax_m3_vl_text": {
        "layer_types": None,
        "sparse_attention_config": {"sparse_attention_freq": [0, 1, 1, 1], "sparse_index_dim": 16},
    },
    "zaya": {"layer_types": None},
}
"""What those who made the models say otherwise, in names that the library takes and does not write."""


@pytest.mark.parametrize("name", RELEASED)
def test_a_released_configuration_says_what_the_librarys_own_says(name: str) -> None:
    values = {key: value for key, value in (SIZES | OWN[name] | RELEASED[name]).items() if value is not None}
    cls = CONFIG_MAPPING[name]
    theirs = cls(**values).to_dict() | {"model_type": name}
    released, written = (
        from_config(Path("tiny"), each, (), (), CLASSES[name], "it is tested")
        for each in (values | {"model_type": name}, theirs)
    )
    assert released.generic is not None
    assert written.generic is not None
    assert released.generic.cache == written.generic.cache


@pytest.mark.parametrize(
    ("name", "changes", "reason"),
    [
        ("gemma4_text", {"global_head_dim": "512"}, "global_head_dim is '512', not a whole number"),
        ("gemma4_text", {"per_layer_config": {"1": {"head_dim": -1}}}, "head_dim is -1, out of any"),
        ("gemma3n_text", {"num_kv_shared_layers": -1}, "num_kv_shared_layers is -1, out of any"),
        ("deepseek_v4", {"compress_rates": {"heavily_compressed_attention": 0}}, "is 0, out of any"),
        ("dots3_note_text", {"swa_qk_nope_head_dim": 64}, "qk_rope_head_dim is -32, out of any"),
        ("inkling2_loop_text", {"loop_num_passes": 1 << 20}, "at most 65,536 are believable"),
        ("hy_v4", {"index_head_dim": 1 << 40}, "index_head_dim is 1099511627776, out of any"),
    ],
)
def test_sizes_of_caches_that_cannot_be_are_refused(name: str, changes: dict[str, Any], reason: str) -> None:
    values = SIZES | OWN[name] | changes | {"model_type": name}
    with pytest.raises(ModelFileError, match=re.escape(reason)):
        from_config(Path("tiny"), values, (), (), CLASSES[name], "it is tested")


@pytest.mark.parametrize(
    "changes",
    [
        {"num_kv_shared_layers": 1000},
        {"per_layer_config": [1]},
        {"per_layer_config": {"1": 7}},
        {"layer_types": None, "compress_ratios": [[], "4", True, -1]},
        {"layer_types": None, "compress_ratios": {}},
        {"indexer_types": "shared", "local_layer_ids": [[]], "sparse_attention_config": [3]},
    ],
)
@pytest.mark.parametrize("name", RELEASED)
def test_what_is_no_size_of_a_cache_is_not_taken_for_one(name: str, changes: dict[str, Any]) -> None:
    values = SIZES | OWN[name] | changes | {"model_type": name}
    spec = from_config(Path("tiny"), values, (), (), CLASSES[name], "it is tested")
    assert kv_bytes(spec, 100, 16) >= 0
