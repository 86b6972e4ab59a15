"""Turns the config.json of a Hugging Face folder into a ModelSpec.

Knows names and meanings of keys; reads plain values, and never code the folder brings along.
Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from engine.errors import ModelFileError, UnsafeModelError, UnsupportedModelError
from engine.foreign import printable, shown
from engine.models import families
from engine.models.families import Family
from engine.models.fields import MOST_FACTOR, MOST_INTEGER, Feature, Fields, display_name
from engine.types import ModelSpec, RopeSpec, TensorInfo

_LACKED: tuple[Feature, ...] = (
    ("attention_bias", (False,), "biases of attention"),
    ("mlp_bias", (False,), "biases of the feed-forward part"),
    ("partial_rotary_factor", (1, 1.0), "a partial rotary embedding"),
    ("num_local_experts", (0, 1), "a mixture of experts"),
    ("num_experts", (0, 1), "a mixture of experts"),
    ("attn_logit_softcapping", (), "soft-capped attention"),
    ("final_logit_softcapping", (), "soft-capped logits"),
    ("is_decoder", (True, False), "an encoder"),
)


def check_architecture(path: str, config: Mapping[str, object]) -> Family:
    """The family of a config, before any weight file is looked at.

    What `auto_map`, `trust_remote_code` or `model_file` say is never followed: an architecture the table
    knows is read as plain values, another one that needs its own code is refused as unsafe.
    """
    inner = _inner(path, config)
    model_type = inner.get("model_type")
    if not isinstance(model_type, str):
        raise ModelFileError(f"{path}: model_type is missing.", "Download config.json again.")
    found = families.find("safetensors", model_type)
    classes = inner.get("architectures") or []
    name = classes[0] if isinstance(classes, list) and classes else None
    if found is not None and (name is None or name in found.classes or inner is not config):
        return found
    shown_name = str(name or model_type)
    if config.get("auto_map") or inner.get("auto_map"):
        raise UnsafeModelError(
            f"{path}: the model ({printable(shown_name)}) needs Python code of its own, which is never run.",
            "Choose a model of a supported architecture, or its GGUF.",
        )
    raise families.unsupported(path, shown_name)


def from_config(
    folder: Path, config: Mapping[str, object], files: tuple[str, ...], tensors: tuple[TensorInfo, ...]
) -> ModelSpec:
    """The spec of a folder, its tensors not yet compared with it.

    Raises ModelFileError for missing or impossible values, UnsupportedModelError for an option that
    cannot run, and as `check_architecture` does.
    """
    path = str(folder / "config.json")
    family = check_architecture(path, config)
    fields = Fields(path, _inner(path, config))
    _refuse_options(fields, config)
    heads = fields.integer("num_attention_heads")
    hidden = fields.integer("hidden_size")
    head_dim = fields.integer("head_dim", 0, least=0)
    if not head_dim and hidden % heads:
        raise fields.error("num_attention_heads", f"is {heads}, which does not divide hidden_size {hidden}")
    rope, context = _rope(fields, fields.integer("max_position_embeddings", family.default_context))
    return ModelSpec(
        path=str(folder),
        source="safetensors",
        name=display_name(str(folder)),
        architecture=family.architecture,
        num_layers=fields.integer("num_hidden_layers"),
        hidden_size=hidden,
        intermediate_size=fields.integer("intermediate_size"),
        num_heads=heads,
        num_kv_heads=_kv_heads(fields, family, heads),
        head_dim=head_dim or hidden // heads,
        vocab_size=fields.integer("vocab_size"),
        trained_context=context,
        norm_eps=fields.positive("rms_norm_eps", 1e-6),
        rope=rope,
        tied_embeddings=_is_tied(fields, config),
        sliding_window=_sliding_window(fields, family),
        files=files,
        tensors=tensors,
    )


def _inner(path: str, config: Mapping[str, object]) -> Mapping[str, object]:
    """The language model's own part of the config: `text_config` where there is one."""
    inner = config.get("text_config")
    if inner is None:
        return config
    if not isinstance(inner, dict):
        raise ModelFileError(f"{path}: text_config is {shown(inner)}, not an object.")
    if "model_type" not in inner and "model_type" in config:
        return {**inner, "model_type": config["model_type"]}
    return inner


def _refuse_options(fields: Fields, config: Mapping[str, object]) -> None:
    quantization = config.get("quantization_config") or fields.get("quantization_config")
    if quantization:
        method = quantization.get("quant_method") if isinstance(quantization, dict) else None
        raise UnsupportedModelError(
            f"{fields.source}: the weights are quantized ({shown(method)}), which is not supported here.",
            "Choose the original weights or a GGUF.",
        )
    activation = fields.text("hidden_act", "silu")
    if activation not in ("silu", "swish"):
        raise UnsupportedModelError(
            f"{fields.source}: the activation {shown(activation)} is not supported (silu is)."
        )
    fields.refuse(_LACKED)


def _is_tied(fields: Fields, config: Mapping[str, object]) -> bool:
    """Whether the head is the embedding: the language model's own word first, then the outer one."""
    if fields.get("tie_word_embeddings") is not None:
        return fields.flag("tie_word_embeddings")
    return Fields(fields.source, config).flag("tie_word_embeddings")


def _kv_heads(fields: Fields, family: Family, heads: int) -> int:
    """Key heads; an explicit null means as many as heads, a missing key the family's default."""
    is_given = "num_key_value_heads" in fields.values
    return fields.integer("num_key_value_heads", heads if is_given else family.default_kv_heads or heads)


def _sliding_window(fields: Fields, family: Family) -> int | None:
    """The attention window; an explicit null means none, a missing key the family's default."""
    if family.default_sliding_window is None:
        return None
    if "sliding_window" in fields.values:
        return fields.integer("sliding_window", 0, least=0) or None
    return family.default_sliding_window


def _rope(fields: Fields, context: int) -> tuple[RopeSpec, int]:
    """(rotary options, trained context) from `rope_parameters` or the older `rope_scaling`.

    The trained context is max_position_embeddings; where linear scaling names the length it stretches
    (original_max_position_embeddings), it is at least that length times the factor.
    """
    name = "rope_scaling" if fields.get("rope_scaling") else "rope_parameters"
    value = fields.get(name)
    if value is None or value == {}:
        return RopeSpec(theta=fields.positive("rope_theta", 10_000.0)), context
    if not isinstance(value, dict):
        raise fields.error(name, f"is {shown(value)}, not an object")
    if any(isinstance(each, dict) for each in value.values()):
        text = f"{fields.source}: {name} differs from layer to layer, which is not supported."
        raise UnsupportedModelError(text)
    rope = Fields(f"{fields.source}: {name}", value)
    theta = rope.positive("rope_theta", fields.positive("rope_theta", _outer_theta(fields)))
    if rope.number("partial_rotary_factor", 1.0) != 1.0:
        raise UnsupportedModelError(f"{fields.source}: a partial rotary embedding is not supported.")
    kind = rope.text("rope_type", rope.text("type", "default"))
    if kind in ("default", "none"):
        return RopeSpec(theta=theta), context
    if kind == "linear":
        factor = _factor(rope)
        trained = rope.integer("original_max_position_embeddings", 0, least=0)
        return RopeSpec(theta=theta, scaling="linear", factor=factor), _stretched(
            rope, context, trained * factor
        )
    if kind == "llama3":
        return _llama3(rope, theta), context
    raise UnsupportedModelError(
        f"{fields.source}: rope scaling of the type {shown(kind)} is not supported"
        " (default, linear and llama3 are)."
    )


def _outer_theta(fields: Fields) -> float:
    """`rope_theta` of rope_parameters where both spellings stand in one config."""
    both = fields.get("rope_parameters")
    return (
        Fields(fields.source, both).positive("rope_theta", 10_000.0) if isinstance(both, dict) else 10_000.0
    )


def _factor(rope: Fields) -> float:
    factor = rope.number("factor")
    if not 1.0 <= factor <= MOST_FACTOR:
        raise rope.error("factor", f"is {factor}, but must be from 1 to {MOST_FACTOR:,}")
    return factor


def _stretched(rope: Fields, context: int, stretched: float) -> int:
    if stretched >= MOST_INTEGER:
        raise rope.error("original_max_position_embeddings", "times the factor is out of any sensible range")
    return max(context, int(stretched))


def _llama3(rope: Fields, theta: float) -> RopeSpec:
    low, high = rope.positive("low_freq_factor"), rope.positive("high_freq_factor")
    if low >= high:
        raise rope.error("low_freq_factor", f"is {low}, but must be below high_freq_factor ({high})")
    original = rope.integer("original_max_position_embeddings")
    return RopeSpec(theta, "llama3", _factor(rope), low, high, original)
