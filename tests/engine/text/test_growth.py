"""The steps of a foreign tokenizer before it splits: published chains pass, endless ones are refused."""

from __future__ import annotations

import base64
import json
import sys
from typing import Any

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from engine.errors import TokenizerError
from engine.text import growth

DOUBLE = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
REFUSED = "many thousand times"


def sequence(*steps: object) -> dict[str, Any]:
    return {"type": "Sequence", "normalizers": list(steps)}


def characters(*texts: str, trie_size: int = 4) -> dict[str, Any]:
    raw = trie_size.to_bytes(4, "little") + b"\0" * 4 + b"".join(text.encode() + b"\0" for text in texts)
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(raw).decode()}


def saved(part: str, step: object) -> dict[str, Any]:
    backend = Tokenizer(models.BPE())
    setattr(backend, part, step)
    return dict(json.loads(backend.to_str()))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({}, 1),
        ({"normalizer": None, "pre_tokenizer": None}, 1),
        (saved("pre_tokenizer", pre_tokenizers.ByteLevel(add_prefix_space=False)), 2),
        (
            saved(
                "normalizer", normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
            ),
            12,
        ),
        (saved("pre_tokenizer", pre_tokenizers.Metaspace()), 4),
        ({"normalizer": DOUBLE}, 2),
        ({"normalizer": characters("a", "0123456789")}, 10),
    ],
)
def test_growth_is_the_product_of_all_steps(data: dict[str, Any], expected: int) -> None:
    assert growth.of(data) == expected


def test_a_long_chain_of_a_published_tokenizer_passes() -> None:
    quote = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"}
    steps = sequence(characters("x" * 33), {"type": "Strip"}, quote)
    assert growth.of({"normalizer": steps, "pre_tokenizer": {"type": "Metaspace", "replacement": "▁"}}) == 528


@pytest.mark.parametrize(
    "data",
    [
        {"normalizer": sequence(*[DOUBLE] * 40)},
        {"normalizer": sequence(sequence(*[DOUBLE] * 20), sequence(sequence(*[DOUBLE] * 20)))},
        {"normalizer": sequence(*[{"type": "Prepend", "prepend": "x" * 1_000_000}] * 50)},
        {"normalizer": {"type": "Replace", "pattern": {"Regex": "x*"}, "content": "x" * 5000}},
        {"normalizer": characters("x" * 5000)},
        {"normalizer": sequence(*[{"type": "NFC"}] * 65)},
        {"normalizer": sequence(*[{"type": "Nmt"}] * 65)},
        {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"}] * 40}},
        {
            "normalizer": sequence(*[DOUBLE] * 8),
            "pre_tokenizer": {
                "type": "Sequence",
                "pretokenizers": [{"type": "Metaspace", "replacement": "x"}] * 8,
            },
        },
    ],
)
def test_steps_that_multiply_a_text_without_end_are_refused(data: dict[str, Any]) -> None:
    with pytest.raises(TokenizerError, match=REFUSED):
        growth.of(data)


@pytest.mark.parametrize("step", [7, {"type": "Grow"}, {"type": ["NFC"]}, {"pattern": {"String": "a"}}])
def test_an_unknown_step_is_refused_by_name(step: object) -> None:
    with pytest.raises(TokenizerError, match="unknown kind"):
        growth.of({"normalizer": sequence(step)})


@pytest.mark.parametrize("size", [0, 9, 0xFFFFFFFF])
def test_a_table_of_characters_that_claims_more_than_there_is_is_refused(size: int) -> None:
    with pytest.raises(TokenizerError, match="precompiled_charsmap"):
        growth.of({"normalizer": characters(trie_size=size)})


def test_a_text_that_could_become_too_long_is_refused_before_it_is_rewritten() -> None:
    growth.check("é" * (1 << 20), 64)
    with pytest.raises(TokenizerError, match="too long"):
        growth.check("é" * (1 << 20), 65)


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "BertNormalizer"])
def test_no_character_grows_by_more_than_is_counted(form: str) -> None:
    most = growth.of({"normalizer": {"type": form}})
    normalizer = getattr(normalizers, form)()
    odd = "\U0001d1c0\u0ddd\ufdfa\u023a\u0130\u4e00\uac01\u1f82"
    codes = [*odd, *(chr(code) for code in range(0x80, sys.maxunicode, 97) if not 0xD800 <= code < 0xE000)]
    assert all(len(normalizer.normalize_str(c).encode()) <= most * len(c.encode()) for c in codes)
