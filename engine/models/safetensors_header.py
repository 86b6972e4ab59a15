"""Reads the header of a safetensors file within fixed bounds: names, types, shapes, places.

Owns the byte layout and its checks; does not know what the tensors mean. Standard library only.
Format: https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO, TypeGuard

from engine.errors import UnsupportedModelError
from engine.foreign import printable, shown
from engine.models.layout import check_filled, check_layout, damaged, in_order
from engine.models.signature import HEAD_BYTES, is_pickle, open_regular, readable, refusal
from engine.quant import formats
from engine.types import TensorInfo

MOST_HEADER_BYTES = 1 << 25
"""32 MiB hold about 250,000 tensors, ten times what the largest known files have."""


@dataclass(frozen=True, slots=True)
class SafetensorsHeader:
    """All of a safetensors file but its weights; tensors in the order of their places."""

    metadata: dict[str, str]
    tensors: tuple[TensorInfo, ...]
    data_offset: int
    file_bytes: int


def read(path: str, file_index: int = 0) -> SafetensorsHeader:
    """Read and check the header of the file at `path`; `file_index` goes into each TensorInfo.

    Raises ModelFileError for a damaged file or another kind of file, UnsafeModelError for a pickle,
    UnsupportedModelError for types no program knows.
    """
    file, file_bytes = open_regular(path)
    with file, readable(path):
        text, data_offset = _read_text(path, file, file_bytes)
        header = _header(path, text, data_offset, file_bytes, file_index)
        check_filled(path, file, header.tensors)
    return header


def read_from(path: str, file: BinaryIO, file_bytes: int, file_index: int = 0) -> SafetensorsHeader:
    """The header of a file of `file_bytes` that is read through `file`, wherever it lies; `path` names it in
    errors. That its weights are all there is not checked. Raises what `read` does.
    """
    text, data_offset = _read_text(path, file, file_bytes)
    return _header(path, text, data_offset, file_bytes, file_index)


def _header(path: str, text: bytes, data_offset: int, file_bytes: int, file_index: int) -> SafetensorsHeader:
    entries = _parse(path, text)
    metadata = entries.pop("__metadata__", None) or {}
    if not isinstance(metadata, dict):
        raise damaged(path, "__metadata__ is not an object")
    tensors = in_order(_tensor(path, name, entry, data_offset, file_index) for name, entry in entries.items())
    _check_places(path, tensors, data_offset, file_bytes)
    texts = {str(key): str(value) for key, value in metadata.items()}
    return SafetensorsHeader(texts, tuple(tensors), data_offset, file_bytes)


def _read_text(path: str, file: BinaryIO, file_bytes: int) -> tuple[bytes, int]:
    """The JSON text and where the data starts; the claimed length is checked before it is believed."""
    head = file.read(HEAD_BYTES)
    length = int.from_bytes(head[:8], "little")
    starts_well = len(head) > 8 and head[8:9] == b"{"
    is_other = not starts_well and (length > file_bytes or length == 0 or len(head) < 9)
    if is_pickle(head) or is_other:
        raise refusal(path, head, "a safetensors file")
    if length > file_bytes - 8:
        raise damaged(path, f"its header claims {length:,} bytes, but the file has only {file_bytes:,}")
    if length > MOST_HEADER_BYTES:
        raise damaged(path, f"its header of {length:,} bytes is beyond the limit of {MOST_HEADER_BYTES:,}")
    if not starts_well:
        raise damaged(path, "its header is not a JSON object")
    file.seek(8)
    text = file.read(length)
    if len(text) < length:
        raise damaged(path, "the file became shorter while it was read")
    return text, 8 + length


def _parse(path: str, text: bytes) -> dict[str, object]:
    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        values = dict(pairs)
        if len(values) < len(pairs):
            raise ValueError("a name appears twice")
        return values

    try:
        entries = json.loads(text.decode("utf-8"), object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        reason = "too deeply nested" if isinstance(error, RecursionError) else str(error)
        raise damaged(path, f"its header is not valid JSON ({printable(reason, 120)})") from None
    if not isinstance(entries, dict):
        raise damaged(path, "its header is not a JSON object")
    return entries


def _tensor(path: str, name: str, entry: object, data_offset: int, file_index: int) -> TensorInfo:
    title = f"tensor {shown(name)}"
    if not isinstance(entry, dict):
        raise damaged(path, f"the entry of {title} is not an object")
    type_name, shape, places = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(type_name, str) or not _are_sizes(shape) or not _are_sizes(places) or len(places) != 2:
        raise damaged(path, f"the entry of {title} lacks a dtype, shape or data_offsets")
    if type_name not in formats.TENSOR_TYPES:
        raise UnsupportedModelError(f"{path}: {title} has the unknown type {shown(type_name)}.")
    begin, end = places
    try:
        # a tensor without elements is legal here, and only here
        expected = 0 if 0 in shape else formats.nbytes(type_name, shape)
    except ValueError as error:
        raise damaged(path, f"{title} has an impossible shape: {error}") from None
    if end - begin != expected:
        raise damaged(path, f"{title} takes {end - begin:,} bytes, but its shape needs {expected:,}")
    return TensorInfo(name, tuple(shape), type_name, file_index, data_offset + begin, expected)


def _are_sizes(value: object) -> TypeGuard[list[int]]:
    """Whether a foreign value is a short list of whole numbers from 0 to 2**63."""
    return (
        isinstance(value, list)
        and len(value) <= 16
        and all(
            isinstance(each, int) and not isinstance(each, bool) and 0 <= each < 1 << 63 for each in value
        )
    )


def _check_places(path: str, tensors: Sequence[TensorInfo], data_offset: int, file_bytes: int) -> None:
    """Tensors must fill the data from its start to the file's end: the format allows nothing between them."""
    for before, after in itertools.pairwise(tensors):
        gap = after.offset - before.offset - before.nbytes
        if gap > 0:
            what = f"leave a hole of {gap:,} bytes between them"
            raise damaged(path, f"tensors {shown(before.name)} and {shown(after.name)} {what}")
    check_layout(path, tensors, file_bytes)
    end = max((tensor.offset + tensor.nbytes for tensor in tensors), default=data_offset)
    if end < file_bytes or (tensors and tensors[0].offset != data_offset):
        raise damaged(path, "the file holds bytes that belong to no tensor")
