"""A tokenizer from GGUF metadata: what is missing or wrong is refused or named, before weights are read."""

from __future__ import annotations

from typing import Any

import pytest

from engine.errors import TokenizerError
from engine.text.gguf_vocabulary import from_metadata
from engine.text.tokenizer import Tokenizer
from engine.text.vocabulary import BYTE_LETTERS

NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = range(1, 7)


def metadata(**changes: Any) -> dict[str, Any]:
    """All bytes, two merges, then <s> </s> <|im_end|> and a run of spaces; None takes a key away."""
    tokens = [*BYTE_LETTERS, "ab", "abc", "<s>", "</s>", "<|im_end|>", "   "]
    values: dict[str, Any] = {
        "model": "gpt2",
        "pre": "gpt-2",
        "tokens": tokens,
        "token_type": [NORMAL] * 258 + [CONTROL] * 3 + [USER],
        "merges": ["a b", "ab c"],
        "bos_token_id": 258,
        "eos_token_id": 259,
    }
    values.update(changes)
    return {f"tokenizer.ggml.{key}": value for key, value in values.items() if value is not None}


def load(**changes: Any) -> Tokenizer:
    return Tokenizer(from_metadata(metadata(**changes)))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": None}, "no tokenizer"),
        ({"model": "llama"}, "'llama'"),
        ({"model": "rwkv"}, "'rwkv'"),
        ({"model": 7}, "7"),
        ({"pre": None}, "tokenizer.ggml.pre"),
        ({"pre": "brand-new"}, "'brand-new'"),
        ({"pre": "default"}, "'default'"),
        ({"pre": ["gpt-2"]}, "gpt-2"),
        ({"tokens": None}, "no tokens"),
        ({"tokens": []}, "no tokens"),
        ({"tokens": [1, 2]}, "no tokens"),
        ({"merges": None}, "no merges"),
        ({"merges": []}, "no merges"),
        ({"token_type": [1]}, "one type for each token"),
    ],
)
def test_a_tokenizer_that_is_not_all_there_is_refused_by_name(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(TokenizerError) as caught:  # B034 a, b, c
        load(**changes)
    assert words in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize("key", ["eos_token_id", "eot_token_id", "bos_token_id"])
@pytest.mark.parametrize("value", [262, -1, 2**40, "x", True])
def test_an_id_outside_the_vocabulary_is_ignored_with_a_warning(key: str, value: object) -> None:  # B034 e
    tokenizer = load(**{key: value})
    assert len(tokenizer.warnings) == 1
    assert key in tokenizer.warnings[0]
    assert tokenizer.encode("abc") == [257]


def test_end_ids_come_from_keys_and_from_the_names_of_control_tokens() -> None:
    assert load().eos_ids == {259, 260}
    assert load(eot_token_id=257).eos_ids == {257, 259, 260}
    typed = metadata()["tokenizer.ggml.token_type"]
    assert load(token_type=[*typed[:260], NORMAL, USER]).eos_ids == {259}


def test_an_end_of_message_is_no_end_of_answer_where_the_model_has_both() -> None:
    tokens = [*BYTE_LETTERS, "ab", "abc", "<|end|>", "<|return|>", "<|call|>", "x"]
    assert load(tokens=tokens, eos_token_id=259).eos_ids == {259, 260}


def test_a_bos_is_added_where_the_file_or_the_rule_says_so() -> None:
    assert not load().add_bos
    assert load(add_bos_token=True).add_bos
    assert load(pre="llama3").add_bos
    assert not load(pre="llama-bpe", add_bos_token=False).add_bos
    assert not load(add_bos_token=True, bos_token_id=None).add_bos


def test_merges_that_lead_out_of_the_vocabulary_are_left_out_with_a_warning() -> None:
    tokenizer = load(merges=["a b", "x y", "broken", "ab c"])
    assert tokenizer.encode("abc") == [257]
    assert "2 merges" in tokenizer.warnings[0]


def test_no_merge_makes_a_control_token() -> None:
    merges = ["< s", "<s >", "a b"]
    tokens = [*metadata()["tokenizer.ggml.tokens"], "<s"]
    types = [*metadata()["tokenizer.ggml.token_type"], NORMAL]
    tokenizer = load(merges=merges, tokens=tokens, token_type=types, pre="llama-bpe")
    assert tokenizer.control_ids.isdisjoint(tokenizer.encode("<s>", literal=True))
    assert tokenizer.encode("<s>") == [258]


def test_missing_bytes_are_told() -> None:
    tokens = [text for text in metadata()["tokenizer.ggml.tokens"] if text != "q"]
    tokenizer = load(tokens=tokens, token_type=None, bos_token_id=None, eos_token_id=None)
    assert "lacks 1 of the bytes" in tokenizer.warnings[0]


def test_tokens_of_each_type_have_their_bytes() -> None:
    tokens = [*BYTE_LETTERS, "ab", "abc", "<0xE2>", "?", "Ġ[x]", "Ġ"]
    tokenizer = load(
        tokens=tokens, token_type=[NORMAL] * 258 + [BYTE, UNKNOWN, USER, UNUSED], bos_token_id=None
    )
    assert [tokenizer.token_bytes(token_id) for token_id in range(258, 262)] == [
        b"\xe2",
        b"",
        "Ġ[x]".encode(),
        b"",
    ]
    space = list(BYTE_LETTERS).index("Ġ")
    assert tokenizer.token_bytes(space) == b" "


def test_user_defined_tokens_are_found_in_plain_text() -> None:
    tokenizer = load()
    assert tokenizer.encode("a   b")[1] == 261
    assert tokenizer.decode(tokenizer.encode("a   b")) == "a   b"


def test_a_template_that_is_no_text_counts_as_none() -> None:
    assert Tokenizer(from_metadata(metadata() | {"tokenizer.chat_template": 7})).chat_template is None


@pytest.mark.parametrize("kind", [CONTROL, USER])
def test_special_tokens_beyond_all_measure_are_refused_at_once(kind: int) -> None:
    tokens, types = metadata()["tokenizer.ggml.tokens"], metadata()["tokenizer.ggml.token_type"]
    load(tokens=[*tokens, "x" * 256], token_type=[*types, kind])
    with pytest.raises(TokenizerError, match="257 characters"):
        load(tokens=[*tokens, "x" * 257], token_type=[*types, kind])
    many = [f"T{number}" for number in range(100_001)]
    with pytest.raises(TokenizerError, match=r"100,00\d special tokens"):
        load(tokens=[*tokens, *many], token_type=[*types, *[kind] * len(many)])
