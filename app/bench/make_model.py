"""Writes Llama models with random weights as GGUF files, for measurements: any shape, any mix of types.

The same shape, types and seed give the same bytes. The files run in this program and in llama.cpp, and a
greedy answer never ends by itself: the rows of the end tokens are zero, so that they are never the best.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import struct
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from app import paths
from app.atomic_file import StorageError, disk_sentence, move_into_place
from app.bench.blocks import Bytes, RandomRows, random_norm, silence
from app.bench.model_types import Shape, TypeMix
from engine.quant.formats import TENSOR_TYPES, nbytes
from engine.text.vocabulary import BYTE_LETTERS

WRITER_VERSION = 2
ALIGNMENT = 32
_CHUNK_BYTES = 1 << 24
_SPARE_BYTES = 1 << 26  # a disk that is full to the last byte helps nobody
_CONTROL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_END_TOKENS = ("<|endoftext|>", "<|im_end|>")
_MERGED = ("Ġt", "he", "in")
_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_NORMAL, _CONTROL = 1, 3
_U32, _I32, _F32, _BOOL, _STRING, _ARRAY = 4, 5, 6, 7, 8, 9  # GGUF's numbers of value types


@dataclass(frozen=True, slots=True)
class _Tensor:
    """A tensor to be written: its place is counted from the start of the data."""

    name: str
    shape: tuple[int, ...]
    type: str
    offset: int

    @property
    def nbytes(self) -> int:
        return nbytes(self.type, self.shape)


def ensure(shape: Shape, mix: TypeMix, say: Callable[[str], None], seed: int = 0) -> Path:
    """The model's file in the cache folder, written where it is missing. ``say`` gets a line before writing.

    Raises StorageError where there is no room or no permission.
    """
    folder = paths.cache_dir() / "bench"
    path = folder / file_name(shape, mix, seed)
    tensors = _tensors(shape, mix)
    header = _header(shape, mix, tensors)
    total = len(header) + _end(tensors)
    with contextlib.suppress(OSError):
        if path.stat().st_size == total:
            return path
    try:
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
        if free < total + _SPARE_BYTES:
            raise StorageError(
                f"{path.name} needs {total / 1e6:,.0f} MB and {free / 1e6:,.0f} MB are free in {folder}.",
                "Free some space, or set DECODECK_HOME to a folder on another disk.",
            )
        say(f"writing {path} ({total / 1e6:,.0f} MB of random weights)")
        _write(path, header, shape, tensors, seed)
    except OSError as error:
        raise StorageError(*disk_sentence(error, path)) from error
    return path


def file_name(shape: Shape, mix: TypeMix, seed: int = 0) -> str:
    """Says all that the bytes depend on."""
    types = mix.name.replace(",", "-").replace("=", "-")
    seeded = f"-seed{seed}" if seed else ""
    return f"random-{shape.name}-{types}{seeded}-v{WRITER_VERSION}.gguf"


def _write(path: Path, header: bytes, shape: Shape, tensors: list[_Tensor], seed: int) -> None:
    """Stream the file tensor by tensor beside its place, then rename it."""
    handle, name = tempfile.mkstemp(prefix=path.name + ".", suffix=".part", dir=path.parent)
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(header)
            for tensor in tensors:
                _write_tensor(file, tensor, shape, seed)
        move_into_place(part, path)
    finally:
        part.unlink(missing_ok=True)


def _write_tensor(file: BinaryIO, tensor: _Tensor, shape: Shape, seed: int) -> None:
    for piece in _pieces(tensor, shape, seed):
        file.write(piece.data)
    file.write(bytes(-tensor.nbytes % ALIGNMENT))


def _pieces(tensor: _Tensor, shape: Shape, seed: int) -> Iterator[Bytes]:
    """The tensor's bytes, some megabytes at a time."""
    if len(tensor.shape) == 1:
        yield random_norm(tensor.shape[0], tensor.name, seed)
        return
    rows, cols = tensor.shape
    source = RandomRows(tensor.type, cols, tensor.name, seed)
    height = max(1, _CHUNK_BYTES * rows // tensor.nbytes)
    silent = _end_ids(shape) if tensor.name == "token_embd.weight" else []
    for start in range(0, rows, height):
        piece = source.take(min(height, rows - start))
        for row in silent:
            if start <= row < start + len(piece):
                silence(piece[row - start : row - start + 1], tensor.type)
        yield piece


def _tensors(shape: Shape, mix: TypeMix) -> list[_Tensor]:
    """All tensors in the order of the file, each behind the one before. The tied head is the embedding."""
    wanted: list[tuple[str, tuple[int, ...], str]]
    wanted = [("token_embd.weight", (shape.vocab, shape.hidden), mix.head)]
    for layer in range(shape.layers):
        block = f"blk.{layer}."
        wanted += [(f"{block}{norm}.weight", (shape.hidden,), "F32") for norm in ("attn_norm", "ffn_norm")]
        for matrix, sides in shape.matrices().items():
            wanted.append((f"{block}{matrix}.weight", sides, mix.of(matrix, layer, shape.layers)))
    wanted.append(("output_norm.weight", (shape.hidden,), "F32"))
    tensors: list[_Tensor] = []
    for name, size, type_name in wanted:
        tensors.append(_Tensor(name, size, type_name, _end(tensors)))
    return tensors


def _end(tensors: list[_Tensor]) -> int:
    """Where the next tensor begins, counted from the start of the data."""
    return _aligned(tensors[-1].offset + tensors[-1].nbytes) if tensors else 0


def _aligned(place: int) -> int:
    return -(-place // ALIGNMENT) * ALIGNMENT


def _tokens(shape: Shape) -> list[str]:
    """The bytes, the control tokens, a few merged letters, and words that no text is ever split into."""
    known = [*BYTE_LETTERS, *_CONTROL_TOKENS, *_MERGED]
    return known + [f"Ġw{index}" for index in range(len(known), shape.vocab)]


def _end_ids(shape: Shape) -> list[int]:
    tokens = _tokens(shape)
    return [tokens.index(text) for text in _END_TOKENS]


def _header(shape: Shape, mix: TypeMix, tensors: list[_Tensor]) -> bytes:
    """Everything before the data. Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md"""
    values = _metadata(shape, mix)
    parts = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(values))]
    parts += [_text(key) + value for key, value in values.items()]
    for tensor in tensors:
        sizes = tensor.shape[::-1]
        number = TENSOR_TYPES[tensor.type].ggml_id
        layout = struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, number, tensor.offset)
        parts.append(_text(tensor.name) + layout)
    header = b"".join(parts)
    return header.ljust(_aligned(len(header)), b"\0")


def _metadata(shape: Shape, mix: TypeMix) -> dict[str, bytes]:
    tokens = _tokens(shape)
    types = [_CONTROL if token in _CONTROL_TOKENS else _NORMAL for token in tokens]
    return {
        "general.architecture": _string("llama"),
        "general.name": _string(f"Random {shape.name} {mix.name}"),
        "general.alignment": _u32(ALIGNMENT),
        "general.quantization_version": _u32(2),
        "llama.block_count": _u32(shape.layers),
        "llama.context_length": _u32(shape.context),
        "llama.embedding_length": _u32(shape.hidden),
        "llama.feed_forward_length": _u32(shape.inner),
        "llama.attention.head_count": _u32(shape.heads),
        "llama.attention.head_count_kv": _u32(shape.kv_heads),
        "llama.attention.key_length": _u32(shape.head_dim),
        "llama.attention.value_length": _u32(shape.head_dim),
        "llama.attention.layer_norm_rms_epsilon": struct.pack("<If", _F32, 1e-5),
        "llama.rope.dimension_count": _u32(shape.head_dim),
        "llama.rope.freq_base": struct.pack("<If", _F32, 100_000.0),
        "llama.vocab_size": _u32(shape.vocab),
        "tokenizer.ggml.model": _string("gpt2"),
        "tokenizer.ggml.pre": _string("smollm"),
        "tokenizer.ggml.tokens": _array(_STRING, [_text(token) for token in tokens]),
        "tokenizer.ggml.token_type": _array(_I32, [struct.pack("<i", kind) for kind in types]),
        "tokenizer.ggml.merges": _array(_STRING, [_text(f"{text[0]} {text[1]}") for text in _MERGED]),
        "tokenizer.ggml.bos_token_id": _u32(tokens.index("<|im_start|>")),
        "tokenizer.ggml.eos_token_id": _u32(tokens.index("<|im_end|>")),
        "tokenizer.ggml.add_bos_token": struct.pack("<IB", _BOOL, 0),
        "tokenizer.chat_template": _string(_TEMPLATE),
    }


def _text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def _string(value: str) -> bytes:
    return struct.pack("<I", _STRING) + _text(value)


def _u32(value: int) -> bytes:
    return struct.pack("<II", _U32, value)


def _array(kind: int, elements: list[bytes]) -> bytes:
    return struct.pack("<IIQ", _ARRAY, kind, len(elements)) + b"".join(elements)
