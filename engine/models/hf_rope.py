"""Reads what a config.json says about positions: bases and scaling, in every spelling.

Knows keys and their meaning; computes no frequency. Standard library only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from engine.errors import UnsupportedModelError
from engine.foreign import shown
from engine.models.family_table import Family
from engine.models.fields import MOST_FACTOR, MOST_INTEGER, Fields
from engine.types import RopeSpec
from engine.words import figure, tr


@dataclass(frozen=True, slots=True)
class Positions:
    """How the layers of a model rotate, and how long a context it was trained for."""

    rope: RopeSpec
    local_rope: RopeSpec  # of layers with a sliding window
    rotary_dim: int
    trained_context: int


def read_positions(fields: Fields, family: Family, head_dim: int) -> Positions:
    """`rope_parameters` or the older `rope_scaling` and their neighbours.

    The trained context is max_position_embeddings; where linear or YaRN scaling names the length it stretches
    (original_max_position_embeddings), it is at least that length times the factor. Raises ModelFileError for
    impossible values, UnsupportedModelError for a scaling that cannot run.
    """
    full, local = _parameters(fields, family)
    rotary_dim = _rotary_dim(fields, full, family, head_dim)
    theta = full.positive("rope_theta", _theta(fields, family))
    rope, context = _scaled(full, fields, family, theta, rotary_dim // 2)
    local_rope = rope
    if family.has_local_rope:
        base = fields.positive("rope_local_base_freq", family.local_theta or theta)
        local_rope = RopeSpec(theta=local.positive("rope_theta", base))
        if _kind(local) != "default":
            raise UnsupportedModelError(
                tr("{path}: rope scaling of layers with a sliding window is not supported.").format(
                    path=local.source
                )
            )
    return Positions(rope, local_rope, rotary_dim, context)


def _parameters(fields: Fields, family: Family) -> tuple[Fields, Fields]:
    """The parameters of layers that see everything, and of those with a window."""
    name = "rope_scaling" if fields.get("rope_scaling") else "rope_parameters"
    value = fields.get(name)
    source = f"{fields.source}: {name}"
    if value is None:
        return Fields(source, {}), Fields(source, {})
    if not isinstance(value, dict):
        raise fields.error(name, tr("{field} is {value}, not an object."), value=shown(value))
    if not any(isinstance(each, dict) for each in value.values()):
        return Fields(source, value), Fields(source, {})
    kinds = ("full_attention", "sliding_attention")
    if not family.has_local_rope or any(each not in kinds for each in value):
        said = tr("{path}: {field} differs from layer to layer, which is not supported.")
        raise UnsupportedModelError(said.format(path=fields.source, field=name))
    full, local = (value.get(kind) or {} for kind in kinds)
    if not isinstance(full, dict) or not isinstance(local, dict):
        raise fields.error(name, tr("{field} has an entry that is no object."))
    return Fields(f"{source}.{kinds[0]}", full), Fields(f"{source}.{kinds[1]}", local)


def _theta(fields: Fields, family: Family) -> float:
    """The base where the scaling itself names none: the config's own, the one of rope_parameters where both
    spellings stand in one config, the family's.
    """
    default = family.defaults.get("rope_theta", 10_000.0)
    assert isinstance(default, float)
    both = fields.get("rope_parameters")
    if isinstance(both, dict) and not any(isinstance(each, dict) for each in both.values()):
        default = Fields(fields.source, both).positive("rope_theta", default)
    return fields.positive("rope_theta", default)


def _rotary_dim(fields: Fields, rope: Fields, family: Family, head_dim: int) -> int:
    part = rope.number("partial_rotary_factor", fields.number("partial_rotary_factor", 1.0))
    if part == 1.0:
        return head_dim
    if "partial_rotary_factor" not in family.defaults:
        raise UnsupportedModelError(
            tr("{path}: a partial rotary embedding is not supported.").format(path=fields.source)
        )
    rotary_dim = int(head_dim * part)
    if rotary_dim % 2 or not 2 <= rotary_dim <= head_dim:
        said = tr("{field} is {value}, which leaves no whole pairs of {size}.")
        raise fields.error("partial_rotary_factor", said, value=part, size=head_dim)
    return rotary_dim


def _kind(rope: Fields) -> str:
    return rope.text("rope_type", rope.text("type", "default"))


def _scaled(rope: Fields, fields: Fields, family: Family, theta: float, pairs: int) -> tuple[RopeSpec, int]:
    """(rotary options, trained context)."""
    context, kind = fields.integer("max_position_embeddings"), _kind(rope)
    if kind == "su" or (kind == "yarn" and family.architecture == "phi3"):
        kind = "longrope"  # what the first files of Phi-3 call it
    plain = RopeSpec(theta=theta)
    if kind in ("default", "none"):
        return plain, context
    if kind == "linear":
        factor, trained = _factor(rope), rope.integer("original_max_position_embeddings", 0, least=0)
        return replace(plain, scaling="linear", factor=factor), _stretched(rope, context, trained * factor)
    if kind == "llama3":
        return _llama3(rope, plain), context
    if kind == "yarn":
        spec = _yarn(rope, plain, context)
        return spec, _stretched(rope, context, spec.original_context * spec.factor)
    if kind == "longrope":
        return _longrope(rope, fields, plain, context, pairs), context
    raise UnsupportedModelError(
        tr(
            "{path}: rope scaling of the type {type} is not supported"
            " (default, linear, llama3, yarn and longrope are)."
        ).format(path=fields.source, type=shown(kind))
    )


def _factor(rope: Fields, default: float | None = None) -> float:
    factor = rope.number("factor", default)
    if not 1.0 <= factor <= MOST_FACTOR:
        said = tr("{field} is {value}, but must be from 1 to {most}.")
        raise rope.error("factor", said, value=factor, most=figure(MOST_FACTOR))
    return factor


def _stretched(rope: Fields, context: int, stretched: float) -> int:
    if stretched >= MOST_INTEGER:
        said = tr("{field} times the factor is out of any sensible range.")
        raise rope.error("original_max_position_embeddings", said)
    return max(context, int(stretched))


def _llama3(rope: Fields, plain: RopeSpec) -> RopeSpec:
    low, high = rope.positive("low_freq_factor"), rope.positive("high_freq_factor")
    if low >= high:
        said = tr("{field} is {value}, but must be below {other} ({other_value}).")
        raise rope.error("low_freq_factor", said, value=low, other="high_freq_factor", other_value=high)
    return replace(
        plain,
        scaling="llama3",
        factor=_factor(rope),
        low_freq_factor=low,
        high_freq_factor=high,
        original_context=rope.integer("original_max_position_embeddings"),
    )


def _yarn(rope: Fields, plain: RopeSpec, context: int) -> RopeSpec:
    """YaRN (arXiv 2309.00071). Its attention factor is 0.1 ln(factor) + 1 unless the config says another."""
    if plain.theta <= 1:
        said = tr("{field} is {value}, but YaRN needs more than 1.")
        raise rope.error("rope_theta", said, value=plain.theta)
    original = rope.integer("original_max_position_embeddings", context)
    factor = _factor(rope, context / original)
    fast, slow = rope.positive("beta_fast", 32.0), rope.positive("beta_slow", 1.0)
    if fast <= slow:
        said = tr("{field} is {value}, but must be above {other} ({other_value}).")
        raise rope.error("beta_fast", said, value=fast, other="beta_slow", other_value=slow)
    scale, of_all = rope.number("mscale", 0.0), rope.number("mscale_all_dim", 0.0)
    if scale and of_all:
        attention = yarn_attention_factor(factor, scale) / yarn_attention_factor(factor, of_all)
    else:
        attention = yarn_attention_factor(factor)
    return replace(
        plain,
        scaling="yarn",
        factor=factor,
        original_context=original,
        beta_fast=fast,
        beta_slow=slow,
        is_truncated=rope.flag("truncate", True),
        attention_factor=rope.positive("attention_factor", attention),
    )


def yarn_attention_factor(factor: float, scale: float = 1.0) -> float:
    """What rotated queries and keys are multiplied with where a context is stretched by ``factor``."""
    return 0.1 * scale * math.log(factor) + 1.0


def _longrope(rope: Fields, fields: Fields, plain: RopeSpec, context: int, pairs: int) -> RopeSpec:
    """LongRoPE (arXiv 2402.13753) as Phi-3 has it: a factor for each pair, other ones in long contexts."""
    inside = rope.integer("original_max_position_embeddings", context)
    original = fields.integer("original_max_position_embeddings", inside)
    factor = rope.positive("factor", context / original)
    attention = math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 < original else 1.0
    return replace(
        plain,
        scaling="longrope",
        original_context=original,
        attention_factor=rope.positive("attention_factor", attention),
        short_factors=_factors(rope, "short_factor", pairs),
        long_factors=_factors(rope, "long_factor", pairs),
    )


def _factors(rope: Fields, name: str, pairs: int) -> tuple[float, ...]:
    """A list of positive numbers, one for each rotated pair."""
    value = rope.get(name)
    if not isinstance(value, list):
        said = tr("{field} is missing.") if value is None else tr("{field} is {value}, not a list.")
        raise rope.error(name, said, value=shown(value))
    if len(value) != pairs:
        said = tr("{field} has {count} numbers, but there are {pairs} pairs to rotate.")
        raise rope.error(name, said, count=len(value), pairs=pairs)
    each = (Fields(rope.source, {name: number}) for number in value)
    return tuple(one.positive(name) for one in each)
