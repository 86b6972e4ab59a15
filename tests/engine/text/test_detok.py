"""StreamDecoder: text piece by piece equals the text of all ids."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text.detok import StreamDecoder


class ScriptedTokens:
    """A tokenizer whose token ids are indices into a list of byte pieces."""

    def __init__(self, pieces: list[bytes], strips_first_space: bool = False) -> None:
        self.pieces = pieces
        self.strips_first_space = strips_first_space

    def token_bytes(self, token_id: int) -> bytes:
        return self.pieces[token_id] if token_id < len(self.pieces) else b""


def deltas(pieces: list[bytes], strips_first_space: bool = False) -> list[str]:
    stream = StreamDecoder(ScriptedTokens(pieces, strips_first_space))
    return [*(stream.push(index) for index in range(len(pieces))), stream.flush()]


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([b"\xf0\x9f\xa7", b"\x8a", b" ok"], ["", "🧊", " ok", ""]),
        ([b"\xf0\x9f", b"\xa7\x8a", b" ok"], ["", "🧊", " ok", ""]),
        ([b"\x20\xe7", b"\x8c\xab"], [" ", "猫", ""]),
    ],
)
def test_a_character_split_over_tokens_appears_whole(  # B001
    pieces: list[bytes], expected: list[str]
) -> None:
    assert deltas(pieces) == expected


def test_an_end_inside_a_character_becomes_one_replacement_character() -> None:  # B002
    assert deltas([b"Bye ", b"\xf0\x9f"]) == ["Bye ", "", "�"]


def test_text_without_spaces_is_not_held_back() -> None:  # B005
    thai = "สวัสดี"
    assert deltas([thai.encode()] * 50) == [thai] * 50 + [""]


def test_an_unknown_id_is_an_empty_piece() -> None:  # B010
    stream = StreamDecoder(ScriptedTokens([b"a", b"b"]))
    assert [stream.push(0), stream.push(120), stream.push(1)] == ["a", "", "b"]


def test_only_the_first_space_of_an_answer_is_dropped() -> None:  # B004
    assert "".join(deltas([b"", b" I", b" am", b" here"], strips_first_space=True)) == "I am here"
    assert "".join(deltas([b" ", b" x"], strips_first_space=True)) == " x"


@given(st.lists(st.binary(max_size=5), max_size=30))
def test_joined_pieces_equal_the_decoding_of_all_bytes(pieces: list[bytes]) -> None:
    assert "".join(deltas(pieces)) == b"".join(pieces).decode("utf-8", errors="replace")


@given(st.text(max_size=20), st.data())
def test_valid_text_never_shows_a_replacement_character(text: str, data: st.DataObject) -> None:
    raw = text.replace("�", "").encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))
    pieces = [raw[start:end] for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    assert not any("�" in delta for delta in deltas(pieces))
