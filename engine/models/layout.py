"""Whether tensors lie in their file as they should; knows places and sizes, no file format.

Standard library only.
"""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Iterable
from typing import BinaryIO

from engine.errors import ModelFileError
from engine.foreign import shown
from engine.types import TensorInfo
from engine.words import figure, tr

_BLOCK_BYTES = 1 << 16  # of a disk, at most; a smaller tensor may be all zeros: a bias


def damaged(path: str, reason: str) -> ModelFileError:
    """The error for a file that cannot be what its maker wrote; `reason` is a clause without a full stop."""
    return ModelFileError(f"{path}: {reason}.", tr("The file is damaged or incomplete: download it again."))


def missing_tensors(path: str, first: str, count: int) -> ModelFileError:
    """The error for a model that lacks `count` tensors, the `first` of which is named."""
    said = tr("{path}: tensor {tensor} is missing.")
    if count > 1:
        said = tr("{path}: tensor {tensor} and {others} more is missing.")
    return ModelFileError(
        said.format(path=path, tensor=first, others=count - 1),
        tr("The model is incomplete: download it again."),
    )


def in_order(tensors: Iterable[TensorInfo]) -> list[TensorInfo]:
    """The tensors by their places in the file."""
    return sorted(tensors, key=lambda tensor: (tensor.offset, tensor.nbytes))


def check_layout(path: str, tensors: Iterable[TensorInfo], file_bytes: int) -> None:
    """Raise ModelFileError where tensors overlap, or end after the file's end (then naming the first)."""
    ordered = in_order(tensors)
    for before, after in itertools.pairwise(ordered):
        if before.offset + before.nbytes > after.offset:
            said = tr("tensors {first} and {second} overlap")
            raise damaged(path, said.format(first=shown(before.name), second=shown(after.name)))
    cut = [tensor for tensor in ordered if tensor.offset + tensor.nbytes > file_bytes]
    if cut:
        short = max(tensor.offset + tensor.nbytes for tensor in cut) - file_bytes
        said = tr("the file is {short} bytes short: tensor {tensor} is cut off")
        raise damaged(path, said.format(short=figure(short), tensor=shown(cut[0].name)))


def check_filled(path: str, file: BinaryIO, tensors: Iterable[TensorInfo]) -> None:
    """Raise ModelFileError naming a matrix that was never written: downloads that reserve the whole size
    first leave a hole there, which would be read as zeros. Moves the file's position.
    """
    if not hasattr(os, "SEEK_DATA"):
        return
    for tensor in tensors:
        first = -(-tensor.offset // _BLOCK_BYTES) * _BLOCK_BYTES
        end = (tensor.offset + tensor.nbytes) // _BLOCK_BYTES * _BLOCK_BYTES  # its neighbours fill the rest
        if end <= first:
            continue
        try:
            written = os.lseek(file.fileno(), first, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                return  # a disk that knows no holes
            written = end  # there is nothing but a hole up to the file's end
        if written >= end:
            said = tr("tensor {tensor} was never written, its download never ended")
            raise damaged(path, said.format(tensor=shown(tensor.name)))
