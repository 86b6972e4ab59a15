"""Turns the header of a GGUF file into a ModelSpec: the metadata keys of the Llama-like architectures.

Knows names and meanings of keys, not the byte layout. Standard library only.
"""

from __future__ import annotations

from engine.errors import ModelFileError, UnsupportedModelError
from engine.foreign import shown
from engine.models import families, gguf
from engine.models.fields import MOST_FACTOR, Feature, Fields, display_name
from engine.types import ModelSpec, RopeSpec

_LACKED: tuple[Feature, ...] = (
    ("expert_count", (0, 1), "a mixture of experts"),
    ("attention.causal", (True,), "attention that looks ahead"),
    ("attention.scale", (0, 0.0), "a scale of attention"),
    ("logit_scale", (0, 0.0, 1.0), "scaled logits"),
    ("residual_scale", (0, 0.0, 1.0), "scaled residuals"),
    ("embedding_scale", (0, 0.0, 1.0), "scaled embeddings"),
    ("attn_logit_softcapping", (0, 0.0), "soft-capped attention"),
    ("final_logit_softcapping", (0, 0.0), "soft-capped logits"),
    ("attention.clamp_kqv", (0, 0.0), "clamped queries and keys"),
    ("attention.max_alibi_bias", (0, 0.0), "ALiBi positions"),
    ("use_parallel_residual", (False,), "parallel residuals"),
)


def from_header(path: str, header: gguf.GgufHeader) -> ModelSpec:
    """The spec of a GGUF file, its tensors not yet compared with it.

    Raises ModelFileError for missing or impossible values, UnsupportedModelError for an architecture
    or option that cannot run.
    """
    general = Fields(path, header.metadata)
    _refuse_parts(general, header)
    architecture = general.text("general.architecture")
    if families.find("gguf", architecture) is None:
        raise families.unsupported(path, architecture)
    fields = Fields(path, header.metadata, f"{architecture}.")
    fields.refuse(_LACKED)
    heads = fields.integer("attention.head_count")
    hidden = fields.integer("embedding_length")
    stored = {tensor.name: tensor for tensor in header.tensors}
    embedding = stored.get("token_embd.weight")
    if embedding is None:
        raise ModelFileError(f"{path}: tensor 'token_embd.weight' is missing.", "Download the file again.")
    head_dim = _head_dim(fields, hidden, heads)
    return ModelSpec(
        path=path,
        source="gguf",
        name=display_name(path),
        architecture=architecture,
        num_layers=fields.integer("block_count"),
        hidden_size=hidden,
        intermediate_size=fields.integer("feed_forward_length"),
        num_heads=heads,
        num_kv_heads=fields.integer("attention.head_count_kv", heads),
        head_dim=head_dim,
        vocab_size=embedding.shape[0] if embedding.shape else 0,
        trained_context=fields.integer("context_length"),
        norm_eps=fields.positive("attention.layer_norm_rms_epsilon"),
        rope=_rope(fields),
        tied_embeddings="output.weight" not in stored,
        sliding_window=fields.integer("attention.sliding_window", 0, least=0) or None,
        files=(path,),
        tensors=header.tensors,
    )


def _refuse_parts(general: Fields, header: gguf.GgufHeader) -> None:
    """Refuse files that are a part of a model or an addition to one."""
    count = general.integer("split.count", 0, least=0)
    if count > 1:
        number = general.integer("split.no", 0, least=0) + 1
        raise UnsupportedModelError(
            f"{general.source}: this is part {number} of {count} of a split model, which is not supported.",
            "Join the parts with `llama-gguf-split --merge`, or choose a smaller file in one part.",
        )
    kind = general.get("general.type")
    if kind in ("mmproj", "adapter", "imatrix") or general.get("general.architecture") == "clip":
        what = kind if isinstance(kind, str) and kind != "model" else "image projector"
        raise UnsupportedModelError(
            f"{general.source}: this is an addition to a model ({what}), not a model to chat with.",
            "Choose the model's main file.",
        )
    if not header.tensors:
        raise ModelFileError(
            f"{general.source}: the file holds no weights, only a description or vocabulary.",
            "Choose the model's main file.",
        )


def _head_dim(fields: Fields, hidden: int, heads: int) -> int:
    """`attention.key_length`, else hidden/heads; values must be as long as keys and rotate whole."""
    explicit = fields.integer("attention.key_length", 0, least=0)
    if not explicit and hidden % heads:
        raise fields.error("attention.head_count", f"is {heads}, which does not divide {hidden}")
    head_dim = explicit or hidden // heads
    value_length = fields.integer("attention.value_length", head_dim)
    if value_length != head_dim:
        raise UnsupportedModelError(
            f"{fields.source}: attention keys have {head_dim} numbers and values {value_length};"
            " different lengths are not supported."
        )
    rotated = fields.integer("rope.dimension_count", head_dim)
    if rotated != head_dim:
        raise UnsupportedModelError(
            f"{fields.source}: only {rotated} of {head_dim} numbers of a head are rotated"
            " (partial rotary embedding), which is not supported."
        )
    return head_dim


def _rope(fields: Fields) -> RopeSpec:
    """Rotary options. Llama 3's scaling is no key in GGUF but the tensor `rope_freqs.weight`."""
    theta = fields.positive("rope.freq_base", 10_000.0)
    kind = fields.text("rope.scaling.type", "")
    factor = fields.number("rope.scaling.factor", 0.0)
    if not kind:
        # files from before rope.scaling.* state a linear factor alone
        factor = factor or fields.number("rope.scale_linear", 0.0)
        kind = "linear" if factor not in (0.0, 1.0) else "none"
    if kind == "none":
        return RopeSpec(theta=theta)
    if kind != "linear":
        raise UnsupportedModelError(
            f"{fields.source}: rope scaling of the type {shown(kind)} is not supported (none and linear are)."
        )
    if not 1.0 <= factor <= MOST_FACTOR:
        raise fields.error("rope.scaling.factor", f"is {factor}, but must be from 1 to {MOST_FACTOR:,}")
    return RopeSpec(theta=theta, scaling="linear", factor=factor)
