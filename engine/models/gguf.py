"""Reads the header of a GGUF file (versions 2 and 3, little endian) within fixed bounds.

Owns the byte layout and its checks; does not know what architectures, tokenizers or tensors mean.
Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import struct
import sys
from array import array
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

from engine.errors import ModelFileError, UnsupportedModelError
from engine.foreign import shown
from engine.models.layout import check_filled, check_layout, damaged
from engine.models.signature import HEAD_BYTES, open_regular, readable, refusal
from engine.quant import formats
from engine.types import TensorInfo
from engine.words import figure, mark, tr

Scalar = bool | int | float | str
Value = Scalar | list[bool] | list[int] | list[float] | list[str]

_PIECE_BYTES = 1 << 20
_STRING, _ARRAY, _BOOL = 8, 9, 7
# value type → (struct letter, bytes); 7 is bool, 8 string, 9 array
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}
_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of what a sane header holds. The largest known vocabularies use about a tenth of them."""

    keys: int = 1 << 16
    tensors: int = 1 << 17
    elements: int = 1 << 22  # of all arrays together
    name_bytes: int = 1 << 16
    string_bytes: int = 1 << 24
    header_bytes: int = 1 << 27
    alignment: int = 1 << 16


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """All of a GGUF file but its weights, or of a model's files together (see gguf_parts.py).

    ``tensors`` keep the file's order, offsets are absolute in the one of ``files`` they lie in.
    """

    version: int
    alignment: int
    metadata: dict[str, Value]
    tensors: tuple[TensorInfo, ...]
    data_offset: int
    file_bytes: int
    files: tuple[str, ...]


def read_header(path: str, limits: Limits | None = None) -> GgufHeader:
    """Read and check the header of the GGUF file at `path`, which may be a part of a model.

    Text values that are not UTF-8 get U+FFFD; keys and tensor names that are not are refused, as is a
    repeated key. Raises ModelFileError for a damaged file or another kind of file, UnsupportedModelError
    for a sound one that is of another version or byte order or holds tensors of an unknown type.
    """
    file, file_bytes = open_regular(path)
    with file, readable(path):
        header = _Reader(path, file, file_bytes, limits or Limits()).read()
        check_filled(path, file, header.tensors)
    return header


def read_from(path: str, file: BinaryIO, file_bytes: int, limits: Limits | None = None) -> GgufHeader:
    """The header of a file of `file_bytes` that is read through `file` from its start, wherever it lies;
    `path` names it in errors. That its weights are all there is not checked. Raises what `read_header` does.
    """
    return _Reader(path, file, file_bytes, limits or Limits()).read()


class _Field(NamedTuple):
    """What is being read, told in words only where that fails: a marked text, and what goes into it."""

    text: str
    of: object = ""
    number: int = 0

    def __str__(self) -> str:
        return tr(self.text).format(of=self.of, number=self.number)


class _Reader:
    """One pass over a header: a window of bytes that slides over the file, and the checks."""

    def __init__(self, path: str, file: BinaryIO, file_bytes: int, limits: Limits) -> None:
        self._path = path
        self._file = file
        self._file_bytes = file_bytes
        self._limits = limits
        self._window = b""
        self._at = 0  # in the window
        self._base = 0  # the window's place in the file
        self._elements_left = limits.elements

    def read(self) -> GgufHeader:
        version = self._read_version()
        num_tensors = self._read_count(_Field(mark("the tensor count")), 24, self._limits.tensors)
        num_keys = self._read_count(_Field(mark("the metadata key count")), 13, self._limits.keys)
        metadata = self._read_metadata(num_keys)
        alignment = self._alignment(metadata)
        layouts = [self._read_tensor_layout(index) for index in range(num_tensors)]
        position = self._base + self._at
        data_offset = -(-position // alignment) * alignment
        tensors = self._place(layouts, alignment, data_offset)
        return GgufHeader(version, alignment, metadata, tensors, data_offset, self._file_bytes, (self._path,))

    # -- bytes -----------------------------------------------------------------------------------

    def _fail(self, reason: str) -> ModelFileError:
        return damaged(self._path, reason)

    def _need(self, count: int, field: _Field) -> None:
        """Make `count` more bytes lie in the window; a claim is compared with the file before any read."""
        missing = self._at + count - len(self._window)
        if missing <= 0:
            return
        position = self._base + self._at
        if count > self._file_bytes - position:
            short = position + count - self._file_bytes
            said = tr("the file ends inside its header, at {field}: {short} bytes are missing")
            raise self._fail(said.format(field=field, short=figure(short)))
        if position + count > self._limits.header_bytes:
            said = tr("the header is larger than {most} bytes, at {field}")
            raise self._fail(said.format(field=field, most=figure(self._limits.header_bytes)))
        rest = self._window[self._at :]
        more = self._file.read(max(missing, _PIECE_BYTES))
        self._window, self._base, self._at = rest + more, position, 0
        if len(self._window) < count:
            said = tr("the file became shorter while it was read, at {field}")
            raise self._fail(said.format(field=field))

    def _u32(self, field: _Field) -> int:
        self._need(4, field)
        value: int = _U32.unpack_from(self._window, self._at)[0]
        self._at += 4
        return value

    def _u64(self, field: _Field) -> int:
        self._need(8, field)
        value: int = _U64.unpack_from(self._window, self._at)[0]
        self._at += 8
        return value

    def _bytes(self, field: _Field, limit: int) -> bytes:
        """A string: its length in 8 bytes, then that many bytes."""
        length = self._u64(_Field(mark("the length of {of}"), field))
        if length > limit:
            said = tr("{field} claims {length} bytes; at most {most} are allowed")
            raise self._fail(said.format(field=field, length=figure(length), most=figure(limit)))
        self._need(length, field)
        start = self._at
        self._at = start + length
        return self._window[start : self._at]

    def _name(self, field: _Field) -> str:
        raw = self._bytes(field, self._limits.name_bytes)
        try:
            name = raw.decode("utf-8")
        except UnicodeDecodeError:
            said = tr("{field} is not valid UTF-8: {bytes}").format(field=field, bytes=repr(raw[:40]))
            raise self._fail(said) from None
        if not name:
            raise self._fail(tr("{field} is empty").format(field=field))
        return name

    # -- the fixed part ---------------------------------------------------------------------------

    def _read_version(self) -> int:
        head = self._file.read(HEAD_BYTES)
        self._window = head
        magic, version_bytes = head[:4], head[4:8]
        is_swapped = len(version_bytes) == 4 and 0 < int.from_bytes(version_bytes, "big") < 1 << 16
        if magic == b"FUGG" or (magic == b"GGUF" and is_swapped):
            raise UnsupportedModelError(
                tr("{path}: this is a big-endian GGUF file, which is not supported.").format(path=self._path),
                tr("Get the little-endian file of this model."),
            )
        if magic != b"GGUF":
            raise refusal(self._path, head, tr("a GGUF file"))
        self._at = 4
        version = self._u32(_Field(mark("the version")))
        if version not in (2, 3):
            raise UnsupportedModelError(
                tr("{path}: GGUF version {version} is not supported (2 and 3 are).").format(
                    path=self._path, version=version
                ),
                tr("Convert the original model again with a current converter."),
            )
        return version

    def _read_count(self, field: _Field, least_bytes: int, limit: int) -> int:
        """A count whose elements take at least `least_bytes` each, so that it cannot exceed the file."""
        count = self._u64(field)
        room = self._file_bytes - self._base - self._at
        if count * least_bytes > room:
            said = tr(
                "{field} is {count}, more than a file of {size} bytes can hold; it is damaged or cut off"
            )
            size = figure(self._file_bytes)
            raise self._fail(said.format(field=field, count=figure(count), size=size))
        if count > limit:
            said = tr("{field} is {count}; at most {most} are allowed")
            raise self._fail(said.format(field=field, count=figure(count), most=figure(limit)))
        return count

    # -- metadata ---------------------------------------------------------------------------------

    def _read_metadata(self, num_keys: int) -> dict[str, Value]:
        metadata: dict[str, Value] = {}
        for index in range(num_keys):
            key = self._name(_Field(mark("metadata key {of}"), index))
            if key in metadata:
                raise self._fail(tr("the metadata key {key} appears twice").format(key=shown(key)))
            value_type = self._u32(_Field(mark("the type of {of}"), shown(key)))
            field = _Field(mark("the value of {of}"), shown(key))
            is_array = value_type == _ARRAY
            metadata[key] = self._read_array(field) if is_array else self._read_scalar(value_type, field)
        return metadata

    def _read_scalar(self, value_type: int, field: _Field) -> Scalar:
        if value_type == _STRING:
            return self._bytes(field, self._limits.string_bytes).decode("utf-8", "replace")
        value = self._read_numbers(value_type, 1, field)[0]
        return value

    def _read_array(self, field: _Field) -> Value:
        element_type = self._u32(_Field(mark("the element type of {of}"), field))
        if element_type == _ARRAY:
            said = tr("{field} is an array of arrays, which no model uses")
            raise self._fail(said.format(field=field))
        if element_type != _STRING and element_type not in _NUMBERS:
            said = tr("{field} has the unknown element type {type}")
            raise self._fail(said.format(field=field, type=element_type))
        least_bytes = 8 if element_type == _STRING else struct.calcsize("<" + _NUMBERS[element_type])
        of_elements = _Field(mark("the number of elements in {of}"), field)
        count = self._read_count(of_elements, least_bytes, self._elements_left)
        self._elements_left -= count
        if element_type == _STRING:
            return self._read_strings(count, field)
        return self._read_numbers(element_type, count, field)

    def _read_numbers(
        self, value_type: int, count: int, field: _Field
    ) -> list[bool] | list[int] | list[float]:
        letter = _NUMBERS.get(value_type)
        if letter is None:
            said = tr("{field} has the unknown type {type}").format(field=field, type=value_type)
            raise self._fail(said)
        numbers = array(letter)
        size = count * numbers.itemsize
        self._need(size, field)
        numbers.frombytes(self._window[self._at : self._at + size])
        self._at += size
        if sys.byteorder == "big":
            numbers.byteswap()
        values: list[int] | list[float] = numbers.tolist()
        if value_type != _BOOL:
            return values
        if any(value > 1 for value in values):
            raise self._fail(tr("{field} is a bool that is neither 0 nor 1").format(field=field))
        return [value == 1 for value in values]

    def _read_strings(self, count: int, field: _Field) -> list[str]:
        """Many short strings; the loop is written out because a vocabulary has hundreds of thousands."""
        strings: list[str] = []
        append, unpack_from = strings.append, _U64.unpack_from
        limit = self._limits.string_bytes
        window, at, size = self._window, self._at, len(self._window)
        while len(strings) < count:
            end = at + 8
            if end <= size:
                end += unpack_from(window, at)[0]
            if end <= size:
                append(str(window[at + 8 : end], "utf-8", "replace"))
                at = end
                continue
            self._at = at
            name = _Field(mark("element {number} of {of}"), field, len(strings))
            append(self._bytes(name, limit).decode("utf-8", "replace"))
            window, at, size = self._window, self._at, len(self._window)
        self._at = at
        return strings

    def _alignment(self, metadata: dict[str, Value]) -> int:
        """`general.alignment`: a power of two from 8, 32 where it is missing."""
        value = metadata.get("general.alignment", 32)
        most = self._limits.alignment
        if isinstance(value, int) and 8 <= value <= most and value & (value - 1) == 0:
            return value
        said = tr("{field} is {value}; it must be a power of two from 8 to {most}")
        raise self._fail(said.format(field="general.alignment", value=shown(value), most=figure(most)))

    # -- tensors ----------------------------------------------------------------------------------

    def _read_tensor_layout(self, index: int) -> tuple[str, tuple[int, ...], str, int, int]:
        """(name, shape in torch order, type, offset from the data's start, bytes) of one tensor."""
        name = self._name(_Field(mark("the name of tensor {of}"), index))
        title = _Field(mark("tensor {of}"), shown(name))
        num_dims = self._u32(_Field(mark("the number of dimensions of {of}"), title))
        if num_dims > 4:
            said = tr("{tensor} claims {count} dimensions; a GGUF tensor has at most 4")
            raise self._fail(said.format(tensor=title, count=figure(num_dims)))
        of_sizes = _Field(mark("the sizes of {of}"), title)
        sizes = tuple(self._u64(of_sizes) for _ in range(num_dims))
        type_id = self._u32(_Field(mark("the type of {of}"), title))
        offset = self._u64(_Field(mark("the offset of {of}"), title))
        tensor_type = formats.by_ggml_id(type_id)
        if tensor_type is None:
            raise UnsupportedModelError(
                tr("{path}: tensor {tensor} has the type {type}, which is not supported.").format(
                    path=self._path, tensor=shown(name), type=formats.ggml_name(type_id)
                ),
                tr("Choose another quantization of this model, such as Q4_K_M or Q8_0."),
            )
        shape = sizes[::-1]
        try:
            nbytes = formats.nbytes(tensor_type.name, shape)
        except ValueError as error:
            said = tr("tensor {tensor} has an impossible shape: {reason}")
            raise self._fail(said.format(tensor=shown(name), reason=error)) from None
        return name, shape, tensor_type.name, offset, nbytes

    def _place(
        self,
        layouts: list[tuple[str, tuple[int, ...], str, int, int]],
        alignment: int,
        data_offset: int,
    ) -> tuple[TensorInfo, ...]:
        """Absolute tensors, after checks of names, alignment, overlap and the file's end."""
        tensors = []
        names: set[str] = set()
        for name, shape, type_name, offset, nbytes in layouts:
            if name in names:
                raise self._fail(tr("tensor {tensor} appears twice").format(tensor=shown(name)))
            if offset % alignment:
                said = tr("tensor {tensor} starts at {offset}, not a multiple of {alignment}")
                raise self._fail(said.format(tensor=shown(name), offset=figure(offset), alignment=alignment))
            names.add(name)
            tensors.append(TensorInfo(name, shape, type_name, 0, data_offset + offset, nbytes))
        check_layout(self._path, tensors, self._file_bytes)
        return tuple(tensors)
