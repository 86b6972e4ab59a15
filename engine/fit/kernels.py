"""Which kernels run a model, where both ours and torch's could: pure arithmetic on times that were measured.

Knows bytes and microseconds; the registry of kernels does the measuring, and only it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from engine.fit.bytes import weight_bytes
from engine.fit.held import HeldMatrix, held_matrices
from engine.machine import Hardware, KernelPair, KernelTimes
from engine.quant.formats import held_nbytes
from engine.types import ModelSpec

TIMED_ROWS = (1, 4)  # of the input: a step, and a short draft or a few sequences at once
LEAST_READ_BYTES = 8_000_000  # a model that reads less in a step is not worth a measurement
MOST_HELD = 1.5  # torch's home may take so many times the bytes of ours, whatever its speed
# Of the small operations around a layer's products, which our step does in one call: 0.7 to 1.5 ms measured
# on two cores of a server. The least of it: what is not known speaks for torch.
STOCK_LAYER_US = 700.0
_MOST_WEIGHTS = 1 << 24  # a larger matrix takes longer to time and shows nothing new
_NATIVE_COLS, _NATIVE_HEAD = 32, 16  # what the native kernels need columns and head sizes to be multiples of
_NATIVE_FORMATS = ("file", "f32", "bf16", "int8", "int4")
_SAME_VALUES = {  # torch's homes that hold the values of ours; one scale for a row is no match for groups
    "f32": ("f32",),
    "bf16": ("bf16",),
    "int4": ("int4g32",),
    "int4z": ("int4g32",),
}
_STOCK_NAMES = {
    "f32": "torch f32",
    "bf16": "torch bf16",
    "f16": "torch f16",
    "int4g32": "torch int4pack",
    "int8row": "torch int8pack",
    "nf4": "bitsandbytes nf4",
    "nf4cpu": "bitsandbytes nf4",
    "llm-int8": "bitsandbytes llm-int8",
}


def possible_kernels(spec: ModelSpec, format: str, native: str | None) -> str:
    """Which kernels can run the model in a format, on a machine whose native ones are of the instruction set
    ``native``, or which has none: "native <instruction set>" or "torch" (and bitsandbytes beside it). A model
    has all its matrices for one of the two; transformers computes with torch's.
    """
    if spec.generic is not None:
        return "torch"
    cols = (spec.hidden_size, spec.intermediate_size, spec.num_heads * spec.head_dim)
    fits = spec.head_dim % _NATIVE_HEAD == 0 and all(size % _NATIVE_COLS == 0 for size in cols)
    return f"native {native}" if native and fits and format in _NATIVE_FORMATS else "torch"


def chosen_kernels(spec: ModelSpec, format: str, threads: int, hardware: Hardware) -> str:
    """The kernels that a model is loaded for: "native <instruction set>" or "torch".

    Ours, unless times are known by which a step of torch's is quicker.
    """
    ours = possible_kernels(spec, format, hardware.native)
    pair = kernel_pair(spec, format, threads) if ours != "torch" else None
    times = next((times for times in hardware.kernel_times if times.pair == pair), None)
    return "torch" if times and _is_stock_quicker(spec, format, times) else ours


@lru_cache(maxsize=32)  # a slider asks for the same model again and again
def kernel_pair(spec: ModelSpec, format: str, threads: int) -> KernelPair | None:
    """What has to be timed to know the quicker kernels of a model: its most-read matrix in its two homes.

    None where there is nothing to choose: torch's home has other values of fewer or more bits, it would take
    far more memory, or the model is too small for the difference to be felt.
    """
    if possible_kernels(spec, format, "any") == "torch":
        return None
    ours, stock = (read_matrices(spec, format, is_native) for is_native in (True, False))
    held_bytes, stock_bytes = (weight_bytes(spec, format, is_native) for is_native in (True, False))
    too_small = sum(matrix.nbytes for matrix in ours) < LEAST_READ_BYTES
    if too_small or stock_bytes > MOST_HELD * held_bytes:
        return None
    most = _most_read(ours)
    other = next(matrix.held for matrix in stock if most.words[0] in matrix.words)
    if other not in _SAME_VALUES.get(most.held, ()):
        return None
    rows = _timed_rows(most)
    return KernelPair(most.held, other, rows, most.cols, threads)


@lru_cache(maxsize=32)
def timed_matrix(spec: ModelSpec, format: str, is_native: bool) -> HeldMatrix | None:
    """The matrix that shows how quickly a model is read, cut to what can be timed in a short time; None where
    a step reads too little to be worth it, or where others run it.
    """
    if spec.runner != "lean":
        return None
    matrices = read_matrices(spec, format, is_native)
    if sum(matrix.nbytes for matrix in matrices) < LEAST_READ_BYTES:
        return None
    most = _most_read(matrices)
    return replace(most, rows=_timed_rows(most))


def _timed_rows(matrix: HeldMatrix) -> int:
    """Rows of a matrix that are timed, in whole tiles."""
    return min(matrix.rows, max(16, _MOST_WEIGHTS // matrix.cols // 16 * 16))


def read_matrices(spec: ModelSpec, format: str, is_native: bool) -> list[HeldMatrix]:
    """The matrices that a step reads from end to end: all but the embedding, unless that is the head too."""
    matrices = held_matrices(spec, format, is_native)
    has_head = any("head" in matrix.words for matrix in matrices)
    return [matrix for matrix in matrices if not (has_head and "embedding" in matrix.words)]


def kernel_name(held: str, kernels: str) -> str:
    """What runs a matrix that is held so, with the kernels of a plan; a layer's own name for its kernel."""
    return _STOCK_NAMES[held] if kernels == "torch" else f"decodeck {held} {kernels.removeprefix('native ')}"


def _most_read(matrices: list[HeldMatrix]) -> HeldMatrix:
    """The first matrix of the kind (format and shape) that most bytes of a step are read from."""
    kinds: dict[tuple[str, int, int], list[HeldMatrix]] = {}
    for matrix in matrices:
        kinds.setdefault((matrix.held, matrix.rows, matrix.cols), []).append(matrix)
    return max(kinds.values(), key=lambda kind: sum(matrix.nbytes for matrix in kind))[0]


def _is_stock_quicker(spec: ModelSpec, format: str, times: KernelTimes) -> bool:
    """Compares a whole step: what a product takes for a byte, times the bytes that a step reads in that home,
    and torch's small operations.
    """
    pair = times.pair
    ours_us = times.native_us * _reads(spec, format, True, pair.native_format, pair)
    stock_us = times.stock_us * _reads(spec, format, False, pair.stock_format, pair)
    return stock_us + len(TIMED_ROWS) * spec.num_layers * STOCK_LAYER_US < ours_us


def _reads(spec: ModelSpec, format: str, is_native: bool, held: str, pair: KernelPair) -> float:
    """How many times the bytes of the pair's matrix a step reads."""
    read = sum(matrix.nbytes for matrix in read_matrices(spec, format, is_native))
    return read / held_nbytes(held, pair.rows, pair.cols)
