"""Tiny random models with a real tokenizer and chat template, and transformers as their oracle."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

from engine.events import Event, Finished

CONTROL = ("<s>", "<|im_start|>", "<|im_end|>")
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
VOCAB = 256 + len(CONTROL)


_LOCAL_AND_GLOBAL = {
    "sliding_attention": {"rope_type": "default", "rope_theta": 1e3},
    "full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e5},
}
_YARN = {
    "rope_type": "yarn",
    "rope_theta": 1e4,
    "factor": 8.0,
    "original_max_position_embeddings": 64,
    "beta_fast": 8.0,
}
_LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 1e4,
    "partial_rotary_factor": 0.75,
    "short_factor": [1.0 + 0.1 * i for i in range(6)],
    "long_factor": [1.5 + 0.7 * i for i in range(6)],
}
_GEMMA2 = {
    "family": "gemma2",
    "head_dim": 32,
    "query_pre_attn_scalar": 32,
    "sliding_window": 8,
    "attn_logit_softcapping": 3.0,
    "final_logit_softcapping": 5.0,
    "tie_word_embeddings": True,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "mistral nemo": {"family": "mistral", "head_dim": 32, "sliding_window": None},
    "qwen 2": {"family": "qwen2"},
    "qwen 2 tied": {"family": "qwen2", "tie_word_embeddings": True},
    "qwen 2 with windows": {
        "family": "qwen2",
        "use_sliding_window": True,
        "sliding_window": 8,
        "max_window_layers": 1,
    },
    "qwen 3": {"family": "qwen3", "head_dim": 24},
    "qwen 3 tied": {"family": "qwen3", "head_dim": 32, "tie_word_embeddings": True},
    "qwen 3 with yarn": {"family": "qwen3", "head_dim": 32, "rope_parameters": _YARN},
    "gemma": {"family": "gemma", "head_dim": 32, "tie_word_embeddings": True},
    "gemma 2": _GEMMA2,
    "gemma 2 with a scale": _GEMMA2 | {"query_pre_attn_scalar": 20},
    "gemma 3": {
        "family": "gemma3_text",
        "head_dim": 32,
        "query_pre_attn_scalar": 32,
        "num_hidden_layers": 6,
        "sliding_window": 8,
        "rope_parameters": _LOCAL_AND_GLOBAL,
        "tie_word_embeddings": True,
    },
    "gemma 3 untied with a cap": {
        "family": "gemma3_text",
        "head_dim": 16,
        "query_pre_attn_scalar": 16,
        "sliding_window": 8,
        "layer_types": ["full_attention", "sliding_attention", "full_attention"],
        "final_logit_softcapping": 5.0,
    },
    "phi 3": {"family": "phi3"},
    "phi 3 with a window": {"family": "phi3", "sliding_window": 8, "tie_word_embeddings": True},
    "phi 4 mini": {
        "family": "phi3",
        "max_position_embeddings": 4096,
        "original_max_position_embeddings": 64,
        "rope_parameters": _LONGROPE,
    },
    "granite": {
        "family": "granite",
        "embedding_multiplier": 6.0,
        "residual_multiplier": 0.4,
        "attention_multiplier": 0.1,
        "logits_scaling": 3.0,
    },
    "granite with biases": {
        "family": "granite",
        "attention_multiplier": 0.25,
        "attention_bias": True,
        "mlp_bias": True,
        "tie_word_embeddings": True,
    },
    "smollm 3": {"family": "smollm3", "no_rope_layer_interval": 4, "num_hidden_layers": 5},
    "smollm 3 with windows": {
        "family": "smollm3",
        "no_rope_layers": [1, 0, 1],
        "use_sliding_window": True,
        "sliding_window": 8,
    },
    "olmo 2": {"family": "olmo2"},
    "olmo 3": {
        "family": "olmo3",
        "num_hidden_layers": 4,
        "sliding_window": 8,
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
            "full_attention": _YARN,
        },
    },
    "llama with yarn": {"family": "llama", "rope_parameters": _YARN},
    "llama with biases": {"family": "llama", "attention_bias": True, "mlp_bias": True},
}
"""One or more configs of every family beside plain Llama, for `tiny_folder`: each option is at work."""

FOLDER_ONLY = ("qwen 2 with windows", "gemma 2 with a scale", "smollm 3 with windows")
"""Families with options that GGUF has no keys for."""


def tiny_tokenizer() -> Tokenizer:
    """One token per byte, then the control tokens; <|im_end|> has the last id."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {letter: index for index, letter in enumerate(letters)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in CONTROL])
    return tokenizer


def tiny_config(family: str = "llama", **changes: Any) -> PreTrainedConfig:
    """A model of 3 layers with grouped keys, in float32; a Llama with a sliding window is a Mistral."""
    options: dict[str, Any] = {
        "vocab_size": VOCAB,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5,
        "initializer_range": 0.3,
        "tie_word_embeddings": False,
        "bos_token_id": 256,
        "eos_token_id": 258,
        "pad_token_id": None,
    } | changes
    if family == "llama" and "sliding_window" in options:
        family = "mistral"
    return AutoConfig.for_model(family, **options)


def tiny_oracle(config: PreTrainedConfig, seed: int = 0) -> PreTrainedModel:
    """Random weights: norms around 1, in the family's own way of storing them, and biases of some size."""
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval().float()
    middle = 0.0 if config.model_type.startswith("gemma") else 1.0
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("norm.weight"):
                weight.uniform_(middle - 0.5, middle + 0.5)
            elif name.endswith(".bias"):
                weight.normal_(0, 0.5)
    return model


def tiny_folder(
    folder: Path, seed: int = 0, template: str | None = TEMPLATE, family: str = "llama", **changes: Any
) -> Path:
    """A complete Hugging Face folder of a tiny random model."""
    model = tiny_oracle(tiny_config(family, **changes), seed)
    model.save_pretrained(folder)
    tiny_tokenizer().save(str(folder / "tokenizer.json"))
    config: dict[str, Any] = {"bos_token": "<s>", "eos_token": "<|im_end|>", "add_bos_token": False}
    if template is not None:
        config["chat_template"] = template
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def finished(events: Iterable[Event], request_id: str) -> Finished | None:
    """The end of ``request_id`` among ``events``, if it is there."""
    return next((e for e in events if isinstance(e, Finished) and e.request_id == request_id), None)


def oracle_logits(folder: Path, ids: list[int]) -> torch.Tensor:
    """Float32 logits [len(ids), vocab] of transformers, all tokens at once."""
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0]
