"""Turns the config.json of a model outside of the lean decoder into a ModelSpec for transformers.

Knows which architectures there are and the names their sizes have; imports and runs nothing of theirs, and
nothing the folder brings along. Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from engine.capabilities import Capabilities, Experts, GenericOptions
from engine.errors import UnsupportedModelError
from engine.foreign import printable, shown
from engine.models import generic_layers
from engine.models.fields import Feature, Fields, display_name
from engine.models.generic_table import CLASSES, REFUSED, STEPWISE, UNGATED
from engine.types import ModelSpec, RopeSpec, TensorInfo
from engine.words import mark, tr

_LACKED: tuple[Feature, ...] = (
    ("is_decoder", (True, False), mark("an encoder")),
    ("is_encoder_decoder", (False,), mark("an encoder beside the decoder")),
    ("add_cross_attention", (False,), mark("attention to something beside the text")),
    ("use_bidirectional_attention", (False, "vision"), mark("attention that looks ahead")),
)
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_HIDDEN = ("hidden_size", "n_embd", "d_model", "dim")
_INNER = ("intermediate_size", "moe_intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size")
_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads")
_CONTEXT = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "max_sequence_length")
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
_CHOSEN = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k", "num_selected_experts")
_WIDTHS: tuple[str, ...] = (
    "moe_intermediate_size",
    "intermediate_size",
    "expert_ffn_hidden_size",
    "ffn_hidden_size",
)
_WIDTHS += ("shared_intermediate_size", "shared_expert_intermediate_size", "intermediate_size_mlp")
_WIDTHS += ("moe_shared_expert_intermediate_size",)
_ACTIVATIONS = ("activation_function", "hidden_act", "activation")
_STEPWISE_ACTIVATIONS = ("gelu_new", "gelu_fast", "gelu_accurate")
_UNKNOWN_CONTEXT = 4096  # of a model that does not say what it was trained for
_EXPERT = re.compile(r"\bexperts?\b|block_sparse_moe\.(input|output)_linear|\.mlp\.(input|output)_linear")

_NO_TRIM = mark(
    "An edit or another try reads the whole chat again: the layers keep a running state, from which no token"
    " can be taken back."
)
_NO_SHARED_PREFIX = mark("Chats share nothing of a common beginning: each has a cache of its own.")
_NO_BATCH = mark("Answers that run at once take turns: each is computed by a pass of its own.")


def knows(model_type: str) -> bool:
    """Whether the architecture is one of transformers' language models, run here or refused."""
    return model_type in CLASSES or model_type in REFUSED


def check_class(path: str, model_type: str, stated: object) -> str:
    """The class that runs the architecture; ``stated`` is what config.json calls it, None where it does not.

    Raises UnsupportedModelError for an architecture that is not run here and for a class that writes no text.
    """
    if model_type in REFUSED:
        raise UnsupportedModelError(
            tr("{path}: architecture not supported: {name}, {reason}.").format(
                path=path, name=printable(model_type), reason=tr(REFUSED[model_type])
            ),
            tr("Choose a model made for chat."),
        )
    name = CLASSES[model_type]
    if stated is not None and stated != name:
        raise UnsupportedModelError(
            tr("{path}: architecture not supported: {name}.").format(path=path, name=printable(str(stated))),
            tr("Of the type {type}, this version runs {name}.").format(type=model_type, name=name),
        )
    return name


def from_config(
    folder: Path,
    inner: Mapping[str, object],
    files: tuple[str, ...],
    tensors: tuple[TensorInfo, ...],
    class_name: str,
    reason: str,
) -> ModelSpec:
    """The spec of a folder whose language model has the config ``inner``. ``reason`` says in a few words why
    the lean decoder does not run it.

    That all tensors are there and have the right shapes is checked when it is loaded, before any is read:
    only transformers knows. Raises ModelFileError for missing or impossible values, UnsupportedModelError for
    an option or a type of tensor that cannot run.
    """
    fields = Fields(str(folder / "config.json"), inner)
    model_type = fields.text("model_type")
    fields.refuse(_LACKED)
    generic_layers.refuse_wild_counts(fields)
    tensors = tuple(text_tensors(tensors).values())
    _refuse_quantized(files, tensors)
    num_layers, hidden = _num_layers(fields), _integer(fields, _HIDDEN)
    heads = _integer(fields, _HEADS, 1)
    cache = generic_layers.cache_layers(fields, model_type, num_layers, heads)
    generic = GenericOptions(
        class_name=class_name,
        reason=reason,
        cache=cache,
        capabilities=capabilities(all(layer.can_trim for layer in cache)),
        is_stepwise=model_type in STEPWISE,
        read_fraction=_read_fraction(fields, tensors),
        num_masks=generic_layers.num_masks(fields, model_type, num_layers),
        scan=generic_layers.scan(fields, model_type),
        latent=generic_layers.latent(fields),
        experts=_experts(fields, tensors),
        heads=generic_layers.kinds_of_heads(fields, model_type, num_layers, heads),
        inner_copies=_inner_copies(fields, model_type),
        beside=generic_layers.beside(fields, model_type, num_layers),
    )
    return ModelSpec(
        path=str(folder),
        source="safetensors",
        name=display_name(str(folder)),
        architecture=model_type,
        num_layers=num_layers,
        hidden_size=hidden,
        intermediate_size=_integer(fields, _INNER, 4 * hidden),
        num_heads=heads,
        num_kv_heads=generic_layers.kv_heads(fields, heads),
        head_dim=fields.integer("head_dim", 0, least=0) or max(1, hidden // heads),
        vocab_size=fields.integer("vocab_size"),
        trained_context=_integer(fields, _CONTEXT, _UNKNOWN_CONTEXT),
        norm_eps=1e-6,
        rope=RopeSpec(),
        tied_embeddings=fields.get("tie_word_embeddings") is True,
        sliding_window=None,
        files=files,
        tensors=tensors,
        generic=generic,
    )


def capabilities(can_trim: bool) -> Capabilities:
    """What a model can do that runs through transformers; whether its caches can be trimmed is its own."""
    return Capabilities("" if can_trim else tr(_NO_TRIM), tr(_NO_SHARED_PREFIX), tr(_NO_BATCH))


def text_tensors(tensors: tuple[TensorInfo, ...]) -> dict[str, TensorInfo]:
    """The tensors of the language model by the names a model of text alone has for them; those of eyes and
    ears beside it are left out.
    """
    stored = {tensor.name: tensor for tensor in tensors}
    for prefix, head in _PREFIXES:
        if any(name.startswith(prefix) for name in stored):
            return {
                name.replace(prefix, "model.", 1) if name.startswith(prefix) else "lm_head.weight": tensor
                for name, tensor in stored.items()
                if name.startswith(prefix) or name == head
            }
    return stored


_PREFIXES = (  # of a language model within a larger one, and where its head is
    ("language_model.model.", "language_model.lm_head.weight"),
    ("model.language_model.", "lm_head.weight"),
)


def _refuse_quantized(files: tuple[str, ...], tensors: tuple[TensorInfo, ...]) -> None:
    """Types that only a quantization of its own kind gives a meaning to."""
    for tensor in tensors:
        if tensor.type == "I8" or tensor.type.startswith("F8"):
            raise UnsupportedModelError(
                tr(
                    "{path}: tensor {tensor} has the type {type}, which is not"
                    " supported for this architecture."
                ).format(path=files[tensor.file], tensor=shown(tensor.name), type=tensor.type),
                tr("Choose the weights in 16 or 32 bits."),
            )


def _integer(fields: Fields, names: tuple[str, ...], default: int | None = None) -> int:
    """The value of the first of these names that is there."""
    for name in names:
        if fields.get(name) is not None:
            return fields.integer(name)
    return fields.integer(names[0], default)


def _num_layers(fields: Fields) -> int:
    """The number of layers: by itself, or that of their kinds."""
    for name in generic_layers.KINDS:
        given = fields.get(name)
        if isinstance(given, list | str) and given and all(fields.get(each) is None for each in _LAYERS):
            return len(given)
    return _integer(fields, _LAYERS)


def _read_fraction(fields: Fields, tensors: tuple[TensorInfo, ...]) -> float:
    """Which part of the weights one token reads: of the experts those that are chosen for it."""
    experts, chosen = _integer(fields, _EXPERTS, 1), _integer(fields, _CHOSEN, 1)
    total = sum(tensor.nbytes for tensor in tensors)
    of_experts = sum(tensor.nbytes for tensor in tensors if _EXPERT.search(tensor.name))
    left = of_experts * (1 - min(1.0, chosen / experts))
    return 1 - left / max(1, total)


def _inner_copies(fields: Fields, model_type: str) -> int:
    """Vectors that a feed-forward part holds at once. With no gate these are what goes into the activation
    and what comes out, or four where transformers computes it in steps.
    """
    if model_type not in UNGATED:
        return 3
    return 4 if any(fields.get(name) in _STEPWISE_ACTIVATIONS for name in _ACTIVATIONS) else 2


def _experts(fields: Fields, tensors: tuple[TensorInfo, ...]) -> Experts | None:
    """The sizes of a feed-forward part of experts: of those that config.json names, what matrices have."""
    within = {size for tensor in tensors if _EXPERT.search(tensor.name) for size in tensor.shape}
    beside = {size for tensor in tensors if not _EXPERT.search(tensor.name) for size in tensor.shape}
    if not within:
        return None
    widths = [fields.integer(name, 0, least=0) for name in _WIDTHS]
    widths.append(fields.integer("n_shared_experts", 0, least=0) * widths[0])
    width, dense = (  # gate and input may be one matrix
        max((each for each in widths if each in sizes or 2 * each in sizes), default=0)
        for sizes in (within, beside)
    )
    return Experts(_integer(fields, _EXPERTS, 1), _integer(fields, _CHOSEN, 1), width, dense)
