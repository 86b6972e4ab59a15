"""The encoder of SentencePiece vocabularies: highest score first, of equals the leftmost."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import TokenizerError
from engine.text import sentencepiece
from engine.text.sentencepiece import SentencePiece
from engine.text.tokenizer import load
from tests.engine.text.vocabularies import llama_cpp_ids, needs_llama_cpp, pieces, write

LETTERS = "ab▁é"
VOCABULARY = st.dictionaries(
    st.text(LETTERS, min_size=1, max_size=6), st.sampled_from([0.0, -1.0, -2.5, -1e9]), max_size=25
)


def encoder(scores: dict[str, float], add_prefix: bool = False) -> SentencePiece:
    """Pieces from id 256 on; the id of a byte is the byte."""
    ids = {text: 256 + index for index, text in enumerate(scores)}
    return SentencePiece(ids, [0.0] * 256 + list(scores.values()), range(256), add_prefix)


def by_definition(text: str, scores: dict[str, float]) -> list[int]:
    """One merge after the other over all neighbours."""
    ids = {piece: 256 + index for index, piece in enumerate(scores)}
    symbols = list(text.replace(" ", "▁"))
    while True:
        joined = [left + right for left, right in itertools.pairwise(symbols)]
        places = [at for at, piece in enumerate(joined) if piece in scores]
        if not places:
            return [
                token_id
                for symbol in symbols
                for token_id in ([ids[symbol]] if symbol in ids else symbol.encode())
            ]
        at = max(places, key=lambda place: (scores[joined[place]], -place))
        symbols[at : at + 2] = [joined[at]]


@given(VOCABULARY, st.text("ab é▁", max_size=40))
def test_ids_are_those_of_the_definition(scores: dict[str, float], text: str) -> None:
    assert encoder(scores).encode(text, False) == by_definition(text, scores)


@needs_llama_cpp
@settings(max_examples=40, deadline=None)
@given(VOCABULARY, st.lists(st.text("ab é\n🙂", min_size=1, max_size=40), min_size=1, max_size=5))
def test_ids_are_those_of_llama_cpp(
    tmp_path_factory: pytest.TempPathFactory, scores: dict[str, float], texts: list[str]
) -> None:
    path = write(tmp_path_factory.mktemp("v") / "v.gguf", pieces(scores))
    tokenizer, oracle = load(str(path)), llama_cpp_ids(path)
    for text in texts:
        assert tokenizer.encode(text) == oracle(text)


def test_of_pieces_with_one_score_the_leftmost_two_merge_first() -> None:
    runs = {"▁" * count: -1e9 for count in range(2, 5)} | {"▁": -2e9}
    assert encoder(runs).encode(" " * 10, False) == [258, 258, 256]  # 4, 4, 2
    assert encoder(runs | {"▁a": 0.0}).encode("   a", False) == [256, 260]


def test_a_letter_that_is_no_piece_can_still_merge_or_becomes_its_bytes() -> None:
    assert encoder({"éa": 0.0}).encode("éaé", False) == [256, 0xC3, 0xA9]


def test_only_a_text_that_stands_first_gets_a_space() -> None:
    prefixed = encoder({"▁": 0.0, "a": 0.0, "▁a": 1.0}, add_prefix=True)
    assert prefixed.encode("a", True) == [258]
    assert prefixed.encode("a", False) == [257]
    assert prefixed.encode(" a", True) == [256, 258]


def test_words_that_are_kept_are_bounded_and_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentencepiece, "_MOST_KEPT_WORDS", 3)
    scores = {"ab": 1.0, "ba": 0.0, "▁a": 0.5}
    kept = encoder(scores)
    source = random.Random(0)
    for _ in range(100):
        text = "".join(source.choices("ab ", k=12))
        assert kept.encode(text, False) == by_definition(text, scores)
        assert len(kept._kept) <= 3


def test_pieces_beyond_all_measure_never_merge_and_are_not_searched() -> None:
    short, long = "a" * 1024, "a" * 1025
    assert encoder({"aa": 0.0, short: 1.0, long: 2.0})._ids.keys() == {"aa", short}


def test_a_vocabulary_of_endless_pairs_of_letters_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentencepiece, "_MOST_PAIRS", 3)
    encoder({"abcd": 0.0})
    with pytest.raises(TokenizerError, match="pairs of letters"):
        encoder({"abcd": 0.0, "xy": 0.0})


@needs_llama_cpp
@pytest.mark.parametrize("add_prefix", [True, False])
def test_extra_spaces_and_borders_are_as_in_llama_cpp(tmp_path: Path, add_prefix: bool) -> None:
    scores = {"▁": -9.0, "a": -8.0, "▁a": -1.0, "▁▁": -2.0, "[x]": -3.0}
    metadata = pieces(scores, add_space_prefix=add_prefix, remove_extra_whitespaces=True)
    metadata["tokenizer.ggml.token_type"][-1] = 4
    path = write(tmp_path / "v.gguf", metadata)
    tokenizer, oracle = load(str(path)), llama_cpp_ids(path)
    for text in ("a", " a", "a  a ", "[x]a", "a[x] a[x]", "[x]", "  ", "a<s>a</s>", "<unk>a"):
        assert tokenizer.encode(text) == oracle(text, controls=True), text
