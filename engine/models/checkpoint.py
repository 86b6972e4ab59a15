"""The weights of a model by their names in the file: bytes, typed tensors, float32.

Knows places and types of tensors; not what they mean to a decoder. Used on the engine thread; `read_into`
by the threads that help it too.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Self

import torch
from torch import Tensor

from engine.errors import ModelFileError
from engine.foreign import plain_errors
from engine.models.gguf import GgufHeader
from engine.models.gguf_parts import read_header
from engine.models.signature import open_regular, readable
from engine.models.spec import from_gguf, read_spec
from engine.quant.dequantize import FLOAT_TYPES, dequantize
from engine.quant.formats import TENSOR_TYPES
from engine.types import ModelSpec, TensorInfo
from engine.words import mark, tr

_RELOAD = mark("Load the model again; if that fails, download it again.")


class Checkpoint:
    """The opened files of a ModelSpec.

    Files are read, not mapped: a mapped file that shrinks kills the process at the next access, a read
    comes back short and is an error. Every tensor handed out owns its memory.

    Opening compares the files with the spec and raises ModelFileError where they changed since; with
    ``verify_later`` the caller promises to call `verify`.
    """

    @plain_errors()
    def __init__(self, spec: ModelSpec, *, verify_later: bool = False) -> None:
        self.spec = spec
        self._infos = {tensor.name: tensor for tensor in spec.tensors}
        self._ahead: dict[str, Tensor] = {}
        self._files: list[_OpenFile] = []
        try:
            for path in spec.files:
                self._files.append(_OpenFile(path))
            if not verify_later:
                self.verify()
        except BaseException:
            self.close()
            raise

    def verify(self) -> GgufHeader | None:
        """Read the header again, on any thread; a GGUF file's is returned, it has the tokenizer too.

        Raises ModelFileError where the model is another one now.
        """
        path = self.spec.path
        header = read_header(path) if self.spec.source == "gguf" else None
        found = read_spec(path) if header is None else from_gguf(header)
        if found != self.spec:
            said = tr("{path}: the model changed since it was examined.").format(path=path)
            raise ModelFileError(said, tr(_RELOAD))
        return header

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the files; tensors handed out stay valid, and a read that another thread is in ends as it
        would have. May be called twice.
        """
        for file in self._files:
            file.close()
        self._files.clear()

    def check_open(self) -> None:
        """Raise ValueError where the files have been closed."""
        if not self._files:
            raise ValueError("the checkpoint is closed")

    def keep(self, name: str, raw: Tensor) -> None:
        """Give ``raw``, the bytes of a whole tensor read ahead, to the next one who asks for it."""
        self._ahead[name] = raw

    def info(self, name: str) -> TensorInfo:
        """Shape, type and place of a tensor. KeyError for a name the spec does not have."""
        return self._infos[name]

    def raw(self, name: str, rows: slice | None = None) -> Tensor:
        """The stored bytes, uint8 [nbytes], of a tensor or of some of its first dimension's rows.

        Raises ModelFileError if the file changed or cannot be read.
        """
        if rows is None and name in self._ahead:
            return self._ahead.pop(name)
        _, nbytes = self._place(self._infos[name], rows)
        buffer = torch.empty(nbytes, dtype=torch.uint8)
        self.read_into(buffer.numpy().data, name, rows)  # writable, without a copy
        return buffer

    def read_into(self, view: memoryview, name: str, rows: slice | None = None) -> None:
        """Fill ``view`` with what `raw` returns; it must be as long. May be called from several threads at
        once. Raises ModelFileError as `raw` does.
        """
        info = self._infos[name]
        offset, nbytes = self._place(info, rows)
        assert len(view) == nbytes
        self._read(view, info, offset)

    def forget(self, names: Iterable[str]) -> None:
        """Have the system drop what it holds of tensors of its own accord: the next read is one from the
        disk. Does nothing where the system cannot be told so. Neighbours go as one: a page that two share
        would stay, and be in the way when the system reads ahead.
        """
        runs: list[tuple[int, int, int]] = []  # (file, first byte, first one behind it)
        for info in sorted((self._infos[name] for name in names), key=lambda info: (info.file, info.offset)):
            is_next = bool(runs) and (runs[-1][0], runs[-1][2]) == (info.file, info.offset)
            begin = runs.pop()[1] if is_next else info.offset
            runs.append((info.file, begin, info.offset + info.nbytes))
        for file, begin, end in runs:
            self._files[file].forget(begin, end - begin)

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
    def _place(info: TensorInfo, rows: slice | None) -> tuple[int, int]:
        """Offset in the file and bytes of a tensor, or of some of its rows."""
        if rows is None:
            return info.offset, info.nbytes
        start, stop, _ = rows.indices(info.shape[0])
        row_bytes = info.nbytes // info.shape[0]
        return info.offset + start * row_bytes, max(0, stop - start) * row_bytes

    @staticmethod
    def _shape(info: TensorInfo, rows: slice | None) -> tuple[int, ...]:
        if rows is None:
            return info.shape
        assert len(info.shape) > 1 or TENSOR_TYPES[info.type].block == 1, "a row of blocks cannot be cut"
        return (len(range(*rows.indices(info.shape[0]))), *info.shape[1:])

    @plain_errors()
    def _read(self, view: memoryview, info: TensorInfo, offset: int) -> None:
        """Fill the view from a file, in as many reads as it takes."""
        self.check_open()
        file, path = self._files[info.file], self.spec.files[info.file]
        with readable(path), file.in_use():
            done = 0
            while done < len(view):
                count = file.read_at(view[done:], offset + done)
                if not count:
                    raise _changed(path, info)
                done += count
            if file.has_changed():  # what was read may be of before and of after
                raise _changed(path, info)


def _changed(path: str, info: TensorInfo) -> ModelFileError:
    """Made where it is raised: an error in a local would keep its frames, and the weights in them."""
    said = tr("{path}: the file changed while it was loaded ({tensor}).")
    return ModelFileError(said.format(path=path, tensor=info.name), tr(_RELOAD))


class _OpenFile:
    """A file that several threads read. It closes when it has been told to and nobody reads it any more: a
    read from a dead disk may last longer than the load, and until then its number must not be another file's.
    """

    def __init__(self, path: str) -> None:
        self._file, _ = open_regular(path)
        self._lock = threading.Lock()
        self._num_readers = 0
        self._is_closing = False
        self._opened = self._state()

    def close(self) -> None:
        with self._lock:
            self._is_closing = True
            self._close_if_unused()

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep the file open. Raises ValueError where it was closed before."""
        with self._lock:
            if self._is_closing:
                raise ValueError("the checkpoint is closed")
            self._num_readers += 1
        try:
            yield
        finally:
            with self._lock:
                self._num_readers -= 1
                self._close_if_unused()

    def has_changed(self) -> bool:
        """Whether somebody wrote to the file since it was opened."""
        return self._state() != self._opened

    def read_at(self, view: memoryview, offset: int) -> int:
        """One read at a place of the file: bytes read, 0 behind its end."""
        if hasattr(os, "preadv"):
            return os.preadv(self._file.fileno(), [view], offset)
        with self._lock:  # all threads share one position
            self._file.seek(offset)
            return self._file.readinto(view)  # type: ignore[attr-defined,no-any-return]

    def forget(self, offset: int, nbytes: int) -> None:
        """Drop whole pages of the system's cache; https://man7.org/linux/man-pages/man2/posix_fadvise.2.html"""
        if hasattr(os, "posix_fadvise"):
            with contextlib.suppress(OSError):  # a file system that has no such cache
                os.posix_fadvise(self._file.fileno(), offset, nbytes, os.POSIX_FADV_DONTNEED)

    def _state(self) -> tuple[int, int]:
        """Size and time of change."""
        status = os.fstat(self._file.fileno())
        return status.st_size, status.st_mtime_ns

    def _close_if_unused(self) -> None:
        if self._is_closing and not self._num_readers:
            self._file.close()
