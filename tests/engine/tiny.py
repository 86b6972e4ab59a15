"""Tiny random models with a real tokenizer and chat template, and transformers as their oracle."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM

from engine.types import Event, Finished

CONTROL = ("<s>", "<|im_start|>", "<|im_end|>")
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
VOCAB = 256 + len(CONTROL)


def tiny_tokenizer() -> Tokenizer:
    """One token per byte, then the control tokens; <|im_end|> has the last id."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {letter: index for index, letter in enumerate(letters)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in CONTROL])
    return tokenizer


def tiny_config(**changes: Any) -> LlamaConfig:
    """A Llama of 3 layers with grouped keys, in float32."""
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
    } | changes
    kind = MistralConfig if "sliding_window" in options else LlamaConfig
    return kind(**options)


def tiny_oracle(config: LlamaConfig, seed: int = 0) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    kind = MistralForCausalLM if isinstance(config, MistralConfig) else LlamaForCausalLM
    model = kind(config).eval().float()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("norm.weight"):
                weight.uniform_(0.5, 1.5)
    return model


def tiny_folder(folder: Path, seed: int = 0, template: str | None = TEMPLATE, **changes: Any) -> Path:
    """A complete Hugging Face folder of a tiny random model."""
    model = tiny_oracle(tiny_config(**changes), seed)
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
    config = json.loads((folder / "config.json").read_text())
    kind = MistralForCausalLM if config["model_type"] == "mistral" else LlamaForCausalLM
    model = kind.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0]
