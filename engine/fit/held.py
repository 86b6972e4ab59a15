"""How each matrix of a model is held in memory: the one place that decides it, for advisor and loader alike.

Knows words, shapes and types of tensors from a header; reads no weights. Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

from engine.models.families import GROUPS, tensor_names
from engine.quant.formats import NATIVE_FORMATS, WEIGHT_FORMATS, fills_groups, held_nbytes
from engine.types import ModelSpec, TensorInfo

_DENSE = ("f32", "bf16", "f16")  # wishes by which every matrix is held
_OUTER = ("embedding", "head")  # looked up by rows, and what tells the tokens apart: never at four bits
_INT4_TYPES = ("Q4_0", "Q4_1")  # whose blocks torch's int4pack takes as they are
_GPU_INT4_TYPES = ("Q4_K",)  # whose scales it takes rounded to bfloat16; a GPU's only home of so few bits
_NATIVE_HOMES = {"int8": "int8", "int4": "int4z"}  # of the layers' matrices
_STOCK_HOMES = {"int8": "int8row", "int4": "int4g32", "nf4": "nf4cpu", "llm-int8": "llm-int8"}
_STOCK_OUTER = {"int8": "int8row", "int4": "int8row"}  # at 16 bits otherwise, as bitsandbytes leaves them


@dataclass(frozen=True, slots=True)
class HeldMatrix:
    """One matrix of the running model: file tensors ``words`` stacked by rows and held in one format."""

    words: tuple[str, ...]  # the decoder's own names
    held: str  # a key of WEIGHT_FORMATS
    rows: int
    cols: int

    @property
    def nbytes(self) -> int:
        return held_nbytes(self.held, self.rows, self.cols)


def held_format(
    word: str, tensor: TensorInfo, format: str, is_native: bool = False, is_gpu: bool = False
) -> str:
    """How the matrix of a word is held when the model is loaded as ``format`` (see choices.FORMATS).

    ``file``: the native kernels keep every quantized type they have a home for, torch's only 4-bit blocks
    without super-blocks; everything else is held at 16 bits. ``int4``: matrices of the file that have no
    more than four bits stay as they are; embedding and head have eight bits, or what the file has. Columns
    that do not fill the groups of a format stay at 16 bits. Norms and biases are float32 always.
    """
    if format in _DENSE:
        return format
    outer = word in _OUTER
    if format == "file":
        wanted = _file_home(word, tensor, is_native, is_gpu)
    elif is_native:
        wanted = _native_home(tensor, "int8" if outer else format, may_be_fewer=format == "int4")
    else:
        wanted = _STOCK_OUTER.get(format, "bf16") if outer else _STOCK_HOMES[format]
    return wanted if fills_groups(wanted, *tensor.shape) else "bf16"


def _file_home(word: str, tensor: TensorInfo, is_native: bool, is_gpu: bool) -> str:
    if is_native:
        return NATIVE_FORMATS.get(tensor.type, "bf16")
    packed = (*_INT4_TYPES, *_GPU_INT4_TYPES) if is_gpu else _INT4_TYPES
    return "int4g32" if tensor.type in packed and word != "embedding" else "bf16"


def _native_home(tensor: TensorInfo, format: str, may_be_fewer: bool) -> str:
    """The home of a format's bits; the file's own where it has these bits, or fewer and that is welcome."""
    wanted, own = _NATIVE_HOMES[format], NATIVE_FORMATS.get(tensor.type)
    if own is None:
        return wanted
    bits, own_bits = (WEIGHT_FORMATS[each].element_bits for each in (wanted, own))
    return own if own_bits == bits or (may_be_fewer and own_bits < bits) else wanted


def held_matrices(
    spec: ModelSpec, format: str, is_native: bool = False, is_gpu: bool = False
) -> list[HeldMatrix]:
    """All matrices of the model in the order in which they are loaded: embedding, layers, head.

    torch's kernels want few large products: tensors that are multiplied with the same input are stacked where
    their formats agree. The native ones take every tensor by itself in its own format. A tied head is the
    embedding's matrix.
    """
    return list(_held_matrices(spec, format, is_native, is_gpu))


@lru_cache(maxsize=64)  # a slider asks for the same model again and again
def _held_matrices(spec: ModelSpec, format: str, is_native: bool, is_gpu: bool) -> tuple[HeldMatrix, ...]:
    names, by_name = tensor_names(spec), {tensor.name: tensor for tensor in spec.tensors}
    tensors = {word: by_name[name] for word, name in names.items()}
    stacks: list[tuple[str, ...]] = [("embedding",)]
    stacks += [
        tuple(f"layers.{index}.{kind}" for kind in kinds)
        for index in range(spec.num_layers)
        for kinds in GROUPS.values()
    ]
    stacks += [("head",)] if "head" in tensors else []
    if is_native:
        stacks = [(word,) for word in chain.from_iterable(stacks)]
    matrices: list[HeldMatrix] = []
    for stack in stacks:
        matrices += _stack(stack, tensors, format, is_native, is_gpu)
    return tuple(matrices)


def _stack(
    words: tuple[str, ...], tensors: dict[str, TensorInfo], format: str, is_native: bool, is_gpu: bool
) -> list[HeldMatrix]:
    formats = [
        held_format(word.rpartition(".")[2], tensors[word], format, is_native, is_gpu) for word in words
    ]
    if len(set(formats)) > 1:
        return [_matrix((word,), held, tensors) for word, held in zip(words, formats, strict=True)]
    return [_matrix(words, formats[0], tensors)]


def _matrix(words: tuple[str, ...], held: str, tensors: dict[str, TensorInfo]) -> HeldMatrix:
    rows = sum(tensors[word].shape[0] for word in words)
    return HeldMatrix(words, held, rows, tensors[words[0]].shape[1])
