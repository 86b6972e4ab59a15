"""The weights of a model by their names in the file: bytes, typed tensors, float32.

Knows places and types of tensors; not what they mean to a decoder. Used on the engine thread alone.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import BinaryIO, Self

import torch
from torch import Tensor

from engine.errors import ModelFileError
from engine.foreign import one_line, plain_errors
from engine.models.signature import open_regular
from engine.models.spec import read_spec
from engine.quant.dequantize import FLOAT_TYPES, dequantize
from engine.quant.formats import TENSOR_TYPES
from engine.types import ModelSpec, TensorInfo

_RELOAD = "Load the model again; if that fails, download it again."


class Checkpoint:
    """The opened files of a ModelSpec.

    Files are read, not mapped: a mapped file that shrinks kills the process at the next access, a read
    comes back short and is an error. Every tensor handed out owns its memory.

    Opening compares the files with the spec and raises ModelFileError where they changed since.
    """

    @plain_errors()
    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self._infos = {tensor.name: tensor for tensor in spec.tensors}
        self._files: list[BinaryIO] = []
        self._states: list[tuple[int, int]] = []
        try:
            for path in spec.files:
                file, _ = open_regular(path)
                self._files.append(file)
                self._states.append(_state(file))
            if read_spec(spec.path) != spec:
                raise ModelFileError(f"{spec.path}: the model changed since it was examined.", _RELOAD)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the files; tensors handed out stay valid. May be called twice."""
        for file in self._files:
            file.close()
        self._files.clear()

    def info(self, name: str) -> TensorInfo:
        """Shape, type and place of a tensor. KeyError for a name the spec does not have."""
        return self._infos[name]

    def raw(self, name: str, rows: slice | None = None) -> Tensor:
        """The stored bytes, uint8 [nbytes], of a tensor or of some of its first dimension's rows.

        Raises ModelFileError if the file changed or cannot be read.
        """
        info = self._infos[name]
        offset, nbytes = info.offset, info.nbytes
        if rows is not None:
            start, stop, _ = rows.indices(info.shape[0])
            row_bytes = nbytes // info.shape[0]
            offset, nbytes = offset + start * row_bytes, max(0, stop - start) * row_bytes
        buffer = torch.empty(nbytes, dtype=torch.uint8)
        self._read_into(buffer, info, offset)
        return buffer

    def tensor(self, name: str, rows: slice | None = None) -> Tensor:
        """A float tensor in its stored type (F32, F16, BF16) and shape, or some of its rows.

        Raises ValueError for a quantized tensor, ModelFileError as `raw` does.
        """
        info = self._infos[name]
        dtype = FLOAT_TYPES.get(info.type)
        if dtype is None:
            raise ValueError(f"{name} is {info.type}, not plain floats")
        return self.raw(name, rows).view(dtype).reshape(self._shape(info, rows))

    def dequantize(self, name: str, rows: slice | None = None) -> Tensor:
        """A tensor of any supported type in float32 and its own shape, or some of its rows.

        Raises ModelFileError as `raw` does.
        """
        info = self._infos[name]
        return dequantize(self.raw(name, rows), info.type, self._shape(info, rows))

    @staticmethod
    def _shape(info: TensorInfo, rows: slice | None) -> tuple[int, ...]:
        if rows is None:
            return info.shape
        assert len(info.shape) > 1 or TENSOR_TYPES[info.type].block == 1, "a row of blocks cannot be cut"
        return (len(range(*rows.indices(info.shape[0]))), *info.shape[1:])

    def _read_into(self, buffer: Tensor, info: TensorInfo, offset: int) -> None:
        """Fill the buffer from a file, in as many reads as it takes."""
        path = one_line(self.spec.files[info.file])
        changed = ModelFileError(f"{path}: the file changed while it was loaded ({info.name}).", _RELOAD)
        if not self._files:
            raise ValueError("the checkpoint is closed")
        file = self._files[info.file]
        view = buffer.numpy().data  # writable, without a copy
        try:
            if _state(file) != self._states[info.file]:
                raise changed
            file.seek(offset)
            done = 0
            while done < len(view):
                count = file.readinto(view[done:])  # type: ignore[attr-defined]
                if not count:
                    raise changed
                done += count
        except OSError as error:
            raise ModelFileError(f"{path}: cannot be read ({error.strerror or error}).", _RELOAD) from None


def _state(file: BinaryIO) -> tuple[int, int]:
    """Size and time of change of an open file: different when somebody wrote to it."""
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns
