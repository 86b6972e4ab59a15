"""What every layer of a model that transformers runs keeps of a sequence, and the sizes it computes with,
from config.json alone.

Knows the kinds of layers (attention, compressed attention, convolutions, running states) and the names their
sizes have; reads plain values. Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from engine.capabilities import CacheLayer, Latent, Scan
from engine.foreign import shown
from engine.models.fields import Fields
from engine.words import figure, tr

_STATE = frozenset({"mamba", "mamba2", "linear_attention", "conv", "recurrent", "M"})
_BOTH = frozenset({"hybrid", "hybrid_sliding"})
_NEITHER = frozenset({"moe", "mlp", "dummy", "-", "E"})
_ALL_STATE = frozenset({"mamba", "mamba2", "falcon_mamba"})
_ALL_BOTH = frozenset({"falcon_h1"})
_MAMBA1 = frozenset({"mamba", "falcon_mamba", "jamba", "zamba"})
_PARTS = re.compile(r"(^|_)(expert|layer|head|group|block)s?$")
KINDS = ("layer_types", "layers_block_type", "block_types", "hybrid_override_pattern")
"""Fields that name the kind of every layer, or of the first ones again and again."""
_HIDDEN = ("hidden_size", "n_embd", "d_model")
_DELTA_CHUNK, _MAMBA_CHUNK = 64, 256  # tokens; what the library takes by itself
MOST_PARTS = 1 << 16
"""No model has so many experts, layers or heads."""


def cache_layers(fields: Fields, model_type: str, num_layers: int, heads: int) -> tuple[CacheLayer, ...]:
    """One entry a layer. Where an architecture says something this module does not know, a layer counts as
    attention over all its heads, which is more than it keeps.
    """
    kinds = _kinds(fields, model_type, num_layers)
    per_token, found = _per_token(fields, heads), scan(fields, model_type)
    state = (found.conv, found.recurrent) if found else (0, 0)
    made = []
    for kind in kinds:
        conv, recurrent = state if kind in _STATE | _BOTH else (0, 0)
        is_unknown = kind in _STATE and not (conv or recurrent)
        keeps_tokens = kind not in _STATE | _NEITHER or is_unknown
        made.append(CacheLayer(per_token if keeps_tokens else 0, conv, recurrent))
    return tuple(made)


def num_masks(fields: Fields, model_type: str, num_layers: int) -> int:
    """How many kinds of attention there are, each with a mask of its own: one that sees all, windows."""
    return len(set(_kinds(fields, model_type, num_layers)) - _STATE - _NEITHER)


def _kinds(fields: Fields, model_type: str, num_layers: int) -> Sequence[str]:
    """The kind of every layer, in the words of config.json."""
    if model_type in _ALL_STATE:
        return ["mamba"] * num_layers
    if model_type in _ALL_BOTH:
        return ["hybrid"] * num_layers
    for name in KINDS:
        given = fields.get(name)
        if isinstance(given, list | str) and given:
            return _repeated(fields, name, list(given), num_layers)
    return ["attention" if each else "mamba" for each in _attends(fields, model_type, num_layers)]


def _repeated(fields: Fields, name: str, given: list[object], num_layers: int) -> list[str]:
    if not all(isinstance(each, str) for each in given):
        raise fields.error(name, tr("{field} is not a list of names."))
    return [str(given[i % len(given)]) for i in range(num_layers)]


def _attends(fields: Fields, model_type: str, num_layers: int) -> list[bool]:
    """Which layers have attention, where numbers and not names say it."""
    listed = fields.get("attn_layer_indices") or fields.get("full_attn_idxs")
    if listed is None and isinstance(linear := fields.get("linear_attn_config"), dict):
        listed = [i - 1 for i in linear.get("full_attn_layers", ()) if isinstance(i, int)]  # counted from 1
    if isinstance(listed, list):
        return [i in listed for i in range(num_layers)]
    if fields.get("attn_layer_period") is not None:
        period = fields.integer("attn_layer_period")
        offset = fields.integer("attn_layer_offset", 0, least=0)
        return [i % period == offset for i in range(num_layers)]
    default = 4 if model_type.startswith(("qwen3_next", "qwen3_5")) else 0
    period = fields.integer("full_attention_interval", default, least=0)
    return [not period or (i + 1) % period == 0 for i in range(num_layers)]


def _per_token(fields: Fields, heads: int) -> int:
    """Numbers of one token in one layer of attention: keys and values of all their heads, or the latent
    vector with the rotated part of the key where these are compressed (MLA, arXiv 2405.04434).
    """
    latent = fields.integer("kv_lora_rank", 0, least=0)
    if latent:
        return latent + fields.integer("qk_rope_head_dim", 64)
    hidden = _first(fields, _HIDDEN, 0)
    dim = fields.integer("head_dim", 0, least=0) or hidden // max(1, heads)
    value_dim = fields.integer("v_head_dim", 0, least=0) or dim
    return kv_heads(fields, heads) * (dim + value_dim)


def kv_heads(fields: Fields, heads: int) -> int:
    """Heads of keys and values."""
    if fields.get("multi_query") is True and fields.get("new_decoder_architecture") is not True:
        return 1
    return _first(fields, ("num_key_value_heads", "num_kv_heads", "n_head_kv"), heads)


def scan(fields: Fields, model_type: str) -> Scan | None:
    """The sizes of the layers with a state or a convolution; None where there are none of a known kind."""
    if fields.get("conv_L_cache") is not None:  # LFM2: a short convolution alone
        return Scan("conv", fields.integer("hidden_size"), 1, fields.integer("conv_L_cache"))
    if fields.get("linear_key_head_dim") is not None:  # gated delta rule, arXiv 2412.06464
        return Scan(
            "joint delta" if model_type == "qwen3_next" else "delta",
            fields.integer("linear_num_value_heads"),
            fields.integer("linear_value_head_dim"),
            fields.integer("linear_conv_kernel_dim", 4),
            fields.integer("linear_num_key_heads"),
            fields.integer("linear_key_head_dim"),
            _DELTA_CHUNK,
        )
    if isinstance(given := fields.get("linear_attn_config"), dict):  # Kimi delta attention, arXiv 2510.26692
        own = Fields(fields.source, given)
        heads, dim = own.integer("num_heads"), own.integer("head_dim")
        return Scan("kda", heads, dim, own.integer("short_conv_kernel_size", 4), heads, dim, _DELTA_CHUNK)
    return _mamba(fields, model_type)


def _mamba(fields: Fields, model_type: str) -> Scan | None:
    """State space layers: Mamba (arXiv 2312.00752) keeps channels, each a head of one number; Mamba 2 (arXiv
    2405.21060) has larger heads, and inputs and outputs in groups.
    """
    state = _first(fields, ("mamba_d_state", "ssm_state_size", "state_size"), 0)
    kernel = _first(fields, ("mamba_d_conv", "conv_kernel", "conv_kernel_size"), 4)
    if not state:
        return None
    inner = _first(fields, ("mamba_expand", "expand"), 2) * _first(fields, _HIDDEN, 0)
    if model_type in _MAMBA1:
        if model_type in _ALL_STATE:
            inner = fields.integer("intermediate_size", inner)
        return Scan("mamba", inner, 1, kernel, key_dim=state)
    heads = _first(fields, ("mamba_n_heads", "mamba_num_heads", "n_mamba_heads", "num_heads"), 1)
    own_dim = "head_dim" if model_type == "mamba2" else "mamba_d_head"
    dim = _first(fields, (own_dim, "mamba_head_dim", "mamba_headdim"), 0)
    groups = _first(fields, ("mamba_n_groups", "mamba_ngroups", "n_groups"), 1)
    chunk = max(1, _first(fields, ("mamba_chunk_size", "chunk_size"), _MAMBA_CHUNK))
    return Scan("mamba2", heads, dim or inner // max(1, heads), kernel, groups, state, chunk)


def latent(fields: Fields) -> Latent | None:
    """The sizes of heads made of compressed keys and values; None where they are not."""
    if not fields.integer("kv_lora_rank", 0, least=0) or fields.get("qk_nope_head_dim") is None:
        return None
    rotated = fields.integer("qk_rope_head_dim", 64)
    kept = fields.integer("qk_nope_head_dim")
    return Latent(kept + rotated, rotated, fields.integer("v_head_dim", kept))


def _first(fields: Fields, names: Sequence[str], default: int) -> int:
    """The value of the first of these names that is there as a number."""
    for name in names:
        value = fields.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return fields.integer(name, least=0)
    return default


def refuse_wild_counts(fields: Fields) -> None:
    """Raise ModelFileError where a number of parts, each a module to be made, is beyond any model."""
    for name, value in fields.values.items():
        if _PARTS.search(name) and isinstance(value, int) and value > MOST_PARTS:
            said = tr("{field} is {value}; at most {most} are believable.")
            raise fields.error(name, said, value=shown(value), most=figure(MOST_PARTS))
