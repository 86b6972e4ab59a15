"""A tokenizer from GGUF metadata: what is missing or wrong is refused or named, before weights are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.errors import TokenizerError
from engine.text.gguf_vocabulary import from_metadata
from engine.text.prompt import Part
from engine.text.tokenizer import Tokenizer
from engine.text.vocabulary import BYTE_LETTERS
from tests.engine.text.vocabularies import (
    BYTE,
    BYTES,
    CONTROL,
    NORMAL,
    UNKNOWN,
    UNUSED,
    USER,
    byte_pairs,
    llama_cpp_ids,
    needs_llama_cpp,
    pieces,
    write,
)

metadata = byte_pairs


def load(**changes: Any) -> Tokenizer:
    return Tokenizer(from_metadata(metadata(**changes)))


def sentence_pieces(scores: dict[str, float] | None = None, /, **changes: Any) -> Tokenizer:
    """Ids from 259 on, "▁" and "a" and "▁a" where no pieces are given."""
    return Tokenizer(from_metadata(pieces(scores or {"▁": -2.0, "a": -3.0, "▁a": -1.0}, **changes)))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": None}, "no tokenizer"),
        ({"model": "rwkv"}, "'rwkv'"),
        ({"model": "bert"}, "'bert'"),
        ({"model": "t5"}, "'t5'"),
        ({"model": "plamo2"}, "'plamo2'"),
        ({"model": 7}, "7"),
        ({"pre": None}, "tokenizer.ggml.pre"),
        ({"pre": "brand-new"}, "'brand-new'"),
        ({"pre": ["gpt-2"]}, "a list"),
        ({"tokens": None}, "no tokens"),
        ({"tokens": []}, "no tokens"),
        ({"tokens": [1, 2]}, "no tokens"),
        ({"merges": None}, "no merges"),
        ({"merges": []}, "no merges"),
        ({"token_type": [1]}, "one type for each token"),
        ({"token_type": ["x"] * 262}, "one type for each token"),
        ({"token_type": [1.0] * 262}, "one type for each token"),
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


@pytest.mark.parametrize("later", [("<|return|>", "<|call|>"), ("<|flush|>", "<|calls|>")])
def test_an_end_of_message_is_no_end_of_answer_where_the_model_has_both(later: tuple[str, str]) -> None:
    tokens = [*BYTE_LETTERS, "ab", "abc", "<|end|>", *later, "x"]
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
    assert tokenizer.control_ids == {259}
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


def test_a_turn_s_end_that_is_only_user_defined_ends_an_answer_and_is_never_typed() -> None:
    tokens = [*BYTE_LETTERS, "ab", "abc", "<s>", "</s>", "<end_of_turn>", "<eos>"]
    tokenizer = load(tokens=tokens, token_type=[NORMAL] * 258 + [CONTROL] * 2 + [USER] * 2, eos_token_id=None)
    assert tokenizer.eos_ids == {259, 260}
    assert tokenizer.token_bytes(260) == b""
    assert 260 not in tokenizer.encode("<end_of_turn>", literal=True)
    assert tokenizer.token_bytes(261) == b"<eos>"  # of a user's own it may be a tag


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"scores": None}, "one score for each token"),
        ({"scores": [0.0]}, "one score for each token"),
        ({"scores": ["x"] * 262}, "one score for each token"),
        ({"scores": [0.0] * 261 + [float("nan")]}, "not a number"),
        ({"tokens": None}, "no tokens"),
        ({"tokens": ["<unk>", "<s>", "</s>", *BYTES, "▁", "a", "a"]}, "'a' twice"),
        ({"tokens": ["<unk>", "<s>", "</s>", *BYTES[:255], "x", "▁", "a", "▁a"]}, "lacks 1 of the 256"),
        ({"tokens": ["<unk>", "<s>", "</s>", *map(str, range(256)), "▁", "a", "▁a"]}, "lacks 256"),
        ({"token_type": [NORMAL]}, "one type for each token"),
    ],
)
def test_a_sentencepiece_vocabulary_that_is_not_all_there_is_refused(
    changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(TokenizerError) as caught:
        sentence_pieces(**changes)
    assert words in str(caught.value)
    assert caught.value.hint


def test_a_sentencepiece_vocabulary_is_described() -> None:
    tokenizer = sentence_pieces()
    assert (tokenizer.kind, tokenizer.vocab_size, tokenizer.warnings) == ("llama", 262, ())
    assert (tokenizer.bos_id, tokenizer.add_bos, tokenizer.eos_ids) == (1, True, {2})
    assert tokenizer.control_ids == {0, 1, 2}
    assert not sentence_pieces(add_bos_token=False).add_bos


def test_scores_that_say_nothing_are_told() -> None:
    (warning,) = sentence_pieces({"▁": -1000.0, "a": -1000.0, "▁a": -1000.0}).warnings
    assert "one score" in warning


def test_the_usual_ids_stand_where_a_sentencepiece_file_names_none() -> None:
    bare = {"bos_token_id": None, "eos_token_id": None}
    assert (sentence_pieces(**bare).bos_id, sentence_pieces(**bare).eos_token) == (1, "</s>")
    ordinary = [UNKNOWN, NORMAL, NORMAL, *[BYTE] * 256, *[NORMAL] * 3]
    assert sentence_pieces(**bare, token_type=ordinary).bos_id is None


def test_a_space_stands_before_the_first_word_and_behind_every_added_token() -> None:
    tokenizer = sentence_pieces()
    assert tokenizer.encode("a a") == [261, 261]
    assert tokenizer.encode("<s>a</s>a") == [1, 261, 2, 261]
    assert tokenizer.decode([1, 261, 261]) == "a a"
    assert tokenizer.encode("") == []
    plain = sentence_pieces(add_space_prefix=False)
    assert plain.encode("a a") == [260, 261]
    assert plain.encode("<s>a") == [1, 260]
    assert plain.decode([261, 261]) == " a a"


def test_the_types_of_pieces_decide_what_text_may_become() -> None:
    """Unused ones merge as in llama.cpp; unknown and control ones are added tokens, which no merge makes."""
    kinds = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256]
    pairs = {"ab": 0.0, "cd": 0.0, "ef": 0.0, "gh": 0.0}
    tokenizer = sentence_pieces(
        pairs, token_type=[*kinds, NORMAL, UNUSED, CONTROL, USER], add_space_prefix=False
    )
    assert tokenizer.encode("abcd") == [259, 260]
    assert tokenizer.decode([259, 260]) == "abcd"
    assert tokenizer.encode("ef") == [261]
    assert tokenizer.encode("ef", literal=True) == [3 + ord("e"), 3 + ord("f")]
    assert tokenizer.encode("gh", literal=True) == [262]
    assert (tokenizer.token_bytes(261), tokenizer.token_bytes(262)) == (b"", b"gh")
    assert tokenizer.encode("<unk>") == [0]
    assert tokenizer.encode("<unk>", literal=True) == [3 + ord(letter) for letter in "<unk>"]


def test_bytes_are_found_by_their_names_where_a_file_has_no_types() -> None:
    tokenizer = sentence_pieces(token_type=None, add_space_prefix=False)
    assert tokenizer.encode("é") == [3 + 0xC3, 3 + 0xA9]
    assert tokenizer.decode(tokenizer.encode("é🙂")) == "é🙂"


def test_typed_runs_of_spaces_are_tokens_even_where_the_template_writes_some() -> None:
    """Gemma's runs are user-defined, and its template is indented."""
    scores = {"▁": -1.0, "a": -2.0, "  ": -1000.0, "<x>": -1000.0}
    types = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, NORMAL, NORMAL, USER, USER]
    keys = pieces(scores, token_type=types, add_space_prefix=False)
    tokenizer = Tokenizer(from_metadata(keys | {"tokenizer.chat_template": "{% if x %}\n  <x>{% endif %}"}))
    assert tokenizer.encode_prompt([Part("<x>"), Part("a  a<x>", literal=True)])[:5] == [
        1,
        262,
        260,
        261,
        260,
    ]
    assert tokenizer.control_texts == {"<unk>", "<s>", "</s>", "<x>"}


@pytest.mark.parametrize(
    "facts",
    [{"general.name": "Phi 3 mini Phi-3"}, {"general.name": "my-PHI3"}, {"general.architecture": "phi3"}],
)
def test_phi_3_s_own_tokens_take_the_white_space_behind_them(facts: dict[str, str]) -> None:
    tokens = ["<unk>", "<s>", "</s>", *BYTES, "▁", "a", "<|end|>", "<|endoftext|>"]
    types = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, NORMAL, NORMAL, CONTROL, CONTROL]
    keys = pieces({}, tokens=tokens, token_type=types, scores=[0.0] * 263, add_space_prefix=False)
    tokenizer = Tokenizer(from_metadata(keys | facts))
    assert tokenizer.encode("<|end|>\n a") == [261, 260]
    assert tokenizer.encode("<|endoftext|> a") == [262, 259, 260]
    assert Tokenizer(from_metadata(keys)).encode("<|end|> a") == [261, 259, 260]


@needs_llama_cpp
def test_added_tokens_are_found_as_in_llama_cpp(tmp_path: Path) -> None:
    scores = {"▁": -9.0, "a": -8.0, "▁a": -1.0, "<x>": -3.0, "<|endoftext|>": 0.0, "  ": -4.0}
    types = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, NORMAL, NORMAL, NORMAL, CONTROL, CONTROL, USER]
    for name in ("other", "phi-3"):
        keys = pieces(scores, token_type=types) | {"general.name": name}
        path = write(tmp_path / f"{name}.gguf", keys)
        tokenizer, oracle = Tokenizer(from_metadata(keys)), llama_cpp_ids(path)
        for text in ("a<x>a", "<x> a", "a  a<x>  a", "<x>\n\na</s> a<unk>", "<s><x>", "   a"):
            assert tokenizer.encode(text) == oracle(text, controls=True), (name, text)
