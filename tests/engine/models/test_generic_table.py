"""The table of architectures against the library it describes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers import CONFIG_MAPPING, AutoModelForCausalLM
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

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
OWN: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("axk1", "deepseek_v2", "deepseek_v3", "glm4_moe_lite"), LATENT),
    **dict.fromkeys(("minicpm3", "sarvam_mla", "youtu"), LATENT),
    **dict.fromkeys(("axk2", "deepseek_v32", "glm_moe_dsa"), INDEXED),
    "bailing_hybrid": LATENT | {"num_hidden_layers": 8, "head_dim": 16},
    "dots3_note_text": LATENT | {"head_dim": 24, "sliding_window": 8},
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
    "gemma4_text": {"sliding_window": 8, "global_head_dim": 16, "hidden_size_per_layer_input": 16},
}


def tiny_model(name: str) -> Any:
    options = SIZES | OWN.get(name, (GENERIC | MORE).get(name, {}))
    without = {key: value for key, value in options.items() if key != "head_dim"}
    for values in (options, options | EXPERTS, options | ROUTED, without):
        try:
            config = CONFIG_MAPPING[name](**values)
            with torch.device("meta"):
                size = sum(x.numel() for x in AutoModelForCausalLM.from_config(config).parameters())
            assert size < 150e6
            torch.manual_seed(0)
            return AutoModelForCausalLM.from_config(config).eval().float()
        except Exception as error:
            last = error
    raise last


def spec_of(name: str, model: Any) -> ModelSpec:
    values = model.config.to_dict() | {"model_type": name}
    return from_config(Path("tiny"), values, (), (), CLASSES[name], "it is tested")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(CLASSES) - UNTRIED))
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
