"""Turns the config.json of a Hugging Face folder into a ModelSpec.

Knows names and meanings of keys; reads plain values, and never code the folder brings along.
Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.errors import ModelFileError, UnsafeModelError, UnsupportedModelError
from engine.foreign import printable, shown
from engine.models import families, generic_spec
from engine.models.family_table import Family
from engine.models.fields import Feature, Fields, display_name
from engine.models.generic_table import CLASSES
from engine.models.hf_rope import Positions, read_positions
from engine.types import DecoderOptions, LayerOptions, ModelSpec, TensorInfo
from engine.words import mark, tr

_LACKED: tuple[Feature, ...] = (
    ("num_local_experts", (0, 1), mark("a mixture of experts")),
    ("num_experts", (0, 1), mark("a mixture of experts")),
    ("attn_logit_softcapping", (), mark("soft-capped attention")),
    ("final_logit_softcapping", (), mark("soft-capped logits")),
    ("is_decoder", (True, False), mark("an encoder")),
    ("use_bidirectional_attention", (False,), mark("attention that looks ahead")),
)
_ACTIVATIONS = {
    "silu": "silu",
    "swish": "silu",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_new": "gelu_tanh",  # the same formula
}
_MEANT_TANH = ("gemma",)  # whose first configs say "gelu"
_OUTER = ("model_type", "tie_word_embeddings")  # what a language model's own part may leave to the whole
_ELSEWHERE, _CAPPED = ("hidden_act", "hidden_activation"), ("attn_logit_softcapping",)
_LAYER_TYPES = {"full_attention": False, "sliding_attention": True}


def check_architecture(path: str, config: Mapping[str, object]) -> Family | str:
    """The lean decoder's family of a config, or the class that transformers runs it as; before any weight
    file is looked at.

    What `auto_map`, `trust_remote_code` or `model_file` say is never followed: an architecture that is known
    is read as plain values, another one that needs its own code is refused as unsafe.
    """
    inner = text_config(path, config)
    model_type = inner.get("model_type")
    if not isinstance(model_type, str):
        raise ModelFileError(
            tr("{path}: {field} is missing.").format(path=path, field="model_type"),
            tr("Download {file} again.").format(file="config.json"),
        )
    found = families.find("safetensors", model_type)
    classes = inner.get("architectures") or []
    name = classes[0] if isinstance(classes, list) and classes else None
    if found is not None and (name is None or name in found.classes or inner is not config):
        return found
    shown_name = str(name or model_type)
    if (config.get("auto_map") or inner.get("auto_map")) and not _is_known(model_type, name):
        raise UnsafeModelError(
            tr("{path}: the model ({name}) needs Python code of its own, which is never run.").format(
                path=path, name=printable(shown_name)
            ),
            tr("Choose a model of a supported architecture, or its GGUF."),
        )
    if generic_spec.knows(model_type):
        return generic_spec.check_class(path, model_type, name if inner is config else None)
    raise families.unsupported(path, shown_name)


def _is_known(model_type: str, name: object) -> bool:
    """Whether transformers has the class itself: code beside it is not needed."""
    return model_type in CLASSES and name in (None, CLASSES[model_type])


def from_config(
    folder: Path, config: Mapping[str, object], files: tuple[str, ...], tensors: tuple[TensorInfo, ...]
) -> ModelSpec:
    """The spec of a folder, its tensors not yet compared with it. An architecture or an option that the lean
    decoder does not serve is run through transformers where that knows it.

    Raises ModelFileError for missing or impossible values, UnsupportedModelError for an option that
    cannot run, and as `check_architecture` does.
    """
    path = str(folder / "config.json")
    served, inner = check_architecture(path, config), text_config(path, config)
    _refuse_quantized(path, config, inner)
    if isinstance(served, str):
        reason = tr("the program has no decoder of its own for {type}").format(type=inner["model_type"])
        return generic_spec.from_config(folder, inner, files, tensors, served, reason)
    try:
        return _lean(folder, config, inner, served, files, tensors)
    except UnsupportedModelError as error:
        if not error.reason:
            raise
        plainer = {name: value for name, value in inner.items() if name not in _served_elsewhere(served)}
        try:
            _lean(folder, config, plainer, served, files, tensors)
        except UnsupportedModelError:
            raise error from None
        class_name = CLASSES[served.architecture]
        return generic_spec.from_config(folder, inner, files, tensors, class_name, error.reason)


def _served_elsewhere(family: Family) -> tuple[str, ...]:
    """The options that transformers computes where the lean decoder does not. Others it would leave out
    without a word: what they mean is then not what it answers.
    """
    return _ELSEWHERE + (_CAPPED if family.architecture == "gemma3_text" else ())


def _lean(
    folder: Path,
    config: Mapping[str, object],
    inner: Mapping[str, object],
    family: Family,
    files: tuple[str, ...],
    tensors: tuple[TensorInfo, ...],
) -> ModelSpec:
    path = str(folder / "config.json")
    # the base and the tie have neighbours that come before a default
    defaults = {k: v for k, v in family.defaults.items() if k not in ("rope_theta", "tie_word_embeddings")}
    fields = Fields(path, defaults | dict(inner))
    fields.refuse(feature for feature in _LACKED if feature[0] not in family.numbers.values())
    heads, hidden = fields.integer("num_attention_heads"), fields.integer("hidden_size")
    head_dim = _head_dim(fields, hidden, heads)
    positions = read_positions(fields, family, head_dim)
    spec = ModelSpec(
        path=str(folder),
        source="safetensors",
        name=display_name(str(folder)),
        architecture=family.architecture,
        num_layers=fields.integer("num_hidden_layers"),
        hidden_size=hidden,
        intermediate_size=fields.integer("intermediate_size"),
        num_heads=heads,
        num_kv_heads=fields.integer("num_key_value_heads", heads),
        head_dim=head_dim,
        vocab_size=fields.integer("vocab_size"),
        trained_context=positions.trained_context,
        norm_eps=fields.positive("rms_norm_eps", 1e-6),
        rope=positions.rope,
        tied_embeddings=_is_tied(path, inner, config, family.defaults),
        sliding_window=None,
        files=files,
        tensors=tensors,
        options=_options(fields, family, positions, head_dim),
    )
    count = min(spec.num_layers, len(tensors))  # a claim of more is refused later
    return families.with_layers(spec, _layers(fields, family, count, positions))


def text_config(path: str, config: Mapping[str, object]) -> Mapping[str, object]:
    """The language model's own part of the config: `text_config` where there is one."""
    inner = config.get("text_config")
    if inner is None:
        return config
    if not isinstance(inner, dict):
        said = tr("{path}: {field} is {value}, not an object.")
        raise ModelFileError(said.format(path=path, field="text_config", value=shown(inner)))
    outer = {name: config[name] for name in _OUTER if inner.get(name) is None and name in config}
    return {**inner, **outer} if outer else inner


def _refuse_quantized(path: str, *configs: Mapping[str, object]) -> None:
    quantization = next((each for config in configs if (each := config.get("quantization_config"))), None)
    if quantization:
        method = quantization.get("quant_method") if isinstance(quantization, dict) else None
        raise UnsupportedModelError(
            tr("{path}: the weights are quantized ({method}), which is not supported here.").format(
                path=path, method=shown(method)
            ),
            tr("Choose the original weights or a GGUF."),
        )


def _head_dim(fields: Fields, hidden: int, heads: int) -> int:
    """The stated size of a head, else hidden / heads."""
    head_dim = fields.integer("head_dim", 0, least=0)
    if not head_dim and hidden % heads:
        said = tr("{field} is {heads}, which does not divide {divided}.")
        raise fields.error("num_attention_heads", said, heads=heads, divided=f"hidden_size {hidden}")
    return head_dim or hidden // heads


def _is_tied(path: str, *sources: Mapping[str, object]) -> bool:
    """Whether the head is the embedding: the language model's own word, the outer one, the family's."""
    name = "tie_word_embeddings"
    said = next((values for values in sources if values.get(name) is not None), {})
    return Fields(path, said).flag(name)


def _options(fields: Fields, family: Family, positions: Positions, head_dim: int) -> DecoderOptions:
    changes: dict[str, Any] = {"activation": _activation(fields, family)}
    for option, key in family.numbers.items():
        if fields.get(key):  # null and 0 switch it off
            value = fields.positive(key)
            changes[option] = value**-0.5 if key == "query_pre_attn_scalar" else value
    if family.scales_embedding:
        changes["embedding_scale"] = fields.integer("hidden_size") ** 0.5
    flagged = [groups for flag, groups in family.bias_flags.items() if fields.flag(flag)]
    changes["biases"] = family.options.biases + tuple(group for groups in flagged for group in groups)
    if positions.rotary_dim != head_dim:
        changes["rotary_dim"] = positions.rotary_dim
    return replace(family.options, **changes)


def _activation(fields: Fields, family: Family) -> str:
    key = "hidden_activation" if fields.get("hidden_activation") is not None else "hidden_act"
    name = fields.text(key, "")
    if not name:
        return family.options.activation
    if name == "gelu" and family.architecture in _MEANT_TANH:
        name = "gelu_pytorch_tanh"
    if name not in _ACTIVATIONS:
        known = {"name": shown(name), "known": ", ".join(_ACTIVATIONS)}
        raise UnsupportedModelError(
            tr("{path}: the activation {name} is not supported ({known} are).").format(
                path=fields.source, **known
            ),
            reason=tr("the activation {name} is not supported ({known} are)").format(**known),
        )
    return _ACTIVATIONS[name]


def _layers(
    fields: Fields, family: Family, num_layers: int, positions: Positions
) -> tuple[LayerOptions, ...]:
    """Every layer's window and rotation."""
    rotates = _rotating(fields, family, num_layers)
    window, slides = _window(fields, family), _sliding(fields, family, rotates)
    made = []
    for is_sliding, is_rotating in zip(slides, rotates, strict=True):
        has_window = is_sliding and window is not None
        rope = positions.local_rope if is_sliding else positions.rope
        made.append(LayerOptions(window if has_window else None, rope if is_rotating else None))
    return tuple(made)


def _window(fields: Fields, family: Family) -> int | None:
    """The attention window, null or a flag switches it off."""
    is_on = "use_sliding_window" not in family.defaults or fields.flag("use_sliding_window")
    if not family.has_window or not is_on:
        return None
    return fields.integer("sliding_window", 0, least=0) or None


def _sliding(fields: Fields, family: Family, rotates: list[bool]) -> list[bool]:
    """Which layers have the window: `layer_types`, or the family's own rule."""
    num_layers, given = len(rotates), fields.get("layer_types")
    reads_types = family.full_every or "use_sliding_window" in family.defaults
    if given is not None and reads_types:
        if not isinstance(given, list) or len(given) != num_layers:
            said = tr("{field} is not a list of {count} types.")
            raise fields.error("layer_types", said, count=num_layers)
        unknown = [each for each in given if not isinstance(each, str) or each not in _LAYER_TYPES]
        if unknown:
            raise UnsupportedModelError(
                tr("{path}: layers of the type {type} are not supported.").format(
                    path=fields.source, type=shown(unknown[0])
                )
            )
        return [_LAYER_TYPES[each] for each in given]
    if family.full_every:
        period = fields.integer("sliding_window_pattern", family.full_every)
        return [(i + 1) % period != 0 for i in range(num_layers)]
    if family.unrotated_every:
        return [not is_rotating for is_rotating in rotates]
    first = fields.integer("max_window_layers", 0, least=0) if "max_window_layers" in family.defaults else 0
    return [i >= first for i in range(num_layers)]


def _rotating(fields: Fields, family: Family, num_layers: int) -> list[bool]:
    """Which layers rotate: the ones of `no_rope_layers`, whatever its name says, or all but every n-th."""
    given = fields.get("no_rope_layers")
    if not family.unrotated_every:
        return [True] * num_layers
    if given is not None:
        if not isinstance(given, list) or len(given) < num_layers or any(x not in (0, 1) for x in given):
            said = tr("{field} is not a list of {count} zeros and ones.")
            raise fields.error("no_rope_layers", said, count=num_layers)
        return [bool(each) for each in given[:num_layers]]
    period = fields.integer("no_rope_layer_interval", family.unrotated_every)
    return [(i + 1) % period != 0 for i in range(num_layers)]
