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

MOST_JSON_BYTES = 1 << 25  # 32 MiB: an index of the largest models has about 2
PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")

_SINGLE, _INDEX = "model.safetensors", "model.safetensors.index.json"
_AGAIN = "Download the model again; complete files are kept."


def read_json(path: Path, most_bytes: int = MOST_JSON_BYTES) -> dict[str, object]:
    """A JSON object from a file of at most `most_bytes`. Raises ModelFileError naming the file."""
    file, size = open_regular(str(path))
    with file, readable(str(path)):
        if size > most_bytes:
            raise ModelFileError(f"{path}: {size:,} bytes are far too many for this file.")
        raw = file.read(most_bytes)
    if not raw.strip():
        raise ModelFileError(f"{path}: the file is empty.", _AGAIN)
    try:
        value = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        reason = "too deeply nested" if isinstance(error, RecursionError) else printable(str(error), 120)
        raise ModelFileError(f"{path}: this is not valid JSON ({reason}).", _AGAIN) from None
    if not isinstance(value, dict):
        raise ModelFileError(f"{path}: this is not a JSON object.", _AGAIN)
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
        raise ModelFileError(f"{folder}: the folder cannot be read ({error.strerror or error}).") from None


def _no_weights(folder: Path, names: set[str], shards: list[str]) -> EngineError:
    if shards:
        return ModelFileError(
            f"{folder}: the weights lie in several files ({shards[0]} …), but {_INDEX} is missing.", _AGAIN
        )
    pickles = sorted(name for name in names if name.lower().endswith(PICKLE_SUFFIXES))
    if pickles:
        return pickle_refusal(str(folder / pickles[0]))
    if "adapter_config.json" in names:
        return UnsupportedModelError(f"{folder}: this is an adapter (LoRA), not a whole model.")
    return ModelFileError(f"{folder}: there are no weights here (no *.safetensors, no *.gguf).", _AGAIN)


def pickle_refusal(path: str) -> UnsafeModelError:
    """The refusal of a pickled checkpoint, which is never opened."""
    return UnsafeModelError(
        f"{path}: these weights are a Python pickle, which could run code when opened.",
        "Get the model as safetensors or GGUF.",
    )


def _read_shards(folder: Path, names: set[str]) -> tuple[tuple[str, ...], tuple[TensorInfo, ...]]:
    index_path = folder / _INDEX
    weight_map = read_json(index_path).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise ModelFileError(f"{index_path}: weight_map is missing.", _AGAIN)
    shards = set()
    for file in weight_map.values():
        if not isinstance(file, str) or not file or file != Path(file).name or "\\" in file:
            raise ModelFileError(f"{index_path}: {shown(file)} is not the name of a file beside it.")
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
        raise ModelFileError(f"{folder / str(file)}: tensor {shown(name)} is not in this file.", _AGAIN)
    return tuple(str(folder / shard) for shard in ordered), tuple(tensors)


def _refuse_missing(folder: Path, names: set[str], shards: list[str]) -> None:
    missing = [shard for shard in shards if shard not in names]
    if not missing:
        return
    others = {name.lower(): name for name in names}
    other = others.get(missing[0].lower())
    more = f" and {len(missing) - 1} more files" if len(missing) > 1 else ""
    name = printable(missing[0])
    hint = f"Rename {printable(other)} to {name}." if other else _AGAIN
    raise ModelFileError(f"{folder / name}: this part of the weights is missing{more}.", hint)
