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
from engine.words import mark, tr

HEAD_BYTES = 512
"""How many first bytes `refusal` wants to see."""

_DOWNLOAD_HINT = mark("Download the file again.")
_CONVERT_HINT = mark("Convert the original model again with a current converter.")
_OLD_GGML = {b"lmgg": "GGML", b"fmgg": "GGMF", b"tjgg": "GGJT", b"algg": "GGLA"}
_OLD_GGML |= {magic[::-1]: name for magic, name in _OLD_GGML.items()}
_ARCHIVES = {
    b"\x1f\x8b": mark("a gzip archive"),
    b"7z\xbc\xaf": mark("a 7-Zip archive"),
    b"Rar!": mark("a RAR archive"),
    b"\xfd7zX": mark("an xz archive"),
    b"\x28\xb5\x2f\xfd": mark("a Zstandard archive"),
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
            said = tr("{path}: cannot be opened ({error}).").format(path=path, error=error)
            raise ModelFileError(said, tr("Check the path.")) from None
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
        said = tr("{path}: there is no such file.").format(path=path)
        raise ModelFileError(said, tr("Check the path.")) from None
    except PermissionError:
        said = tr("{path}: no permission to read this file.").format(path=path)
        raise ModelFileError(said, tr("Give yourself the right to read it.")) from None
    except OSError as error:
        said = tr("{path}: cannot be read ({reason}).").format(path=path, reason=error.strerror or error)
        raise ModelFileError(said, tr("Check the disk it lies on.")) from None


def _check_regular(path: str, mode: int) -> None:
    if stat.S_ISDIR(mode):
        said = tr("{path}: this is a folder, not a model file.")
    elif not stat.S_ISREG(mode):
        said = tr("{path}: this is not a regular file.")
    else:
        return
    raise ModelFileError(said.format(path=path), tr("Choose a model file."))


def _open_without_waiting(path: str, flags: int) -> int:
    """A pipe that took the file's place is opened at once too, and then refused."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def refusal(path: str, head: bytes, wanted: str) -> EngineError:
    """Why a file that should be `wanted` ("a GGUF file", translated) is not one, named by its first bytes."""
    if not head.strip(b"\0"):
        said = tr("{path}: the file begins with zeros; its download was cut.")
        if not head:
            said = tr("{path}: the file is empty (0 bytes).")
        return ModelFileError(said.format(path=path), tr(_DOWNLOAD_HINT))
    return _binary_refusal(path, head, wanted) or _text_refusal(path, head, wanted)


def _binary_refusal(path: str, head: bytes, wanted: str) -> EngineError | None:
    """The refusal for a known binary signature, or None."""
    magic = head[:4]
    if magic in (b"GGUF", b"FUGG"):
        said = tr("{path}: this is a GGUF file, not {wanted}.").format(path=path, wanted=wanted)
        return ModelFileError(said, tr("Rename it to end in .gguf."))
    if magic in _OLD_GGML:
        said = tr("{path}: this is an old {format} file, a format from before GGUF.")
        return UnsupportedModelError(said.format(path=path, format=_OLD_GGML[magic]), tr(_CONVERT_HINT))
    if is_pickle(head):
        said = tr("{path}: this is a Python pickle, not {wanted}; opening it could run code.")
        return UnsafeModelError(
            said.format(path=path, wanted=wanted), tr("Get the model as safetensors or GGUF.")
        )
    if magic == b"PK\x03\x04":
        said = tr("{path}: this is a zip archive, not {wanted}.").format(path=path, wanted=wanted)
        return ModelFileError(said, tr("Unpack it first."))
    for start, name in _ARCHIVES.items():
        if head.startswith(start):
            said = tr("{path}: this is {what}, not {wanted}.")
            return ModelFileError(
                said.format(path=path, what=tr(name), wanted=wanted), tr("Unpack it first.")
            )
    if len(head) > 9 and head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 1 << 32:
        said = tr("{path}: this is a safetensors file, not {wanted}.").format(path=path, wanted=wanted)
        return ModelFileError(said, tr("Open its folder with config.json instead."))
    return None


def _text_refusal(path: str, head: bytes, wanted: str) -> EngineError:
    """The refusal for text that stands where a model should be, or for nothing known."""
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if start.startswith(b"version https://git-lfs"):
        said = tr("{path}: this is a Git LFS pointer; the real file was not fetched.").format(path=path)
        return ModelFileError(said, tr("Run `git lfs pull`, or download the file itself."))
    if start.startswith((b"<!doctype", b"<html", b"<?xml", b"<head", b"<error")):
        said = tr("{path}: this is a web page, not {wanted}; the download failed.")
    elif start.startswith((b"{", b"[")):
        said = tr("{path}: this is JSON text, not {wanted}.")
    elif start.startswith((b"invalid username", b"entry not found", b"access to model", b"unauthorized")):
        said = tr("{path}: this is a server's error message, not {wanted}.")
    else:
        said = tr("{path}: this is not {wanted} (its first bytes are {bytes}).")
        return ModelFileError(said.format(path=path, wanted=wanted, bytes=head[:4].hex(" ")))
    return ModelFileError(said.format(path=path, wanted=wanted), tr(_DOWNLOAD_HINT))


def is_pickle(head: bytes) -> bool:
    """Whether the bytes begin a pickle or a PyTorch zip checkpoint (a zip whose members hold `data.pkl`)."""
    if head[:1] == b"\x80" and len(head) > 1 and 2 <= head[1] <= 5 and head[8:9] != b"{":
        return True
    return head.startswith(b"PK\x03\x04") and b"data.pkl" in head[:HEAD_BYTES]
