"""The compiled kernels as a ctypes library: finds and checks the file, chooses the instruction set, mirrors
decodeck.h. Owns no memory and knows neither models nor tensors; torch is met in one function.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.machinery
import os
from ctypes import POINTER, c_char_p, c_float, c_int32, c_int64, c_uint64, c_void_p
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from engine.words import mark, tr

ABI_VERSION = 4  # DK_ABI_VERSION of decodeck.h
VARIABLE = "DECODECK_NATIVE"  # off, auto, or an instruction set by name: for tests and trouble-shooting
INSTRUCTION_SETS = ("avx512vnni", "avx2", "neon", "scalar")
_LOSS = mark("{reason}: decoding runs on torch's own kernels and is slower.")


class Format(IntEnum):
    """How a matrix is held: `dk_format`."""

    F32 = 0
    BF16 = 1
    INT4 = 2
    INT4Z = 3
    INT4K = 4
    INT4H = 5
    INT5 = 6
    INT5Z = 7
    INT5K = 8
    INT6H = 9
    INT8 = 10


class Activation(IntEnum):
    """What the gate of a feed-forward part goes through: `dk_activation`."""

    SILU = 0
    GELU_TANH = 1


class Matrix(ctypes.Structure):
    """`dk_matrix`: [rows, cols] as held; `data` is an address on a boundary of 64 bytes."""

    data: int | None
    rows: int
    cols: int
    format: int
    _fields_ = (
        ("data", c_void_p),
        ("rows", c_int64),
        ("cols", c_int64),
        ("format", c_int32),
        ("reserved", c_int32),
    )


class Layer(ctypes.Structure):
    """`dk_layer`: norms, biases and rotations are addresses of float32 vectors, or None."""

    _fields_ = (
        ("attention_norm", c_void_p),
        ("mlp_norm", c_void_p),
        ("post_attention_norm", c_void_p),
        ("post_mlp_norm", c_void_p),
        ("q_norm", c_void_p),
        ("k_norm", c_void_p),
        ("qkv_bias", c_void_p),
        ("output_bias", c_void_p),
        ("gate_up_bias", c_void_p),
        ("down_bias", c_void_p),
        ("rotations", c_void_p),
        ("q", Matrix),
        ("k", Matrix),
        ("v", Matrix),
        ("o", Matrix),
        ("gate", Matrix),
        ("up", Matrix),
        ("down", Matrix),
        ("sliding_window", c_int32),
        ("plane", c_int32),
        ("plane_layer", c_int32),
        ("reserved", c_int32),
    )


class Model(ctypes.Structure):
    """`dk_model`: `layer` points to an array of Layer that must outlive it, as must all it points to."""

    _fields_ = (
        ("layers", c_int32),
        ("hidden", c_int32),
        ("heads", c_int32),
        ("kv_heads", c_int32),
        ("head_dim", c_int32),
        ("intermediate", c_int32),
        ("rotary_dim", c_int32),
        ("key_format", c_int32),
        ("value_format", c_int32),
        ("activation", c_int32),
        ("joint_head_norms", c_int32),
        ("ring_tokens", c_int32),
        ("norm_eps", c_float),
        ("attention_scale", c_float),
        ("attention_cap", c_float),
        ("embedding_scale", c_float),
        ("residual_scale", c_float),
        ("logit_divisor", c_float),
        ("logit_cap", c_float),
        ("reserved", c_int32),
        ("layer", POINTER(Layer)),
        ("embedding", Matrix),
        ("head", Matrix),
        ("output_norm", c_void_p),
    )


class Span(ctypes.Structure):
    """`dk_span`: from `position` of a sequence on, tokens lie at `token` of a plane and behind it."""

    _fields_ = (("position", c_int32), ("token", c_int32))


class Plane(ctypes.Structure):
    """`dk_plane`: where a sequence has the keys and values of some layers; strides in tokens."""

    _fields_ = (
        ("keys", c_void_p),
        ("values", c_void_p),
        ("ring_keys", c_void_p),
        ("ring_values", c_void_p),
        ("layer_stride", c_int64),
        ("head_stride", c_int64),
        ("spans", POINTER(Span)),
        ("num_spans", c_int64),
    )


class Segment(ctypes.Structure):
    """`dk_segment`: consecutive new tokens of one sequence."""

    _fields_ = (
        ("planes", POINTER(Plane)),
        ("length", c_int32),
        ("rows", c_int32),
        ("wanted", c_int32),
        ("ring_first", c_int32),
    )


_MATRIX, _MODEL, _PLANE, _SEGMENTS = POINTER(Matrix), POINTER(Model), POINTER(Plane), POINTER(Segment)
# name: (result, arguments), in the order of decodeck.h; addresses travel as integers
_FUNCTIONS: dict[str, tuple[type | None, tuple[type, ...]]] = {
    "dk_abi_version": (c_int32, ()),
    "dk_instruction_set": (c_char_p, (c_int32,)),
    "dk_use": (c_int32, (c_char_p,)),
    "dk_set_parallel": (None, (c_void_p, c_void_p)),
    "dk_matrix_bytes": (c_int64, (c_int32, c_int64, c_int64)),
    "dk_linear_scratch": (c_int64, (c_int64, c_int64, c_int32)),
    "dk_linear": (None, (_MATRIX, c_int32, c_void_p, c_void_p, c_int64, c_int32, c_void_p)),
    "dk_step_scratch": (c_int64, (_MODEL, _SEGMENTS, c_int32, c_int32)),
    "dk_step": (None, (_MODEL, _SEGMENTS, c_int32, c_void_p, c_void_p, c_int32, c_void_p)),
    "dk_key_bytes": (c_int64, (c_int32, c_int32)),
    "dk_value_bytes": (c_int64, (c_int32, c_int32)),
    "dk_store": (
        None,
        (_MODEL, _PLANE, c_int32, c_int32, c_void_p, c_void_p, c_int32, c_int32, c_int32),
    ),
    "dk_load": (
        None,
        (_MODEL, _PLANE, c_int32, c_int32, c_int32, c_int32, c_int32, c_void_p, c_void_p, c_int32),
    ),
    "dk_row": (None, (_MATRIX, c_int64, c_void_p)),
    "dk_pack": (c_int32, (c_int32, c_void_p, c_int64, c_int64, c_int32, c_void_p, c_int64, c_int32)),
    "dk_quantize": (c_int32, (c_int32, c_void_p, c_int64, c_int64, c_int32, c_void_p, c_int32)),
    "dk_read": (c_uint64, (c_void_p, c_int64, c_int32)),
}


@dataclass(frozen=True, slots=True)
class NativeLibrary:
    """The loaded kernels: `functions.dk_…` are those of decodeck.h, called without the interpreter lock."""

    path: Path
    instruction_set: str
    functions: ctypes.CDLL


def library_path() -> Path:
    """Where the build puts the library for this interpreter and platform, whether it is there or not."""
    return Path(__file__).with_name("_kernels" + importlib.machinery.EXTENSION_SUFFIXES[0])


def load() -> NativeLibrary | None:
    """The native kernels, or None where they are missing, unfit or switched off: `why_missing` says which."""
    found = _find()
    return found if isinstance(found, NativeLibrary) else None


def why_missing() -> str:
    """A sentence for the user where `load` gives None, else an empty string."""
    found = _find()
    return found if isinstance(found, str) else ""


def is_forced() -> bool:
    """Whether the user has named an instruction set, which no measurement should overrule."""
    return os.environ.get(VARIABLE, "").strip().lower() in INSTRUCTION_SETS


def connect_parallel(library: NativeLibrary) -> str:
    """Let the kernels run on torch's OpenMP threads. Returns why they cannot (they then use one), or "".

    The functions come from the runtime that torch itself brings, so that the process has one team of threads.
    Imports torch; call it on the engine's thread, before the first product.
    """
    import torch

    folder = Path(torch.__file__).parent / "lib"
    torch_cpu = next(folder.glob("libtorch_cpu.*"), None)
    if torch_cpu is None:
        said = tr("There is no libtorch_cpu in {folder}: the native kernels use one thread.")
        return said.format(folder=folder)
    try:
        runtime = ctypes.CDLL(str(torch_cpu))  # its names include those of the libraries it needs
        addresses = [
            ctypes.cast(runtime[name], c_void_p) for name in ("GOMP_parallel", "omp_get_num_threads")
        ]
    except (OSError, AttributeError):
        return tr("torch brings no GNU-compatible OpenMP here: the native kernels use one thread.")
    library.functions.dk_set_parallel(*addresses)
    return ""


@functools.cache
def _find() -> NativeLibrary | str:
    """The library, or why there is none. Two threads may both get here: the second changes nothing."""
    wish = os.environ.get(VARIABLE, "").strip().lower() or "auto"
    if wish == "off":
        said = tr("The native kernels are switched off by {setting}").format(setting=f"{VARIABLE}=off")
        return tr(_LOSS).format(reason=said)
    if wish not in ("auto", *INSTRUCTION_SETS):
        known = ", ".join(("off", "auto", *INSTRUCTION_SETS))
        said = tr("{setting} is none of {known}").format(setting=f"{VARIABLE}={wish}", known=known)
        return tr(_LOSS).format(reason=said)
    path = library_path()
    if not path.is_file() and os.name == "nt":
        return tr(_LOSS).format(reason=tr("The native kernels are not built on Windows yet"))
    if not path.is_file():
        said = tr("The native kernels were not built (no C++ compiler at install time, or it failed)")
        hint = tr("Install a C++ compiler and run pip install again.")
        return f"{tr(_LOSS).format(reason=said)} {hint}"
    functions = _open(path)
    return functions if isinstance(functions, str) else _choose(path, functions, wish)


def _open(path: Path) -> ctypes.CDLL | str:
    """The file as a library whose functions are declared, or what is wrong with it."""
    try:
        if _is_cut_off(path):
            return _again(tr("The native kernels' file is incomplete"))
        functions = ctypes.CDLL(str(path))
        version = functions.dk_abi_version()
        if version != ABI_VERSION:
            said = tr("The native kernels are of another version ({version}, not {needed})")
            return _again(said.format(version=version, needed=ABI_VERSION))
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(functions, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        return _again(tr("The native kernels cannot be loaded ({error})").format(error=error))
    return functions


def _again(reason: str) -> str:
    again = tr("Run pip install again.")
    return f"{tr(_LOSS).format(reason=reason)} {again}"


def _is_cut_off(path: Path) -> bool:
    """Whether a 64-bit ELF file ends before its section headers, which linkers write last.

    Loading such a file kills the process (the loader maps what is not there), so it is looked at first.
    """
    with path.open("rb") as file:
        header = file.read(64)
    if header[:5] != b"\x7fELF\x02" or len(header) < 64:
        return False  # another kind of file: the loader refuses what it cannot read
    sections_at = int.from_bytes(header[40:48], "little")
    entry_bytes, num_entries = header[58] | header[59] << 8, header[60] | header[61] << 8
    return path.stat().st_size < sections_at + entry_bytes * num_entries


def _choose(path: Path, functions: ctypes.CDLL, wish: str) -> NativeLibrary | str:
    supported = _supported(functions)
    name = supported[0] if wish == "auto" and supported else wish
    if functions.dk_use(name.encode()) != 0:
        said = tr("{setting}, but this processor has {known} alone")
        said = said.format(setting=f"{VARIABLE}={wish}", known=", ".join(supported))
        return tr(_LOSS).format(reason=said)
    return NativeLibrary(path, name, functions)


def _supported(functions: ctypes.CDLL) -> list[str]:
    """Instruction sets that the library and this processor both have, best first."""
    names: list[str] = []
    while (name := functions.dk_instruction_set(len(names))) is not None:
        names.append(name.decode())
    return names
