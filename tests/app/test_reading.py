"""Reading speed in an answer's own tokens."""

from __future__ import annotations

import pytest

from app.reading import reading_of
from engine.fit.preference import READING_TPS


def test_it_is_175_to_300_words_a_minute_at_the_answers_own_tokens_per_word() -> None:
    low, high = reading_of("word " * 60, 90)
    assert (low, high) == (pytest.approx(175 * 1.5 / 60), pytest.approx(300 * 1.5 / 60))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("too few words", 4), ("字" * 300, 300), ("x=1;" * 10 + " y" * 25, 400), ("word " * 60, 30)],
)
def test_where_words_say_nothing_it_is_the_stated_default(text: str, tokens: int) -> None:
    assert reading_of(text, tokens) == READING_TPS
