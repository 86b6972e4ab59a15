"""What a wish comes to: names and aliases of formats, and what a machine lacks for them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.errors import WishError
from engine.fit.choices import FORMATS, lack, resolve_format
from engine.fit.plan import plan
from engine.types import LoadSpec
from tests.fakes import HARDWARE, make_spec

BF16_CPU = replace(HARDWARE, instruction_sets=("avx2", "avx512_bf16"))


ALIASES = {"32": "f32", "16": "bf16", "8": "int8", "4": "int4"}


@pytest.mark.parametrize(("name", "format"), (ALIASES | {each: each for each in FORMATS}).items())
def test_formats_and_their_aliases_are_understood(name: str, format: str) -> None:
    assert resolve_format(make_spec(), name) == format


def test_auto_is_the_files_own_bits_for_a_gguf_and_bf16_for_a_folder() -> None:
    assert resolve_format(make_spec(), "auto") == "file"
    assert resolve_format(replace(make_spec(), source="safetensors"), "auto") == "bf16"


@pytest.mark.parametrize("name", ["q5", "", "INT8", "fp16", "2"])
def test_an_unknown_format_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(WishError) as error:
        resolve_format(make_spec(), name)
    assert all(format in error.value.hint for format in FORMATS)


@pytest.mark.parametrize("format", ["file", "f32", "bf16", "f16", "int8", "int4"])
@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_our_own_formats_need_nothing(format: str, device: str) -> None:
    assert lack(format, HARDWARE, device) is None


@pytest.mark.parametrize(
    ("format", "hardware", "device", "word"),
    [
        ("nf4", HARDWARE, "cpu", "AVX-512 BF16"),
        ("nf4", replace(HARDWARE, has_bitsandbytes=True), "cpu", "AVX-512 BF16"),
        ("nf4", BF16_CPU, "cpu", "bitsandbytes"),
        ("nf4", replace(BF16_CPU, has_bitsandbytes=True), "cpu", None),
        ("nf4", HARDWARE, "cuda:0", "bitsandbytes"),
        ("nf4", replace(HARDWARE, has_bitsandbytes=True), "cuda:0", None),
        ("llm-int8", replace(BF16_CPU, has_bitsandbytes=True), "cpu", "CUDA"),
        ("llm-int8", replace(HARDWARE, has_bitsandbytes=True), "mps", "CUDA"),
        ("llm-int8", HARDWARE, "cuda:0", "bitsandbytes"),
        ("llm-int8", replace(HARDWARE, has_bitsandbytes=True), "cuda:0", None),
    ],
)
def test_what_a_format_of_another_library_lacks_is_named(
    format: str, hardware: object, device: str, word: str | None
) -> None:
    found = lack(format, hardware, device)  # type: ignore[arg-type]
    if word is None:
        assert found is None
        return
    assert found is not None
    assert word in found.sentence
    assert found.hint
    assert len(found.words) < 16  # it stands in a segment of the window


@pytest.mark.parametrize("format", ["nf4", "llm-int8"])
def test_a_plan_without_what_its_format_needs_is_refused(format: str) -> None:
    with pytest.raises(WishError):
        plan(make_spec(), HARDWARE, LoadSpec("/models/tiny.gguf", format=format))
