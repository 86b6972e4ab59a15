"""Whether tensors lie in their file as they should; knows places and sizes, no file format.

Standard library only.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from engine.errors import ModelFileError
from engine.foreign import shown
from engine.types import TensorInfo


def damaged(path: str, reason: str) -> ModelFileError:
    """The error for a file that cannot be what its maker wrote; `reason` is half a sentence."""
    return ModelFileError(f"{path}: {reason}.", "The file is damaged or incomplete: download it again.")


def in_order(tensors: Iterable[TensorInfo]) -> list[TensorInfo]:
    """The tensors by their places in the file."""
    return sorted(tensors, key=lambda tensor: (tensor.offset, tensor.nbytes))


def check_layout(path: str, tensors: Iterable[TensorInfo], file_bytes: int) -> None:
    """Raise ModelFileError where tensors overlap, or end after the file's end (then naming the first)."""
    ordered = in_order(tensors)
    for before, after in itertools.pairwise(ordered):
        if before.offset + before.nbytes > after.offset:
            raise damaged(path, f"tensors {shown(before.name)} and {shown(after.name)} overlap")
    cut = [tensor for tensor in ordered if tensor.offset + tensor.nbytes > file_bytes]
    if cut:
        short = max(tensor.offset + tensor.nbytes for tensor in cut) - file_bytes
        raise damaged(path, f"the file is {short:,} bytes short: tensor {shown(cut[0].name)} is cut off")
