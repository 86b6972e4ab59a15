"""Foreign values in messages: one short line, whatever they are."""

from __future__ import annotations

import pytest

from engine.foreign import printable, shown


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
