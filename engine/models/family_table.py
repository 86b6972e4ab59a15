"""The table of model families: one architecture in one kind of file, its options and its names.

Data alone: knows neither how a file is read nor how a decoder computes. Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.types import DecoderOptions

_LLAMA = DecoderOptions()


@dataclass(frozen=True, slots=True)
class Family:
    """One architecture as one kind of file holds it.

    Words are the decoder's names of tensors (`embedding`, `q`, `mlp_norm`); `{i}` in a file's name is the
    layer. What the fields mean:

    Tensors. `names` and `layer_names` map words to names; which words of the latter a model has, its options
    say. `fused` names a tensor that holds several words one above the other. `optional` words may be missing
    from a file. `prefixes` may stand before every name; `ignored` names carry no weight of this decoder.
    `permuted_qk`: the rows of q and k lie pair beside pair (x0 y0 x1 y1 …, the order GGUF keeps for Llama)
    rather than half after half (x0 x1 … y0 y1 …). `norm_offset` is added to the weights of norms.

    Options. `options` are what every model of the family has. `numbers` maps an option to the key of its
    value, `bias_flags` a key to the products it gives biases to. `defaults` are the values of missing keys; a
    key that is there and null stays null. `has_window`: the sliding window is read at all. `full_every`:
    every n-th layer sees everything all the same (0: none does). `unrotated_every`: every n-th layer does
    not rotate (0: all do). `has_local_rope`: layers with a window rotate unstretched, with the base
    `local_theta` (None: the other layers' base). `scales_embedding`: embeddings are multiplied with √hidden.
    `width_scaled_layers`: the number of layers of the one model whose scores are divided by √(hidden / heads)
    and not √head_dim, where the file does not say so.
    """

    title: str
    source: str  # gguf | safetensors
    architecture: str  # general.architecture or model_type
    names: Mapping[str, str]
    layer_names: Mapping[str, str]
    optional: frozenset[str]
    permuted_qk: bool = False
    classes: tuple[str, ...] = ()  # names `architectures` may have in config.json
    options: DecoderOptions = _LLAMA
    fused: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    prefixes: tuple[str, ...] = ("",)
    ignored: re.Pattern[str] = re.compile(r"(?!)")
    norm_offset: float = 0.0
    numbers: Mapping[str, str] = field(default_factory=dict)
    bias_flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    defaults: Mapping[str, object] = field(default_factory=dict)
    has_window: bool = False
    full_every: int = 0
    unrotated_every: int = 0
    has_local_rope: bool = False
    local_theta: float | None = None
    scales_embedding: bool = False
    width_scaled_layers: int | None = None


_GGUF_NAMES = {
    "embedding": "token_embd.weight",
    "output_norm": "output_norm.weight",
    "head": "output.weight",
    "rope_factors": "rope_freqs.weight",
    "rope_short": "rope_factors_short.weight",
    "rope_long": "rope_factors_long.weight",
}
_GGUF_LAYER = {
    "attention_norm": "blk.{i}.attn_norm.weight",
    "q": "blk.{i}.attn_q.weight",
    "k": "blk.{i}.attn_k.weight",
    "v": "blk.{i}.attn_v.weight",
    "q_norm": "blk.{i}.attn_q_norm.weight",
    "k_norm": "blk.{i}.attn_k_norm.weight",
    "o": "blk.{i}.attn_output.weight",
    "post_attention_norm": "blk.{i}.post_attention_norm.weight",
    "mlp_norm": "blk.{i}.ffn_norm.weight",
    "gate": "blk.{i}.ffn_gate.weight",
    "up": "blk.{i}.ffn_up.weight",
    "down": "blk.{i}.ffn_down.weight",
    "post_mlp_norm": "blk.{i}.post_ffw_norm.weight",
}
_GGUF_FUSED = {
    "blk.{i}.attn_qkv.weight": ("q", "k", "v"),
    "blk.{i}.attn_qkv.bias": ("q_bias", "k_bias", "v_bias"),
}
_HF_NAMES = {
    "embedding": "embed_tokens.weight",
    "output_norm": "norm.weight",
    "head": "lm_head.weight",
}
_HF_LAYER = {
    "attention_norm": "layers.{i}.input_layernorm.weight",
    "q": "layers.{i}.self_attn.q_proj.weight",
    "k": "layers.{i}.self_attn.k_proj.weight",
    "v": "layers.{i}.self_attn.v_proj.weight",
    "q_norm": "layers.{i}.self_attn.q_norm.weight",
    "k_norm": "layers.{i}.self_attn.k_norm.weight",
    "o": "layers.{i}.self_attn.o_proj.weight",
    "mlp_norm": "layers.{i}.post_attention_layernorm.weight",
    "gate": "layers.{i}.mlp.gate_proj.weight",
    "up": "layers.{i}.mlp.up_proj.weight",
    "down": "layers.{i}.mlp.down_proj.weight",
}
_HF_POST_NORMS = {
    "post_attention_norm": "layers.{i}.post_attention_layernorm.weight",
    "mlp_norm": "layers.{i}.pre_feedforward_layernorm.weight",
    "post_mlp_norm": "layers.{i}.post_feedforward_layernorm.weight",
}
# A language model may sit inside a larger one; what belongs to its eyes or ears is not used for text.
_HF_PREFIXES = ("model.", "language_model.model.", "model.language_model.", "")
_HF_IGNORED = re.compile(
    r".*\.rotary_emb\.inv_freq|(model\.)?(vision_tower|vision_model|multi_modal_projector|visual)\..*"
)

_GEMMA = DecoderOptions(activation="gelu_tanh")
_GEMMA2 = DecoderOptions(activation="gelu_tanh", post_norms=True)
_GEMMA3 = DecoderOptions(activation="gelu_tanh", post_norms=True, qk_norm="head")
_OLMO2 = DecoderOptions(pre_norms=False, post_norms=True, qk_norm="all")
_QKV_BIASES = DecoderOptions(biases=("qkv",))
_HEAD_NORMS = DecoderOptions(qk_norm="head")

_ATTENTION_BIAS = {"attention_bias": ("qkv", "o")}
_BIAS_FLAGS = {**_ATTENTION_BIAS, "mlp_bias": ("gate_up", "down")}
_GEMMA2_CAPS = {"attention_cap": "attn_logit_softcapping", "logit_cap": "final_logit_softcapping"}
_GEMMA_DEFAULTS = {
    "head_dim": 256,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "tie_word_embeddings": True,
    "query_pre_attn_scalar": 256,
    "sliding_window": 4096,
}
_QWEN_DEFAULTS = {
    "max_position_embeddings": 32_768,
    "use_sliding_window": False,
    "sliding_window": 4096,
    "max_window_layers": 28,
}


def _gguf(title: str, architecture: str, **fields: Any) -> Family:
    made: dict[str, Any] = {
        "names": _GGUF_NAMES,
        "layer_names": _GGUF_LAYER,
        "fused": _GGUF_FUSED,
        "optional": frozenset({"head", "rope_factors", "rope_short", "rope_long"}),
        "ignored": re.compile(r"blk\.\d+\.attn_rot_embd"),
    }
    return Family(title, "gguf", architecture, **(made | fields))


def _hf(title: str, architecture: str, name: str, **fields: Any) -> Family:
    made: dict[str, Any] = {
        "classes": (f"{name}ForCausalLM", f"{name}Model"),
        "names": _HF_NAMES,
        "layer_names": _HF_LAYER,
        "optional": frozenset({"head"}),
        "prefixes": _HF_PREFIXES,
        "ignored": _HF_IGNORED,
    }
    return Family(title, "safetensors", architecture, **(made | fields))


FAMILIES: tuple[Family, ...] = (
    _gguf("Llama", "llama", permuted_qk=True, has_window=True),
    _gguf("Qwen 2", "qwen2"),
    _gguf("Qwen 3", "qwen3", options=_HEAD_NORMS),
    _gguf("Gemma", "gemma", options=_GEMMA, scales_embedding=True),
    _gguf(
        "Gemma 2",
        "gemma2",
        options=_GEMMA2,
        scales_embedding=True,
        numbers=_GEMMA2_CAPS,
        defaults={
            "attention.sliding_window": 4096,
            "attn_logit_softcapping": 50.0,
            "final_logit_softcapping": 30.0,
        },
        has_window=True,
        full_every=2,
        width_scaled_layers=46,
    ),
    _gguf(
        "Gemma 3",
        "gemma3",
        options=_GEMMA3,
        scales_embedding=True,
        numbers={"logit_cap": "final_logit_softcapping"},
        defaults={"rope.freq_base": 1_000_000.0},
        has_window=True,
        full_every=6,
        has_local_rope=True,
        local_theta=10_000.0,
        width_scaled_layers=62,
    ),
    _gguf(
        "Phi-3",
        "phi3",
        fused={**_GGUF_FUSED, "blk.{i}.ffn_up.weight": ("gate", "up")},
        has_window=True,
    ),
    _gguf(
        "Granite",
        "granite",
        permuted_qk=True,
        numbers={
            "embedding_scale": "embedding_scale",
            "residual_scale": "residual_scale",
            "attention_scale": "attention.scale",
            "logit_divisor": "logit_scale",
        },
    ),
    _gguf("SmolLM3", "smollm3", permuted_qk=True, unrotated_every=4),
    _gguf("OLMo 2", "olmo2", options=_OLMO2, has_window=True, full_every=4, has_local_rope=True),
    _hf(
        "Llama",
        "llama",
        "Llama",
        classes=("LlamaForCausalLM", "LLaMAForCausalLM", "LlamaModel"),
        bias_flags=_BIAS_FLAGS,
        defaults={"max_position_embeddings": 2048},
    ),
    _hf(
        "Mistral",
        "mistral",
        "Mistral",
        defaults={"max_position_embeddings": 131_072, "sliding_window": 4096, "num_key_value_heads": 8},
        has_window=True,
    ),
    _hf("Qwen 2", "qwen2", "Qwen2", options=_QKV_BIASES, defaults=_QWEN_DEFAULTS, has_window=True),
    _hf(
        "Qwen 3",
        "qwen3",
        "Qwen3",
        options=_HEAD_NORMS,
        bias_flags=_ATTENTION_BIAS,
        defaults=_QWEN_DEFAULTS | {"head_dim": 128},
        has_window=True,
    ),
    _hf(
        "Gemma",
        "gemma",
        "Gemma",
        options=_GEMMA,
        bias_flags=_ATTENTION_BIAS,
        scales_embedding=True,
        norm_offset=1.0,
        defaults={"max_position_embeddings": 8192, "head_dim": 256, "tie_word_embeddings": True},
    ),
    _hf(
        "Gemma 2",
        "gemma2",
        "Gemma2",
        layer_names=_HF_LAYER | _HF_POST_NORMS,
        options=_GEMMA2,
        bias_flags=_ATTENTION_BIAS,
        scales_embedding=True,
        norm_offset=1.0,
        numbers={**_GEMMA2_CAPS, "attention_scale": "query_pre_attn_scalar"},
        defaults=_GEMMA_DEFAULTS
        | {
            "max_position_embeddings": 8192,
            "attn_logit_softcapping": 50.0,
            "final_logit_softcapping": 30.0,
        },
        has_window=True,
        full_every=2,
    ),
    _hf(
        "Gemma 3",
        "gemma3_text",
        "Gemma3",
        layer_names=_HF_LAYER | _HF_POST_NORMS,
        options=_GEMMA3,
        bias_flags=_ATTENTION_BIAS,
        scales_embedding=True,
        norm_offset=1.0,
        numbers={"logit_cap": "final_logit_softcapping", "attention_scale": "query_pre_attn_scalar"},
        defaults=_GEMMA_DEFAULTS
        | {"max_position_embeddings": 131_072, "vocab_size": 262_208, "rope_theta": 1_000_000.0},
        has_window=True,
        full_every=6,
        has_local_rope=True,
        local_theta=10_000.0,
    ),
    _hf(
        "Phi-3",
        "phi3",
        "Phi3",
        fused={
            "layers.{i}.self_attn.qkv_proj.weight": ("q", "k", "v"),
            "layers.{i}.mlp.gate_up_proj.weight": ("gate", "up"),
        },
        defaults={
            "max_position_embeddings": 4096,
            "original_max_position_embeddings": 4096,
            "partial_rotary_factor": 1.0,
            "rms_norm_eps": 1e-5,
        },
        has_window=True,
    ),
    _hf(
        "Granite",
        "granite",
        "Granite",
        bias_flags=_BIAS_FLAGS,
        numbers={
            "embedding_scale": "embedding_multiplier",
            "residual_scale": "residual_multiplier",
            "attention_scale": "attention_multiplier",
            "logit_divisor": "logits_scaling",
        },
        defaults={"max_position_embeddings": 2048, "attention_multiplier": 1.0},
    ),
    _hf(
        "SmolLM3",
        "smollm3",
        "SmolLM3",
        bias_flags=_BIAS_FLAGS,
        defaults={
            "max_position_embeddings": 32_768,
            "num_key_value_heads": 4,
            "tie_word_embeddings": True,
            "rope_theta": 2_000_000.0,
            "use_sliding_window": False,
        },
        has_window=True,
        unrotated_every=4,
    ),
    _hf(
        "OLMo 2",
        "olmo2",
        "Olmo2",
        layer_names=_HF_LAYER | _HF_POST_NORMS,
        options=_OLMO2,
        bias_flags=_ATTENTION_BIAS,
        defaults={"max_position_embeddings": 2048, "rms_norm_eps": 1e-5},
    ),
    _hf(
        "OLMo 3",
        "olmo3",
        "Olmo3",
        layer_names=_HF_LAYER | _HF_POST_NORMS,
        options=_OLMO2,
        bias_flags=_ATTENTION_BIAS,
        defaults={
            "max_position_embeddings": 2048,
            "rms_norm_eps": 1e-5,
            "rope_theta": 500_000.0,
            "sliding_window": 4096,
        },
        has_window=True,
        full_every=4,
        has_local_rope=True,
    ),
)
