"""What a format does to the weights of a file beside their size: nothing gained, or rounded twice.

Knows bits and bytes of a header; the sentences are for the user.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from engine.fit.bytes import weight_bits, weight_bytes
from engine.fit.held import held_matrices
from engine.fit.kernels import possible_kernels
from engine.fit.kv_bits import KVBits
from engine.models.families import tensor_names
from engine.quant.formats import NATIVE_FORMATS, TENSOR_TYPES, WEIGHT_FORMATS
from engine.types import ModelSpec
from engine.words import decimal, tr


@lru_cache(maxsize=32)  # a slider asks for the same model again and again
def format_notes(spec: ModelSpec, format: str, is_native: bool, native: str | None) -> tuple[str, ...]:
    """Sentences about loading a file's weights in ``format``; none for its own bits.

    ``is_native`` says whose kernels the format has, ``native`` the instruction set of ours, as in Hardware.
    """
    if format == "file":
        return ()
    held_bytes = weight_bytes(spec, format, is_native)
    own_bytes = weight_bytes(spec, "file", possible_kernels(spec, "file", native) != "torch")
    pairs = list(_bits(spec, format, is_native))
    if held_bytes > own_bytes and any(held > stored for _, stored, held in pairs):
        unit, per_unit = ("GB", 1e9) if held_bytes >= 1e9 else ("MB", 1e6)
        said = tr(
            "Nothing is gained: the file's weights have {own_bits} bits; at {bits} "
            "they take {size} instead of {own_size} {unit} and are no more precise."
        )
        own_bits, size, own_size = (
            decimal(each, 1) for each in (spec.weight_bits, held_bytes / per_unit, own_bytes / per_unit)
        )
        bits = decimal(weight_bits(spec, format, is_native), 1)
        return (said.format(own_bits=own_bits, bits=bits, size=size, own_size=own_size, unit=unit),)
    twice = sorted({name for name, stored, held in pairs if held < stored and TENSOR_TYPES[name].block > 1})
    if twice:
        said = tr(
            "The file is quantized already: rounding its {types} weights again loses quality "
            "twice. A file made at fewer bits from the original is better."
        )
        return (said.format(types=", ".join(twice)),)
    return ()


def kv_notes(kv: KVBits) -> tuple[str, ...]:
    """What is done to keys and values beside what was wished."""
    if kv.keys == kv.values:
        return ()
    said = tr("Keys stay at {key_bits} bits: this family's lose too much at {bits}.")
    return (said.format(key_bits=kv.keys, bits=kv.values),)


def _bits(spec: ModelSpec, format: str, is_native: bool) -> Iterator[tuple[str, int, int]]:
    """The type of every matrix of the file, its bits without scales, and those that it is held in."""
    types, names = {tensor.name: tensor.type for tensor in spec.tensors}, tensor_names(spec)
    for matrix in held_matrices(spec, format, is_native):
        held = WEIGHT_FORMATS[matrix.held].element_bits
        for word in matrix.words:
            stored = types[names[word]]
            home = NATIVE_FORMATS.get(stored)
            yield stored, WEIGHT_FORMATS[home].element_bits if home else int(TENSOR_TYPES[stored].bits), held
