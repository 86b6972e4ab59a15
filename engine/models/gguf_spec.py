"""Turns the header of a GGUF file into a ModelSpec: the metadata keys of the dense architectures.

Knows names and meanings of keys, not the byte layout. Standard library only.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from engine.errors import ModelFileError, UnsupportedModelError
from engine.foreign import shown
from engine.models import families, gguf
from engine.models.family_table import Family
from engine.models.fields import MOST_FACTOR, MOST_INTEGER, Feature, Fields, display_name
from engine.models.hf_rope import yarn_attention_factor
from engine.types import DecoderOptions, LayerOptions, ModelSpec, RopeSpec
from engine.words import figure, mark, tr

_LACKED: tuple[Feature, ...] = (
    ("expert_count", (0, 1), mark("a mixture of experts")),
    ("attention.causal", (True,), mark("attention that looks ahead")),
    ("attention.scale", (0, 0.0), mark("a scale of attention")),
    ("logit_scale", (0, 0.0, 1.0), mark("scaled logits")),
    ("residual_scale", (0, 0.0, 1.0), mark("scaled residuals")),
    ("embedding_scale", (0, 0.0, 1.0), mark("scaled embeddings")),
    ("attn_logit_softcapping", (0, 0.0), mark("soft-capped attention")),
    ("final_logit_softcapping", (0, 0.0), mark("soft-capped logits")),
    ("attention.clamp_kqv", (0, 0.0), mark("clamped queries and keys")),
    ("attention.max_alibi_bias", (0, 0.0), mark("ALiBi positions")),
    ("use_parallel_residual", (False,), mark("parallel residuals")),
)
_YARN_LACKED: tuple[Feature, ...] = (
    ("rope.scaling.attn_factor", (1.0,), mark("an attention factor of its own")),
    ("rope.scaling.yarn_attn_factor", (1.0,), mark("an attention factor of its own")),
    ("rope.scaling.yarn_ext_factor", (1.0,), mark("an extrapolation factor of its own")),
    ("rope.scaling.yarn_log_multiplier", (0, 0.0), mark("an attention factor of its own")),
)
_FACTORS = ("rope_factors_long.weight", "rope_factors_short.weight")
_BIASED = {
    "qkv": ("attn_q", "attn_k", "attn_v", "attn_qkv"),
    "o": ("attn_output",),
    "gate_up": ("ffn_gate", "ffn_up"),
    "down": ("ffn_down",),
}


class AdditionError(UnsupportedModelError):
    """The file is an addition to a model: a projector, an adapter. Alone it is nothing to chat with."""


def from_header(header: gguf.GgufHeader) -> ModelSpec:
    """The spec of a GGUF model, its tensors not yet compared with it.

    Raises ModelFileError for missing or impossible values, UnsupportedModelError for an architecture
    or option that cannot run, AdditionError.
    """
    path = header.files[0]
    general = Fields(path, header.metadata)
    _refuse_additions(general, header)
    architecture = general.text("general.architecture")
    family = families.find("gguf", architecture)
    if family is None:
        raise families.unsupported(path, architecture)
    prefix = f"{architecture}."
    defaults = {prefix + key: value for key, value in family.defaults.items()}
    fields = Fields(path, defaults | dict(header.metadata), prefix)
    fields.refuse(feature for feature in _LACKED if feature[0] not in family.numbers.values())
    heads, hidden = fields.integer("attention.head_count"), fields.integer("embedding_length")
    stored = {tensor.name: tensor for tensor in header.tensors}
    embedding = stored.get("token_embd.weight")
    if embedding is None:
        raise ModelFileError(
            tr("{path}: tensor {tensor} is missing.").format(path=path, tensor="'token_embd.weight'"),
            tr("Download the file again."),
        )
    spec = ModelSpec(
        path=path,
        source="gguf",
        name=display_name(path),
        architecture=architecture,
        num_layers=fields.integer("block_count"),
        hidden_size=hidden,
        intermediate_size=fields.integer("feed_forward_length"),
        num_heads=heads,
        num_kv_heads=fields.integer("attention.head_count_kv", heads),
        head_dim=_head_dim(fields, hidden, heads),
        vocab_size=embedding.shape[0] if embedding.shape else 0,
        trained_context=fields.integer("context_length"),
        norm_eps=fields.positive("attention.layer_norm_rms_epsilon"),
        rope=_rope(fields, stored),
        tied_embeddings="output.weight" not in stored,
        sliding_window=_window(fields, family),
        files=header.files,
        tensors=header.tensors,
        options=family.options,
    )
    if spec.rope.scaling == "yarn":
        stretched = min(MOST_INTEGER, int(spec.rope.original_context * spec.rope.factor))
        spec = replace(spec, trained_context=max(spec.trained_context, stretched))
    spec = replace(spec, options=_options(fields, family, spec, stored))
    return families.with_layers(spec, _layers(fields, family, spec))


def _refuse_additions(general: Fields, header: gguf.GgufHeader) -> None:
    """Refuse files that are an addition to a model, or a part of its description alone."""
    kind = general.get("general.type")
    if kind in ("mmproj", "adapter", "imatrix") or general.get("general.architecture") == "clip":
        what = kind if isinstance(kind, str) and kind != "model" else tr("image projector")
        raise AdditionError(
            tr("{path}: this is an addition to a model ({what}), not a model to chat with.").format(
                path=general.source, what=what
            ),
            tr("Choose the model's main file."),
        )
    if not header.tensors:
        raise ModelFileError(
            tr("{path}: the file holds no weights, only a description or vocabulary.").format(
                path=general.source
            ),
            tr("Choose the model's main file."),
        )


def _head_dim(fields: Fields, hidden: int, heads: int) -> int:
    """`attention.key_length`, else hidden/heads; values must be as long as keys."""
    explicit = fields.integer("attention.key_length", 0, least=0)
    if not explicit and hidden % heads:
        said = tr("{field} is {heads}, which does not divide {divided}.")
        raise fields.error("attention.head_count", said, heads=heads, divided=hidden)
    head_dim = explicit or hidden // heads
    value_length = fields.integer("attention.value_length", head_dim)
    if value_length != head_dim:
        raise UnsupportedModelError(
            tr(
                "{path}: attention keys have {keys} numbers and values {values};"
                " different lengths are not supported."
            ).format(path=fields.source, keys=head_dim, values=value_length)
        )
    return head_dim


def _options(fields: Fields, family: Family, spec: ModelSpec, stored: Collection[str]) -> DecoderOptions:
    """What the file says beside the family; ``spec`` has the sizes."""
    changes: dict[str, Any] = {}
    for option, key in family.numbers.items():
        if fields.get(key):  # 0 switches it off
            changes[option] = fields.positive(key)
    if family.scales_embedding:
        changes["embedding_scale"] = spec.hidden_size**0.5
    if spec.num_layers == family.width_scaled_layers:
        changes["attention_scale"] = (spec.hidden_size // spec.num_heads) ** -0.5
    changes["biases"] = tuple(
        group for group, names in _BIASED.items() if any(f"blk.0.{name}.bias" in stored for name in names)
    )
    changes["rotary_dim"] = _rotary_dim(fields, family, spec.head_dim)
    return replace(family.options, **changes)


def _rotary_dim(fields: Fields, family: Family, head_dim: int) -> int | None:
    """Numbers of a head that are rotated, None for all."""
    rotated = fields.integer("rope.dimension_count", head_dim)
    if rotated == head_dim:
        return None
    if family.permuted_qk or rotated > head_dim or rotated % 2:
        raise UnsupportedModelError(
            tr(
                "{path}: only {rotated} of {size} numbers of a head are rotated"
                " (partial rotary embedding), which is not supported."
            ).format(path=fields.source, rotated=rotated, size=head_dim)
        )
    return rotated


def _window(fields: Fields, family: Family) -> int | None:
    if not family.has_window:
        return None
    return fields.integer("attention.sliding_window", 0, least=0) or None


def _layers(fields: Fields, family: Family, spec: ModelSpec) -> tuple[LayerOptions, ...]:
    """Every layer's window and rotation."""
    window, local = spec.sliding_window, spec.rope
    count = min(spec.num_layers, len(spec.tensors))  # a claim of more is refused later
    slides = _sliding(fields, family, count) if window else [False] * count
    if family.has_local_rope:
        theta = family.local_theta or spec.rope.theta
        local = RopeSpec(theta=fields.positive("rope.freq_base_swa", theta))
    made = []
    for i, is_sliding in enumerate(slides):
        rotates = not family.unrotated_every or (i + 1) % family.unrotated_every != 0
        rope = local if is_sliding else spec.rope
        made.append(LayerOptions(window if is_sliding else None, rope if rotates else None))
    return tuple(made)


def _sliding(fields: Fields, family: Family, num_layers: int) -> list[bool]:
    """Which layers have the window: a flag for each, or all but every n-th."""
    pattern = fields.get("attention.sliding_window_pattern")
    if isinstance(pattern, list):
        if len(pattern) < num_layers or any(type(each) is not bool for each in pattern):
            said = tr("{field} is not a list of {count} flags.")
            raise fields.error("attention.sliding_window_pattern", said, count=num_layers)
        return list(pattern[:num_layers])
    period = fields.integer("attention.sliding_window_pattern", family.full_every, least=0)
    return [not period or (i + 1) % period != 0 for i in range(num_layers)]


def _rope(fields: Fields, stored: Collection[str]) -> RopeSpec:
    """Rotary options. Llama 3's scaling is no key in GGUF but the tensor `rope_freqs.weight`, the factors of
    LongRoPE are two tensors.
    """
    plain = RopeSpec(theta=fields.positive("rope.freq_base", 10_000.0))
    kind = fields.text("rope.scaling.type", "")
    factor = fields.number("rope.scaling.factor", 0.0)
    missing = [name for name in _FACTORS if name not in stored]
    if len(missing) == 1:
        raise ModelFileError(
            tr("{path}: tensor {tensor} is missing.").format(path=fields.source, tensor=repr(missing[0])),
            tr("Download the file again."),
        )
    if not missing:
        return replace(
            plain,
            scaling="longrope",
            original_context=fields.integer("rope.scaling.original_context_length"),
            attention_factor=fields.positive("rope.scaling.attn_factor", 1.0),
        )
    if not kind:
        # files from before rope.scaling.* state a linear factor alone
        factor = factor or fields.number("rope.scale_linear", 0.0)
        kind = "linear" if factor not in (0.0, 1.0) else "none"
    if kind == "none":
        return plain
    if kind not in ("linear", "yarn"):
        raise UnsupportedModelError(
            tr(
                "{path}: rope scaling of the type {type} is not supported"
                " (none, linear, yarn, and longrope with its factors are)."
            ).format(path=fields.source, type=shown(kind))
        )
    if not 1.0 <= factor <= MOST_FACTOR:
        said = tr("{field} is {value}, but must be from 1 to {most}.")
        raise fields.error("rope.scaling.factor", said, value=factor, most=figure(MOST_FACTOR))
    if kind == "linear":
        return replace(plain, scaling="linear", factor=factor)
    return _yarn(fields, replace(plain, scaling="yarn", factor=factor))


def _yarn(fields: Fields, plain: RopeSpec) -> RopeSpec:
    """YaRN; files that bring an attention factor of their own differ in what they mean by it."""
    fields.refuse(_YARN_LACKED)
    if plain.theta <= 1:
        said = tr("{field} is {value}, but YaRN needs more than 1.")
        raise fields.error("rope.freq_base", said, value=plain.theta)
    fast = fields.positive("rope.scaling.yarn_beta_fast", 32.0)
    slow = fields.positive("rope.scaling.yarn_beta_slow", 1.0)
    if fast <= slow:
        said = tr("{field} is {value}, but must be above {other} ({other_value}).")
        raise fields.error(
            "rope.scaling.yarn_beta_fast", said, value=fast, other="beta_slow", other_value=slow
        )
    return replace(
        plain,
        original_context=fields.integer(
            "rope.scaling.original_context_length", fields.integer("context_length")
        ),
        beta_fast=fast,
        beta_slow=slow,
        attention_factor=yarn_attention_factor(plain.factor),
    )
