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
from engine.words import figure, tr

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
        raise damaged(path, tr("{field} is not an object").format(field="__metadata__"))
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
        raise refusal(path, head, tr("a safetensors file"))
    if length > file_bytes - 8:
        said = tr("its header claims {claimed} bytes, but the file has only {size}")
        raise damaged(path, said.format(claimed=figure(length), size=figure(file_bytes)))
    if length > MOST_HEADER_BYTES:
        said = tr("its header of {size} bytes is beyond the limit of {most}")
        raise damaged(path, said.format(size=figure(length), most=figure(MOST_HEADER_BYTES)))
    if not starts_well:
        raise damaged(path, tr("its header is not a JSON object"))
    file.seek(8)
    text = file.read(length)
    if len(text) < length:
        raise damaged(path, tr("the file became shorter while it was read"))
    return text, 8 + length


def _parse(path: str, text: bytes) -> dict[str, object]:
    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        values = dict(pairs)
        if len(values) < len(pairs):
            raise ValueError(tr("a name appears twice"))
        return values

    try:
        entries = json.loads(text.decode("utf-8"), object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        reason = tr("too deeply nested") if isinstance(error, RecursionError) else str(error)
        said = tr("its header is not valid JSON ({reason})").format(reason=printable(reason, 120))
        raise damaged(path, said) from None
    if not isinstance(entries, dict):
        raise damaged(path, tr("its header is not a JSON object"))
    return entries


def _tensor(path: str, name: str, entry: object, data_offset: int, file_index: int) -> TensorInfo:
    if not isinstance(entry, dict):
        raise damaged(path, tr("the entry of tensor {tensor} is not an object").format(tensor=shown(name)))
    type_name, shape, places = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(type_name, str) or not _are_sizes(shape) or not _are_sizes(places) or len(places) != 2:
        said = tr("the entry of tensor {tensor} lacks a dtype, shape or data_offsets")
        raise damaged(path, said.format(tensor=shown(name)))
    if type_name not in formats.TENSOR_TYPES:
        said = tr("{path}: tensor {tensor} has the unknown type {type}.")
        raise UnsupportedModelError(said.format(path=path, tensor=shown(name), type=shown(type_name)))
    begin, end = places
    try:
        # a tensor without elements is legal here, and only here
        expected = 0 if 0 in shape else formats.nbytes(type_name, shape)
    except ValueError as error:
        said = tr("tensor {tensor} has an impossible shape: {reason}")
        raise damaged(path, said.format(tensor=shown(name), reason=error)) from None
    if end - begin != expected:
        said = tr("tensor {tensor} takes {size} bytes, but its shape needs {needed}")
        raise damaged(
            path, said.format(tensor=shown(name), size=figure(end - begin), needed=figure(expected))
        )
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
            said = tr("tensors {first} and {second} leave a hole of {size} bytes between them")
            names = {"first": shown(before.name), "second": shown(after.name)}
            raise damaged(path, said.format(size=figure(gap), **names))
    check_layout(path, tensors, file_bytes)
    end = max((tensor.offset + tensor.nbytes for tensor in tensors), default=data_offset)
    if end < file_bytes or (tensors and tensors[0].offset != data_offset):
        raise damaged(path, tr("the file holds bytes that belong to no tensor"))
