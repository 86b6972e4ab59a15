"""Foreign values in messages: one short line, whatever they are."""

from __future__ import annotations

import pytest

from engine.errors import UnsafeModelError
from engine.foreign import one_line, plain_errors, printable, shown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("llama", "llama"),
        (" a\n\tb\x1b[31m\u202e ", "a b [31m"),
        ("x" * 80, "x" * 80),
        ("x" * 81, "x" * 79 + "…"),
        ("", ""),
    ],
)
def test_text_is_one_line_of_printable_characters(text: str, expected: str) -> None:
    assert printable(text) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("llama", "'llama'"),
        ("x" * 78, repr("x" * 78)),
        ("x" * 79, repr("x" * 77 + "…")),
        ("\n" * 79, repr("\n" * 39)[:79] + "…"),
        (None, "None"),
        (1.5, "1.5"),
        ([1] * 1_000_000, "a list"),
        ({"a": 1}, "a dict"),
        (1 << 4000, "an enormous number"),
    ],
)
def test_a_value_is_shown_as_python_writes_it_and_never_at_length(value: object, expected: str) -> None:
    assert shown(value) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/a  b/é.gguf: is empty.", "/a  b/é.gguf: is empty."),
        ("/a\x1b]0;x\x07\n\u202eb\udc80", "/a ]0;x   b "),
        ("x" * 5000, "x" * 5000),
    ],
)
def test_a_path_keeps_its_length_and_loses_what_commands_a_terminal(text: str, expected: str) -> None:
    assert one_line(text) == expected


def test_errors_out_of_a_block_are_one_line_and_keep_their_kind() -> None:
    with pytest.raises(UnsafeModelError) as caught, plain_errors():
        raise UnsafeModelError("a\x1b[31m", "b\nc")
    assert (caught.value.message, caught.value.hint, caught.value.args) == ("a [31m", "b c", ("a [31m",))


def test_other_errors_pass_as_they_are() -> None:
    with pytest.raises(ValueError, match="a\nb"), plain_errors():
        raise ValueError("a\nb")
