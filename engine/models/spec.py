"""From a path to a ModelSpec: a GGUF file or a Hugging Face folder, checked from headers alone.

Owns what a path means and the comparison of tensors with the architecture. Standard library only;
reads no weights, runs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from engine.errors import EngineError, ModelFileError, UnsupportedModelError
from engine.foreign import plain_errors, shown
from engine.models import families, gguf, gguf_parts, gguf_spec, hf_folder, hf_spec, safetensors_header
from engine.models.layout import missing_tensors
from engine.quant import formats
from engine.types import ModelSpec, TensorInfo
from engine.words import figure, tr

# Several times what the largest published models have.
_MOST = {
    "num_layers": 1 << 10,
    "hidden_size": 1 << 17,
    "intermediate_size": 1 << 20,
    "num_heads": 1 << 12,
    "head_dim": 1 << 10,
    "vocab_size": 1 << 22,
}
_MOST_QUERY_SIZE = 1 << 18  # of all heads together

_EXPERTS = re.compile(r"_exps?\b|experts?\b|ffn_gate_inp|block_sparse_moe")


@plain_errors()
def read_spec(path: str) -> ModelSpec:
    """The model at `path`: a GGUF file, a model folder, or a file inside one (config.json, weights).

    Raises ModelFileError for damaged or incomplete models, UnsupportedModelError for what this version
    cannot run (architecture, tensor type, option), UnsafeModelError where weights could run code. All
    name the file and the reason. `tensors` of the result are the ones the decoder uses.
    """
    try:
        return _read(path)
    except OSError as error:
        said = tr("{path}: cannot be read ({reason}).")
        raise ModelFileError(said.format(path=path, reason=error.strerror or error)) from None


def _read(path: str) -> ModelSpec:
    place = Path(path)
    if place.is_dir():
        return _read_folder(place)
    name = place.name.lower()
    if name.endswith((".safetensors", ".safetensors.index.json")) or name == "config.json":
        return _read_weight_file(place)
    if name.endswith(hf_folder.PICKLE_SUFFIXES) and place.exists():
        raise hf_folder.pickle_refusal(path)
    if gguf_parts.is_cut_by_hand(name):
        raise ModelFileError(
            tr("{path}: this is one piece of a file that was cut by hand.").format(path=path),
            tr("Join the pieces in order into one .gguf file (`cat` or `copy /b`)."),
        )
    return from_gguf(gguf_parts.read_header(path))


def from_gguf(header: gguf.GgufHeader) -> ModelSpec:
    """The model of a GGUF header that has been read. Raises what `read_spec` does."""
    return _checked(gguf_spec.from_header(header))


def from_config(
    folder: str, config: dict[str, object], files: tuple[str, ...], tensors: tuple[TensorInfo, ...]
) -> ModelSpec:
    """The model of a config.json and safetensors headers, all read before. Raises what `read_spec` does."""
    hf_spec.check_architecture(str(Path(folder) / "config.json"), config)
    return _checked(hf_spec.from_config(Path(folder), config, files, tensors))


@plain_errors()
def scan_folder(folder: str) -> list[tuple[str, ModelSpec | EngineError]]:
    """The models in a folder and its direct sub-folders, by name; broken ones with their error.

    A split model is one, under its first part. Projectors (mmproj), adapters and unfinished downloads are
    left out. Raises ModelFileError if the folder itself cannot be read.
    """
    found: list[tuple[str, ModelSpec | EngineError]] = []
    for path in _candidates(Path(folder)):
        try:
            found.append((path, read_spec(path)))
        except gguf_spec.AdditionError:
            continue
        except EngineError as error:
            error.__context__ = None  # nor the traceback: their frames would stay alive
            found.append((path, error.with_traceback(None)))
    return found


def _candidates(folder: Path, depth: int = 0) -> Iterator[str]:
    names = hf_folder.file_names(folder)
    ggufs = set(gguf_parts.models(names))
    for name in sorted(names, key=lambda each: (each.casefold(), each)):
        path = folder / name
        if name.startswith("."):
            continue
        try:
            is_folder = path.is_dir()
        except OSError:
            continue
        if not is_folder:
            if name in ggufs:
                yield str(path)
        elif _is_model_folder(path):
            yield str(path)
        elif depth == 0:
            try:
                yield from _candidates(path, depth + 1)
            except ModelFileError:
                continue  # a sub-folder without permission is not this folder's fault


def _is_model_folder(folder: Path) -> bool:
    """Whether a folder is one model: a config.json beside GGUF files says nothing of them."""
    try:
        if not (folder / "config.json").is_file():
            return False
        names = hf_folder.file_names(folder)
    except (OSError, ModelFileError):
        return False
    return hf_folder.has_weights(names) or not gguf_parts.models(names)


def _read_weight_file(path: Path) -> ModelSpec:
    """A file of a model folder stands for the folder; without config.json, say what the file is."""
    if not path.exists():
        raise ModelFileError(tr("{path}: there is no such file.").format(path=path), tr("Check the path."))
    if not (path.parent / "config.json").is_file():
        if path.suffix.lower() == ".safetensors":
            safetensors_header.read(str(path))
        raise ModelFileError(
            tr("{path}: {name} is missing beside it.").format(path=path, name="config.json"),
            tr("Download the model's whole folder."),
        )
    return _read_folder(path.parent)


def _read_folder(folder: Path) -> ModelSpec:
    names = hf_folder.file_names(folder)
    ggufs, has_weights = gguf_parts.models(names), hf_folder.has_weights(names)
    if ggufs and not has_weights:
        if len(ggufs) > 1:
            said = tr("{path}: there are {count} GGUF models here.").format(path=folder, count=len(ggufs))
            raise ModelFileError(said, tr("Choose one of them."))
        return read_spec(str(folder / ggufs[0]))
    if "config.json" not in names:
        if has_weights:
            said = tr("{path}: {name} is missing.").format(path=folder, name="config.json")
            raise ModelFileError(said, tr("Download the model's whole folder."))
        hf_folder.read_weights(folder)  # names what is there instead
    config = hf_folder.read_json(folder / "config.json")
    hf_spec.check_architecture(str(folder / "config.json"), config)
    files, tensors = hf_folder.read_weights(folder)
    return _checked(hf_spec.from_config(folder, config, files, tensors))


def _checked(spec: ModelSpec) -> ModelSpec:
    """The spec with the tensors the decoder uses; refuses what is missing, misshapen, untyped or extra."""
    _check_sizes(spec)
    if spec.generic is not None:
        return spec  # its tensors are checked when it is loaded, before one is read
    _check_heads(spec)
    spec = families.split_fused(spec)
    family = families.family(spec)
    stored = {tensor.name: tensor for tensor in spec.tensors}
    names = families.tensor_names(spec)
    used = set(names.values())
    prefix = families.prefix_of(family, stored)
    ignored = {families.head_name(family, prefix)} if spec.tied_embeddings else set()
    extra = [name for name in stored if name not in used | ignored and not family.ignored.fullmatch(name)]
    if extra:
        raise _extra_refusal(spec, family.title, extra)
    missing = [name for name in names.values() if name not in stored]
    if missing:
        raise missing_tensors(spec.path, repr(missing[0]), len(missing))
    shapes = families.tensor_shapes(spec)
    for word, name in names.items():
        _check_tensor(spec, stored[name], shapes[word])
    return replace(spec, tensors=tuple(tensor for tensor in spec.tensors if tensor.name in used))


def _check_sizes(spec: ModelSpec) -> None:
    # every layer has tensors, so a claim beyond their number is a lie that would cost time below
    if spec.num_layers > len(spec.tensors):
        raise ModelFileError(
            tr("{path}: the model claims {layers} layers, but the file holds only {tensors} tensors.").format(
                path=spec.path, layers=figure(spec.num_layers), tensors=figure(len(spec.tensors))
            )
        )
    sizes = {name: int(getattr(spec, name)) for name in _MOST}
    limits = _MOST | {"num_heads × head_dim": _MOST_QUERY_SIZE}
    for name, size in (sizes | {"num_heads × head_dim": spec.num_heads * spec.head_dim}).items():
        if size > limits[name]:
            said = tr("{path}: {field} is {size}; at most {most} are believable.")
            most = figure(limits[name])
            raise ModelFileError(said.format(path=spec.path, field=name, size=figure(size), most=most))


def _check_heads(spec: ModelSpec) -> None:
    if spec.head_dim % 2:
        said = tr("{path}: heads of {size} numbers cannot be rotated in pairs.")
        raise ModelFileError(said.format(path=spec.path, size=spec.head_dim))
    if spec.num_heads % spec.num_kv_heads:
        raise ModelFileError(
            tr("{path}: {heads} heads cannot share {key_heads} key heads evenly.").format(
                path=spec.path, heads=spec.num_heads, key_heads=spec.num_kv_heads
            )
        )


def _check_tensor(spec: ModelSpec, tensor: TensorInfo, shape: tuple[int, ...]) -> None:
    path = spec.files[tensor.file]
    if not formats.TENSOR_TYPES[tensor.type].supported:
        raise UnsupportedModelError(
            tr("{path}: tensor {tensor} has the type {type}, which is not supported.").format(
                path=path, tensor=repr(tensor.name), type=tensor.type
            ),
            tr("Choose another quantization of this model, such as Q4_K_M or Q8_0."),
        )
    if tensor.shape != shape:
        raise ModelFileError(
            tr(
                "{path}: tensor {tensor} has the shape {shape}, but the model's description needs {needed}."
            ).format(path=path, tensor=repr(tensor.name), shape=list(tensor.shape), needed=list(shape))
        )


def _extra_refusal(spec: ModelSpec, title: str, extra: list[str]) -> UnsupportedModelError:
    """Tensors the decoder would leave out are features it lacks: an answer without them would be noise."""
    name = extra[0]
    if any(_EXPERTS.search(each) for each in extra):
        said = tr("{path}: the model has a mixture of experts ({tensor}), which is not supported.")
    elif any(each.endswith(".bias") for each in extra):
        said = tr("{path}: the model has biases ({tensor}), which is not supported.")
        name = next(each for each in extra if each.endswith(".bias"))
    else:
        said = tr(
            "{path}: the model has tensors that the {title} architecture here does not know ({tensor}),"
            " which is not supported."
        )
    return UnsupportedModelError(said.format(path=spec.path, title=title, tensor=shown(name)))
