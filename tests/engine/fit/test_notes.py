"""What is said about formats that gain nothing, or lose twice."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from engine.fit.notes import format_notes
from engine.fit.plan import plan
from engine.quant.formats import nbytes
from engine.types import LoadSpec, ModelSpec
from tests.engine.fit.test_held import typed
from tests.fakes import HARDWARE


def sized(type_name: str, source: str = "gguf") -> ModelSpec:
    """A file whose tensors have the bytes of their type."""
    spec = typed(type_name)
    tensors = tuple(replace(t, nbytes=nbytes(t.type, t.shape)) for t in spec.tensors)
    return replace(spec, tensors=tensors)


def notes(type_name: str, format: str, native: str | None = "avx2") -> str:
    is_native = native is not None and format not in ("f16", "nf4", "llm-int8")
    return " ".join(format_notes(sized(type_name), format, is_native, native))


@pytest.mark.parametrize(
    ("type_name", "format"),
    [
        ("Q4_1", "int8"),
        ("Q4_K", "int8"),
        ("Q4_K", "bf16"),
        ("Q6_K", "f32"),
        ("Q8_0", "f16"),
        ("Q6_K", "int8"),
        ("BF16", "f32"),
        ("F16", "f32"),
    ],
)
def test_a_format_wider_than_the_file_gains_nothing_and_the_bits_and_bytes_say_so(
    type_name: str, format: str
) -> None:
    said = notes(type_name, format)
    assert said.startswith("Nothing is gained")
    assert f"{sized(type_name).weight_bits:.1f} bits" in said
    assert re.search(r"take [\d,.]+ instead of [\d,.]+ [MG]B", said)


@pytest.mark.parametrize(
    ("type_name", "format"),
    [
        ("Q4_1", "file"),
        ("Q8_0", "int8"),
        ("Q4_0", "int4"),
        ("Q4_1", "int4"),
        ("Q4_K", "int4"),
        ("Q3_K", "int4"),
        ("BF16", "bf16"),
        ("F16", "bf16"),
        ("F32", "f32"),
        ("F32", "bf16"),
        ("BF16", "int8"),
        ("F32", "int4"),
        ("BF16", "nf4"),
    ],
)
def test_nothing_is_said_about_a_format_that_does_what_it_should(type_name: str, format: str) -> None:
    assert notes(type_name, format) == ""


@pytest.mark.parametrize(
    ("type_name", "format"), [("Q8_0", "int4"), ("Q6_K", "int4"), ("Q5_K", "int4"), ("Q8_0", "nf4")]
)
def test_rounding_a_quantized_file_again_loses_twice(type_name: str, format: str) -> None:
    said = notes(type_name, format)
    assert "twice" in said
    assert type_name in said


def test_without_a_home_for_the_files_bits_eight_are_a_gain() -> None:
    assert notes("Q8_0", "int8", native=None) == ""
    assert notes("Q6_K", "int8", native=None) == ""  # it would be held at 16 bits
    assert notes("Q6_K", "f32", native=None).startswith("Nothing is gained")


def test_the_sentence_is_a_reason_of_the_plan_and_the_wish_is_granted() -> None:
    native = replace(HARDWARE, native="avx2")
    made = plan(sized("Q4_K"), native, LoadSpec("/models/tiny.gguf", format="8"))
    assert made.format == "int8"
    assert any(reason.startswith("Nothing is gained") for reason in made.reasons[1:])
    assert made.verdict == "fits"
