"""The table of model families: which architectures are one, and what their tensors are called.

Maps the decoder's own words (`layers.3.q`) to names in files; knows no file format and no torch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from engine.errors import UnsupportedModelError
from engine.foreign import printable
from engine.types import ModelSpec


@dataclass(frozen=True, slots=True)
class Family:
    """One architecture as one kind of file holds it.

    `permuted_qk`: the rows of q and k lie pair beside pair (x0 y0 x1 y1 …, the order GGUF keeps for
    Llama) rather than half after half (x0 x1 … y0 y1 …, as Hugging Face keeps them).
    `names` maps words to file names; `{i}` is the layer. `optional` words may be missing from a file.
    `prefixes` may stand before every name; `ignored` names carry no weight of this decoder.
    """

    title: str
    source: str  # gguf | safetensors
    architecture: str  # general.architecture or model_type
    classes: tuple[str, ...]  # names `architectures` may have in config.json
    permuted_qk: bool
    names: Mapping[str, str]
    layer_names: Mapping[str, str]
    optional: frozenset[str]
    prefixes: tuple[str, ...] = ("",)
    ignored: re.Pattern[str] = re.compile(r"(?!)")
    default_sliding_window: int | None = None
    default_context: int | None = None
    default_kv_heads: int | None = None


_GGUF_LAYER = {
    "attention_norm": "blk.{i}.attn_norm.weight",
    "q": "blk.{i}.attn_q.weight",
    "k": "blk.{i}.attn_k.weight",
    "v": "blk.{i}.attn_v.weight",
    "o": "blk.{i}.attn_output.weight",
    "mlp_norm": "blk.{i}.ffn_norm.weight",
    "gate": "blk.{i}.ffn_gate.weight",
    "up": "blk.{i}.ffn_up.weight",
    "down": "blk.{i}.ffn_down.weight",
}
_HF_LAYER = {
    "attention_norm": "layers.{i}.input_layernorm.weight",
    "q": "layers.{i}.self_attn.q_proj.weight",
    "k": "layers.{i}.self_attn.k_proj.weight",
    "v": "layers.{i}.self_attn.v_proj.weight",
    "o": "layers.{i}.self_attn.o_proj.weight",
    "mlp_norm": "layers.{i}.post_attention_layernorm.weight",
    "gate": "layers.{i}.mlp.gate_proj.weight",
    "up": "layers.{i}.mlp.up_proj.weight",
    "down": "layers.{i}.mlp.down_proj.weight",
}
_HF_NAMES = {
    "embedding": "embed_tokens.weight",
    "output_norm": "norm.weight",
    "head": "lm_head.weight",
}
# A language model may sit inside a larger one; what belongs to its eyes or ears is not used for text.
_HF_PREFIXES = ("model.", "language_model.model.", "model.language_model.", "")
_HF_IGNORED = re.compile(
    r".*\.rotary_emb\.inv_freq|(model\.)?(vision_tower|vision_model|multi_modal_projector|visual)\..*"
)

FAMILIES: tuple[Family, ...] = (
    Family(
        title="Llama",
        source="gguf",
        architecture="llama",
        classes=(),
        permuted_qk=True,
        names={
            "embedding": "token_embd.weight",
            "output_norm": "output_norm.weight",
            "head": "output.weight",
            "rope_factors": "rope_freqs.weight",
        },
        layer_names=_GGUF_LAYER,
        optional=frozenset({"head", "rope_factors"}),
        ignored=re.compile(r"blk\.\d+\.attn_rot_embd"),
    ),
    Family(
        title="Llama",
        source="safetensors",
        architecture="llama",
        classes=("LlamaForCausalLM", "LLaMAForCausalLM", "LlamaModel"),
        permuted_qk=False,
        names=_HF_NAMES,
        layer_names=_HF_LAYER,
        optional=frozenset({"head"}),
        prefixes=_HF_PREFIXES,
        ignored=_HF_IGNORED,
        default_context=2048,
    ),
    Family(
        title="Mistral",
        source="safetensors",
        architecture="mistral",
        classes=("MistralForCausalLM", "MistralModel"),
        permuted_qk=False,
        names=_HF_NAMES,
        layer_names=_HF_LAYER,
        optional=frozenset({"head"}),
        prefixes=_HF_PREFIXES,
        ignored=_HF_IGNORED,
        default_sliding_window=4096,
        default_context=131_072,
        default_kv_heads=8,
    ),
)


def find(source: str, architecture: str) -> Family | None:
    """The family of an architecture in a kind of file ("gguf", "safetensors"), or None."""
    for each in FAMILIES:
        if each.source == source and each.architecture == architecture:
            return each
    return None


def family(spec: ModelSpec) -> Family:
    """The family of a spec. Raises UnsupportedModelError where there is none."""
    found = find(spec.source, spec.architecture)
    if found is None:
        raise unsupported(spec.path, spec.architecture)
    return found


def unsupported(path: str, architecture: str) -> UnsupportedModelError:
    """The error for an architecture that has no family."""
    known = ", ".join(sorted({each.architecture for each in FAMILIES}))
    return UnsupportedModelError(
        f"{path}: architecture not supported: {printable(architecture)}.", f"This version runs: {known}."
    )


def tensor_names(spec: ModelSpec) -> dict[str, str]:
    """Every word of the decoder → the name of its tensor in the file.

    `head` is left out where the embeddings are tied, `rope_factors` where the file has none. Nothing is
    promised about the tensors being there: `spec.read_spec` has checked that.
    """
    own = family(spec)
    stored = {tensor.name for tensor in spec.tensors}
    names = _names(own, spec.num_layers, prefix_of(own, stored))
    if spec.tied_embeddings:
        names.pop("head", None)
    if names.get("rope_factors") not in stored:
        names.pop("rope_factors", None)
    return names


def prefix_of(own: Family, stored: Iterable[str]) -> str:
    """What stands before the names in this file: the prefix whose embedding is there."""
    stored = set(stored)
    for prefix in own.prefixes:
        if prefix + own.names["embedding"] in stored:
            return prefix
    return own.prefixes[0]


def head_name(own: Family, prefix: str) -> str:
    """The file's name of the output head; it stands outside `model.`."""
    if own.source == "gguf":
        return own.names["head"]
    outer = prefix.removesuffix("model.") if prefix != "model.language_model." else ""
    return outer + own.names["head"]


def _names(own: Family, num_layers: int, prefix: str) -> dict[str, str]:
    names = {word: prefix + name for word, name in own.names.items()}
    names["head"] = head_name(own, prefix)
    for i in range(num_layers):
        for word, name in own.layer_names.items():
            names[f"layers.{i}.{word}"] = prefix + name.format(i=i)
    return names


def tensor_shapes(spec: ModelSpec) -> dict[str, tuple[int, ...]]:
    """Every word → the shape its tensor must have, in torch order [out, in]."""
    hidden, inner, dim = spec.hidden_size, spec.intermediate_size, spec.head_dim
    queries, keys = spec.num_heads * dim, spec.num_kv_heads * dim
    shapes: dict[str, tuple[int, ...]] = {
        "embedding": (spec.vocab_size, hidden),
        "output_norm": (hidden,),
        "head": (spec.vocab_size, hidden),
        "rope_factors": (dim // 2,),
    }
    layer: dict[str, tuple[int, ...]] = {
        "attention_norm": (hidden,),
        "q": (queries, hidden),
        "k": (keys, hidden),
        "v": (keys, hidden),
        "o": (hidden, queries),
        "mlp_norm": (hidden,),
        "gate": (inner, hidden),
        "up": (inner, hidden),
        "down": (hidden, inner),
    }
    for i in range(spec.num_layers):
        shapes.update((f"layers.{i}.{word}", shape) for word, shape in layer.items())
    return shapes
