"""Finds the parts of a Hugging Face model folder: config.json, weight files, their index.

Knows which files belong together and reads plain JSON alone; runs and unpickles nothing.
Standard library only.
"""

from __future__ import annotations

import json
from pathlib import Path

from engine.errors import EngineError, ModelFileError, UnsafeModelError, UnsupportedModelError
from engine.foreign import printable, shown
from engine.models import safetensors_header
from engine.models.signature import open_regular, readable
from engine.types import TensorInfo
from engine.words import figure, mark, tr

MOST_JSON_BYTES = 1 << 25  # 32 MiB: an index of the largest models has about 2
PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")

_SINGLE, _INDEX = "model.safetensors", "model.safetensors.index.json"
_AGAIN = mark("Download the model again; complete files are kept.")


def read_json(path: Path, most_bytes: int = MOST_JSON_BYTES) -> dict[str, object]:
    """A JSON object from a file of at most `most_bytes`. Raises ModelFileError naming the file."""
    file, size = open_regular(str(path))
    with file, readable(str(path)):
        if size > most_bytes:
            said = tr("{path}: {size} bytes are far too many for this file.")
            raise ModelFileError(said.format(path=path, size=figure(size)))
        raw = file.read(most_bytes)
    if not raw.strip():
        raise ModelFileError(tr("{path}: the file is empty.").format(path=path), tr(_AGAIN))
    try:
        value = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        is_deep = isinstance(error, RecursionError)
        reason = tr("too deeply nested") if is_deep else printable(str(error), 120)
        said = tr("{path}: this is not valid JSON ({reason}).").format(path=path, reason=reason)
        raise ModelFileError(said, tr(_AGAIN)) from None
    if not isinstance(value, dict):
        raise ModelFileError(tr("{path}: this is not a JSON object.").format(path=path), tr(_AGAIN))
    return value


def read_weights(folder: Path) -> tuple[tuple[str, ...], tuple[TensorInfo, ...]]:
    """(files, tensors) of the folder's safetensors weights, from headers alone.

    `model.safetensors` comes before an index, as elsewhere. Every file of an index must be there under
    exactly its name, and every tensor of it in its file. Raises UnsafeModelError where only pickles are.
    """
    names = file_names(folder)
    if _SINGLE in names:
        path = str(folder / _SINGLE)
        return (path,), safetensors_header.read(path).tensors
    if _INDEX in names:
        return _read_shards(folder, names)
    shards = sorted(name for name in names if name.lower().endswith(".safetensors"))
    if len(shards) == 1 and "-of-" not in shards[0] and not shards[0].startswith("consolidated"):
        path = str(folder / shards[0])
        return (path,), safetensors_header.read(path).tensors
    raise _no_weights(folder, names, shards)


def has_weights(names: set[str]) -> bool:
    """Whether safetensors weights, or an index of some, are among the names in a folder."""
    return any(name.endswith((".safetensors", ".safetensors.index.json")) for name in names)


def file_names(folder: Path) -> set[str]:
    """The names in a folder, as they are spelled there (a file system may accept other spellings)."""
    try:
        return {entry.name for entry in folder.iterdir()}
    except OSError as error:
        said = tr("{path}: the folder cannot be read ({reason}).")
        raise ModelFileError(said.format(path=folder, reason=error.strerror or error)) from None


def _no_weights(folder: Path, names: set[str], shards: list[str]) -> EngineError:
    if shards:
        said = tr("{path}: the weights lie in several files ({first} …), but {index} is missing.")
        return ModelFileError(said.format(path=folder, first=shards[0], index=_INDEX), tr(_AGAIN))
    pickles = sorted(name for name in names if name.lower().endswith(PICKLE_SUFFIXES))
    if pickles:
        return pickle_refusal(str(folder / pickles[0]))
    if "adapter_config.json" in names:
        said = tr("{path}: this is an adapter (LoRA), not a whole model.")
        return UnsupportedModelError(said.format(path=folder))
    said = tr("{path}: there are no weights here (no *.safetensors, no *.gguf).")
    return ModelFileError(said.format(path=folder), tr(_AGAIN))


def pickle_refusal(path: str) -> UnsafeModelError:
    """The refusal of a pickled checkpoint, which is never opened."""
    return UnsafeModelError(
        tr("{path}: these weights are a Python pickle, which could run code when opened.").format(path=path),
        tr("Get the model as safetensors or GGUF."),
    )


def _read_shards(folder: Path, names: set[str]) -> tuple[tuple[str, ...], tuple[TensorInfo, ...]]:
    index_path = folder / _INDEX
    weight_map = read_json(index_path).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        said = tr("{path}: {field} is missing.").format(path=index_path, field="weight_map")
        raise ModelFileError(said, tr(_AGAIN))
    shards = set()
    for file in weight_map.values():
        if not isinstance(file, str) or not file or file != Path(file).name or "\\" in file:
            said = tr("{path}: {value} is not the name of a file beside it.")
            raise ModelFileError(said.format(path=index_path, value=shown(file)))
        if not file.endswith(".safetensors"):
            raise pickle_refusal(str(folder / printable(file)))
        shards.add(file)
    ordered = sorted(shards)
    _refuse_missing(folder, names, ordered)
    tensors: list[TensorInfo] = []
    for number, shard in enumerate(ordered):
        header = safetensors_header.read(str(folder / shard), number)
        tensors += (tensor for tensor in header.tensors if weight_map.get(tensor.name) == shard)
    found = {tensor.name for tensor in tensors}
    lost = [(name, file) for name, file in weight_map.items() if name not in found]
    if lost:
        name, file = lost[0]
        said = tr("{path}: tensor {tensor} is not in this file.")
        raise ModelFileError(said.format(path=folder / str(file), tensor=shown(name)), tr(_AGAIN))
    return tuple(str(folder / shard) for shard in ordered), tuple(tensors)


def _refuse_missing(folder: Path, names: set[str], shards: list[str]) -> None:
    missing = [shard for shard in shards if shard not in names]
    if not missing:
        return
    others = {name.lower(): name for name in names}
    other = others.get(missing[0].lower())
    said = tr("{path}: this part of the weights is missing.")
    if len(missing) > 1:
        said = tr("{path}: this part of the weights is missing and %n more file(s).", "", len(missing) - 1)
    name, hint = printable(missing[0]), tr(_AGAIN)
    if other:
        hint = tr("Rename {other} to {name}.").format(other=printable(other), name=name)
    raise ModelFileError(said.format(path=folder / name), hint)
