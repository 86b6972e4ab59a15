"""What every layer of a model that transformers runs keeps of a sequence, and the sizes it computes with,
from config.json alone.

Knows the kinds of layers (attention, compressed attention, convolutions, running states) and the names their
sizes have; reads plain values. Standard library only.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Callable, Sequence
from typing import cast

from engine.capabilities import CacheLayer, Latent, Scan
from engine.foreign import shown
from engine.models.fields import Fields
from engine.words import figure, tr

_STATE = frozenset({"mamba", "mamba2", "linear_attention", "conv", "recurrent", "M"})
_BOTH = frozenset({"hybrid", "hybrid_sliding"})
_NEITHER = frozenset({"moe", "mlp", "dummy", "-", "E"})
_ALL_STATE = frozenset({"mamba", "mamba2", "falcon_mamba"})
_ALL_BOTH = frozenset({"falcon_h1"})
_SLIDING = frozenset({"sliding_attention", "hybrid_sliding"})
_COMPRESSED = {"heavily_compressed_attention": 128, "compressed_sparse_attention": 4}
"""Kinds of layers that make one vector of so many tokens, where config.json does not say of how many."""
_RATIOS = {0: "sliding_attention"} | {block: kind for kind, block in _COMPRESSED.items()}
_INDEXED = frozenset({"axk2", "deepseek_v32", "dots3_note_text", "glm_moe_dsa", "hy_v4"})
_INKLING = frozenset({"inkling_text", "inkling2_text", "inkling2_loop_text"})
_WINDOW_SIZES = _INKLING | {"dots3_note_text"}
"""Whose layers with a window have sizes of their own, named with swa_ before."""
_PLACED = frozenset({"gpt-sw3", "gpt2", "gpt_bigcode"})
_SIZES = ("num_key_value_heads", "head_dim", "kv_lora_rank", "qk_rope_head_dim")
_MAMBA1 = frozenset({"mamba", "falcon_mamba", "jamba", "zamba"})
_PARTS = re.compile(r"(^|_)(expert|layer|head|group|block)s?$")
KINDS = ("layer_types", "layers_block_type", "block_types", "hybrid_override_pattern")
"""Fields that name the kind of every layer, or of the first ones again and again."""
_HIDDEN = ("hidden_size", "n_embd", "d_model")
_DELTA_CHUNK, _MAMBA_CHUNK = 64, 256  # tokens; what the library takes by itself
MOST_PARTS = 1 << 16
"""No model has so many experts, layers or heads."""


def cache_layers(fields: Fields, model_type: str, num_layers: int, heads: int) -> tuple[CacheLayer, ...]:
    """One entry a layer of the cache. Where an architecture says something this module does not know, a layer
    counts as attention over all its heads, which is more than it keeps.
    """
    if model_type == "longcat_flash":  # two attentions a layer
        num_layers = 2 * num_layers
    own = num_layers - min(num_layers, _num_shared(fields, model_type))
    kinds, settled = _kinds(fields, model_type, num_layers)[:own], _settled(fields)
    each = (_layer_fields(settled, model_type, i, kind) for i, kind in enumerate(kinds))
    made = [_cache_layer(x, model_type, i, kinds[i], heads) for i, x in enumerate(each)]
    again = _looped(fields, made) if model_type == "inkling2_loop_text" else []
    return (*made, *[CacheLayer()] * (num_layers - own), *again)


def _looped(fields: Fields, made: list[CacheLayer]) -> list[CacheLayer]:
    """What layers keep that are passed several times, of every pass but the first."""
    begin = fields.integer("loop_layer_index_start", 6, least=0)
    end = fields.integer("loop_layer_index_end", 18, least=0)
    passes, looped = fields.integer("loop_num_passes", 3), made[begin:end]
    if passes * max(1, len(looped)) > MOST_PARTS:
        said = tr("{field} is {value}; at most {most} are believable.")
        raise fields.error("loop_num_passes", said, value=shown(passes), most=figure(MOST_PARTS))
    return looped * (passes - 1)


def _settled(fields: Fields) -> Fields:
    """Lists of one number again and again are looked through once and not for every layer."""

    def settled(value: object) -> object:
        if isinstance(value, list) and value and isinstance(value[0], int | float):
            return value[0] if all(each == value[0] for each in value) else value
        return value

    return Fields(fields.source, {name: settled(value) for name, value in fields.values.items()})


def _num_shared(fields: Fields, model_type: str) -> int:
    """Last layers that attend to the keys and values of earlier ones."""
    return fields.integer("num_kv_shared_layers", 15 if model_type == "gemma3n_text" else 0, least=0)


def _cache_layer(fields: Fields, model_type: str, layer: int, kind: str, heads: int) -> CacheLayer:
    """What a layer keeps whose own fields these are."""
    if kind in _COMPRESSED:
        return _compressed(fields, kind)
    conv, recurrent = _state(fields, model_type, heads) if kind in _STATE | _BOTH else (0, 0)
    is_unknown = kind in _STATE and not (conv or recurrent)
    keeps_tokens = kind not in _STATE | _NEITHER or is_unknown
    per_token = _per_token(fields, heads) if keeps_tokens else 0
    if kind == "hybrid_sliding" or (model_type == "deepseek_v4" and kind in _SLIDING):
        window = _first(fields, ("sliding_window", "sliding_window_size"), 1)
        return CacheLayer(0, conv, recurrent, in_window=per_token, window=max(0, window - 1))
    indexer = _indexer(fields, model_type, layer, kind) if keeps_tokens else 0
    if model_type == "dots3_note_text":
        return CacheLayer(per_token, indexer_f32=indexer)
    return CacheLayer(per_token, conv, recurrent, indexer)


def _layer_fields(fields: Fields, model_type: str, layer: int, kind: str) -> Fields:
    """The fields as one layer has them: config.json lists what differs, layer by layer, or has names for what
    differs in layers of one kind.
    """
    listed = fields.get("per_layer_config")
    differing: object = None
    if isinstance(listed, dict):
        differing = listed.get(str(layer))
    elif model_type.startswith("gemma4") and kind == "full_attention":
        differing = {"head_dim": fields.integer("global_head_dim", 512)}
        if fields.flag("attention_k_eq_v") and fields.get("num_global_key_value_heads") is not None:
            differing["num_key_value_heads"] = fields.integer("num_global_key_value_heads")
    elif model_type == "mimo_v2_flash" and kind in _SLIDING:
        differing = {"num_key_value_heads": 2 * fields.integer("num_key_value_heads", 4)}
    elif model_type in _WINDOW_SIZES and kind in _SLIDING:
        named = {name: fields.get(f"swa_{name}") for name in _SIZES}
        differing = {name: value for name, value in named.items() if value is not None}
        if model_type == "dots3_note_text" and "qk_rope_head_dim" not in differing:  # what a head has left
            kept = fields.integer("swa_qk_nope_head_dim", 192)
            differing["qk_rope_head_dim"] = fields.integer("swa_head_dim", 256) - kept
    if not isinstance(differing, dict):
        return fields
    return Fields(fields.source, ChainMap(differing, cast("dict[str, object]", fields.values)))


def _compressed(fields: Fields, kind: str) -> CacheLayer:
    """DeepSeek V4: the keys of a window, which are the values too; a vector for every block of tokens; keys
    and gates that wait for a block to be full. Blocks that are chosen have a second vector to choose by, and
    overlap: they are made of two projections, and of the block before, whose gates are in float32.
    """
    chosen = kind == "compressed_sparse_attention"
    name, rates = "compress_rate_csa" if chosen else "compress_rate_hca", fields.get("compress_rates")
    block = fields.integer(name, _COMPRESSED[kind])
    if isinstance(rates, dict):
        block = Fields(fields.source, rates).integer(kind, block)
    width = fields.integer("head_dim", 512)
    made = width + (fields.integer("index_head_dim", 128) if chosen else 0)
    waiting = 2 * made * (block - 1)
    window = fields.integer("sliding_window", 128)
    if chosen:
        return CacheLayer(0, 2 * waiting + block * made, block * made, 0, 0, width, window - 1, made, block)
    return CacheLayer(conv=waiting, in_window=width, window=window - 1, per_block=made, block=block)


def _indexer(fields: Fields, model_type: str, layer: int, kind: str) -> int:
    """Numbers of a token by which a layer chooses whom it attends to; some layers take the choice of an
    earlier one.
    """
    listed = fields.get("indexer_types")
    is_shared = isinstance(listed, list) and listed[layer : layer + 1] == ["shared"]
    is_indexed = kind == "minimax_m3_sparse" or (model_type in _INDEXED and kind not in _SLIDING)
    return fields.integer("index_head_dim", 128) if is_indexed and not is_shared else 0


def _state(fields: Fields, model_type: str, heads: int) -> tuple[int, int]:
    """Numbers of the last inputs of convolutions, and of what is in float32 whatever the format: states."""
    if model_type in _INKLING:  # convolutions in float32, over keys, values and what comes of both parts
        kernel = _first(fields, ("conv_kernel_size", "sconv_kernel_size"), 4)
        return 0, (_per_token(fields, heads) + 2 * fields.integer("hidden_size")) * kernel
    if model_type == "zaya":  # over queries and keys; half of the values are those of the token before
        values = _per_token(fields, heads) // 2
        queries = values // max(1, kv_heads(fields, heads)) * heads
        kernel = fields.integer("cca_time0", 2) + fields.integer("cca_time1", 2) - 2
        return (queries + values) * kernel + values // 2, 0
    found = scan(fields, model_type)
    return (found.conv, found.recurrent) if found else (0, 0)


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
    if model_type in _PATTERNS:
        return _PATTERNS[model_type](fields, num_layers)
    return ["attention" if each else "mamba" for each in _attends(fields, model_type, num_layers)]


def _repeated(fields: Fields, name: str, given: list[object], num_layers: int) -> list[str]:
    if not all(isinstance(each, str) for each in given):
        raise fields.error(name, tr("{field} is not a list of names."))
    return [str(given[i % len(given)]) for i in range(num_layers)]


def _ratio_kinds(fields: Fields, num_layers: int) -> list[str]:
    """DeepSeek V4: of how many tokens a layer makes one vector."""
    given = fields.get("compress_ratios")
    if not isinstance(given, list) or not given:
        return [_RATIOS[128 if i < 2 or i % 2 == 0 else 4] for i in range(num_layers)]
    ratios = [each if isinstance(each, int) else -1 for each in given]
    return [_RATIOS.get(ratios[i % len(ratios)], "attention") for i in range(num_layers)]


def _local_kinds(fields: Fields, num_layers: int) -> list[str]:
    """Inkling: which layers have a window; all but every sixth."""
    given = fields.get("local_layer_ids")
    local = range(num_layers) if not isinstance(given, list) else {i for i in given if isinstance(i, int)}
    every = 6 if not isinstance(given, list) else num_layers + 1
    return ["hybrid_sliding" if i in local and (i + 1) % every else "hybrid" for i in range(num_layers)]


def _sixth_kinds(fields: Fields, num_layers: int) -> list[str]:
    """MiMo V2: the first layer and every sixth sees all."""
    return ["sliding_attention" if i and (i + 1) % 6 else "full_attention" for i in range(num_layers)]


def _fourth_kinds(fields: Fields, num_layers: int) -> list[str]:
    """dots3: the first two layers and every fourth see all."""
    return ["full_attention" if i < 2 or i % 4 == 1 else "sliding_attention" for i in range(num_layers)]


def _sparse_kinds(fields: Fields, num_layers: int) -> list[str]:
    """MiniMax M3: which layers choose whom they attend to."""
    sparse = fields.get("sparse_attention_config")
    given = sparse.get("sparse_attention_freq") if isinstance(sparse, dict) else None
    chooses = given if isinstance(given, list) and given else [0]
    names = "full_attention", "minimax_m3_sparse"
    return [names[bool(chooses[i % len(chooses)])] for i in range(num_layers)]


def _both_kinds(fields: Fields, num_layers: int) -> list[str]:
    return ["hybrid"] * num_layers


_PATTERNS: dict[str, Callable[[Fields, int], list[str]]] = {
    **dict.fromkeys(_INKLING, _local_kinds),
    "deepseek_v4": _ratio_kinds,
    "dots3_note_text": _fourth_kinds,
    "mimo_v2_flash": _sixth_kinds,
    "minimax_m3_vl_text": _sparse_kinds,
    "zaya": _both_kinds,
}
"""model_type → the kinds of layers where config.json does not list them."""


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
    if model_type == "bailing_hybrid":
        period = fields.integer("layer_group_size", 6)
    else:
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
    dim = _head_dim(fields, heads)
    value_dim = fields.integer("v_head_dim", 0, least=0) or dim
    return kv_heads(fields, heads) * (dim + value_dim)


def kv_heads(fields: Fields, heads: int) -> int:
    """Heads of keys and values."""
    if fields.get("multi_query") is True and fields.get("new_decoder_architecture") is not True:
        return 1
    return _first(fields, ("num_key_value_heads", "num_kv_heads", "n_head_kv"), heads)


def kinds_of_heads(
    fields: Fields, model_type: str, num_layers: int, heads: int
) -> tuple[tuple[int, int], ...]:
    """Heads of keys and values, and numbers of a head, of all kinds of layers."""
    settled, kinds = _settled(fields), _kinds(fields, model_type, num_layers)
    each = (_layer_fields(settled, model_type, i, kind) for i, kind in enumerate(kinds))
    return tuple(sorted({(kv_heads(own, heads), _head_dim(own, heads)) for own in each}))


def _head_dim(fields: Fields, heads: int) -> int:
    return fields.integer("head_dim", 0, least=0) or _first(fields, _HIDDEN, 0) // max(1, heads)


def beside(fields: Fields, model_type: str, num_layers: int) -> int:
    """Numbers of a token that all layers have beside the residual stream: embeddings for every layer; those
    of places and what attention gave (GPT-2); the streams of Gemma 3n as they were, as they are predicted and
    as a layer gets them, and four of one.
    """
    embedded = num_layers * fields.integer("hidden_size_per_layer_input", 0, least=0)
    if model_type in _PLACED:
        return 2 * _first(fields, _HIDDEN, 0)
    if model_type != "gemma3n_text":
        return embedded
    return embedded + (3 * fields.integer("altup_num_inputs", 4) + 4) * fields.integer("hidden_size")


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
    if model_type == "bailing_hybrid":
        heads = fields.integer("num_attention_heads")
        dim = fields.integer("linear_head_dim", fields.integer("head_dim", 128))
        return Scan("kda", heads, dim, fields.integer("short_conv_kernel_size", 4), heads, dim, _DELTA_CHUNK)
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
