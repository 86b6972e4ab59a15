"""Which tensors a model has: the decoder's own words (`layers.3.q`), their names in the file, their shapes.

Knows the table of families and a model's options; no file format and no torch. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from engine.errors import ModelFileError, UnsupportedModelError
from engine.foreign import printable
from engine.models.family_table import FAMILIES, Family
from engine.types import LayerOptions, ModelSpec, TensorInfo
from engine.words import tr

GROUPS = {"qkv": ("q", "k", "v"), "o": ("o",), "gate_up": ("gate", "up"), "down": ("down",)}
"""The products of a layer, and the words of the matrices each multiplies its input with."""


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
        tr("{path}: architecture not supported: {name}.").format(path=path, name=printable(architecture)),
        tr("This version runs: {known}.").format(known=known),
    )


def tensor_names(spec: ModelSpec) -> dict[str, str]:
    """Every word of the decoder → the name of its tensor in the file.

    `head` is left out where the embeddings are tied, the factors of a rotation where the file has none.
    Nothing is promised about the tensors being there: `spec.read_spec` has checked that.
    """
    return dict(_tensor_names(spec))


@lru_cache(maxsize=32)  # the advisor asks for the same model again and again
def _tensor_names(spec: ModelSpec) -> dict[str, str]:
    own = family(spec)
    stored = {tensor.name for tensor in spec.tensors}
    prefix = prefix_of(own, stored)
    names = {word: prefix + name for word, name in own.names.items()}
    names["head"] = head_name(own, prefix)
    for word in own.optional - {"head"}:
        if names[word] not in stored:
            del names[word]
    if spec.tied_embeddings:
        del names["head"]
    words = tuple(_layer_shapes(spec))
    for i in range(spec.num_layers):
        for word in words:
            names[f"layers.{i}.{word}"] = prefix + _layer_name(own, word, i)
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


def tensor_shapes(spec: ModelSpec) -> dict[str, tuple[int, ...]]:
    """Every word → the shape its tensor must have, in torch order [out, in]."""
    hidden, factors = spec.hidden_size, (spec.rotary_dim // 2,)
    shapes: dict[str, tuple[int, ...]] = {
        "embedding": (spec.vocab_size, hidden),
        "output_norm": (hidden,),
        "head": (spec.vocab_size, hidden),
        "rope_factors": factors,
        "rope_short": factors,
        "rope_long": factors,
    }
    layer = _layer_shapes(spec)
    for i in range(spec.num_layers):
        shapes.update((f"layers.{i}.{word}", shape) for word, shape in layer.items())
    return shapes


def with_layers(spec: ModelSpec, layers: tuple[LayerOptions, ...]) -> ModelSpec:
    """The spec with these layers: they are named one by one where they are not all alike."""
    window = next((layer.sliding_window for layer in layers if layer.sliding_window), None)
    are_alike = all(layer == LayerOptions(window, spec.rope) for layer in layers)
    options = replace(spec.options, layers=() if are_alike else layers)
    return replace(spec, sliding_window=window, options=options)


def split_fused(spec: ModelSpec) -> ModelSpec:
    """The spec with one tensor a matrix, where the file keeps several one above the other in one.

    Raises ModelFileError for such a tensor with another number of rows than the parts have.
    """
    own, stored = family(spec), {tensor.name for tensor in spec.tensors}
    prefix = prefix_of(own, stored)
    fused: dict[str, list[tuple[str, str]]] = {}
    for i in range(spec.num_layers):
        for template, words in own.fused.items():
            name = prefix + template.format(i=i)
            parts = [(word, prefix + _layer_name(own, word, i)) for word in words]
            if name in stored and not any(part in stored for _, part in parts if part != name):
                fused[name] = parts
    tensors: list[TensorInfo] = []
    for tensor in spec.tensors:
        tensors += _parts(spec, tensor, fused[tensor.name]) if tensor.name in fused else [tensor]
    return replace(spec, tensors=tuple(tensors)) if fused else spec


def _parts(spec: ModelSpec, fused: TensorInfo, parts: list[tuple[str, str]]) -> list[TensorInfo]:
    shapes = _layer_shapes(spec)
    rows = [shapes[word.removesuffix("_bias")][0] for word, _ in parts]
    if fused.shape[:1] != (sum(rows),):
        needed = " + ".join(map(str, rows))
        raise ModelFileError(
            tr(
                "{path}: tensor {tensor} has the shape {shape},"
                " but the model's description needs {needed} rows."
            ).format(
                path=spec.files[fused.file],
                tensor=repr(fused.name),
                shape=list(fused.shape),
                needed=needed,
            )
        )
    row_bytes, made, start = fused.nbytes // sum(rows), [], 0
    for count, (_, name) in zip(rows, parts, strict=True):
        offset = fused.offset + start * row_bytes
        shape = (count, *fused.shape[1:])
        made.append(TensorInfo(name, shape, fused.type, fused.file, offset, count * row_bytes))
        start += count
    return made


def _layer_name(own: Family, word: str, layer: int) -> str:
    """The file's name of a layer's tensor; a bias is called after its matrix."""
    name = own.layer_names[word.removesuffix("_bias")]
    if word.endswith("_bias"):
        name = name.removesuffix(".weight") + ".bias"
    return name.format(i=layer)


def _layer_shapes(spec: ModelSpec) -> dict[str, tuple[int, ...]]:
    """Every word of a layer that the model's options ask for → its shape."""
    hidden, inner, dim, options = spec.hidden_size, spec.intermediate_size, spec.head_dim, spec.options
    queries, keys = spec.num_heads * dim, spec.num_kv_heads * dim
    shapes: dict[str, tuple[int, ...]] = {}
    if options.pre_norms:
        shapes |= {"attention_norm": (hidden,), "mlp_norm": (hidden,)}
    if options.post_norms:
        shapes |= {"post_attention_norm": (hidden,), "post_mlp_norm": (hidden,)}
    if options.qk_norm == "head":
        shapes |= {"q_norm": (dim,), "k_norm": (dim,)}
    elif options.qk_norm == "all":
        shapes |= {"q_norm": (queries,), "k_norm": (keys,)}
    matrices: dict[str, tuple[int, ...]] = {
        "q": (queries, hidden),
        "k": (keys, hidden),
        "v": (keys, hidden),
        "o": (hidden, queries),
        "gate": (inner, hidden),
        "up": (inner, hidden),
        "down": (hidden, inner),
    }
    biased = [word for group in options.biases for word in GROUPS[group]]
    return shapes | matrices | {f"{word}_bias": matrices[word][:1] for word in biased}
