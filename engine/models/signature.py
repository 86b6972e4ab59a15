"""What a file really is, told from its first bytes. Knows signatures alone, no model format's inside.

Standard library only; nothing here reads more than the few bytes it is given.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from engine.errors import EngineError, ModelFileError, UnsafeModelError, UnsupportedModelError

HEAD_BYTES = 512
"""How many first bytes `refusal` wants to see."""

_DOWNLOAD_HINT = "Download the file again."
_CONVERT_HINT = "Convert the original model again with a current converter."
_OLD_GGML = {b"lmgg": "GGML", b"fmgg": "GGMF", b"tjgg": "GGJT", b"algg": "GGLA"}
_OLD_GGML |= {magic[::-1]: name for magic, name in _OLD_GGML.items()}
_ARCHIVES = {
    b"\x1f\x8b": "a gzip archive",
    b"7z\xbc\xaf": "a 7-Zip archive",
    b"Rar!": "a RAR archive",
    b"\xfd7zX": "an xz archive",
    b"\x28\xb5\x2f\xfd": "a Zstandard archive",
}


def open_regular(path: str) -> tuple[BinaryIO, int]:
    """Open a file for reading and give its size in bytes; anything but a regular file is refused.

    Pipes and devices would block or never end, so they are refused before opening. Raises ModelFileError.
    """
    with readable(path):
        try:
            _check_regular(path, Path(path).stat().st_mode)
            file = open(path, "rb", opener=_open_without_waiting)  # noqa: SIM115 - the caller owns it
        except ValueError as error:  # no path of a file: it holds a NUL, or half a character
            raise ModelFileError(f"{path}: cannot be opened ({error}).", "Check the path.") from None
        try:
            status = os.fstat(file.fileno())
            _check_regular(path, status.st_mode)  # it may be another file by now
        except BaseException:
            file.close()
            raise
    return file, status.st_size


@contextlib.contextmanager
def readable(path: str) -> Iterator[None]:
    """What the system says of a file in the block becomes a ModelFileError."""
    try:
        yield
    except FileNotFoundError:
        raise ModelFileError(f"{path}: there is no such file.", "Check the path.") from None
    except PermissionError:
        raise ModelFileError(
            f"{path}: no permission to read this file.", "Give yourself the right to read it."
        ) from None
    except OSError as error:
        reason = error.strerror or error
        raise ModelFileError(f"{path}: cannot be read ({reason}).", "Check the disk it lies on.") from None


def _check_regular(path: str, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise ModelFileError(f"{path}: this is a folder, not a model file.", "Choose a model file.")
    if not stat.S_ISREG(mode):
        raise ModelFileError(f"{path}: this is not a regular file.", "Choose a model file.")


def _open_without_waiting(path: str, flags: int) -> int:
    """A pipe that took the file's place is opened at once too, and then refused."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def refusal(path: str, head: bytes, wanted: str) -> EngineError:
    """Why a file that should be `wanted` ("a GGUF file") is not one, named by its first bytes."""
    if not head:
        return ModelFileError(f"{path}: the file is empty (0 bytes).", _DOWNLOAD_HINT)
    if not head.strip(b"\0"):
        return ModelFileError(f"{path}: the file begins with zeros; its download was cut.", _DOWNLOAD_HINT)
    return _binary_refusal(path, head, wanted) or _text_refusal(path, head, wanted)


def _binary_refusal(path: str, head: bytes, wanted: str) -> EngineError | None:
    """The refusal for a known binary signature, or None."""
    magic = head[:4]
    if magic in (b"GGUF", b"FUGG"):
        return ModelFileError(f"{path}: this is a GGUF file, not {wanted}.", "Rename it to end in .gguf.")
    if magic in _OLD_GGML:
        text = f"{path}: this is an old {_OLD_GGML[magic]} file, a format from before GGUF."
        return UnsupportedModelError(text, _CONVERT_HINT)
    if is_pickle(head):
        text = f"{path}: this is a Python pickle, not {wanted}; opening it could run code."
        return UnsafeModelError(text, "Get the model as safetensors or GGUF.")
    if magic == b"PK\x03\x04":
        return ModelFileError(f"{path}: this is a zip archive, not {wanted}.", "Unpack it first.")
    for start, name in _ARCHIVES.items():
        if head.startswith(start):
            return ModelFileError(f"{path}: this is {name}, not {wanted}.", "Unpack it first.")
    if len(head) > 9 and head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 1 << 32:
        return ModelFileError(
            f"{path}: this is a safetensors file, not {wanted}.", "Open its folder with config.json instead."
        )
    return None


def _text_refusal(path: str, head: bytes, wanted: str) -> EngineError:
    """The refusal for text that stands where a model should be, or for nothing known."""
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if start.startswith(b"version https://git-lfs"):
        text = f"{path}: this is a Git LFS pointer; the real file was not fetched."
        return ModelFileError(text, "Run `git lfs pull`, or download the file itself.")
    if start.startswith((b"<!doctype", b"<html", b"<?xml", b"<head", b"<error")):
        text = f"{path}: this is a web page, not {wanted}; the download failed."
        return ModelFileError(text, _DOWNLOAD_HINT)
    if start.startswith((b"{", b"[")):
        return ModelFileError(f"{path}: this is JSON text, not {wanted}.", _DOWNLOAD_HINT)
    if start.startswith((b"invalid username", b"entry not found", b"access to model", b"unauthorized")):
        return ModelFileError(f"{path}: this is a server's error message, not {wanted}.", _DOWNLOAD_HINT)
    return ModelFileError(f"{path}: this is not {wanted} (its first bytes are {head[:4].hex(' ')}).")


def is_pickle(head: bytes) -> bool:
    """Whether the bytes begin a pickle or a PyTorch zip checkpoint (a zip whose members hold `data.pkl`)."""
    if head[:1] == b"\x80" and len(head) > 1 and 2 <= head[1] <= 5 and head[8:9] != b"{":
        return True
    return head.startswith(b"PK\x03\x04") and b"data.pkl" in head[:HEAD_BYTES]
